import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optiml import data_types
from optiml.errors import InvalidArgumentError
from optiml.problem import validate_problem
from optiml.problem_file import ProblemFile, dump_problem, load_problem
from optiml.v1 import kernel_pb2, problem_pb2

MANUAL = Path(__file__).resolve().parents[2] / "docs" / "problem-file.md"
TEXT = re.findall(r"```yaml\n(.*?)```", MANUAL.read_text(), re.DOTALL)[0]


def test_the_manuals_example_is_a_valid_problem() -> None:
    file = load_problem(TEXT)
    assert validate_problem(file.problem) == []
    assert file.launches[0].arguments[3].scalar.expression == "alpha"


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        (
            "dtype: f32, shape: [M, K]",
            "dtype: float33, shape: [M, K]",
            r"g\.yaml:7: arguments\.A\.dtype: unknown .*f16, bf16",
        ),
        ("parameters:", "paramters:", r"g\.yaml:2: paramters: unknown key; did you mean 'parameters'"),
        ("role: inout", "role: both", r"g\.yaml:9: arguments\.C\.role: 'both'; one of in, out, inout, scalar"),
        ("M: any", "M: some", r"g\.yaml:3: parameters\.M: 'some'; write `any`"),
        ("M: 37", "M: many", r"g\.yaml:15: sizes\.smoke\[0\]\.M: 'many' is not a whole number"),
        ("[M, K]", "M", r"g\.yaml:7: arguments\.A\.shape: is the value 'M'; write a list"),
        ("normal(0, 1)", "gauss(0, 1)", r"g\.yaml:9: arguments\.C\.draw: 'gauss\(0, 1\)'; write uniform"),
        ("i32 M,", "i33 M,", r"g\.yaml:22: launch\[0\]\.arguments: 'i33 M'"),
        ("name: gemm", "name: [", r"g\.yaml:\d+: is not YAML"),
        ("  M: any\n", "  M: any\n  M: any\n", r"g\.yaml:4: parameters\.M: is given twice"),
        ("absolute: 1.0e-4", "absolute: small", r"g\.yaml:13: tolerance\.absolute: 'small' is not a number"),
    ],
)
def test_a_fault_is_told_with_file_line_field_and_cure(before: str, after: str, complaint: str) -> None:
    assert before in TEXT
    with pytest.raises(InvalidArgumentError, match=complaint):
        load_problem(TEXT.replace(before, after, 1), "g.yaml")


@pytest.mark.parametrize("text", ["", "\n\n", "- a\n", "42", "a: &x [*x]", "x: " + "[" * 5000])
def test_what_is_no_problem_file_is_one_clear_error(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"p\.yaml") as caught:
        load_problem(text, "p.yaml")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_far_too_large_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="at most"):
        load_problem("# " + "x" * (2 << 20))


_NAMES = st.sampled_from(["M", "N", "K", "rows", "cols_2"])
_EXPRESSIONS = st.sampled_from(["M", "N * 2", "ceil_div(N, 16)", "(M - 1) / 2 + 1", "7"])


@st.composite
def _problems(draw: st.DrawFn) -> ProblemFile:
    problem = problem_pb2.Problem(name=draw(st.sampled_from(["a", "layer norm", "x-1"])))
    for name in draw(st.lists(_NAMES, unique=True, max_size=4)):
        problem.parameters.add(name=name, multiple_of=draw(st.sampled_from([0, 4, 128])))
    for index in range(draw(st.integers(0, 4))):
        argument = problem.arguments.add(
            name=f"x{index}", data_type=draw(st.sampled_from(list(data_types.SHORT_NAMES)))
        )
        argument.role = draw(st.sampled_from([problem_pb2.ROLE_IN, problem_pb2.ROLE_OUT, problem_pb2.ROLE_INOUT]))
        argument.shape.extend(draw(st.lists(_EXPRESSIONS, min_size=1, max_size=3)))
        kind = draw(st.sampled_from(["uniform", "integers", "constant"]))
        if kind == "uniform":
            argument.draw.uniform.low, argument.draw.uniform.high = draw(st.sampled_from([(-1.0, 1.0), (0.25, 1e-3)]))
        elif kind == "integers":
            argument.draw.integers.low, argument.draw.integers.high = "0", draw(_EXPRESSIONS)
        else:
            argument.draw.constant = draw(st.sampled_from(["0", "1.5", "-3"]))
    if draw(st.booleans()):
        problem.reference.numpy = draw(st.sampled_from(["y = x0\n", "a = 1\nif a:\n    y = x0\n"]))
    size = problem.time.add()
    size.parameters["M"] = draw(st.integers(1, 2**40))
    launches = []
    if draw(st.booleans()):
        launch = kernel_pb2.Launch(
            kernel="f<float, 4>", grid=["ceil_div(M, 8)", "2"], block=["32"], cooperative=draw(st.booleans())
        )
        launch.arguments.add(buffer="x0")
        launch.arguments.add(scalar=kernel_pb2.Scalar(data_type=kernel_pb2.DATA_TYPE_I32, expression="M * 2 - 1"))
        launches.append(launch)
    return ProblemFile(problem, launches)


@given(_problems())
def test_what_is_written_reads_back_the_same(file: ProblemFile) -> None:
    again = load_problem(dump_problem(file, {"arguments": "a note\nin two lines"}))
    assert again.problem == file.problem
    assert again.launches == file.launches
