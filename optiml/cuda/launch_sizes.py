"""Numbers of the host that shape a launch and not the problem: they keep the value that the file gives them."""

import ast
from collections.abc import Iterator
from dataclasses import replace

from optiml.cuda.expression_algebra import Expression, Unknown, names_in, substituted
from optiml.cuda.host import Host
from optiml.cuda.host_expressions import expression
from optiml.cuda.host_program import HostLaunch, HostProgram

__all__ = ["fix_launch_sizes"]


def fix_launch_sizes(host: Host, program: HostProgram) -> None:
    """Write out the numbers that kernels are made for: template arguments, and block sizes that a grid divides by.

    As parameters they would range over sizes, with kernels that were compiled for one value.
    """
    names = {name for launch in program.launches for name in _names(host, launch)}
    values = {name: host.values.pop(name) for name in names & host.values.keys()}
    if not values:
        return
    host.fixed |= values
    for key, allocation in program.allocations.items():
        if allocation.elements is not None:
            program.allocations[key] = replace(allocation, elements=substituted(allocation.elements, values))
    for launch in program.launches:
        for extents in (launch.grid, launch.block):
            for axis, extent in enumerate(extents or ()):
                extents[axis] = substituted(extent, values)  # type: ignore[index]
        launch.shared = substituted(launch.shared, values) if launch.shared is not None else None


def _names(host: Host, launch: HostLaunch) -> Iterator[str]:
    for cursor in launch.template_arguments:
        try:
            yield from names_in(expression(host, cursor))
        except Unknown:
            continue
    in_blocks = {name for extent in launch.block or () for name in names_in(extent)}
    for extent in launch.grid or ():
        yield from in_blocks & set(_divisors(extent))


def _divisors(extent: Expression) -> Iterator[str]:
    for node in ast.walk(extent):
        match node:
            case ast.BinOp(op=ast.Div(), right=divisor):
                yield from names_in(divisor)
            case ast.Call(func=ast.Name(id="ceil_div"), args=[_, divisor]):
                yield from names_in(divisor)
