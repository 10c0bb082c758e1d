"""Problem files: YAML for people, `optiml.v1.Problem` for services. `docs/problem-file.md` is the reference.

Reading keeps the line of every node, so that an error names file, line and field. Unknown keys are refused with the
nearest known one.
"""

import difflib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import yaml

from optiml import data_types
from optiml.errors import FieldViolation, InvalidArgumentError
from optiml.v1 import kernel_pb2, problem_pb2

__all__ = ["ProblemFile", "dump_problem", "load_problem"]

_MAX_BYTES = 1 << 20
_KEYS = ("name", "parameters", "arguments", "reference", "tolerance", "sizes", "launch")
_ROLES = {
    "in": problem_pb2.ROLE_IN,
    "out": problem_pb2.ROLE_OUT,
    "inout": problem_pb2.ROLE_INOUT,
    "scalar": problem_pb2.ROLE_SCALAR,
}
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*\Z")
_DRAW = re.compile(r"(uniform|normal|integers)\((.+)\)\Z")


@dataclass(slots=True)
class ProblemFile:
    """What a problem file says."""

    problem: problem_pb2.Problem
    launches: list[kernel_pb2.Launch] = field(default_factory=list)
    """The `launch` section; empty leaves the launches to the source file."""


class _Reader:
    """Collects the violations of one file while it is read."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.violations: list[FieldViolation] = []

    def complain(self, node: yaml.Node, path: str, what: str) -> None:
        line = node.start_mark.line + 1
        self.violations.append(FieldViolation(path, f"{self.origin}:{line}: {path}: {what}"))

    def items(self, node: yaml.Node, path: str, known: tuple[str, ...] = ()) -> Iterator[tuple[str, yaml.Node]]:
        """Yield the entries of a mapping; complain about what is none, unknown keys and repeated ones."""
        if not isinstance(node, yaml.MappingNode):
            self.complain(node, path, f"is {_kind(node)}; write a mapping, as in {{M: 64}}")
            return
        seen: set[str] = set()
        for key_node, value in node.value:
            key = str(key_node.value)
            if known and key not in known:
                near = difflib.get_close_matches(key, known, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
                self.complain(key_node, f"{path}.{key}".lstrip("."), f"unknown key; {hint}")
            elif key in seen:
                self.complain(key_node, f"{path}.{key}".lstrip("."), "is given twice; remove one")
            else:
                seen.add(key)
                yield key, value

    def text(self, node: yaml.Node, path: str) -> str:
        if not isinstance(node, yaml.ScalarNode):
            self.complain(node, path, f"is {_kind(node)}; write one value")
            return ""
        return str(node.value)

    def list(self, node: yaml.Node, path: str) -> list[yaml.Node]:
        if not isinstance(node, yaml.SequenceNode):
            self.complain(node, path, f"is {_kind(node)}; write a list, as in [M, K]")
            return []
        return list(node.value)

    def number(self, node: yaml.Node, path: str) -> float:
        try:
            return float(self.text(node, path))
        except ValueError:
            self.complain(node, path, f"{node.value!r} is not a number")
            return 0.0

    def integer(self, node: yaml.Node, path: str) -> int:
        try:
            return int(self.text(node, path), 0)
        except ValueError:
            self.complain(node, path, f"{node.value!r} is not a whole number")
            return 0

    def identifier(self, node: yaml.Node, path: str, name: str) -> str:
        if not _IDENTIFIER.match(name):
            self.complain(node, path, f"{name!r} is not a C identifier")
        return name


def _kind(node: yaml.Node) -> str:
    if isinstance(node, yaml.MappingNode):
        return "a mapping"
    return "a list" if isinstance(node, yaml.SequenceNode) else f"the value {node.value!r}"


def load_problem(text: str, origin: str = "problem.yaml") -> ProblemFile:
    """Read a problem file.

    Only what a file alone can tell is checked here; `optiml.validation.validate_problem` checks the rest.

    Raises:
        InvalidArgumentError: with one violation for each fault; the message is the first, with file, line and cure.
    """
    if len(text) > _MAX_BYTES:
        raise InvalidArgumentError(f"{origin}: {len(text)} characters; a problem file has at most {_MAX_BYTES}")
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise InvalidArgumentError(f"{origin}:{line}: is not YAML: {error.problem}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise InvalidArgumentError(f"{origin}: is not YAML: {str(error).splitlines()[0]}") from error
    if node is None:
        raise InvalidArgumentError(f"{origin}: is empty; `optimlctl init KERNEL.cu` drafts a problem file")
    reader = _Reader(origin)
    result = ProblemFile(problem_pb2.Problem())
    sections: dict[str, Callable[[_Reader, yaml.Node, ProblemFile], None]] = {
        "name": _name, "parameters": _parameters, "arguments": _arguments, "reference": _reference,
        "tolerance": _tolerance, "sizes": _sizes, "launch": _launches,
    }  # fmt: skip
    for key, value in reader.items(node, "", _KEYS):
        sections[key](reader, value, result)
    if reader.violations:
        raise InvalidArgumentError(reader.violations[0].description, reader.violations)
    return result


def _name(reader: _Reader, node: yaml.Node, result: ProblemFile) -> None:
    result.problem.name = reader.text(node, "name")


def _parameters(reader: _Reader, node: yaml.Node, result: ProblemFile) -> None:
    for name, value in reader.items(node, "parameters"):
        path = f"parameters.{name}"
        parameter = result.problem.parameters.add(name=reader.identifier(value, path, name))
        if isinstance(value, yaml.ScalarNode):
            if value.value != "any":
                reader.complain(value, path, f"{value.value!r}; write `any` or {{multiple_of: 4}}")
            continue
        for _, inner in reader.items(value, path, ("multiple_of",)):
            parameter.multiple_of = reader.integer(inner, f"{path}.multiple_of")


def _arguments(reader: _Reader, node: yaml.Node, result: ProblemFile) -> None:
    for name, value in reader.items(node, "arguments"):
        path = f"arguments.{name}"
        argument = result.problem.arguments.add(name=reader.identifier(value, path, name))
        given = dict(reader.items(value, path, ("dtype", "shape", "role", "draw", "may_be_unwritten")))
        if "dtype" in given:
            argument.data_type = _data_type(reader, given["dtype"], f"{path}.dtype")
        else:
            reader.complain(value, path, f"has no dtype; one of {', '.join(data_types.NAMES)}")
        if "role" in given:
            role = reader.text(given["role"], f"{path}.role")
            if role in _ROLES:
                argument.role = _ROLES[role]
            else:
                reader.complain(given["role"], f"{path}.role", f"{role!r}; one of {', '.join(_ROLES)}")
        else:
            reader.complain(value, path, f"has no role; one of {', '.join(_ROLES)}")
        if "shape" in given:
            argument.shape.extend(
                reader.text(extent, f"{path}.shape") for extent in reader.list(given["shape"], f"{path}.shape")
            )
        if "draw" in given:
            _draw(reader, given["draw"], f"{path}.draw", argument.draw)
        if "may_be_unwritten" in given:
            flag = reader.text(given["may_be_unwritten"], f"{path}.may_be_unwritten")
            if flag not in {"true", "false"}:
                reader.complain(given["may_be_unwritten"], f"{path}.may_be_unwritten", "write true or false")
            argument.may_be_unwritten = flag == "true"


def _data_type(reader: _Reader, node: yaml.Node, path: str) -> data_types.DataType:
    name = reader.text(node, path)
    if name not in data_types.NAMES:
        reader.complain(node, path, f"unknown dtype {name!r}; one of {', '.join(data_types.NAMES)}")
        return kernel_pb2.DATA_TYPE_UNSPECIFIED
    return data_types.NAMES[name]


def _draw(reader: _Reader, node: yaml.Node, path: str, draw: problem_pb2.Draw) -> None:
    text = reader.text(node, path)
    match = _DRAW.match(text)
    ends = _split_at_commas(match.group(2)) if match else []
    if match is None or len(ends) != 2:
        if "(" in text and not text.startswith("ceil_div"):
            reader.complain(node, path, f"{text!r}; write uniform(-1, 1), normal(0, 1), integers(0, N) or a constant")
        draw.constant = text
        return
    kind, (low, high) = match.group(1), ends
    if kind == "integers":
        draw.integers.low, draw.integers.high = low, high
        return
    try:
        first, second = float(low), float(high)
    except ValueError:
        reader.complain(node, path, f"{text!r} needs two numbers, as in {kind}(0, 1)")
        return
    if kind == "uniform":
        draw.uniform.low, draw.uniform.high = first, second
    else:
        draw.normal.mean, draw.normal.standard_deviation = first, second


def _split_at_commas(text: str) -> list[str]:
    """Split at the commas that are outside parentheses: an end may be an expression with a call."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def _reference(reader: _Reader, node: yaml.Node, result: ProblemFile) -> None:
    result.problem.reference.numpy = reader.text(node, "reference")


def _tolerance(reader: _Reader, node: yaml.Node, result: ProblemFile) -> None:
    for key, value in reader.items(node, "tolerance", ("absolute", "relative")):
        setattr(result.problem.tolerance, key, reader.number(value, f"tolerance.{key}"))


def _sizes(reader: _Reader, node: yaml.Node, result: ProblemFile) -> None:
    for key, value in reader.items(node, "sizes", ("smoke", "check", "time")):
        for index, entry in enumerate(reader.list(value, f"sizes.{key}")):
            path = f"sizes.{key}[{index}]"
            size = getattr(result.problem, key).add()
            for name, number in reader.items(entry, path):
                size.parameters[name] = reader.integer(number, f"{path}.{name}")


def _launches(reader: _Reader, node: yaml.Node, result: ProblemFile) -> None:
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
                launch.cooperative = reader.text(value, where) == "true"
            else:
                for argument in reader.list(value, where):
                    _launch_argument(reader, argument, where, launch)
        result.launches.append(launch)


def _launch_argument(reader: _Reader, node: yaml.Node, path: str, launch: kernel_pb2.Launch) -> None:
    text = reader.text(node, path)
    first, _, rest = text.partition(" ")
    if first in data_types.NAMES and rest.strip():
        scalar = kernel_pb2.Scalar(data_type=data_types.NAMES[first], expression=rest.strip())
        launch.arguments.add(scalar=scalar)
    elif _IDENTIFIER.match(text):
        launch.arguments.add(buffer=text)
    else:
        reader.complain(node, path, f"{text!r}; write a buffer's name, or a scalar with its dtype, as in `i32 N * K`")


def _draw_text(draw: problem_pb2.Draw) -> str:
    match draw.WhichOneof("distribution"):
        case "uniform":
            return f"uniform({draw.uniform.low:g}, {draw.uniform.high:g})"
        case "normal":
            return f"normal({draw.normal.mean:g}, {draw.normal.standard_deviation:g})"
        case "integers":
            return f"integers({draw.integers.low}, {draw.integers.high})"
        case _:
            return draw.constant


def _flow(value: str) -> str:
    """Return a scalar for use inside [] or {}: quoted where YAML would read it otherwise."""
    plain = re.fullmatch(r"[A-Za-z0-9_.*/+() <-]+", value) and value not in {"true", "false", "null", "yes", "no"}
    return value if plain and not value.startswith(("*", "-", "<")) else '"' + value.replace('"', '\\"') + '"'


def _argument_text(argument: problem_pb2.Argument) -> str:
    fields = [f"dtype: {data_types.SHORT_NAMES[argument.data_type]}"]
    if argument.shape:
        fields.append("shape: [" + ", ".join(_flow(extent) for extent in argument.shape) + "]")
    fields.append("role: " + next(name for name, role in _ROLES.items() if role == argument.role))
    if argument.draw.WhichOneof("distribution"):
        fields.append(f'draw: "{_draw_text(argument.draw)}"')
    if argument.may_be_unwritten:
        fields.append("may_be_unwritten: true")
    return "{" + ", ".join(fields) + "}"


def _launch_lines(launch: kernel_pb2.Launch) -> list[str]:
    arguments = [
        _flow(argument.buffer)
        if argument.WhichOneof("value") == "buffer"
        else _flow(f"{data_types.SHORT_NAMES[argument.scalar.data_type]} {argument.scalar.expression}")
        for argument in launch.arguments
    ]
    lines = [
        f'  - kernel: "{launch.kernel}"',
        "    grid: [" + ", ".join(f'"{extent}"' for extent in launch.grid) + "]",
        "    block: [" + ", ".join(f'"{extent}"' for extent in launch.block) + "]",
        "    arguments: [" + ", ".join(arguments) + "]",
    ]
    if launch.dynamic_shared_memory_bytes:
        lines.append(f'    shared_memory_bytes: "{launch.dynamic_shared_memory_bytes}"')
    if launch.cooperative:
        lines.append("    cooperative: true")
    return lines


def dump_problem(file: ProblemFile, comments: dict[str, str] | None = None) -> str:
    """Return the problem file's text; reading it again gives the same messages.

    Args:
        file: what to write; a reference that is a kernel is left out, since the source file holds it.
        comments: text to put above a section ("parameters", "arguments", …) or an argument ("arguments.A").
    """
    notes = comments or {}
    problem = file.problem
    lines: list[str] = []

    def note(key: str, indent: str = "") -> None:
        lines.extend(f"{indent}# {line}".rstrip() for line in notes.get(key, "").splitlines())

    def section(key: str, body: list[str]) -> None:
        note(key)
        lines.extend(body)

    section("name", [f'name: "{problem.name}"'])
    section("parameters", ["parameters:" if problem.parameters else "parameters: {}"])
    for parameter in problem.parameters:
        value = f"{{multiple_of: {parameter.multiple_of}}}" if parameter.multiple_of > 1 else "any"
        lines.append(f"  {parameter.name}: {value}")
    section("arguments", ["arguments:" if problem.arguments else "arguments: {}"])
    for argument in problem.arguments:
        note(f"arguments.{argument.name}", "  ")
        lines.append(f"  {argument.name}: {_argument_text(argument)}")
    note("reference")
    if problem.reference.numpy:
        lines.append("reference: |")
        lines.extend(f"  {line}".rstrip() for line in problem.reference.numpy.rstrip("\n").split("\n"))
    tolerance = problem.tolerance
    if tolerance.absolute or tolerance.relative:
        section("tolerance", [f"tolerance: {{absolute: {tolerance.absolute!r}, relative: {tolerance.relative!r}}}"])
    section("sizes", ["sizes:"])
    for key in ("smoke", "check", "time"):
        sizes = [
            "{" + ", ".join(f"{name}: {size.parameters[name]}" for name in sorted(size.parameters)) + "}"
            for size in getattr(problem, key)
        ]
        lines.append(f"  {key}: [" + ", ".join(sizes) + "]")
    if file.launches:
        section("launch", ["launch:"])
        for launch in file.launches:
            lines.extend(_launch_lines(launch))
    return "\n".join(lines) + "\n"
