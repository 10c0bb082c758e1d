"""A contraction reads each operand once a tile, through shared memory, and keeps several outputs a thread in registers."""

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
from services.generator.rewriting.planes import inlined
from services.generator.rewriting.syntax import Declare, Statement

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


class _Names:
    """Names for what the tiled kernel adds, unlike any in the file."""

    def __init__(self, context: Context) -> None:
        for name in ("thread", "first_row", "first_column", "slice", "step", "a_tile", "b_tile", "a", "b", "sums",
                     "i", "j", "load", "thread_row", "thread_column"):  # fmt: skip
            setattr(self, name, context.fresh(name))

    def __getattr__(self, name: str) -> str:
        raise AttributeError(name)


def _load(found: Contraction, operand: Operand, tile: str, first: str, bound: str, shape: _Shape, n: _Names) -> list[str]:
    """Return the lines with which a block copies a slice of an operand, along the direction that is contiguous."""
    k, side = found.loop.variable, found.rows if operand.side == found.rows.name else found.columns
    if operand.k_is_contiguous:
        at_side, at_k = f"{n.load} / TILE_K", f"{n.load} % TILE_K"
    else:
        at_side, at_k = f"{n.load} % TILE", f"{n.load} / TILE"
    return [
        f"    for (int {n.load} = {n.thread}; {n.load} < TILE * TILE_K; {n.load} += THREADS) {{",
        f"      const {side.type} {side.name} = {first} + {at_side};",
        f"      const {found.loop.type} {k} = {n.slice} + {at_k};",
        f"      {tile}[{at_k}][{at_side}] = {side.name} < {bound} && {k} < {found.loop.bound.text} ? {operand.text} : 0;",
        "    }",
    ]


def _statement_text(context: Context, statement: Statement) -> str:
    text = context.text[statement.start : statement.end]
    rest = context.text[statement.end :]
    return text + ";" if re.match(r"\s*;", rest) and not text.endswith(("}", ";")) else text


def _finish(context: Context, found: Contraction, n: _Names) -> list[str]:
    """Return the lines that use one sum, as the kernel did."""
    plane, accumulator = found.plane, found.accumulator
    lines = []
    used = {name for statement in found.after for name in _names(context, statement)}
    values = dict(plane.varying)
    for name in sorted(used & set(values), key=lambda name: _place(context, name)):
        of = _type_of(context, name)
        rest = {key: value for key, value in values.items() if key != name}
        lines.append(f"const {of} {name} = {inlined(values[name], rest)};")
    for declare in found.before:
        if declare.name in used and declare.name not in values:
            assert declare.value is not None
            lines.append(f"const {declare.type} {declare.name} = {inlined(declare.value, values)};")
    assert accumulator.value is not None
    start = inlined(accumulator.value, values)
    zero = re.fullmatch(r"0*\.?0*[fFuUlL]*", start) is not None
    value = f"{n.sums}[{n.i}][{n.j}]" if zero else f"{start} + {n.sums}[{n.i}][{n.j}]"
    lines.append(f"{accumulator.type} {accumulator.name} = {value};")
    lines += [_statement_text(context, statement) for statement in found.after]
    return [part for line in lines for part in line.split("\n")]


def _names(context: Context, statement: Statement) -> set[str]:
    return set(re.findall(r"[A-Za-z_]\w*", context.text[statement.start : statement.end]))


def _declare_of(context: Context, name: str) -> Declare | None:
    threads = context.threads
    for coordinate in threads.coordinates.values():
        if coordinate.name == name:
            return coordinate.declare
    declared = (*threads.prefix, *threads.work)
    return next((found for found in declared if isinstance(found, Declare) and found.name == name), None)


def _place(context: Context, name: str) -> int:
    found = _declare_of(context, name)
    return found.start if found else 0


def _type_of(context: Context, name: str) -> str:
    found = _declare_of(context, name)
    return found.type.removeprefix("const ") if found and "*" not in found.type else "auto"


def _kernel(context: Context, found: Contraction, shape: _Shape) -> str:
    n = _Names(context)
    rows, columns, k = found.rows, found.columns, found.loop.variable
    pad = " + 4" if shape.per_thread > 1 else " + 1"
    a_pad = pad if found.of_rows.k_is_contiguous else ""
    b_pad = pad if found.of_columns.k_is_contiguous else ""
    head = [
        f"  // A block computes a {shape.tile} x {shape.tile} tile of the output; a thread, {shape.per_thread} x "
        f"{shape.per_thread} elements of it in registers.",
        f"  // Each slice of {shape.depth} steps of the sum is read from global memory once a block, into shared memory.",
        f"  constexpr int TILE = {shape.tile}, TILE_K = {shape.depth}, PER_THREAD = {shape.per_thread};",
        "  constexpr int THREADS_ALONG = TILE / PER_THREAD, THREADS = THREADS_ALONG * THREADS_ALONG;",
        f"  __shared__ __align__(16) {found.of_rows.element} {n.a_tile}[TILE_K][TILE{a_pad}];",
        f"  __shared__ __align__(16) {found.of_columns.element} {n.b_tile}[TILE_K][TILE{b_pad}];",
    ]
    for passive in found.plane.passive:
        head.append("  " + context.text[passive.declare.start : passive.declare.end])
        if passive.bound is not None:
            head.append(f"  if ({passive.name} >= {passive.bound.text}) return;  // the whole block leaves")
    for declare in found.plane.prefix:
        assert declare.value is not None
        head.append(f"  const {declare.type} {declare.name} = {declare.value.text};")
    head += [
        f"  const int {n.thread} = threadIdx.x;",
        f"  const int {n.thread_row} = {n.thread} / THREADS_ALONG * PER_THREAD;",
        f"  const int {n.thread_column} = {n.thread} % THREADS_ALONG * PER_THREAD;",
        f"  const {rows.type} {n.first_row} = blockIdx.y * TILE;",
        f"  const {columns.type} {n.first_column} = blockIdx.x * TILE;",
        f"  {found.accumulator.type} {n.sums}[PER_THREAD][PER_THREAD] = {{}};",
        f"  for ({found.loop.type} {n.slice} = 0; {n.slice} < {found.loop.bound.text}; {n.slice} += TILE_K) {{",
        *_load(found, found.of_rows, n.a_tile, n.first_row, rows.bound.text, shape, n),
        *_load(found, found.of_columns, n.b_tile, n.first_column, columns.bound.text, shape, n),
        "    __syncthreads();",
        "#pragma unroll",
        f"    for (int {n.step} = 0; {n.step} < TILE_K; ++{n.step}) {{",
        f"      {found.of_rows.element} {n.a}[PER_THREAD];",
        f"      {found.of_columns.element} {n.b}[PER_THREAD];",
        "#pragma unroll",
        f"      for (int {n.i} = 0; {n.i} < PER_THREAD; ++{n.i}) {{",
        f"        {n.a}[{n.i}] = {n.a_tile}[{n.step}][{n.thread_row} + {n.i}];",
        f"        {n.b}[{n.i}] = {n.b_tile}[{n.step}][{n.thread_column} + {n.i}];",
        "      }",
        "#pragma unroll",
        f"      for (int {n.i} = 0; {n.i} < PER_THREAD; ++{n.i}) {{",
        "#pragma unroll",
        f"        for (int {n.j} = 0; {n.j} < PER_THREAD; ++{n.j}) {{",
        f"          {n.sums}[{n.i}][{n.j}] += "
        + found.product.format(rows=f"{n.a}[{n.i}]", columns=f"{n.b}[{n.j}]")
        + ";",
        "        }",
        "      }",
        "    }",
        "    __syncthreads();  // before the next slice overwrites the tiles",
        "  }",
        "#pragma unroll",
        f"  for (int {n.i} = 0; {n.i} < PER_THREAD; ++{n.i}) {{",
        "#pragma unroll",
        f"    for (int {n.j} = 0; {n.j} < PER_THREAD; ++{n.j}) {{",
        f"      const {rows.type} {rows.name} = {n.first_row} + {n.thread_row} + {n.i};",
        f"      const {columns.type} {columns.name} = {n.first_column} + {n.thread_column} + {n.j};",
        f"      if ({rows.name} < {rows.bound.text} && {columns.name} < {columns.bound.text}) {{",
        *(f"        {line.strip()}" for line in _finish(context, found, n)),
        "      }",
        "    }",
        "  }",
        "}",
    ]
    header = re.sub(
        rf"\b{re.escape(context.function.name)}\s*\($",
        f"__launch_bounds__({shape.threads}) {context.function.name}(",
        context.header.split("(", 1)[0] + "(",
    ) + context.header.split("(", 1)[1]
    return header + " {\n" + "\n".join(head)


def propose(context: Context) -> list[Edit]:
    """Propose tiles of several sizes.

    Raises:
        NotApplicable: the kernel is no contraction over two output coordinates.
    """
    context.require_unshadowed()
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
                f"memory by every output that uses it; a block of {shape.tile} x {shape.tile} outputs reads it once and "
                f"shares it, which divides the traffic by {shape.tile}.",
                precondition=f"One sum over `{found.loop.variable}` of a product of two elements, `{found.of_rows.text}` "
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
