"""Launch plans as C: expressions, launches, scratch buffers."""

import ast
from collections.abc import Mapping, Sequence

from optiml import data_types
from optiml.v1 import kernel_pb2

__all__ = ["Unmapped", "launch_statements", "launch_text", "scratch_statements", "to_c"]

_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "/", ast.Mod: "%", ast.LShift: "<<",
}  # fmt: skip
_DEFAULT_SHARED_BYTES = 48 << 10  # more needs an opt-in before the launch


class Unmapped(Exception):  # noqa: N818 - an outcome, not a fault of the program
    """Something in a launch plan has no name in the host's code."""


def to_c(text: str, names: Mapping[str, str]) -> str:
    """Return an expression of a launch plan as C.

    Args:
        text: the expression.
        names: what the host writes for a name or for a whole expression.

    Raises:
        Unmapped: it uses a name that the host does not have.
    """
    node = ast.parse(text.strip(), mode="eval").body
    return _c(node, {ast.unparse(ast.parse(key, mode="eval").body): value for key, value in names.items()})


def _c(node: ast.expr, names: Mapping[str, str]) -> str:
    if (known := names.get(ast.unparse(node))) is not None:
        return known
    match node:
        case ast.Constant(value=value):
            return repr(value)
        case ast.Name(id=name):
            raise Unmapped(f"the host has no {name!r} where it launches")
        case ast.UnaryOp(operand=operand):
            return f"-{_grouped(operand, names)}"
        case ast.BinOp(left=left, op=op, right=right):
            return f"{_grouped(left, names)} {_OPERATORS[type(op)]} {_grouped(right, names)}"
        case ast.Call(func=ast.Name(id="ceil_div"), args=[a, b]):
            divisor = _grouped(b, names)
            above = str(b.value - 1) if isinstance(b, ast.Constant) and isinstance(b.value, int) else f"{divisor} - 1"
            return f"({_grouped(a, names)} + {above}) / {divisor}"
        case ast.Call(func=ast.Name(id=("min" | "max") as name), args=[a, b]):
            first, second = _grouped(a, names), _grouped(b, names)
            return f"({first} {'<' if name == 'min' else '>'} {second} ? {first} : {second})"
    raise Unmapped(f"cannot write {ast.unparse(node)!r} as C")


def _grouped(node: ast.expr, names: Mapping[str, str]) -> str:
    text = _c(node, names)
    plain = text.replace("_", "a").replace(".", "a").isalnum()
    choice = isinstance(node, ast.Call) and text.endswith(")") and "?" in text  # is in parentheses already
    return text if plain or choice else f"({text})"


def scratch_statements(scratch: Sequence[kernel_pb2.Scratch], names: Mapping[str, str]) -> list[str]:
    """Return the allocations of scratch buffers; sizes are computed in 64 bits.

    Raises:
        Unmapped: a size uses a name that the host does not have.
    """
    wide = {name: f"(size_t)({text})" for name, text in names.items()}
    result: list[str] = []
    for item in scratch:
        element = data_types.CPP_NAMES[item.data_type]
        result.append(f"{element}* {item.name} = nullptr;")
        result.append(f"cudaMalloc(&{item.name}, sizeof({element}) * ({to_c(item.elements, wide)}));")
    return result


def launch_text(
    plan: kernel_pb2.Launch, kernel: str, buffers: Mapping[str, str], names: Mapping[str, str], stream: str = ""
) -> str:
    """Return a launch as `kernel<<<grid, block>>>(arguments)`, without a semicolon.

    Raises:
        Unmapped: it uses a name that the host does not have.
    """
    shared = plan.dynamic_shared_memory_bytes
    configuration = [_extents(list(plan.grid), names), _extents(list(plan.block), names)]
    if stream or (shared and shared != "0"):
        configuration.append(to_c(shared or "0", names))
    if stream:
        configuration.append(stream)
    arguments = ", ".join(_argument(argument, buffers, names) for argument in plan.arguments)
    return f"{kernel}<<<{', '.join(configuration)}>>>({arguments})"


def launch_statements(
    plan: kernel_pb2.Launch, kernel: str, buffers: Mapping[str, str], names: Mapping[str, str], stream: str = ""
) -> list[str]:
    """Return the statements of a launch, with the opt-in for much shared memory and the cooperative form.

    Raises:
        Unmapped: it uses a name that the host does not have.
    """
    shared = plan.dynamic_shared_memory_bytes
    statements: list[str] = []
    if shared and (not shared.isdigit() or int(shared) > _DEFAULT_SHARED_BYTES):
        attribute = "cudaFuncAttributeMaxDynamicSharedMemorySize"
        statements.append(f"cudaFuncSetAttribute({kernel}, {attribute}, {to_c(shared, names)});")
    if not plan.cooperative:
        return [*statements, launch_text(plan, kernel, buffers, names, stream) + ";"]
    passed: list[str] = []
    for index, argument in enumerate(plan.arguments):
        buffer = argument.WhichOneof("value") == "buffer"
        type_name = "void*" if buffer else data_types.CPP_NAMES[argument.scalar.data_type]
        value = _argument(argument, buffers, names)
        statements.append(f"{type_name} argument_{index} = {f'(void*)({value})' if buffer else value};")
        passed.append(f"&argument_{index}")
    statements.append(f"void* arguments[] = {{{', '.join(passed)}}};")
    grid, block = (f"dim3({_joined(list(extents), names)})" for extents in (plan.grid, plan.block))
    tail = f"arguments, {to_c(shared or '0', names)}, {stream or '0'}"
    statements.append(f"cudaLaunchCooperativeKernel((void*){kernel}, {grid}, {block}, {tail});")
    return statements


def _argument(argument: kernel_pb2.LaunchArgument, buffers: Mapping[str, str], names: Mapping[str, str]) -> str:
    if argument.WhichOneof("value") == "scalar":
        return to_c(argument.scalar.expression, names)
    if argument.buffer not in buffers:
        raise Unmapped(f"the host has no buffer {argument.buffer!r} where it launches")
    return buffers[argument.buffer]


def _joined(extents: list[str], names: Mapping[str, str]) -> str:
    while len(extents) > 1 and extents[-1] == "1":
        extents = extents[:-1]
    return ", ".join(to_c(extent, names) for extent in extents)


def _extents(extents: list[str], names: Mapping[str, str]) -> str:
    text = _joined(extents, names)
    return f"dim3({text})" if len(extents) > 1 and any(extent != "1" for extent in extents[1:]) else text
