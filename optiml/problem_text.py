"""Writes problem files: short, commented, and read again as the same messages."""

import re
from collections.abc import Mapping, Sequence

from optiml import data_types
from optiml.v1 import kernel_pb2, problem_pb2

__all__ = ["ROLES", "dump_problem_text"]

ROLES: dict[str, problem_pb2.Role.ValueType] = {
    "in": problem_pb2.ROLE_IN,
    "out": problem_pb2.ROLE_OUT,
    "inout": problem_pb2.ROLE_INOUT,
    "scalar": problem_pb2.ROLE_SCALAR,
}
_PLAIN = re.compile(r"[A-Za-z0-9_.(][A-Za-z0-9_.*/+() <-]*(?<! )\Z")
_KEYWORDS = {"true", "false", "null", "yes", "no", "on", "off"}


def dump_problem_text(
    problem: problem_pb2.Problem,
    launches: Sequence[kernel_pb2.Launch],
    scratch: Sequence[kernel_pb2.Scratch],
    comments: Mapping[str, str],
) -> str:
    """Return the text of a problem file; see `optiml.problem_file.dump_problem`."""
    lines: list[str] = []

    def note(key: str, indent: str = "") -> None:
        lines.extend(f"{indent}# {line}".rstrip() for line in comments.get(key, "").splitlines())

    note("name")
    lines.append(f"name: {_quoted(problem.name)}")
    note("parameters")
    lines.append("parameters:" if problem.parameters else "parameters: {}")
    for parameter in problem.parameters:
        note(f"parameters.{parameter.name}", "  ")
        value = f"{{multiple_of: {parameter.multiple_of}}}" if parameter.multiple_of > 1 else "any"
        lines.append(f"  {parameter.name}: {value}")
    note("arguments")
    lines.append("arguments:" if problem.arguments else "arguments: {}")
    for argument in problem.arguments:
        note(f"arguments.{argument.name}", "  ")
        lines.append(f"  {argument.name}: {_argument(argument)}")
    note("reference")
    lines.extend(_reference(problem.reference.numpy))
    note("tolerance")
    tolerance = problem.tolerance
    if tolerance.absolute or tolerance.relative:
        lines.append(f"tolerance: {{absolute: {tolerance.absolute!r}, relative: {tolerance.relative!r}}}")
    note("sizes")
    lines.append("sizes:")
    order = [parameter.name for parameter in problem.parameters]
    for key in ("smoke", "check", "time"):
        note(f"sizes.{key}", "  ")
        sizes = ", ".join(_size(size, order) for size in getattr(problem, key))
        lines.append(f"  {key}: [{sizes}]")
    note("scratch")
    if scratch:
        lines.append("scratch:")
        lines.extend(
            f"  {item.name}: {{dtype: {data_types.SHORT_NAMES[item.data_type]}, elements: {_flow(item.elements)}}}"
            for item in scratch
        )
    note("launch")
    if launches:
        lines.append("launch:")
        for launch in launches:
            lines.extend(_launch(launch))
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """Return a double-quoted YAML scalar."""
    escaped = (f"\\{c}" if c in '"\\' else c if c.isprintable() else f"\\U{ord(c):08X}" for c in text)
    return '"' + "".join(escaped) + '"'


def _flow(value: str) -> str:
    """Return a scalar for use inside [] or {}: quoted where YAML would read it otherwise."""
    return value if _PLAIN.match(value) and value.lower() not in _KEYWORDS else _quoted(value)


def _argument(argument: problem_pb2.Argument) -> str:
    fields = [f"dtype: {data_types.SHORT_NAMES[argument.data_type]}"]
    if argument.shape:
        fields.append("shape: [" + ", ".join(_flow(extent) for extent in argument.shape) + "]")
    fields.append("role: " + next(name for name, role in ROLES.items() if role == argument.role))
    if argument.draw.WhichOneof("distribution"):
        fields.append(f"draw: {_quoted(_draw(argument.draw))}")
    if argument.may_be_unwritten:
        fields.append("may_be_unwritten: true")
    return "{" + ", ".join(fields) + "}"


def _number(value: float) -> str:
    short = value.is_integer() and abs(value) < 1e15 and repr(value) != "-0.0"
    return str(int(value)) if short else repr(value)


def _draw(draw: problem_pb2.Draw) -> str:
    match draw.WhichOneof("distribution"):
        case "uniform":
            return f"uniform({_number(draw.uniform.low)}, {_number(draw.uniform.high)})"
        case "normal":
            return f"normal({_number(draw.normal.mean)}, {_number(draw.normal.standard_deviation)})"
        case "integers":
            return f"integers({draw.integers.low}, {draw.integers.high})"
        case _:
            return draw.constant


def _reference(numpy: str) -> list[str]:
    if not numpy:
        return []
    body = numpy.removesuffix("\n")
    readable = all(line.replace("\t", " ").isprintable() for line in body.split("\n"))
    if not readable or not body or body[0].isspace() or body.endswith("\n"):
        return [f"reference: {_quoted(numpy)}"]
    style = "|" if numpy.endswith("\n") else "|-"
    return [f"reference: {style}", *(f"  {line}" if line else "" for line in body.split("\n"))]


def _size(size: problem_pb2.Size, order: Sequence[str]) -> str:
    names = sorted(size.parameters, key=lambda name: (order.index(name) if name in order else len(order), name))
    return "{" + ", ".join(f"{name}: {size.parameters[name]}" for name in names) + "}"


def _launch(launch: kernel_pb2.Launch) -> list[str]:
    arguments = [
        _flow(argument.buffer)
        if argument.WhichOneof("value") == "buffer"
        else _flow(f"{data_types.SHORT_NAMES[argument.scalar.data_type]} {argument.scalar.expression}")
        for argument in launch.arguments
    ]
    lines = [
        f"  - kernel: {_quoted(launch.kernel)}",
        "    grid: [" + ", ".join(_flow(extent) for extent in launch.grid) + "]",
        "    block: [" + ", ".join(_flow(extent) for extent in launch.block) + "]",
        "    arguments: [" + ", ".join(arguments) + "]",
    ]
    if launch.dynamic_shared_memory_bytes:
        lines.append(f"    shared_memory_bytes: {_flow(launch.dynamic_shared_memory_bytes)}")
    if launch.cooperative:
        lines.append("    cooperative: true")
    return lines
