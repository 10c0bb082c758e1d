"""A short vector that a thread reads again and again is read once, into registers."""

from optiml.v1.search_pb2 import DIRECTION_DECREASE, Edit
from optiml.v1.verdict_pb2 import BOTTLENECK_CACHE_THROUGHPUT, BOTTLENECK_LATENCY, BOTTLENECK_UNCOALESCED_ACCESS
from services.generator.rewriting.accesses import expressions_of
from services.generator.rewriting.context import Context, Replacement, apply, indentation
from services.generator.rewriting.expressions import NotApplicable
from services.generator.rewriting.nests import Read, constant_trips, reads_in, starts_line, unrolled_already
from services.generator.rewriting.planes import inlined
from services.generator.rewriting.syntax import Array, For, Statement, flat

__all__ = ["propose"]

NAME = "cache_in_registers"
_MOST_ELEMENTS = 128
"""A thread has at most 255 registers; more elements than this would spill."""


def _candidates(context: Context) -> dict[str, list[Read]]:
    """Return the reads that can be cached, by the text of the element."""
    threads = context.threads
    work = threads.work
    reads = list(reads_in(context, work))
    written = {read.access.base for read in reads if read.access.written}
    parameters = {parameter.name for parameter in context.function.parameters}
    known = parameters | set(threads.coordinates) | {found.name for found in threads.prefix} | set(context.constants)
    builtin = {f"{name}.{axis}" for name in ("blockIdx", "blockDim", "threadIdx", "gridDim") for axis in "xyz"}
    found: dict[str, list[Read]] = {}
    for read in reads:
        if len(read.loops) < 2 or read.conditional or read.access.written or read.access.base in written:
            continue
        if read.access.base not in parameters:
            continue
        inner = read.loops[-1]
        trips = constant_trips(context, inner)
        if trips is None or trips > _MOST_ELEMENTS or inner.variable not in read.names:
            continue
        if read.names - {inner.variable} <= known | builtin and read.names & set(threads.coordinates):
            found.setdefault(inlined(read.access.expression, threads.definitions), []).append(read)
    return found


def _loops_to_unroll(context: Context, arrays: set[str]) -> list[For]:
    """Return the loops that index a thread's own arrays; registers need indices that the compiler knows."""
    loops = []
    for statement in flat(context.threads.work):
        if not isinstance(statement, For) or constant_trips(context, statement) is None:
            continue
        names = {
            name
            for inner in statement.body
            for part in flat((inner,))
            for expression in expressions_of(part)
            for name in expression.names
        }
        if names & arrays:
            loops.append(statement)
    return loops


def _insertion(context: Context, reads: list[Read], name: str) -> Replacement:
    first = min(reads, key=lambda read: read.access.expression.start)
    top: Statement = first.top
    if not starts_line(context.text, top.start):
        raise NotApplicable("the outer loop shares its line with something else")
    line = context.text.rfind("\n", 0, top.start) + 1
    while context.text[:line].rstrip("\n").rpartition("\n")[2].lstrip().startswith("#pragma"):
        line = context.text.rfind("\n", 0, line - 1) + 1
    indent = indentation(context.text, top.start)
    loop = first.loops[-1]
    element = first.access.expression.type
    value = context.text[first.access.expression.start : first.access.expression.end]
    text = (
        f"{indent}// Read once: every step of the loops below needs all of these.\n"
        f"{indent}{element} {name}[{loop.bound.text}];\n"
        f"#pragma unroll\n"
        f"{indent}for ({loop.type} {loop.variable} = 0; {loop.variable} < {loop.bound.text}; ++{loop.variable}) "
        f"{name}[{loop.variable}] = {value};\n"
    )
    return line, line, text


def propose(context: Context) -> list[Edit]:
    """Propose to keep short vectors in registers.

    Raises:
        NotApplicable: no thread reads a short vector of its own more than once.
    """
    context.require_unshadowed()
    context.require_distinct_buffers()
    found = _candidates(context)
    if not found:
        raise NotApplicable("no thread reads a vector of constant length again in an outer loop")
    changes: list[Replacement] = []
    arrays = {statement.name for statement in context.threads.work if isinstance(statement, Array)}
    told, unrolled = [], {}
    for reads in found.values():
        base = reads[0].access.expression.operands[0].text
        name = context.fresh(f"{base if base.isidentifier() else reads[0].access.base}_values")
        if len({read.loops[-1].bound.text for read in reads}) != 1:
            raise NotApplicable(f"`{base}` is read in loops of different lengths")
        changes.append(_insertion(context, reads, name))
        for read in reads:
            expression = read.access.expression
            changes.append((expression.start, expression.end, f"{name}[{read.loops[-1].variable}]"))
            unrolled[read.loops[-1].start] = read.loops[-1]
        told.append(f"`{reads[0].access.expression.text}` ({constant_trips(context, reads[0].loops[-1])} elements)")
    unrolled |= {loop.start: loop for loop in _loops_to_unroll(context, arrays)}
    for loop in unrolled.values():
        if unrolled_already(context.text, loop):
            continue
        if not starts_line(context.text, loop.start):
            raise NotApplicable(f"the loop over `{loop.variable}` shares its line, so that no pragma can precede it")
        line = context.text.rfind("\n", 0, loop.start) + 1
        changes.append((line, line, "#pragma unroll\n"))
    return [
        context.edit(
            apply(context.text, changes),
            transformation=NAME,
            title="Vectors that each thread reads repeatedly are kept in registers",
            rationale="The same elements were read from memory in every step of an outer loop, with "
            "neighbouring threads "
            "far apart; registers need one read and no address arithmetic.",
            precondition=f"Not written by the kernel, of constant length, and independent of the outer loops: "
            f"{', '.join(told)}",
            targets=[BOTTLENECK_CACHE_THROUGHPUT, BOTTLENECK_UNCOALESCED_ACCESS, BOTTLENECK_LATENCY],
            claims=[
                ("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", DIRECTION_DECREASE),
                ("optiml__sectors_per_request_ld", DIRECTION_DECREASE),
            ],
            prior=0.85,
        )
    ]
