"""Rows that every thread of a block reads are loaded by the block together, a tile at a time, into shared memory."""

import re
from dataclasses import dataclass

from optiml.v1.search_pb2 import DIRECTION_DECREASE, Edit
from optiml.v1.verdict_pb2 import BOTTLENECK_CACHE_THROUGHPUT, BOTTLENECK_INSTRUCTION_OVERHEAD, BOTTLENECK_LATENCY
from services.generator.rewriting.accesses import expressions_of, require_no_side_effects
from services.generator.rewriting.context import Context, Replacement, apply, indentation, statement_end
from services.generator.rewriting.expressions import NotApplicable, coefficient
from services.generator.rewriting.nests import Read, constant_trips, reads_in, starts_line
from services.generator.rewriting.planes import inlined
from services.generator.rewriting.syntax import Array, Assign, Call, Declare, Expression, For, If, Other, Return, flat
from services.generator.rewriting.threads import Coordinate

__all__ = ["propose"]

NAME = "stage_shared"
_TILE_BYTES = 16384
"""Shared memory for one tile; two of them leave room for several blocks."""


@dataclass(frozen=True, slots=True)
class _Staged:
    """One array whose rows a loop reads, the same for all threads."""

    loop: For
    inner: For
    width: int
    reads: list[Read]
    """All of one element text."""


def _staged(context: Context, row: Coordinate) -> list[_Staged]:
    threads = context.threads
    reads = list(reads_in(context, threads.work))
    written = {read.access.base for read in reads if read.access.written}
    parameters = {parameter.name for parameter in context.function.parameters}
    uniform = {name for name, found in threads.coordinates.items() if found.uniform}
    known = parameters | uniform | set(context.constants) | {"blockIdx.y", "blockIdx.z"}
    groups: dict[tuple[int, str], list[Read]] = {}
    for read in reads:
        if len(read.loops) != 2 or read.conditional or read.access.written or read.access.base in written:
            continue
        outer, inner = read.loops
        if read.top is not outer or read.access.base not in parameters or row.name in read.names:
            continue
        width = constant_trips(context, inner)
        along = coefficient(read.access.index, outer.variable)
        if width is None or coefficient(read.access.index, inner.variable) != {(): 1} or not along:
            continue
        if not read.names - {outer.variable, inner.variable} <= known or _number(context, along) != width:
            continue
        groups.setdefault((outer.start, inlined(read.access.expression, threads.definitions)), []).append(read)
    found = []
    for group in groups.values():
        outer, inner = group[0].loops
        width = constant_trips(context, inner)
        assert width is not None
        found.append(_Staged(outer, inner, width, group))
    return found


def _number(context: Context, found: dict[tuple[str, ...], int]) -> int | None:
    total = 0
    for factors, value in found.items():
        for factor in factors:
            if factor not in context.constants:
                return None
            value *= context.constants[factor]  # noqa: PLW2901 - the product of this term
        total += value
    return total


def _check(context: Context, staged: list[_Staged]) -> None:
    uniform = set(context.constants) | {parameter.name for parameter in context.function.parameters}
    for found in staged:
        loop = found.loop
        if loop.step is not None or loop.relation != "<" or not loop.bound.names <= uniform or loop.first.text != "0":
            raise NotApplicable(f"the loop over `{loop.variable}` does not run from 0 by 1 for all threads alike")
        if not starts_line(context.text, loop.start):
            raise NotApplicable(f"the loop over `{loop.variable}` shares its line with something else")
        if found.reads[0].access.expression.type != "float":
            raise NotApplicable(f"elements of `{found.reads[0].access.base}` are not float")
    for statement in flat(context.threads.work):
        if isinstance(statement, (Return, Other, Call)):
            raise NotApplicable("a thread leaves early, or does something that is not understood")
        for expression in expressions_of(statement):
            require_no_side_effects(expression)


def _keep_threads(context: Context, row: Coordinate) -> list[Replacement]:
    """Let threads beyond the end stay for the barriers: they work on the last row and write nothing."""
    text, threads = context.text, context.threads
    assert row.bound is not None
    assert row.declare.value is not None
    if len(threads.guards) != 1 or threads.guards[0].start < row.declare.end:
        raise NotApplicable("there is more than one bounds check")
    same = [found for found in flat(context.function.body) if found.start == row.declare.start]
    if (
        len(same) > 1
        or row.lower
        or any(found.bound is not None for found in threads.coordinates.values() if found is not row)
    ):
        raise NotApplicable("there is more than one bounds check")
    guard = threads.guards[0]
    inside, number = context.fresh("inside"), context.fresh("thread")
    indent = "\n" + indentation(text, row.declare.start)
    declare = [
        f"const {row.type} {number} = {row.declare.value.text};",
        f"const bool {inside} = {number} < {row.bound.text};",
        f"const {row.type} {row.name} = {inside} ? {number} : {row.bound.text} - 1;  // all stay for the barriers",
    ]
    changes: list[Replacement] = [(row.declare.start, row.declare.end, indent.join(declare))]
    if isinstance(guard.then[0], Return) and len(guard.then) == 1:
        line = text.rfind("\n", 0, guard.start) + 1
        end = statement_end(text, guard.end)
        whole = starts_line(text, guard.start) and text[end : end + 1] == "\n"
        changes.append((line if whole else guard.start, end + 1 if whole else end, ""))
    else:
        brace = text.find("{", guard.condition.end)
        if text[guard.condition.end : brace].strip(") \t\r\n") or brace < 0:
            raise NotApplicable("the bounds check has no braces")
        changes.append((guard.start, brace, ""))
    changes.extend(_guarded_writes(context, inside))
    return changes


def _guarded_writes(context: Context, inside: str) -> list[Replacement]:
    """Let only threads inside the bounds write to global memory; braces keep an `else` with its `if`."""
    threads = context.threads
    pointers = {parameter.name for parameter in context.function.parameters}
    pointers |= {name for name, value in threads.definitions.items() if "*" in value.type}
    own = {statement.name for statement in flat(threads.work) if isinstance(statement, Array)}
    branches = [found for found in flat(threads.work) if isinstance(found, If)]
    conditional = {part.start for found in branches for part in flat((*found.then, *found.otherwise))}
    changes: list[Replacement] = []
    for statement in flat(threads.work):
        if not isinstance(statement, Assign) or statement.target.kind == "name":
            continue
        if _root(statement.target) in own:
            continue
        if _root(statement.target) not in pointers:
            raise NotApplicable(f"it cannot be told what `{statement.target.text}` writes to")
        end = statement_end(context.text, statement.end)
        opening, closing = ("{ ", " }") if statement.start in conditional else ("", "")
        changes += [(statement.start, statement.start, f"{opening}if ({inside}) "), (end, end, closing)]
    return changes


def _root(target: Expression) -> str:
    """Return the variable that an element is reached through."""
    while target.operands and target.kind in {"subscript", "member", "unary", "binary"}:
        target = target.operands[0]
    return target.operator if target.kind == "name" else ""


def _tile_loop(
    context: Context, loop: For, staged: list[_Staged], names: dict[int, str], rows: int
) -> list[Replacement]:
    """Split the loop into tiles; before each tile the block loads it."""
    text, indent = context.text, indentation(context.text, loop.start)
    first, last, load = context.fresh("first"), context.fresh("last"), context.fresh("load")
    lines = [
        f"for ({loop.type} {first} = 0; {first} < {loop.bound.text}; {first} += {rows}) {{",
        f"  // {rows} rows, which all threads of the block need, are read once and shared.",
        f"  const {loop.type} {last} = {first} + {rows} < {loop.bound.text} ? {first} + {rows} : {loop.bound.text};",
        "  __syncthreads();  // the tile before this one has been used",
        f"  for (int {load} = threadIdx.x; {load} < ({last} - {first}) * {staged[0].width}; {load} += blockDim.x) {{",
        f"    const {loop.type} {loop.variable} = {first} + {load} / {staged[0].width};",
        f"    const {staged[0].inner.type} {staged[0].inner.variable} = {load} % {staged[0].width};",
    ]
    for found in staged:
        read = found.reads[0].access.expression
        value = inlined(read, {k: v for k, v in context.threads.definitions.items() if k in _inside(loop)})
        if found.inner.variable != staged[0].inner.variable:
            value = re.sub(rf"\b{found.inner.variable}\b", staged[0].inner.variable, value)
        lines.append(f"    {names[id(found)]}[{load} / {found.width}][{load} % {found.width}] = {value};")
    lines += [
        "  }",
        "  __syncthreads();",
        f"  for ({loop.type} {loop.variable} = {first}; {loop.variable} < {last}; ++{loop.variable}) ",
    ]
    header = f"\n{indent}".join(lines)
    changes: list[Replacement] = [(loop.start, loop.body_start, header)]
    for found in staged:
        for one in found.reads:
            expression = one.access.expression
            place = f"{names[id(found)]}[{loop.variable} - {first}][{one.loops[-1].variable}]"
            changes.append((expression.start, expression.end, place))
    end = statement_end(text, loop.end)
    changes.append((end, end, f"\n{indent}}}"))
    starts = [loop.body_start + match.end() for match in re.finditer(r"\n(?=[^\n#])", text[loop.body_start : end])]
    changes.extend((place, place, "  ") for place in starts)  # one level deeper
    return changes


def _inside(loop: For) -> set[str]:
    return {statement.name for statement in flat(loop.body) if isinstance(statement, Declare)}


def propose(context: Context) -> list[Edit]:
    """Propose tiles of shared rows.

    Raises:
        NotApplicable: no loop reads rows that are the same for all threads.
    """
    context.require_unshadowed()
    context.require_distinct_buffers()
    row = context.threads.only()
    if row.axis != "x" or context.block()[1:] != ["1", "1"] or "__sync" in context.text[context.function.body_start :]:
        raise NotApplicable("threads are not numbered along x alone, or work together already")
    staged = _staged(context, row)
    if not staged:
        raise NotApplicable("no loop reads rows of constant length that are the same for all threads")
    _check(context, staged)
    width = max(found.width for found in staged)
    if any(found.width != width for found in staged):
        raise NotApplicable("rows have several lengths")
    rows = max(8, min(64, _TILE_BYTES // (4 * width) // 8 * 8))
    loops = {found.loop.start: found.loop for found in staged}
    names: dict[int, str] = {}
    for found in staged:
        names[id(found)] = context.fresh(f"{found.reads[0].access.base}_tile")
    changes = _keep_threads(context, row)
    changes.append(context.header_replacement())
    for start, loop in loops.items():
        changes += _tile_loop(context, loop, [one for one in staged if one.loop.start == start], names, rows)
    line = context.text.find("\n", context.function.body_start)
    declared = sorted({f"\n  __shared__ __align__(16) float {name}[{rows}][{width}];" for name in names.values()})
    changes.append((line, line, "".join(declared)))
    return [
        context.edit(
            apply(context.text, sorted(changes, key=lambda change: change[:2])),
            transformation=NAME,
            parameters={"rows": str(rows)},
            title=f"Tiles of {rows} rows in shared memory, loaded by the whole block",
            rationale="Every thread of a block read the same rows from global memory; loaded once into shared "
            "memory, in "
            "order and together, they come with less latency and fewer requests.",
            precondition="The same for all threads: "
            + ", ".join(sorted({f"`{found.reads[0].access.expression.text}`" for found in staged})),
            targets=[BOTTLENECK_CACHE_THROUGHPUT, BOTTLENECK_LATENCY, BOTTLENECK_INSTRUCTION_OVERHEAD],
            claims=[("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", DIRECTION_DECREASE)],
            prior=0.6,
        )
    ]
