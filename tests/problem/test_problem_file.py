"""Problem files: reading, errors with lines, and writing."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optiml import data_types
from optiml.errors import FieldViolation, InvalidArgumentError
from optiml.expressions import ExpressionError, evaluate
from optiml.problem import validate_problem
from optiml.problem_file import ProblemFile, dump_problem, load_problem, located
from optiml.problem_text import ROLES
from optiml.v1 import kernel_pb2, problem_pb2

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
GOOD = """\
name: matmul
parameters: {M: any, N: any, K: {multiple_of: 4}}
arguments:
  A: {dtype: f32, shape: [M, K], role: in, draw: "uniform(-1, 1)"}
  B: {dtype: f32, shape: [K, N], role: in, draw: "normal(0, 1)"}
  L: {dtype: i32, shape: M, role: in, draw: "integers(0, min(N, 4))"}
  C: {dtype: f32, shape: [M, N], role: out}
  alpha: {dtype: f32, role: scalar, draw: "uniform(0.5, 2)"}
reference: |
  C = alpha * A @ B
tolerance: {absolute: 1e-4, relative: 1e-4}
sizes:
  smoke: [{M: 37, N: 29, K: 32}]
  check: [{M: 130, N: 97, K: 64}]
  time: [{M: 2048, N: 1 << 11, K: 2_048}]
scratch:
  part: {dtype: f32, elements: "ceil_div(M, 16)"}
launch:
  - kernel: matmul
    grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
    block: [16, 16]
    arguments: [A, B, C, i32 M, i32 N, i32 K, f32 alpha]
"""


def test_a_good_file_says_everything() -> None:
    file = load_problem(GOOD)
    problem = file.problem
    assert validate_problem(problem) == []
    assert [p.multiple_of for p in problem.parameters] == [0, 0, 4]
    assert problem.time[0].parameters == {"M": 2048, "N": 2048, "K": 2048}
    assert problem.arguments[2].draw.integers.high == "min(N, 4)"
    assert list(problem.arguments[2].shape) == ["M"]
    assert problem.reference.numpy == "C = alpha * A @ B\n"
    assert [a.buffer or a.scalar.expression for a in file.launches[0].arguments] == [
        "A",
        "B",
        "C",
        "M",
        "N",
        "K",
        "alpha",
    ]
    assert (file.scratch[0].name, file.scratch[0].elements) == ("part", "ceil_div(M, 16)")


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("parameters:", "parmeters:", r"^p\.yaml:2: parmeters: unknown key; did you mean 'parameters'\?"),
        ("dtype: f32", "dtype: f23", r"^p\.yaml:4: arguments.A.dtype: unknown dtype 'f23'; one of f16, bf16, f32, f64"),
        ("role: out", "rôle: out", r"^p\.yaml:7: arguments\.C\.r.le: unknown key; did you mean 'role'\?"),
        ("role: out", "role: output", r"^p\.yaml:7: arguments\.C\.role: 'output'; one of in, out, inout, scalar"),
        ("multiple_of: 4", "multiple_of: 0", r"^p\.yaml:2: parameters\.K\.multiple_of: must be 1 or more"),
        ("M: any", "M: some", r"^p\.yaml:2: parameters\.M: 'some'; write `any` or"),
        ("uniform(-1, 1)", "unifrom(-1, 1)", r"^p\.yaml:4: arguments\.A\.draw: 'unifrom\(-1, 1\)'; write uniform"),
        ("uniform(-1, 1)", "uniform(-1)", r"^p\.yaml:4: arguments\.A\.draw: .* needs two values"),
        ("uniform(-1, 1)", "uniform(-1, inf)", r"^p\.yaml:4: arguments\.A\.draw: 'inf' is not a number"),
        ("M: 37", "M: many", r"^p\.yaml:13: sizes\.smoke\[0\]\.M: 'many' is not a whole number, as in 4096"),
        ("smoke: [", "smok: [", r"^p\.yaml:13: sizes\.smok: unknown key; did you mean 'smoke'\?"),
        ("absolute: 1e-4", "absolute: small", r"^p\.yaml:11: tolerance\.absolute: 'small' is not a number"),
        ("i32 M, i32 N", "i33 M, i32 N", r"^p\.yaml:22: launch\[0\]\.arguments\[3\]: 'i33 M'; write a buffer's name"),
        ("name: matmul", "name: [matmul]", r"^p\.yaml:1: name: is a list; write one value"),
        ("  C: {", "  A: {", r"^p\.yaml:7: arguments\.A: is given twice; remove one"),
        ("[{M: 37", "[{&x M: 37", r"^p\.yaml:13: anchors \(& and \*\) are not read here"),
        ("  C = alpha", "  C = alpha\n bad", r"^p\.yaml:\d+: is not YAML: .*; check"),
        ('uniform(-1, 1)"}', "uniform(-1, 1)}", r"^p\.yaml:\d+: is not YAML"),
        ("reference: |\n  C = alpha * A @ B", 'reference: ""', r"^p\.yaml:9: reference: is empty"),
        ("elements:", "element:", r"^p\.yaml:17: scratch\.part\.element: unknown key; did you mean 'elements'\?"),
    ],
)  # fmt: skip
def test_a_fault_is_told_with_file_line_field_and_cure(before: str, after: str, message: str) -> None:
    assert before in GOOD
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        load_problem(GOOD.replace(before, after, 1), "p.yaml")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("shape: [M, K]", "shape: [M, Q]", r"^p\.yaml:4: arguments\.A: unknown name 'Q' \(known: K, M, N\)"),
        ("K: 32", "K: 33", r"^p\.yaml:13: sizes\.smoke\[0\]\.K: is 33, not a multiple of 4"),
        ("M: 130, ", "", r"^p\.yaml:14: sizes\.check\[0\]\.M: has no value"),
        ("role: scalar", "role: scalar, shape: [M]", r"^p\.yaml:8: arguments\.alpha\.shape: a scalar has no shape"),
        ("uniform(0.5, 2)", "uniform(2, 0.5)", r"^p\.yaml:8: arguments\.alpha\.draw: uniform needs low below high"),
        ("name: matmul", 'name: "mat\\tmul"', r"^p\.yaml:1: name: .* is not a name"),
        ("N: 1 << 11", "N: 1 << 61", r"^p\.yaml:\d+: arguments\.\w+"),
    ],
)  # fmt: skip
def test_what_the_validation_says_gets_its_line(before: str, after: str, message: str) -> None:
    file = load_problem(GOOD.replace(before, after, 1), "p.yaml")
    first = located(file, validate_problem(file.problem))[0]
    with pytest.raises(FieldViolation, match=f"^[^:]+: {message.lstrip('^')}"):
        raise first


def test_every_fault_is_reported_at_once() -> None:
    text = GOOD.replace("role: out", "role: output").replace("f32, shape: [K", "f31, shape: [K")
    with pytest.raises(InvalidArgumentError) as caught:
        load_problem(text)
    assert {v.field for v in caught.value.violations} == {"arguments.B.dtype", "arguments.C.role"}


@pytest.mark.parametrize(
    "text", ["", "# nothing\n", "[]", "3", "a: b", "\x00", "{" * 5000, "a: &a [*a]", "? [a]\n: b\n", "- " * 9000]
)
def test_nonsense_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^p\.yaml:.*;") as caught:
        load_problem(text, "p.yaml")
    assert len(str(caught.value)) < 300


def test_a_huge_file_is_refused_at_once() -> None:
    with pytest.raises(InvalidArgumentError, match="a problem file has at most"):
        load_problem("a" * (10 << 20))


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_examples_are_written_and_read_again(path: Path) -> None:
    file = load_problem(path.read_text(), path.name)
    again = load_problem(dump_problem(file))
    assert (again.problem, again.launches) == (file.problem, file.launches)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=300))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        load_problem(text)
    except InvalidArgumentError as error:
        assert "\n" not in str(error)


_NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
_FINITE = st.floats(allow_nan=False, allow_infinity=False, width=64)
_EXPRESSIONS = st.sampled_from(
    ["N", "N * K", "ceil_div(N, 16)", "min(N, 4) + 1", "7", "-N + 3", "1 << 4", "yes", "0x10", "N % 2"]
)


@st.composite
def _arguments(draw: st.DrawFn, name: str) -> problem_pb2.Argument:
    role = draw(st.sampled_from(sorted(ROLES.values())))
    argument = problem_pb2.Argument(name=name, role=role, data_type=draw(st.sampled_from(list(data_types.SHORT_NAMES))))
    if role != problem_pb2.ROLE_SCALAR:
        argument.shape.extend(draw(st.lists(_EXPRESSIONS, min_size=1, max_size=3)))
    match draw(st.integers(0, 4)):
        case 0:
            argument.draw.uniform.low, argument.draw.uniform.high = draw(_FINITE), draw(_FINITE)
        case 1:
            argument.draw.normal.mean, argument.draw.normal.standard_deviation = draw(_FINITE), draw(_FINITE)
        case 2:
            argument.draw.integers.low, argument.draw.integers.high = draw(_EXPRESSIONS), draw(_EXPRESSIONS)
        case 3:
            argument.draw.constant = draw(_EXPRESSIONS)
    argument.may_be_unwritten = draw(st.booleans())
    return argument


@st.composite
def _files(draw: st.DrawFn) -> ProblemFile:
    names = draw(st.lists(_NAMES, min_size=2, max_size=6, unique=True))
    parameters, arguments = names[: len(names) // 2], names[len(names) // 2 :]
    problem = problem_pb2.Problem(name=draw(st.text(max_size=20)))
    for name in parameters:
        problem.parameters.add(name=name, multiple_of=draw(st.sampled_from([0, 2, 32])))
    problem.arguments.extend(draw(_arguments(name)) for name in arguments)
    problem.reference.numpy = draw(st.text(max_size=80).filter(str.strip) | st.just("a = b\n  \n\tc\n"))
    if draw(st.booleans()):
        problem.tolerance.absolute, problem.tolerance.relative = draw(st.floats(1e-300, 1)), draw(st.floats(0, 1))
    for sizes in (problem.smoke, problem.check, problem.time):
        for _ in range(draw(st.integers(0, 2))):
            sizes.add().parameters.update({name: draw(st.integers(0, 1 << 40)) for name in parameters})
    launches = []
    for _ in range(draw(st.integers(0, 2))):
        launch = kernel_pb2.Launch(
            kernel=draw(st.sampled_from(["k", "k<float, 4>", "n::k"])), cooperative=draw(st.booleans())
        )
        launch.grid.extend(draw(st.lists(_EXPRESSIONS, min_size=1, max_size=3)))
        launch.block.extend(draw(st.lists(_EXPRESSIONS, min_size=1, max_size=3)))
        launch.dynamic_shared_memory_bytes = draw(st.sampled_from(["", "1024", "N * 4"]))
        for name in arguments:
            launch.arguments.add(buffer=name)
        launch.arguments.add(
            scalar=kernel_pb2.Scalar(data_type=kernel_pb2.DATA_TYPE_I32, expression=draw(_EXPRESSIONS))
        )
        launches.append(launch)
    scratch = [kernel_pb2.Scratch(name="s", data_type=kernel_pb2.DATA_TYPE_F32, elements=draw(_EXPRESSIONS))]
    return ProblemFile(problem, launches, scratch)


@settings(max_examples=100, deadline=None)
@given(_files())
def test_what_is_written_reads_as_the_same(file: ProblemFile) -> None:
    again = load_problem(dump_problem(file, {"arguments": "ü: {x}\n# y", "sizes.time": "z"}))
    assert again.problem == file.problem
    assert again.launches == file.launches
    assert again.scratch == file.scratch


def test_a_circular_expression_cannot_be_written() -> None:
    with pytest.raises(ExpressionError, match="unknown name 'M'"):
        evaluate("M + 1", {"N": 4})
