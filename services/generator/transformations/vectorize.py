"""An element-wise kernel moves 16 bytes a thread with each load and store."""

import re

from optiml.v1.search_pb2 import DIRECTION_DECREASE, Edit
from optiml.v1.verdict_pb2 import BOTTLENECK_DRAM_BANDWIDTH, BOTTLENECK_INSTRUCTION_OVERHEAD, BOTTLENECK_LATENCY
from services.generator.rewriting.accesses import Access, accesses, expressions_of, require_no_side_effects
from services.generator.rewriting.context import Context, Replacement, apply
from services.generator.rewriting.expressions import NotApplicable, coefficient
from services.generator.rewriting.planes import statement_text
from services.generator.rewriting.positions import require_coordinates_only
from services.generator.rewriting.syntax import (
    Array,
    Assign,
    Call,
    Declare,
    Expression,
    For,
    Other,
    Return,
    Statement,
    flat,
)
from services.generator.rewriting.threads import Coordinate

__all__ = ["propose"]

NAME = "vectorize"
_VECTORS = {"float": ("float", 4), "int": ("int", 4), "unsigned int": ("uint", 4), "double": ("double", 2)}
_NEW_NAMES = ("WIDTH", "group", "first", "lane")


def _check(work: tuple[Statement, ...]) -> None:
    for statement in flat(work):
        if isinstance(statement, (For, Return, Array, Other, Call)):
            raise NotApplicable("each thread does more than compute one element")
        for expression in expressions_of(statement):
            require_no_side_effects(expression)


def _arrays(work: tuple[Statement, ...], found: tuple[Access, ...], index: str) -> dict[str, list[Access]]:
    """Return the accesses at the thread's own element, by array."""
    arrays: dict[str, list[Access]] = {}
    others: set[str] = set()
    for access in found:
        if access.index == {(index,): 1}:
            arrays.setdefault(access.base, []).append(access)
            continue
        if access.written or coefficient(access.index, index) != {}:
            raise NotApplicable(f"`{access.expression.text}` is not the element `[{index}]`")
        others.add(access.base)
    written = {access.base for access in found if access.written}
    if written & others:
        raise NotApplicable(f"`{min(written & others)}` is reached at other elements, too")
    certain = {
        statement.target.operands[0].text
        for statement in work
        if isinstance(statement, Assign) and statement.target.kind == "subscript"
    }
    if not written or not written <= certain:
        raise NotApplicable("an element is not written in every case")
    return arrays


def _vector(arrays: dict[str, list[Access]]) -> int:
    """Return how many elements fit into 16 bytes."""
    widths = set()
    for base, found in arrays.items():
        element = found[0].expression.type
        if element not in _VECTORS:
            raise NotApplicable(f"elements of `{base}` are of type {element}")
        widths.add(_VECTORS[element][1])
    if len(widths) != 1:
        raise NotApplicable("elements of several sizes are mixed")
    return widths.pop()


def _rewritten(context: Context, work: tuple[Statement, ...], changes: list[Replacement]) -> list[str]:
    lines = []
    for statement in work:
        inside = [
            (start - statement.start, end - statement.start, new)
            for start, end, new in changes
            if statement.start <= start < statement.end
        ]
        lines += apply(statement_text(context, statement), inside).split("\n")
    return [line.strip() for line in lines]


def _declared_once(work: tuple[Statement, ...]) -> None:
    starts = [statement.start for statement in work if isinstance(statement, Declare)]
    if len(set(starts)) != len(starts):
        raise NotApplicable("several variables are declared in one statement")


def _kernel(context: Context, row: Coordinate, arrays: dict[str, list[Access]], width: int) -> str:
    assert row.bound is not None
    threads = context.threads
    changes: list[Replacement] = []
    loads, stores, locals_ = [], [], {}
    for base, found in arrays.items():
        element = found[0].expression.type
        values = context.fresh(f"{base}_values")
        locals_[base] = values
        vector = f"{_VECTORS[element][0]}{width}"
        loads.append(f"    __align__(16) {element} {values}[@WIDTH];")
        if any(access.read for access in found):
            source = f"reinterpret_cast<const {vector}*>({base})[@group]"
            loads.append(f"    *reinterpret_cast<{vector}*>({values}) = {source};")
        if any(access.written for access in found):
            stores.append(
                f"    reinterpret_cast<{vector}*>({base})[@group] = *reinterpret_cast<const {vector}*>({values});"
            )
        changes += [(access.expression.start, access.expression.end, f"{values}[@lane]") for access in found]
    changes = sorted(set(changes))
    prefix = [f"  const {found.type} {found.name} = {found.value.text};" for found in threads.prefix if found.value]
    whole = f"{row.type} {row.name}"
    lines = [
        f"  // A thread works on {width} neighbouring elements: one 16-byte load or store moves them all.",
        f"  constexpr int @WIDTH = {width};",
        *prefix,
        f"  const {row.type} @group = {_text(row.declare.value)};",
        f"  const {row.type} @first = @group * @WIDTH;",
        f"  if (@first + @WIDTH <= {row.bound.text}) {{",
        *loads,
        "#pragma unroll",
        "    for (int @lane = 0; @lane < @WIDTH; ++@lane) {",
        *([f"      const {whole} = @first + @lane;"] if _still_used(context, row, changes) else []),
        *(f"      {line}" for line in _rewritten(context, threads.work, changes)),
        "    }",
        *stores,
        "  } else {  // the last elements, if their number is no multiple",
        f"    for ({whole} = @first; {row.name} < {row.bound.text}; ++{row.name}) {{",
        *(f"      {line}" for line in _rewritten(context, threads.work, [])),
        "    }",
        "  }",
        "}",
    ]
    names = {name: context.fresh(name) for name in _NEW_NAMES}
    return f"{context.header} {{\n" + re.sub(r"@(\w+)", lambda match: names[match[1]], "\n".join(lines))


def _still_used(context: Context, row: Coordinate, changes: list[Replacement]) -> bool:
    text = "\n".join(_rewritten(context, context.threads.work, changes))
    return re.search(rf"\b{re.escape(row.name)}\b", text) is not None


def _text(value: Expression | None) -> str:
    assert value is not None
    return value.text


def propose(context: Context) -> list[Edit]:
    """Propose 16-byte loads and stores.

    Raises:
        NotApplicable: the kernel is not element-wise, or its elements do not fill 16 bytes evenly.
    """
    context.require_unshadowed()
    require_coordinates_only(context)
    context.require_distinct_buffers()
    row = context.threads.only()
    if row.axis != "x" or context.block()[1:] != ["1", "1"] or len(context.threads.coordinates) > 1:
        raise NotApplicable("elements are not numbered along x alone")
    work = context.threads.work
    _check(work)
    _declared_once(work)
    if any(row.name in found.value.names for found in context.threads.prefix if found.value):
        raise NotApplicable("indices are computed from the thread's number")
    arrays = _arrays(work, accesses(work, context.threads.definitions), row.name)
    parameters = {parameter.name for parameter in context.function.parameters}
    if not set(arrays) <= parameters or any(
        found.expression.kind != "subscript" for a in arrays.values() for found in a
    ):
        raise NotApplicable("an array is reached through a pointer that may not be aligned")
    width = _vector(arrays)
    assert row.bound is not None
    count = context.host(row.bound)
    function = context.function
    return [
        context.edit(
            apply(context.text, [(function.start, function.end, _kernel(context, row, arrays, width))]),
            transformation=NAME,
            parameters={"width": str(width)},
            title=f"{width} elements a thread with 16-byte loads and stores",
            rationale="Each thread moved one element; moving 16 bytes with one instruction needs fewer requests "
            "and keeps "
            "more bytes in flight.",
            precondition=f"All of {', '.join(f'`{base}`' for base in arrays)} are reached at `[{row.name}]` "
            f"alone; buffers "
            "are aligned to 256 bytes",
            targets=[BOTTLENECK_DRAM_BANDWIDTH, BOTTLENECK_INSTRUCTION_OVERHEAD, BOTTLENECK_LATENCY],
            claims=[
                ("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", DIRECTION_DECREASE),
                ("smsp__inst_executed.sum", DIRECTION_DECREASE),
            ],
            prior=0.8,
            grid=[f"ceil_div({count}, {width} * ({context.block()[0]}))"],
        )
    ]
