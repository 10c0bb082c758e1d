"""A contraction reads each operand once a tile, through shared memory; a thread keeps several outputs in registers."""

import re
from dataclasses import dataclass

from optiml.v1.search_pb2 import DIRECTION_DECREASE, Edit
from optiml.v1.verdict_pb2 import (
    BOTTLENECK_CACHE_THROUGHPUT,
    BOTTLENECK_DRAM_BANDWIDTH,
    BOTTLENECK_INSTRUCTION_OVERHEAD,
    BOTTLENECK_LATENCY,
    BOTTLENECK_UNCOALESCED_ACCESS,
)
from services.generator.rewriting.context import Context, apply
from services.generator.rewriting.contractions import Contraction, Operand, read_contraction
from services.generator.rewriting.planes import inlined, names_in, redeclared, shared_lines, statement_text
from services.generator.rewriting.positions import require_coordinates_only

__all__ = ["propose"]

NAME = "tile_shared_memory"


@dataclass(frozen=True, slots=True)
class _Shape:
    """Outputs of a block, length of a slice of the sum, and outputs of a thread along each side."""

    tile: int
    depth: int
    per_thread: int
    prior: float

    @property
    def threads_along(self) -> int:
        return self.tile // self.per_thread

    @property
    def threads(self) -> int:
        return self.threads_along**2


_SHAPES = (_Shape(64, 16, 4, 0.9), _Shape(128, 8, 8, 0.95), _Shape(32, 32, 2, 0.7), _Shape(16, 16, 1, 0.6))
_SMALL_OUTPUT = 128 * 128 * 132
"""Outputs below which 128 x 128 tiles leave multiprocessors idle."""


_NEW_NAMES = (
    "TILE", "TILE_K", "PER_THREAD", "GROUP", "THREADS_ALONG", "THREADS", "thread", "first_row", "first_column", "slice",
    "step", "row_tile", "column_tile", "row_values", "column_values", "sums", "i", "j", "load", "thread_row",
    "thread_column",
)  # fmt: skip
"""What the tiled kernel adds; written with an `@` before it until it is known which names the file leaves free."""


def _load(found: Contraction, operand: Operand) -> list[str]:
    """Return the lines with which a block copies a slice of an operand, along the direction that is contiguous."""
    k, of_rows = found.loop.variable, operand.side == found.rows.name
    side = found.rows if of_rows else found.columns
    which = "row" if of_rows else "column"
    if operand.k_is_contiguous:
        at_side, at_k = "@load / @TILE_K", "@load % @TILE_K"
    else:
        at_side, at_k = "@load % @TILE", "@load / @TILE"
    inside = f"{side.name} < {side.bound.text} && {k} < {found.loop.bound.text}"
    return [
        "    for (int @load = @thread; @load < @TILE * @TILE_K; @load += @THREADS) {",
        f"      const {side.type} {side.name} = @first_{which} + {at_side};",
        f"      const {found.loop.type} {k} = @slice + {at_k};",
        f"      @{which}_tile[{at_k}][{at_side}] = {inside} ? {operand.text} : 0;",
        "    }",
    ]


def _finish(context: Context, found: Contraction) -> list[str]:
    """Return the lines that use one sum, as the kernel did."""
    plane, accumulator = found.plane, found.accumulator
    used = {name for statement in found.after for name in names_in(context, statement)}
    lines = redeclared(context, plane, used)
    for declare in found.before:
        if declare.name in used and declare.name not in plane.varying:
            assert declare.value is not None
            lines.append(f"const {declare.type} {declare.name} = {inlined(declare.value, plane.varying)};")
    assert accumulator.value is not None
    start = inlined(accumulator.value, plane.varying)
    zero = re.fullmatch(r"0*\.?0*[fFuUlL]*", start) is not None
    value = "@sums[@i][@j]" if zero else f"{start} + @sums[@i][@j]"
    lines.append(f"{accumulator.type} {accumulator.name} = {value};")
    lines += [statement_text(context, statement) for statement in found.after]
    return [part for line in lines for part in line.split("\n")]


_MULTIPLY = """\
    __syncthreads();
#pragma unroll
    for (int @step = 0; @step < @TILE_K; ++@step) {
      {row_element} @row_values[@PER_THREAD];
      {column_element} @column_values[@PER_THREAD];
#pragma unroll
      for (int @i = 0; @i < @PER_THREAD; ++@i) {
        @row_values[@i] = @row_tile[@step][@thread_row + @i / @GROUP * @GROUP * @THREADS_ALONG + @i % @GROUP];
        @column_values[@i] = @column_tile[@step][@thread_column + @i / @GROUP * @GROUP * @THREADS_ALONG + @i % @GROUP];
      }
#pragma unroll
      for (int @i = 0; @i < @PER_THREAD; ++@i) {
#pragma unroll
        for (int @j = 0; @j < @PER_THREAD; ++@j) {
          @sums[@i][@j] += {product};
        }
      }
    }
    __syncthreads();  // before the next slice overwrites the tiles
  }
#pragma unroll
  for (int @i = 0; @i < @PER_THREAD; ++@i) {
#pragma unroll
    for (int @j = 0; @j < @PER_THREAD; ++@j) {
      const {rows.type} {rows.name} = @first_row + @thread_row + @i / @GROUP * @GROUP * @THREADS_ALONG + @i % @GROUP;
      const {columns.type} {columns.name} =
          @first_column + @thread_column + @j / @GROUP * @GROUP * @THREADS_ALONG + @j % @GROUP;
      if ({rows.name} < {rows.bound} && {columns.name} < {columns.bound}) {"""


def _multiply(found: Contraction, shape: _Shape) -> list[str]:
    rows, columns = found.rows, found.columns
    text = _MULTIPLY
    if shape.per_thread <= 4:  # one group: the index is plain
        text = re.sub(r"(@[ij]) / @GROUP \* @GROUP \* @THREADS_ALONG \+ @[ij] % @GROUP", r"\1", text)
    if shape.per_thread == 1:
        text = text.replace("#pragma unroll\n      for (int @i", "      for (int @i")
    values = {
        "row_element": found.of_rows.element,
        "column_element": found.of_columns.element,
        "product": found.product.format(rows="@row_values[@i]", columns="@column_values[@j]"),
        "rows.type": rows.type,
        "rows.name": rows.name,
        "rows.bound": rows.bound.text,
        "columns.type": columns.type,
        "columns.name": columns.name,
        "columns.bound": columns.bound.text,
    }
    return re.sub(r"\{([a-z_.]+)\}", lambda match: values[match[1]], text).split("\n")


def _head(found: Contraction, shape: _Shape) -> list[str]:
    """Return the lines up to the loop over slices: constants, tiles, and where the thread's outputs are."""
    pad = " + 4" if shape.per_thread > 1 else " + 1"
    row_pad, column_pad = (pad if of.k_is_contiguous else "" for of in (found.of_rows, found.of_columns))
    group = ", @GROUP = 4" if shape.per_thread > 4 else ""
    lines = [
        (
            f"  // A block computes a {shape.tile} x {shape.tile} tile of the output; a thread, {shape.per_thread} x "
            f"{shape.per_thread} elements of it in registers."
        ),
        f"  // Each slice of {shape.depth} steps of the sum is read once a block, into shared memory.",
        f"  constexpr int @TILE = {shape.tile}, @TILE_K = {shape.depth}, @PER_THREAD = {shape.per_thread}{group};",
        "  constexpr int @THREADS_ALONG = @TILE / @PER_THREAD, @THREADS = @THREADS_ALONG * @THREADS_ALONG;",
        f"  __shared__ __align__(16) {found.of_rows.element} @row_tile[@TILE_K][@TILE{row_pad}];",
        f"  __shared__ __align__(16) {found.of_columns.element} @column_tile[@TILE_K][@TILE{column_pad}];",
    ]
    lines += [f"  {line}" for line in shared_lines(found.plane)]
    width = "@GROUP" if shape.per_thread > 4 else "@PER_THREAD"
    if shape.per_thread > 4:
        lines.append("  // Four neighbouring elements at a time, so that one 16-byte load of shared memory gets them.")
    return [
        *lines,
        "  const int @thread = threadIdx.x;",
        f"  const int @thread_row = @thread / @THREADS_ALONG * {width};",
        f"  const int @thread_column = @thread % @THREADS_ALONG * {width};",
        f"  const {found.rows.type} @first_row = blockIdx.y * @TILE;",
        f"  const {found.columns.type} @first_column = blockIdx.x * @TILE;",
        f"  {found.accumulator.type} @sums[@PER_THREAD][@PER_THREAD] = {{}};",
        f"  for ({found.loop.type} @slice = 0; @slice < {found.loop.bound.text}; @slice += @TILE_K) {{",
    ]


def _kernel(context: Context, found: Contraction, shape: _Shape) -> str:
    lines = [
        *_head(found, shape),
        *_load(found, found.of_rows),
        *_load(found, found.of_columns),
        *_multiply(found, shape),
        *(f"        {line.strip()}" for line in _finish(context, found)),
        "      }",
        "    }",
        "  }",
        "}",
    ]
    names = {name: context.fresh(name) for name in _NEW_NAMES}
    body = re.sub(r"@(\w+)", lambda match: names[match[1]], "\n".join(lines))
    return f"{context.header_with_bounds(shape.threads)} {{\n{body}"


def propose(context: Context) -> list[Edit]:
    """Propose tiles of several sizes.

    Raises:
        NotApplicable: the kernel is no contraction over two output coordinates.
    """
    context.require_unshadowed()
    require_coordinates_only(context)
    context.require_distinct_buffers()
    found = read_contraction(context)
    rows, columns = context.host(found.rows.bound), context.host(found.columns.bound)
    outputs = [context.at_time_size(size) for size in (rows, columns, context.grid()[2])]
    small = all(outputs) and (outputs[0] or 1) * (outputs[1] or 1) * (outputs[2] or 1) < _SMALL_OUTPUT
    edits = []
    for shape in _SHAPES:
        function = context.function
        source = apply(context.text, [(function.start, function.end, _kernel(context, found, shape))])
        title = f"Tiles of {shape.tile} x {shape.tile} outputs and {shape.depth} steps in shared memory"
        each = f", {shape.per_thread} x {shape.per_thread} outputs a thread" if shape.per_thread > 1 else ""
        edits.append(
            context.edit(
                source,
                transformation=NAME,
                parameters={
                    "tile": str(shape.tile),
                    "tile_k": str(shape.depth),
                    "per_thread": str(shape.per_thread),
                },
                title=title + each,
                rationale=f"Each element of `{found.of_rows.base}` and `{found.of_columns.base}` was read from global "
                f"memory by every output that uses it; a block of {shape.tile} x {shape.tile} outputs reads it "
                f"once and "
                f"shares it, which divides the traffic by {shape.tile}.",
                precondition=f"One sum over `{found.loop.variable}` of a product of two elements, "
                f"`{found.of_rows.text}` "
                f"and `{found.of_columns.text}`, for each (`{found.rows.name}`, `{found.columns.name}`)",
                targets=[
                    BOTTLENECK_CACHE_THROUGHPUT,
                    BOTTLENECK_UNCOALESCED_ACCESS,
                    BOTTLENECK_DRAM_BANDWIDTH,
                    BOTTLENECK_LATENCY,
                    BOTTLENECK_INSTRUCTION_OVERHEAD,
                ],
                claims=[
                    ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", DIRECTION_DECREASE),
                    ("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", DIRECTION_DECREASE),
                ],
                prior=shape.prior - (0.3 if small and shape.tile == 128 else 0.0),
                grid=[f"ceil_div({columns}, {shape.tile})", f"ceil_div({rows}, {shape.tile})", context.grid()[2]],
                block=[str(shape.threads)],
            )
        )
    return edits
