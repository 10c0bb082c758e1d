"""threadIdx.x walks the axis that is contiguous in memory: the roles of x and y are swapped."""

import re

from optiml.v1.search_pb2 import DIRECTION_DECREASE, Edit
from optiml.v1.verdict_pb2 import BOTTLENECK_CACHE_THROUGHPUT, BOTTLENECK_DRAM_BANDWIDTH, BOTTLENECK_UNCOALESCED_ACCESS
from services.generator.rewriting.accesses import accesses
from services.generator.rewriting.context import Context, Replacement, apply
from services.generator.rewriting.expressions import NotApplicable, coefficient
from services.generator.rewriting.planes import Plane, Side, read_plane
from services.generator.rewriting.positions import require_coordinates_only
from services.generator.rewriting.syntax import Declare, Expression

__all__ = ["propose"]

NAME = "coalesce"


def _contiguous(plane: Plane, side: Side) -> int:
    """Count the accesses for which neighbours along the side are neighbours in memory."""
    return sum(coefficient(access.index, side.name) == {(): 1} for access in accesses(plane.work, plane.varying))


def _uses_swapped(text: str) -> str:
    return re.sub(
        r"\b(threadIdx|blockIdx|blockDim)\s*\.\s*([xy])\b", lambda m: f"{m[1]}.{'yx'['xy'.index(m[2])]}", text
    )


def _swap_axes(context: Context, plane: Plane) -> tuple[list[Replacement], list[str], list[str]]:
    changes: list[Replacement] = []
    places = {}
    for side in plane.sides:
        declare = context.threads.coordinates[side.name].declare
        places[declare.start] = declare.end
    for start, end in places.items():
        changes.append((start, end, _uses_swapped(context.text[start:end])))
    rest = apply(context.text[context.function.body_start : context.function.end], [
        (start - context.function.body_start, end - context.function.body_start, "") for start, end in places.items()
    ])  # fmt: skip
    if re.search(r"threadIdx|blockIdx|blockDim|gridDim", rest.replace("Idx.z", "").replace("Dim.z", "")):
        raise NotApplicable("thread numbers are used elsewhere, too")
    grid, block = context.grid(), context.block()
    return changes, [grid[1], grid[0], grid[2]], [block[1], block[0], block[2]]


def _swap_split(context: Context, plane: Plane) -> list[Replacement]:
    """Swap quotient and remainder of the one coordinate."""
    outer, inner = plane.sides
    declares = {found.name: found for found in context.threads.prefix}
    by = outer.bound.text if outer.bound.kind in {"name", "number"} else f"({outer.bound.text})"
    changes: list[Replacement] = []
    for side, operator in ((outer, "%"), (inner, "/")):
        declare: Declare = declares[side.name]
        value: Expression | None = declare.value
        assert value is not None
        changes.append((value.start, value.end, f"{plane.linear} {operator} {by}"))
    return changes


def propose(context: Context) -> list[Edit]:
    """Propose that neighbouring threads work on neighbouring elements.

    Raises:
        NotApplicable: they do already, or no other numbering of the threads would be better.
    """
    context.require_unshadowed()
    require_coordinates_only(context)
    plane = read_plane(context)
    if plane.linear:
        fast, slow = plane.sides[1], plane.sides[0]
    else:
        x = next(side for side in plane.sides if context.threads.coordinates[side.name].axis == "x")
        fast, slow = x, next(side for side in plane.sides if side is not x)
    now, then = _contiguous(plane, fast), _contiguous(plane, slow)
    if then <= now:
        raise NotApplicable(f"neighbouring threads differ in `{fast.name}`, along which most accesses are contiguous")
    grid = block = None
    if plane.linear:
        changes = _swap_split(context, plane)
    else:
        changes, grid, block = _swap_axes(context, plane)
    changes.append(context.header_replacement())
    return [
        context.edit(
            apply(context.text, changes),
            transformation=NAME,
            parameters={"fast": slow.name},
            title=f"Neighbouring threads differ in `{slow.name}` instead of `{fast.name}`",
            rationale=f"{then} accesses are contiguous along `{slow.name}` and {now} along `{fast.name}`; with "
            f"`{slow.name}` "
            "along threadIdx.x a warp touches a few sectors where it touched one for each thread.",
            precondition=f"`{fast.name}` and `{slow.name}` number independent outputs and are used for nothing else",
            targets=[BOTTLENECK_UNCOALESCED_ACCESS, BOTTLENECK_CACHE_THROUGHPUT, BOTTLENECK_DRAM_BANDWIDTH],
            claims=[
                ("optiml__sectors_per_request_ld", DIRECTION_DECREASE),
                ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", DIRECTION_DECREASE),
            ],
            prior=0.7,
            grid=grid,
            block=block,
        )
    ]
