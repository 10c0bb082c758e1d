"""The user's file with the best kernel in it, and the patch that leads there.

Pieces of device code that did not change stay where they are; new ones go where the first changed one was; launches
are written in the host's own terms. What cannot be mapped back is said in a comment beside the launch.
"""

import ast
import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass

from optiml import data_types
from optiml.cuda.device_code import Piece, pieces
from optiml.cuda.imported import Imported
from optiml.cuda.parse import parse_cuda, spelled_extent
from optiml.identity import normalised_source
from optiml.v1 import kernel_pb2

__all__ = ["Export", "export"]

_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "/", ast.Mod: "%", ast.LShift: "<<",
}  # fmt: skip
_DEFAULT_SHARED_BYTES = 48 << 10  # more needs an opt-in before the launch


@dataclass(frozen=True, slots=True)
class Export:
    """A finished file."""

    source: str
    """The whole program with the best kernel."""
    patch: str
    """Unified diff from the user's file, for `patch -p1`."""


def export(imported: Imported, best: kernel_pb2.Kernel, path: str) -> Export:
    """Put the best kernel into the user's file.

    Args:
        imported: the file as it was read.
        best: the kernel to put in.
        path: the file's path in the patch, relative to where `patch -p1` runs.
    """
    text = imported.text
    edits = _piece_edits(imported, best) + _launch_edits(imported, best)
    data = text.encode()
    for start, end, replacement in sorted(edits, reverse=True):
        data = data[:start] + replacement.encode() + data[end:]
    source = data.decode()
    lines = difflib.unified_diff(
        text.splitlines(keepends=True), source.splitlines(keepends=True), f"a/{path}", f"b/{path}"
    )
    patch = "".join(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines)
    return Export(source, patch)


def _key(piece: Piece) -> str:
    return normalised_source(piece.text)


def _piece_edits(imported: Imported, best: kernel_pb2.Kernel) -> list[tuple[int, int, str]]:
    """Return the edits that turn the file's device code into the best kernel's."""
    baseline = pieces(parse_cuda(imported.kernel.source))
    wanted = pieces(parse_cuda(best.source))
    old = {_key(piece) for piece in baseline}
    new = {_key(piece) for piece in wanted}
    added = [p.text.strip("\n") for p in wanted if _key(p) not in old and p.kind != "include"]
    headers = [p.text.strip() for p in wanted if p.kind == "include" and _key(p) not in old]
    gone = old - new
    edits: list[tuple[int, int, str]] = []
    place: int | None = None
    for piece in imported.cut:
        if _key(piece) not in gone or piece.kind in {"include", "condition"}:
            continue
        start = piece.end - len(piece.text.lstrip("\n").encode())
        if place is None or (piece.kind == "kernel" and not any(e[2] for e in edits)):
            place = start
        if piece.kind in {"kernel", "device"}:
            edits.append((start, piece.end, ""))
    if added:
        position = next((i for i, (start, _, _) in enumerate(edits) if start == place), None)
        body = "\n\n".join(added)
        if position is None:
            at = place if place is not None else _before_first_kernel(imported)
            edits.append((at, at, body + "\n\n"))
        else:
            edits[position] = (edits[position][0], edits[position][1], body)
    if headers:
        edits.append((0, 0, "\n".join(headers) + "\n"))
    return edits


def _before_first_kernel(imported: Imported) -> int:
    return next(p.end - len(p.text.lstrip("\n").encode()) for p in imported.cut if p.kind == "kernel")


def to_c(text: str, names: Mapping[str, str]) -> str:
    """Return an expression of the launch plan as C.

    Args:
        text: the expression.
        names: what the host calls a name; others stay as they are.
    """
    return _c(ast.parse(text.strip(), mode="eval").body, names)


def _c(node: ast.expr, names: Mapping[str, str]) -> str:
    match node:
        case ast.Constant(value=value):
            return repr(value)
        case ast.Name(id=name):
            return names.get(name, name)
        case ast.UnaryOp(operand=operand):
            return f"-{_c(operand, names)}"
        case ast.BinOp(left=left, op=op, right=right):
            return f"{_grouped(left, names)} {_OPERATORS[type(op)]} {_grouped(right, names)}"
        case ast.Call(func=ast.Name(id="ceil_div"), args=[a, b]):
            divisor = _grouped(b, names)
            above = str(b.value - 1) if isinstance(b, ast.Constant) and isinstance(b.value, int) else f"{divisor} - 1"
            return f"({_grouped(a, names)} + {above}) / {divisor}"
        case ast.Call(func=ast.Name(id=("min" | "max") as name), args=[a, b]):
            first, second = _grouped(a, names), _grouped(b, names)
            return f"({first} {'<' if name == 'min' else '>'} {second} ? {first} : {second})"
    raise ValueError(f"cannot write {ast.unparse(node)!r} as C")


def _grouped(node: ast.expr, names: Mapping[str, str]) -> str:
    text = _c(node, names)
    choice = isinstance(node, ast.Call) and text.endswith(")") and "?" in text  # is in parentheses already
    return text if choice or isinstance(node, ast.Constant | ast.Name) else f"({text})"


def _launch_edits(imported: Imported, best: kernel_pb2.Kernel) -> list[tuple[int, int, str]]:
    baseline = imported.kernel
    if list(best.launches) == list(baseline.launches) and list(best.scratch) == list(baseline.scratch):
        return []
    if not imported.launches:
        return []
    buffers, scalars = _host_terms(imported)
    known = {scratch.name for scratch in baseline.scratch}
    scratch = [item for item in best.scratch if item.name not in known]
    data = imported.text.encode()
    edits: list[tuple[int, int, str]] = []
    for index, host in enumerate(imported.launches):
        start, end = spelled_extent(host.cursor)
        line_start = data.rfind(b"\n", 0, start) + 1
        indent = re.match(rb"[ \t]*", data[line_start:]).group().decode()  # type: ignore[union-attr]
        semicolon = re.compile(rb"\s*;").match(data, end)
        end = semicolon.end() if semicolon else end
        last = index == len(imported.launches) - 1
        plans = best.launches[index:] if last else best.launches[index : index + 1]
        statements: list[str] = []
        if index == 0:
            statements += _allocations(scratch, scalars)
        for plan in plans:
            statements += _statements(plan, buffers | {item.name: item.name for item in scratch}, scalars)
        if last:
            statements += [f"cudaFree({item.name});" for item in scratch]
        text = ("\n" + indent).join(statements)
        single = len(statements) == 1
        edits.append((start, end, text if single else _block(statements, indent)))
    return edits


def _block(statements: list[str], indent: str) -> str:
    inner = "\n".join(f"{indent}  {statement}" for statement in statements)
    return f"{{\n{inner}\n{indent}}}"


def _host_terms(imported: Imported) -> tuple[dict[str, str], dict[str, str]]:
    """Return what the host passes for each buffer, and for each scalar argument."""
    buffers: dict[str, str] = {}
    scalars: dict[str, str] = {}
    for host, plan in zip(imported.launches, imported.kernel.launches, strict=True):
        for cursor, argument in zip(host.arguments, plan.arguments, strict=False):
            source = imported.parsed.source(cursor)
            if argument.WhichOneof("value") == "buffer":
                buffers.setdefault(argument.buffer, source)
            elif argument.scalar.expression.isidentifier():
                scalars.setdefault(argument.scalar.expression, source)
    return buffers, scalars


def _allocations(scratch: list[kernel_pb2.Scratch], names: Mapping[str, str]) -> list[str]:
    result: list[str] = []
    for item in scratch:
        element = data_types.CPP_NAMES[item.data_type]
        result.append(f"{element}* {item.name};")
        result.append(f"cudaMalloc(&{item.name}, sizeof({element}) * ({to_c(item.elements, names)}));")
    return result


def _statements(plan: kernel_pb2.Launch, buffers: Mapping[str, str], names: Mapping[str, str]) -> list[str]:
    arguments = ", ".join(
        buffers.get(argument.buffer, argument.buffer)
        if argument.WhichOneof("value") == "buffer"
        else to_c(argument.scalar.expression, names)
        for argument in plan.arguments
    )
    shared = plan.dynamic_shared_memory_bytes
    configuration = [_extents(list(plan.grid), names), _extents(list(plan.block), names)]
    statements: list[str] = []
    if shared and shared != "0":
        configuration.append(to_c(shared, names))
        if not shared.isdigit() or int(shared) > _DEFAULT_SHARED_BYTES:
            attribute = "cudaFuncAttributeMaxDynamicSharedMemorySize"
            statements.append(f"cudaFuncSetAttribute({plan.kernel}, {attribute}, {to_c(shared, names)});")
    statements.append(f"{plan.kernel}<<<{', '.join(configuration)}>>>({arguments});")
    return statements


def _extents(extents: list[str], names: Mapping[str, str]) -> str:
    while len(extents) > 1 and extents[-1] == "1":
        extents = extents[:-1]
    texts = [to_c(extent, names) for extent in extents]
    return texts[0] if len(texts) == 1 else f"dim3({', '.join(texts)})"
