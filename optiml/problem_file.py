"""Problem files: YAML for people, `optiml.v1.Problem` for services. `docs/problem-file.md` is the reference.

Reading keeps the line of every entry, so that an error names file, line and field. Unknown keys are refused with the
nearest known one.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import yaml

from optiml import data_types
from optiml.errors import FieldViolation, InvalidArgumentError
from optiml.expressions import ExpressionError, evaluate_integer
from optiml.problem_text import ROLES, dump_problem_text
from optiml.v1 import kernel_pb2, problem_pb2
from optiml.yaml_reader import Reader, compose

__all__ = ["ProblemFile", "dump_problem", "load_problem", "located"]

_MAX_CHARACTERS = 256 << 10
_KEYS = ("name", "parameters", "arguments", "reference", "tolerance", "sizes", "launch", "scratch")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*\Z", re.ASCII)
_DRAW = re.compile(r"(uniform|normal|integers)\s*\((.*)\)\Z", re.DOTALL)


@dataclass(slots=True)
class ProblemFile:
    """What a problem file says."""

    problem: problem_pb2.Problem
    launches: list[kernel_pb2.Launch] = field(default_factory=list)
    """The `launch` section; empty leaves the launches to the source file."""
    scratch: list[kernel_pb2.Scratch] = field(default_factory=list)
    """The `scratch` section: buffers that the launches use between themselves."""
    origin: str = "problem.yaml"
    lines: dict[str, int] = field(default_factory=dict)
    """Path of a field → its line in the file."""


def load_problem(text: str, origin: str = "problem.yaml") -> ProblemFile:
    """Read a problem file.

    Only what a file alone can tell is checked here; `optiml.problem.validate_problem` checks the rest, and `located`
    finds the lines of what it says.

    Raises:
        InvalidArgumentError: with one violation for each fault; the message is the first, with file, line and cure.
    """
    if len(text) > _MAX_CHARACTERS:
        raise InvalidArgumentError(f"{origin}: {len(text)} characters; a problem file has at most {_MAX_CHARACTERS}")
    node = compose(text, origin)
    if node is None:
        raise InvalidArgumentError(f"{origin}: is empty; `optimlctl init KERNEL.cu` drafts a problem file")
    reader = Reader(origin)
    result = ProblemFile(problem_pb2.Problem(), origin=origin, lines=reader.lines)
    sections: dict[str, Callable[[Reader, yaml.Node, ProblemFile], None]] = {
        "name": _name, "parameters": _parameters, "arguments": _arguments, "reference": _reference,
        "tolerance": _tolerance, "sizes": _sizes, "launch": _launches, "scratch": _scratch,
    }  # fmt: skip
    for key, value in reader.items(node, "", _KEYS):
        sections[key](reader, value, result)
    if reader.violations:
        raise InvalidArgumentError(reader.violations[0].description, reader.violations)
    return result


def located(file: ProblemFile, violations: Sequence[FieldViolation]) -> list[FieldViolation]:
    """Return violations of a problem with the file and the line of the field that each is about."""
    result: list[FieldViolation] = []
    for violation in violations:
        path = violation.field.removeprefix("kernel.").replace("launches[", "launch[")
        while path and path not in file.lines:
            path = re.sub(r"(\.[^.\[]*|\[[^\[]*)\Z", "", path) if re.search(r"[.\[]", path) else ""
        where = f"{file.origin}:{file.lines[path]}" if path else file.origin
        result.append(FieldViolation(violation.field, f"{where}: {violation.field}: {violation.description}"))
    return result


def dump_problem(file: ProblemFile, comments: dict[str, str] | None = None) -> str:
    """Return the problem file's text; reading it again gives the same messages.

    Args:
        file: what to write; a reference that is a kernel is left out, since the source file holds it.
        comments: text to put above a section ("parameters", "arguments", …) or an argument ("arguments.A").
    """
    return dump_problem_text(file.problem, file.launches, file.scratch, comments or {})


def _name(reader: Reader, node: yaml.Node, result: ProblemFile) -> None:
    result.problem.name = reader.text(node, "name")


def _parameters(reader: Reader, node: yaml.Node, result: ProblemFile) -> None:
    for name, value in reader.items(node, "parameters"):
        path = f"parameters.{name}"
        parameter = result.problem.parameters.add(name=_identifier(reader, value, path, name))
        if isinstance(value, yaml.ScalarNode):
            if value.value != "any":
                reader.complain(value, path, f"{value.value!r}; write `any` or {{multiple_of: 4}}")
            continue
        for _, inner in reader.items(value, path, ("multiple_of",)):
            parameter.multiple_of = _integer(reader, inner, f"{path}.multiple_of")
            if not 1 <= parameter.multiple_of <= 1 << 30:
                reader.complain(inner, f"{path}.multiple_of", "must be 1 or more")


def _arguments(reader: Reader, node: yaml.Node, result: ProblemFile) -> None:
    for name, value in reader.items(node, "arguments"):
        path = f"arguments.{name}"
        argument = result.problem.arguments.add(name=_identifier(reader, value, path, name))
        given = dict(reader.items(value, path, ("dtype", "shape", "role", "draw", "may_be_unwritten")))
        argument.data_type = _data_type(reader, given.get("dtype"), value, f"{path}.dtype")
        role = reader.text(given["role"], f"{path}.role") if "role" in given else ""
        if role in ROLES:
            argument.role = ROLES[role]
        else:
            reader.complain(given.get("role", value), f"{path}.role", f"{role!r}; one of {', '.join(ROLES)}")
        if "shape" in given:
            shape = given["shape"]
            extents = [shape] if isinstance(shape, yaml.ScalarNode) else reader.list(shape, f"{path}.shape")
            argument.shape.extend(reader.text(extent, f"{path}.shape") for extent in extents)
        if "draw" in given:
            _draw(reader, given["draw"], f"{path}.draw", argument.draw)
        if "may_be_unwritten" in given:
            argument.may_be_unwritten = reader.flag(given["may_be_unwritten"], f"{path}.may_be_unwritten")


def _identifier(reader: Reader, node: yaml.Node, path: str, name: str) -> str:
    if not _IDENTIFIER.match(name):
        reader.complain(node, path, f"{name[:40]!r} is not a C identifier")
    return name


def _integer(reader: Reader, node: yaml.Node, path: str) -> int:
    text = reader.text(node, path)
    try:
        return evaluate_integer(text.replace("_", ""), {})
    except ExpressionError:
        reader.complain(node, path, f"{text[:40]!r} is not a whole number, as in 4096 or 1 << 20")
        return 1


def _data_type(reader: Reader, node: yaml.Node | None, entry: yaml.Node, path: str) -> data_types.DataType:
    name = reader.text(node, path) if node is not None else ""
    if name not in data_types.NAMES:
        what = f"unknown dtype {name[:40]!r}" if node is not None else "is missing"
        reader.complain(node or entry, path, f"{what}; one of {', '.join(data_types.NAMES)}")
        return kernel_pb2.DATA_TYPE_UNSPECIFIED
    return data_types.NAMES[name]


def _draw(reader: Reader, node: yaml.Node, path: str, draw: problem_pb2.Draw) -> None:
    text = reader.text(node, path)
    match = _DRAW.match(text)
    if match is None:
        if "(" in text and not text.startswith(("ceil_div", "min", "max", "(")):
            hint = "write uniform(-1, 1), normal(0, 1), integers(0, N) or a constant"
            reader.complain(node, path, f"{text[:60]!r}; {hint}")
        draw.constant = text
        return
    kind = match.group(1)
    ends = _split(match.group(2))
    if len(ends) != 2:
        reader.complain(node, path, f"{text[:60]!r} needs two values, as in {kind}(0, 1)")
    elif kind == "integers":
        draw.integers.low, draw.integers.high = ends
    else:
        first, second = (reader.finite(node, path, end) for end in ends)
        if kind == "uniform":
            draw.uniform.low, draw.uniform.high = first, second
        else:
            draw.normal.mean, draw.normal.standard_deviation = first, second


def _split(text: str) -> list[str]:
    """Split at the commas that are in no parentheses."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def _reference(reader: Reader, node: yaml.Node, result: ProblemFile) -> None:
    result.problem.reference.numpy = reader.text(node, "reference")
    if not result.problem.reference.numpy.strip():
        reader.complain(node, "reference", "is empty; write NumPy statements, or leave it out: the kernel is then it")


def _tolerance(reader: Reader, node: yaml.Node, result: ProblemFile) -> None:
    for key, value in reader.items(node, "tolerance", ("absolute", "relative")):
        path = f"tolerance.{key}"
        setattr(result.problem.tolerance, key, reader.finite(value, path, reader.text(value, path)))


def _sizes(reader: Reader, node: yaml.Node, result: ProblemFile) -> None:
    for key, value in reader.items(node, "sizes", ("smoke", "check", "time")):
        for index, entry in enumerate(reader.list(value, f"sizes.{key}")):
            path = f"sizes.{key}[{index}]"
            size = getattr(result.problem, key).add()
            for name, number in reader.items(entry, path):
                size.parameters[name] = _integer(reader, number, f"{path}.{name}")


def _launches(reader: Reader, node: yaml.Node, result: ProblemFile) -> None:
    known = ("kernel", "grid", "block", "shared_memory_bytes", "arguments", "cooperative")
    for index, entry in enumerate(reader.list(node, "launch")):
        path = f"launch[{index}]"
        launch = kernel_pb2.Launch()
        for key, value in reader.items(entry, path, known):
            where = f"{path}.{key}"
            if key == "kernel":
                launch.kernel = reader.text(value, where)
            elif key in {"grid", "block"}:
                nodes = reader.list(value, where) if isinstance(value, yaml.SequenceNode) else [value]
                getattr(launch, key).extend(reader.text(extent, where) for extent in nodes)
            elif key == "shared_memory_bytes":
                launch.dynamic_shared_memory_bytes = reader.text(value, where)
            elif key == "cooperative":
                launch.cooperative = reader.flag(value, where)
            else:
                for position, argument in enumerate(reader.list(value, where)):
                    _launch_argument(reader, argument, f"{where}[{position}]", launch)
        result.launches.append(launch)


def _launch_argument(reader: Reader, node: yaml.Node, path: str, launch: kernel_pb2.Launch) -> None:
    text = reader.text(node, path)
    first, _, rest = text.partition(" ")
    if first in data_types.NAMES and rest.strip():
        scalar = kernel_pb2.Scalar(data_type=data_types.NAMES[first], expression=rest.strip())
        launch.arguments.add(scalar=scalar)
    elif _IDENTIFIER.match(text):
        launch.arguments.add(buffer=text)
    else:
        hint = "write a buffer's name, or a scalar with its dtype, as in `i32 N * K`"
        reader.complain(node, path, f"{text[:60]!r}; {hint}")


def _scratch(reader: Reader, node: yaml.Node, result: ProblemFile) -> None:
    for name, value in reader.items(node, "scratch"):
        path = f"scratch.{name}"
        given = dict(reader.items(value, path, ("dtype", "elements")))
        data_type = _data_type(reader, given.get("dtype"), value, f"{path}.dtype")
        scratch = kernel_pb2.Scratch(name=_identifier(reader, value, path, name), data_type=data_type)
        if "elements" in given:
            scratch.elements = reader.text(given["elements"], f"{path}.elements")
        else:
            reader.complain(value, f"{path}.elements", "is missing; write how many, as in ceil_div(N, 256)")
        result.scratch.append(scratch)
