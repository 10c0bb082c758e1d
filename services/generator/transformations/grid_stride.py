"""A grid that fills the device once, whose threads stride over all elements."""

from optiml.v1.search_pb2 import DIRECTION_DECREASE, Edit
from optiml.v1.verdict_pb2 import BOTTLENECK_DRAM_BANDWIDTH, BOTTLENECK_INSTRUCTION_OVERHEAD, BOTTLENECK_LATENCY
from services.generator.rewriting.context import Context
from services.generator.rewriting.expressions import NotApplicable
from services.generator.rewriting.syntax import If, Return
from services.generator.rewriting.thread_loops import Repeated, blocks, read_repeatable, require_below, wrapped

__all__ = ["propose"]

NAME = "grid_stride"
_RESIDENT_THREADS = 132 * 2048
"""What the largest devices hold at once; more threads wait for others to end."""
_MOST_ELEMENTS = 1 << 30
"""Of a 32-bit coordinate: one more stride stays inside its type."""


def _source(context: Context, found: Repeated) -> str:
    coordinate = found.coordinate
    name, of = coordinate.name, coordinate.type
    block = f"({of})blockIdx.x" if found.is_64_bits else "blockIdx.x"
    stride = f"({of})gridDim.x" if found.is_64_bits else "gridDim.x"
    header = (
        f"for ({of} {name} = {block} * blockDim.x + threadIdx.x; {name} < {found.count_in_kernel}; "
        f"{name} += {stride} * blockDim.x) {{"
    )
    opening = ["// The grid fills the device once; each thread strides over the elements.", header]
    checks = tuple(
        statement
        for statement in context.function.body
        if isinstance(statement, If)
        and statement.then
        and isinstance(statement.then[0], Return)
        and statement.condition.kind == "binary"
        and statement.condition.operator == ">="
        and coordinate.bound in statement.condition.operands
    )
    return wrapped(context, found, opening, checks)


def propose(context: Context) -> list[Edit]:
    """Propose a grid-stride loop.

    Raises:
        NotApplicable: threads work together, have several coordinates, or are too few to need it.
    """
    found = read_repeatable(context, "x")
    if len([moving for moving in context.threads.coordinates.values() if not moving.uniform]) != 1:
        raise NotApplicable("threads are numbered along more than one axis")
    if not found.count_in_kernel:
        raise NotApplicable(f"the bound of `{found.coordinate.name}` is computed in the kernel")
    if not found.is_64_bits:
        require_below(context, found, _MOST_ELEMENTS)
    block = context.number(context.block()[0])
    if block is None or context.block()[1:] != ["1", "1"]:
        raise NotApplicable("the block has no plain number of threads")
    resident = _RESIDENT_THREADS // block
    now = context.at_time_size(blocks(found.count, str(block)))
    if now is not None and now <= resident:
        raise NotApplicable(f"{now} blocks of {block} threads fit on the device at once")
    return [
        context.edit(
            _source(context, found),
            transformation=NAME,
            parameters={"blocks": str(resident)},
            title=f"A grid-stride loop over at most {resident} blocks",
            rationale="Starting a block and computing its indices costs as much as a few elements; threads that stay "
            "and stride over the elements pay it once.",
            precondition=f"Threads work alone on `{found.coordinate.name}` below `{found.count}`",
            targets=[BOTTLENECK_INSTRUCTION_OVERHEAD, BOTTLENECK_LATENCY, BOTTLENECK_DRAM_BANDWIDTH],
            claims=[("launch__grid_size", DIRECTION_DECREASE)],
            prior=0.35,
            grid=[f"min({blocks(found.count, str(block))}, {resident})", *context.grid()[1:]],
        )
    ]
