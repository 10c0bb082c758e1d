"""What a host program does around its kernels: allocations, copies and launches, in the order of the source."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from clang import cindex
from clang.cindex import Cursor, CursorKind, TypeKind

from optiml.cuda.cursors import initial_of, is_pointer, unwrapped
from optiml.cuda.expression_algebra import Unknown, divide_product, simplified
from optiml.cuda.host import Host
from optiml.cuda.host_expressions import dim3_extents, expression
from optiml.cuda.parse import unary_operator
from optiml.cuda.pieces import FUNCTIONS, is_global

__all__ = ["Allocation", "HostLaunch", "HostProgram", "buffer_name", "host_program"]

_ALLOCATORS = {"cudaMalloc", "cudaMallocManaged", "cudaMallocAsync"}
_LAUNCHERS = {"cudaLaunchKernel": False, "cudaLaunchCooperativeKernel": True}
_BRANCHES = {CursorKind.SWITCH_STMT, CursorKind.CONDITIONAL_OPERATOR, CursorKind.IF_STMT}
_DEPTH = 20


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
    """Name of the kernel, with template arguments as written."""
    function: Cursor
    cursor: Cursor
    line: int
    arguments: list[Cursor]
    template_arguments: list[Cursor] = field(default_factory=list)
    """Those that are written as expressions."""
    grid: list[ast.expr] | None = None
    block: list[ast.expr] | None = None
    shared: ast.expr | None = None
    stream: str = ""
    """The stream as written; empty for the default one."""
    cooperative: bool = False
    function_name: str = ""
    """The host function that it is in."""
    branch: bool = False
    """Whether it runs under a condition."""
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
    nested: dict[str, int] = field(default_factory=dict)
    """Kernels that launch kernels, with the line."""


def host_program(host: Host) -> HostProgram:
    """Read the host program of a parsed file."""
    program = HostProgram()
    unit = host.parsed.unit
    for cursor in unit.cursor.get_children():
        file = cursor.location.file
        if file is None or file.name != unit.spelling:
            continue
        for call, place in _calls(cursor):
            if place.kernel is None:
                _take(host, call, program, place)
            elif _is_launch(call):
                program.nested.setdefault(place.kernel, call.location.line)
    return program


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a call is."""

    function: str = ""
    kernel: str | None = None
    branch: bool = False


def _calls(cursor: Cursor) -> Iterator[tuple[Cursor, _Place]]:
    """Yield each call, in the order of the source."""
    pending: list[tuple[Cursor, _Place]] = [(cursor, _Place())]
    while pending:
        below, place = pending.pop()
        if below.kind == CursorKind.CALL_EXPR:
            yield below, place
        if is_global(below):
            place = _Place(below.spelling, below.spelling)
        elif below.kind in FUNCTIONS or below.kind == CursorKind.CXX_METHOD:
            place = _Place(below.spelling)
        elif below.kind in _BRANCHES:
            place = _Place(place.function, place.kernel, branch=True)
        pending.extend([(child, place) for child in below.get_children()][::-1])


def _is_launch(call: Cursor) -> bool:
    children = list(call.get_children())
    return (len(children) > 1 and children[1].spelling == "__cudaPushCallConfiguration") or call.spelling in _LAUNCHERS


def _take(host: Host, call: Cursor, program: HostProgram, place: _Place) -> None:
    arguments = list(call.get_arguments())
    name = call.spelling
    if _is_launch(call):
        launch = _runtime_launch(host, call, arguments) if name in _LAUNCHERS else _launch(host, call)
        if launch is not None:
            launch.branch, launch.function_name = place.branch, place.function
            program.launches.append(launch)
    elif name in _ALLOCATORS and len(arguments) >= 2:
        allocation = _allocation(host, call, arguments)
        if allocation is not None:
            program.allocations.setdefault(allocation.name, allocation)
    elif name in {"cudaMemcpy", "cudaMemcpyAsync"} and len(arguments) >= 4:
        kind = host.parsed.source(arguments[3])
        if "HostToDevice" in kind and (target := buffer_name(host, arguments[0])):
            program.copied_in.add(target)
        elif "DeviceToHost" in kind and (source := buffer_name(host, arguments[1])):
            program.copied_out.add(source)
    elif name in {"cudaMemset", "cudaMemsetAsync"} and arguments and (target := buffer_name(host, arguments[0])):
        program.cleared.add(target)


def buffer_name(host: Host, cursor: Cursor, depth: int = 0) -> str | None:
    """Return what the host calls the buffer that an expression such as `d_a`, `(float*)d_a` or `s.data` stands for.

    Pointers that are other pointers, and parameters of functions that the file calls in one way, are followed.
    None for anything else, such as `d_a + 1`.
    """
    cursor = unwrapped(cursor)
    if depth > _DEPTH:
        return None
    text = "".join(host.parsed.source(cursor).split())
    if cursor.kind in {CursorKind.MEMBER_REF_EXPR, CursorKind.ARRAY_SUBSCRIPT_EXPR}:
        return text
    if cursor.kind == CursorKind.CALL_EXPR and not list(cursor.get_arguments()):
        return text.split(".")[0] if text.split(".")[0].isidentifier() else None
    if cursor.kind != CursorKind.DECL_REF_EXPR or (variable := cursor.referenced) is None:
        return None
    if variable.kind == CursorKind.PARM_DECL:
        passed = host.calls.get(variable.hash, [])
        return buffer_name(host, passed[0], depth + 1) if len(passed) == 1 else variable.spelling
    initial = initial_of(variable) if variable.kind == CursorKind.VAR_DECL else None
    if initial is not None and is_pointer(variable) and (variable.hash, "") not in host.changes:
        below = unwrapped(initial)
        if below.kind == CursorKind.DECL_REF_EXPR and below.referenced.kind != CursorKind.FUNCTION_DECL:
            return buffer_name(host, below, depth + 1)
    return str(variable.spelling)


def _allocation(host: Host, call: Cursor, arguments: list[Cursor]) -> Allocation | None:
    target = unwrapped(arguments[0])
    if target.kind == CursorKind.UNARY_OPERATOR and unary_operator(target) == "&":
        target = unwrapped(next(iter(target.get_children())))
    name = buffer_name(host, target)
    if name is None or target.type.get_canonical().kind != TypeKind.POINTER:
        return None
    element = target.type.get_canonical().get_pointee()
    spelling = element.get_canonical().spelling
    try:
        elements = divide_product(expression(host, arguments[1]), max(element.get_size(), 1))
    except Unknown as unknown:
        return Allocation(name, spelling, None, call.location.line, str(unknown))
    return Allocation(name, spelling, elements, call.location.line, "")


def _launch(host: Host, call: Cursor) -> HostLaunch | None:
    children = list(call.get_children())
    callee = next(
        (
            c
            for c in children[0].walk_preorder()
            if c.kind in {CursorKind.DECL_REF_EXPR, CursorKind.OVERLOADED_DECL_REF}
        ),
        None,
    )
    function = _launched(callee) if callee is not None else None
    if callee is None or function is None:
        return None
    text = host.parsed.source(call).partition("<<<")[0].strip()
    arguments = [c for c in children[2:] if c.kind.is_expression()]
    launch = HostLaunch(text or callee.spelling, function, call, call.location.line, arguments)
    launch.template_arguments = [c for c in callee.get_children() if c.kind.is_expression()]
    configuration = [c for c in children[1].get_children() if c.kind.is_expression()][1:]
    _configure(host, launch, configuration[0], configuration[1], configuration[2:])
    return launch


def _launched(callee: Cursor) -> Cursor | None:
    """Return the function that a launch names: itself, a template that depends on others, or through a variable."""
    if callee.kind == CursorKind.OVERLOADED_DECL_REF:
        declared = cindex.conf.lib.clang_getOverloadedDecl(callee, 0)
        return declared if declared is not None and declared.kind in FUNCTIONS else None
    function = callee.referenced
    if function is not None and function.kind == CursorKind.VAR_DECL and (initial := initial_of(function)) is not None:
        below = [c for c in initial.walk_preorder() if c.kind == CursorKind.DECL_REF_EXPR]
        return below[0].referenced if below else None
    return function


def _runtime_launch(host: Host, call: Cursor, given: list[Cursor]) -> HostLaunch | None:
    """Read cudaLaunchKernel(function, grid, block, arguments, shared, stream)."""
    if len(given) < 4:
        return None
    callee = next((c for c in given[0].walk_preorder() if c.kind == CursorKind.DECL_REF_EXPR), None)
    array = unwrapped(given[3])
    initial = initial_of(array.referenced) if array.kind == CursorKind.DECL_REF_EXPR else None
    if callee is None or callee.referenced is None:
        return None
    arguments: list[Cursor] = []
    for entry in initial.get_children() if initial is not None else ():
        below = unwrapped(entry)
        if below.kind == CursorKind.UNARY_OPERATOR and unary_operator(below) == "&":
            arguments.append(next(iter(below.get_children())))
    launch = HostLaunch(callee.spelling, callee.referenced, call, call.location.line, arguments)
    launch.cooperative = _LAUNCHERS[call.spelling]
    _configure(host, launch, given[1], given[2], given[4:])
    return launch


def _configure(host: Host, launch: HostLaunch, grid: Cursor, block: Cursor, rest: list[Cursor]) -> None:
    rest = [c for c in rest if host.parsed.source(c)]
    launch.stream = host.parsed.source(rest[1]).strip() if len(rest) > 1 else ""
    try:
        launch.grid = [simplified(e) for e in dim3_extents(host, grid)]
        launch.block = [simplified(e) for e in dim3_extents(host, block)]
        if rest and host.parsed.source(rest[0]).strip():
            launch.shared = expression(host, rest[0])
    except Unknown as unknown:
        launch.grid = launch.block = None
        launch.problem = str(unknown)
