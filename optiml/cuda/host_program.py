"""What a host program does around its kernels: allocations, copies and launches, in the order of the source."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from clang.cindex import Cursor, CursorKind, TypeKind

from optiml.cuda.host_expressions import Host, Unknown, dim3_extents, divide_product, expression, simplified

__all__ = ["Allocation", "HostLaunch", "HostProgram", "host_program"]

_ALLOCATORS = {"cudaMalloc": 1, "cudaMallocManaged": 1}


@dataclass(frozen=True, slots=True)
class Allocation:
    """A device buffer of the host program."""

    name: str
    element: str
    """C++ name of the element type."""
    elements: ast.expr | None
    line: int
    problem: str
    """Why the number of elements is unknown; empty if it is known."""


@dataclass(slots=True)
class HostLaunch:
    """One launch."""

    kernel: str
    """Name, with template arguments as written."""
    function: Cursor
    cursor: Cursor
    line: int
    arguments: list[Cursor]
    grid: list[ast.expr] | None = None
    block: list[ast.expr] | None = None
    shared: ast.expr | None = None
    problem: str = ""
    """Why grid, block or shared memory are unknown; empty if they are known."""


@dataclass(slots=True)
class HostProgram:
    """Everything that matters of a host program."""

    allocations: dict[str, Allocation] = field(default_factory=dict)
    launches: list[HostLaunch] = field(default_factory=list)
    copied_in: set[str] = field(default_factory=set)
    copied_out: set[str] = field(default_factory=set)
    cleared: set[str] = field(default_factory=set)


def host_program(host: Host) -> HostProgram:
    """Read the host program of a parsed file."""
    program = HostProgram()
    unit = host.parsed.unit
    for cursor in unit.cursor.get_children():
        file = cursor.location.file
        if file is not None and file.name == unit.spelling:
            for call in _calls(cursor):
                _take(host, call, program)
    return program


def _calls(cursor: Cursor) -> Iterator[Cursor]:
    for below in cursor.walk_preorder():
        if below.kind == CursorKind.CALL_EXPR:
            yield below


def _take(host: Host, call: Cursor, program: HostProgram) -> None:
    arguments = list(call.get_arguments())
    children = list(call.get_children())
    if len(children) > 1 and children[1].spelling == "__cudaPushCallConfiguration":
        program.launches.append(_launch(host, call, children))
    elif call.spelling in _ALLOCATORS and len(arguments) >= 2:
        allocation = _allocation(host, call, arguments)
        if allocation is not None:
            program.allocations[allocation.name] = allocation
    elif call.spelling in {"cudaMemcpy", "cudaMemcpyAsync"} and len(arguments) >= 4:
        kind = host.parsed.source(arguments[3])
        if "HostToDevice" in kind and (name := buffer_name(arguments[0])):
            program.copied_in.add(name)
        elif "DeviceToHost" in kind and (name := buffer_name(arguments[1])):
            program.copied_out.add(name)
    elif call.spelling in {"cudaMemset", "cudaMemsetAsync"} and arguments and (name := buffer_name(arguments[0])):
        program.cleared.add(name)


def buffer_name(cursor: Cursor) -> str | None:
    """Return the variable that an argument such as `d_a`, `&d_a` or `(void**)&d_a` names."""
    names = {c.spelling for c in cursor.walk_preorder() if c.kind == CursorKind.DECL_REF_EXPR}
    return names.pop() if len(names) == 1 else None


def _allocation(host: Host, call: Cursor, arguments: list[Cursor]) -> Allocation | None:
    name = buffer_name(arguments[0])
    variable = next((c for c in arguments[0].walk_preorder() if c.kind == CursorKind.DECL_REF_EXPR), None)
    if name is None or variable is None or variable.type.get_canonical().kind != TypeKind.POINTER:
        return None
    element = variable.type.get_canonical().get_pointee()
    try:
        elements = divide_product(expression(host, arguments[1]), max(element.get_size(), 1))
    except Unknown as unknown:
        return Allocation(name, element.spelling, None, call.location.line, str(unknown))
    return Allocation(name, element.spelling, elements, call.location.line, "")


def _launch(host: Host, call: Cursor, children: list[Cursor]) -> HostLaunch:
    callee = next(c for c in children[0].walk_preorder() if c.kind in {CursorKind.DECL_REF_EXPR, CursorKind.CALL_EXPR})
    text = host.parsed.source(call).partition("<<<")[0].strip()
    arguments = [c for c in children[2:] if c.kind.is_expression()]
    launch = HostLaunch(text or callee.spelling, callee.referenced, call, call.location.line, arguments)
    configuration = [c for c in children[1].get_children() if c.kind.is_expression()][1:]
    try:
        launch.grid = [simplified(e) for e in dim3_extents(host, configuration[0], {})]
        launch.block = [simplified(e) for e in dim3_extents(host, configuration[1], {})]
        if len(configuration) > 2 and host.parsed.source(configuration[2]).strip():
            launch.shared = expression(host, configuration[2])
    except Unknown as unknown:
        launch.problem = str(unknown)
    return launch
