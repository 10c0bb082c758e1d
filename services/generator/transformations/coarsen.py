"""A thread computes several outputs instead of one."""

import re

from optiml.v1.search_pb2 import DIRECTION_DECREASE, Edit
from optiml.v1.verdict_pb2 import BOTTLENECK_CACHE_THROUGHPUT, BOTTLENECK_INSTRUCTION_OVERHEAD, BOTTLENECK_LATENCY
from services.generator.rewriting.context import Context
from services.generator.rewriting.expressions import NotApplicable
from services.generator.rewriting.nests import constant_trips
from services.generator.rewriting.syntax import For, Other, flat
from services.generator.rewriting.thread_loops import Repeated, blocks, read_repeatable, wrapped

__all__ = ["propose"]

NAME = "coarsen"
_AXES = "xyz"


def _source(context: Context, found: Repeated, outputs: int) -> str:
    axis, name, of = found.coordinate.axis, found.coordinate.name, found.coordinate.type
    count, number = context.fresh("OUTPUTS"), context.fresh("output")
    block = f"({of})blockIdx.{axis}" if found.is_64_bits else f"blockIdx.{axis}"
    opening = [
        f"// Each thread computes {outputs} outputs, a block apart along `{name}`: their loads are in flight together.",
        f"constexpr int {count} = {outputs};",
        "#pragma unroll",
        f"for (int {number} = 0; {number} < {count}; ++{number}) {{",
        f"  const {of} {name} = ({block} * {count} + {number}) * blockDim.{axis} + threadIdx.{axis};",
    ]
    return wrapped(context, found, opening)


def propose(context: Context) -> list[Edit]:
    """Propose 2 and 4 outputs a thread.

    Raises:
        NotApplicable: threads work together, or a thread's work is a loop of unknown length.
    """
    moving = {found.axis for found in context.threads.coordinates.values() if not found.uniform}
    found = read_repeatable(context, "y" if "y" in moving else "x")
    for statement in flat(context.threads.work):
        if isinstance(statement, For) and constant_trips(context, statement) is None:
            raise NotApplicable(f"the loop over `{statement.variable}` is long enough to be worth a thread of its own")
        if isinstance(statement, Other) and re.match(r"while|do|for|switch", statement.text):
            raise NotApplicable("a loop is not understood")
    position = _AXES.index(found.coordinate.axis)
    edits = []
    for outputs, prior in ((4, 0.4), (2, 0.35)):
        grid = context.grid()
        grid[position] = blocks(found.count, f"{outputs} * ({context.block()[position]})")
        edits.append(
            context.edit(
                _source(context, found, outputs),
                transformation=NAME,
                parameters={"outputs": str(outputs), "axis": found.coordinate.axis},
                title=f"{outputs} outputs a thread along `{found.coordinate.name}`",
                rationale="A thread with one output waits for its loads with nothing else to do; several independent "
                "ones overlap, and what they share is computed once.",
                precondition=f"Threads work alone; `{found.coordinate.name}` below `{found.count}` numbers them along "
                + found.coordinate.axis,
                targets=[BOTTLENECK_LATENCY, BOTTLENECK_INSTRUCTION_OVERHEAD, BOTTLENECK_CACHE_THROUGHPUT],
                claims=[("launch__grid_size", DIRECTION_DECREASE), ("smsp__inst_executed.sum", DIRECTION_DECREASE)],
                prior=prior,
                grid=grid,
            )
        )
    return edits
