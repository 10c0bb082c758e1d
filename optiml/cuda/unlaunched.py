"""What the signature of a kernel says when nothing in the file launches it."""

from clang.cindex import Cursor, CursorKind

from optiml import data_types
from optiml.cuda.cursors import is_pointer
from optiml.cuda.element_types import lanes_of
from optiml.cuda.host import safe_name
from optiml.cuda.imported import Imported, Missing
from optiml.cuda.kernel_functions import kernel_name, parameters_of
from optiml.cuda.kernel_usage import Usage, usages
from optiml.cuda.pieces import is_global
from optiml.cuda.problem_sizes import add_default_sizes
from optiml.v1 import kernel_pb2, problem_pb2

__all__ = ["describe_unlaunched"]


def describe_unlaunched(result: Imported, name: str) -> None:
    """Fill in what a kernel's signature tells, and name what it does not: shapes, grid, block, sizes."""
    function = _find(result.parsed.unit.cursor, name)
    if function is None:
        return
    used = usages(function)
    plan = result.kernel.launches.add(kernel=kernel_name(function, name))
    line = function.location.line
    if function.kind == CursorKind.FUNCTION_TEMPLATE:
        why, hint = f"{name!r} is a template and nothing says with what", f'write kernel: "{name}<float>"'
        result.missing.append(Missing("launch", line, why, hint))
    for parameter in parameters_of(function):
        label = safe_name(parameter.spelling or "argument")
        type_name = parameter.type.get_canonical().spelling
        if is_pointer(parameter):
            _add_buffer(result, label, parameter, used.get(parameter.spelling, Usage(reads=True, writes=True)))
            plan.arguments.add(buffer=label)
        elif (data_type := data_types.from_cpp(type_name)) is None:
            why = f"parameter {label!r} has type {type_name!r}; a launch plan passes numbers and pointers"
            result.missing.append(Missing("launch", line, why, "pass its parts as numbers and pointers"))
        else:
            plan.arguments.add(scalar=kernel_pb2.Scalar(data_type=data_type, expression=label))
            if data_types.is_float(data_type):
                scalar = result.problem.arguments.add(name=label, data_type=data_type, role=problem_pb2.ROLE_SCALAR)
                scalar.draw.uniform.low, scalar.draw.uniform.high = 0.5, 1.5
            else:
                result.problem.parameters.add(name=label)
                hint = f"write its value, as in {label}: 4096"
                result.missing.append(Missing(f"sizes.time[0].{label}", line, "nothing says how large it is", hint))
    why = f"no launch of {name!r} is in the file"
    result.missing.append(Missing("launch", line, why, "write grid and block, as in [ceil_div(N, 256)] and [256]"))
    add_default_sizes(result.problem, {})


def _find(root: Cursor, name: str) -> Cursor | None:
    found = [c for c in root.walk_preorder() if is_global(c) and c.spelling == name]
    return next((c for c in found if c.is_definition()), found[0] if found else None)


def _add_buffer(result: Imported, label: str, parameter: Cursor, usage: Usage) -> None:
    element = parameter.type.get_canonical().get_pointee().spelling
    scalar, _ = lanes_of(element.removeprefix("const ").removeprefix("volatile ").strip())
    data_type = data_types.from_cpp(scalar)
    line = parameter.location.line
    if data_type is None:
        hint = f"write one of {', '.join(data_types.NAMES)}"
        why = f"elements of type {element!r} are not known"
        result.missing.append(Missing(f"arguments.{label}.dtype", line, why, hint))
        data_type = kernel_pb2.DATA_TYPE_F32
    argument = result.problem.arguments.add(name=label, data_type=data_type, role=problem_pb2.ROLE_IN)
    if usage.writes:
        argument.role = problem_pb2.ROLE_INOUT if usage.reads else problem_pb2.ROLE_OUT
    hint = "write its extents, as in [M, K]"
    result.missing.append(Missing(f"arguments.{label}.shape", line, "nothing allocates it", hint))
    if argument.role == problem_pb2.ROLE_OUT:
        argument.may_be_unwritten = True
    elif data_types.is_float(data_type):
        argument.draw.uniform.low, argument.draw.uniform.high = -1.0, 1.0
    else:
        argument.draw.integers.low, argument.draw.integers.high = "0", "2"
        why, hint = "values of integers are not known; as indices they need a range", "write integers(0, N)"
        result.missing.append(Missing(f"arguments.{label}.draw", line, why, hint))
