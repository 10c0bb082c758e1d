"""The innermost loop is unrolled by a pragma."""

from collections.abc import Iterator

from optiml.v1.search_pb2 import DIRECTION_DECREASE, Edit
from optiml.v1.verdict_pb2 import BOTTLENECK_COMPUTE_THROUGHPUT, BOTTLENECK_INSTRUCTION_OVERHEAD, BOTTLENECK_LATENCY
from services.generator.rewriting.context import Context, apply
from services.generator.rewriting.expressions import NotApplicable
from services.generator.rewriting.syntax import For, Function, flat

__all__ = ["propose"]

NAME = "unroll"


def _innermost(function: Function) -> Iterator[For]:
    """Yield the innermost loops that no pragma unrolls yet."""
    for statement in flat(function.body):
        if not isinstance(statement, For) or any(isinstance(inner, For) for inner in flat(statement.body)):
            continue
        line = function.text.rfind("\n", 0, statement.start)
        if function.text[line + 1 : statement.start].strip():
            continue  # shares its line with something, as in `if (i < n) for (...)`: no place for a pragma
        before = function.text[:line].rstrip().rpartition("\n")[2]
        if "unroll" not in before:
            yield statement


def propose(context: Context) -> list[Edit]:
    """Propose to unroll the innermost loops by 4 and by 8.

    Raises:
        NotApplicable: there is no innermost loop that is not unrolled.
    """
    loops = list(_innermost(context.function))
    if not loops:
        raise NotApplicable("no innermost loop is left to unroll")
    edits = []
    for factor, prior in ((4, 0.4), (8, 0.35)):
        changes = []
        for loop in loops:
            line = context.text.rfind("\n", 0, loop.start) + 1
            changes.append((line, line, f"#pragma unroll {factor}\n"))
        edits.append(
            context.edit(
                apply(context.text, changes),
                transformation=NAME,
                parameters={"factor": str(factor)},
                title=f"Unroll the innermost loops by {factor}",
                rationale="More loads are in flight before the first is needed, and fewer instructions count "
                "and branch.",
                precondition=f"{len(loops)} innermost loops have no pragma: over "
                + ", ".join(f"`{loop.variable}`" for loop in loops),
                targets=[BOTTLENECK_LATENCY, BOTTLENECK_INSTRUCTION_OVERHEAD, BOTTLENECK_COMPUTE_THROUGHPUT],
                claims=[("smsp__inst_executed.sum", DIRECTION_DECREASE)],
                prior=prior,
            )
        )
    return edits
