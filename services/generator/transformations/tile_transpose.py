"""A copy that reads along one axis and writes along the other goes through a padded tile of shared memory."""

import re

from optiml.v1.search_pb2 import DIRECTION_DECREASE, Edit
from optiml.v1.verdict_pb2 import BOTTLENECK_CACHE_THROUGHPUT, BOTTLENECK_DRAM_BANDWIDTH, BOTTLENECK_UNCOALESCED_ACCESS
from services.generator.rewriting.accesses import Access, accesses, expressions_of, require_no_side_effects
from services.generator.rewriting.context import Context, apply
from services.generator.rewriting.expressions import NotApplicable, coefficient
from services.generator.rewriting.planes import (
    Plane,
    Side,
    inlined,
    names_in,
    read_plane,
    redeclared,
    shared_lines,
    statement_text,
)
from services.generator.rewriting.positions import require_coordinates_only
from services.generator.rewriting.syntax import Assign, Declare, Statement

__all__ = ["propose"]

NAME = "tile_transpose"
_NEW_NAMES = ("TILE", "STRIPE", "tile", "i", "first_read", "first_written")


def _check(work: tuple[Statement, ...]) -> None:
    for statement in work:
        if not isinstance(statement, (Declare, Assign)):
            raise NotApplicable("each thread does more than compute and store elements")
        for expression in expressions_of(statement):
            require_no_side_effects(expression)


def _sides(plane: Plane, found: tuple[Access, ...]) -> tuple[Side, Side, list[Access]]:
    """Return the side along which elements are written, the one along which they are read, and the strided reads."""
    written = [access for access in found if access.written]
    if not written or any(access.read for access in written):
        raise NotApplicable("elements are not written once, without being read")
    one = {(): 1}
    for along, across in (plane.sides, plane.sides[::-1]):
        if all(coefficient(access.index, along.name) == one for access in written):
            strided = [
                access
                for access in found
                if access.read
                and coefficient(access.index, across.name) == one
                and coefficient(access.index, along.name) not in ({}, None, one)
            ]
            if not strided:
                raise NotApplicable("reads and writes run along the same axis")
            if {access.base for access in strided} & {access.base for access in written}:
                raise NotApplicable("the copy is in place")
            return along, across, strided
    raise NotApplicable("writes are contiguous along neither axis")


def _store(context: Context, plane: Plane, strided: list[Access], tiles: dict[str, str]) -> list[str]:
    lines = redeclared(context, plane, {name for statement in plane.work for name in names_in(context, statement)})
    done = {line.split(" = ")[0].split()[-1] for line in lines}
    for statement in plane.work:
        if isinstance(statement, Declare) and statement.name in done:
            continue
        changes = [
            (
                access.expression.start - statement.start,
                access.expression.end - statement.start,
                f"@{tiles[inlined(access.expression, plane.varying)]}[threadIdx.x][@i]",
            )
            for access in strided
            if statement.start <= access.expression.start < statement.end
        ]
        lines.append(apply(statement_text(context, statement), sorted(set(changes))))
    return lines


def _kernel(context: Context, plane: Plane) -> tuple[str, Side, Side]:
    found = accesses(plane.work, plane.varying)
    along, across, strided = _sides(plane, found)
    texts = {inlined(access.expression, plane.varying): access for access in strided}
    tiles = {text: f"tile{number or ''}" for number, text in enumerate(texts)}
    extra = {name: context.fresh(name) for name in tiles.values()}
    inside = f"if ({across.name} < {across.bound.text} && {along.name} < {along.bound.text})"
    lines = [
        "  // A block moves 32 x 32 elements through shared memory, so that both reads and writes of a warp are of",
        "  // neighbouring elements. The padding keeps a tile's column in 32 different banks.",
        "  constexpr int @TILE = 32, @STRIPE = 8;  // each thread moves TILE / STRIPE elements",
        *(f"  __shared__ {access.expression.type} @{tiles[text]}[@TILE][@TILE + 1];" for text, access in texts.items()),
        *(f"  {line}" for line in shared_lines(plane)),
        f"  const {across.type} @first_read = blockIdx.y * @TILE;",
        f"  const {along.type} @first_written = blockIdx.x * @TILE;",
        "#pragma unroll",
        "  for (int @i = threadIdx.y; @i < @TILE; @i += @STRIPE) {",
        f"    const {across.type} {across.name} = @first_read + threadIdx.x;",
        f"    const {along.type} {along.name} = @first_written + @i;",
        f"    {inside} {{",
        *(f"      @{tiles[text]}[@i][threadIdx.x] = {text};" for text in texts),
        "    }",
        "  }",
        "  __syncthreads();",
        "#pragma unroll",
        "  for (int @i = threadIdx.y; @i < @TILE; @i += @STRIPE) {",
        f"    const {across.type} {across.name} = @first_read + @i;",
        f"    const {along.type} {along.name} = @first_written + threadIdx.x;",
        f"    {inside} {{",
        *(f"      {line}" for line in _store(context, plane, strided, tiles)),
        "    }",
        "  }",
        "}",
    ]
    names = {name: context.fresh(name) for name in _NEW_NAMES} | extra
    body = re.sub(r"@(\w+)", lambda match: names[match[1]], "\n".join(lines))
    return f"{context.header_with_bounds(256)} {{\n{body}", along, across


def propose(context: Context) -> list[Edit]:
    """Propose a tile in shared memory between the reads and the writes.

    Raises:
        NotApplicable: the kernel is no copy between two layouts.
    """
    context.require_unshadowed()
    require_coordinates_only(context)
    context.require_distinct_buffers()
    plane = read_plane(context)
    _check(plane.work)
    text, along, across = _kernel(context, plane)
    function = context.function
    return [
        context.edit(
            apply(context.text, [(function.start, function.end, text)]),
            transformation=NAME,
            parameters={"tile": "32"},
            title="Transpose through a padded 32 x 32 tile in shared memory",
            rationale=f"Reads run along `{across.name}` and writes along `{along.name}`, so one of them touched "
            f"a sector "
            "for each element; a tile in shared memory lets a warp do both along neighbours.",
            precondition=f"Each thread copies one element, contiguous along `{across.name}` where it is read and along "
            f"`{along.name}` where it is written",
            targets=[BOTTLENECK_UNCOALESCED_ACCESS, BOTTLENECK_CACHE_THROUGHPUT, BOTTLENECK_DRAM_BANDWIDTH],
            claims=[
                ("optiml__sectors_per_request_ld", DIRECTION_DECREASE),
                ("optiml__sectors_per_request_st", DIRECTION_DECREASE),
            ],
            prior=0.9,
            grid=[
                f"ceil_div({context.host(along.bound)}, 32)",
                f"ceil_div({context.host(across.bound)}, 32)",
                context.grid()[2],
            ],
            block=["32", "8"],
        )
    ]
