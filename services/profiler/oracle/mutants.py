"""Breaks a kernel in the ways that people and programs break kernels, one edit of its source at a time.

Edits follow the structure that libclang finds: a comparison, a sum, an index, an initial value, a barrier. Each is one
that a check must notice, unless it happens to change nothing.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest

from clang.cindex import Cursor, CursorKind

from optiml.cuda.cursors import initial_of, unwrapped
from optiml.cuda.parse import Parsed, binary_operator, parse_cuda, spelled_extent, walk

__all__ = ["ROUNDING", "Edit", "Mutant", "interleaved", "mutants_of"]

ROUNDING = """\
static __device__ float optiml_rounded(float x, unsigned dropped) {
  unsigned bits = __float_as_uint(x), half = (1u << (dropped - 1)) - 1u + ((bits >> dropped) & 1u);
  return __uint_as_float((bits + half) >> dropped << dropped);
}
"""
"""What the mutants that read inputs in lower precision need before them."""

_DROPPED_BITS = {"half": 13, "bfloat16": 16}  # of the 23 bits of a float's fraction
_COMPARISONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
_SIGNS = {"+": "-", "-": "+", "+=": "-=", "-=": "+="}
_OPPOSITES = {"fmaxf": "fminf", "fminf": "fmaxf", "fmax": "fmin", "fmin": "fmax", "max": "min", "min": "max"}
_INITIAL = re.compile(
    r"(?P<zero>0(\.0*)?[fF]?)|(?P<one>1(\.0*)?[fF]?)|-\s*\(?\s*(INFINITY|FLT_MAX|1e\d+f?).*", re.DOTALL
)
_BARRIERS = {"__syncthreads", "__syncwarp", "__threadfence", "__threadfence_block"}
_FUNCTIONS = {CursorKind.FUNCTION_DECL, CursorKind.FUNCTION_TEMPLATE, CursorKind.CXX_METHOD}
_LOOPS = {CursorKind.FOR_STMT, CursorKind.WHILE_STMT, CursorKind.DO_STMT}
_MOST_EXPRESSION = 400  # characters of what one edit replaces


@dataclass(frozen=True, slots=True)
class Edit:
    """One replacement, in bytes of UTF-8."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Mutant:
    """A kernel with one thing broken."""

    kind: str
    """What is broken, in words."""
    line: int
    before: str
    """The line as it was."""
    after: str
    source: str
    """The whole text, broken."""


def mutants_of(source: str) -> list[Mutant]:
    """Return every mutant of a source of device code, each different, in the order of kinds and lines."""
    parsed = parse_cuda(source)
    found: dict[str, Mutant] = {}
    for kind, edits in _edits(parsed):
        mutant = _applied(parsed, kind, edits)
        if mutant is not None and mutant.source != source:
            found.setdefault(mutant.source, mutant)
    return list(found.values())


def _applied(parsed: Parsed, kind: str, edits: list[Edit]) -> Mutant | None:
    data, last = parsed.data, len(parsed.data) + 1
    for edit in sorted(edits, key=lambda edit: -edit.start):
        if not 0 <= edit.start <= edit.end <= last or edit.end > len(data):
            return None
        data, last = data[: edit.start] + edit.text.encode() + data[edit.end :], edit.start
    changed = data.decode(errors="replace")
    first = min(edit.start for edit in edits)
    line = parsed.data[:first].count(b"\n")
    before, after = parsed.text.split("\n"), changed.split("\n")
    return Mutant(kind, line + 1, before[line].strip(), after[line].strip(), changed)


def _edits(parsed: Parsed) -> Iterator[tuple[str, list[Edit]]]:
    functions = [
        cursor
        for cursor in walk(parsed.unit.cursor)
        if cursor.kind in _FUNCTIONS and any(c.kind == CursorKind.COMPOUND_STMT for c in cursor.get_children())
    ]
    for function in functions:
        for cursor in function.walk_preorder():
            yield from _of_cursor(parsed, cursor)
        yield from _lower_precision(parsed, function)


def _of_cursor(parsed: Parsed, cursor: Cursor) -> Iterator[tuple[str, list[Edit]]]:
    if cursor.kind in {CursorKind.BINARY_OPERATOR, CursorKind.COMPOUND_ASSIGNMENT_OPERATOR}:
        yield from _of_operator(parsed, cursor)
    elif cursor.kind == CursorKind.ARRAY_SUBSCRIPT_EXPR:
        yield from _of_subscript(parsed, cursor)
    elif cursor.kind == CursorKind.VAR_DECL:
        yield from _of_initial(parsed, cursor)
    elif cursor.kind == CursorKind.CALL_EXPR:
        yield from _of_call(parsed, cursor)
    elif cursor.kind in _LOOPS:
        yield from _of_loop(parsed, cursor)


def _text(parsed: Parsed, start: int, end: int) -> str:
    return parsed.data[start:end].decode(errors="replace")


def _operands(parsed: Parsed, cursor: Cursor) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]] | None:
    """Return the places of the left operand, the operator and the right one; None where macros hide them."""
    children = list(cursor.get_children())
    if len(children) != 2:
        return None
    left, right = (spelled_extent(child) for child in children)
    gap = _text(parsed, left[1], right[0])
    operator = gap.strip()
    whole = left[0] < left[1] <= right[0] < right[1] <= len(parsed.data)
    if not whole or operator != binary_operator(cursor) or right[1] - left[0] > _MOST_EXPRESSION:
        return None
    at = left[1] + gap.index(operator)
    return left, (at, at + len(operator)), right


def _of_operator(parsed: Parsed, cursor: Cursor) -> Iterator[tuple[str, list[Edit]]]:
    places = _operands(parsed, cursor)
    if places is None:
        return
    left, at, right = places
    operator = _text(parsed, *at)
    if operator in _COMPARISONS:
        yield "comparison off by one", [Edit(*at, _COMPARISONS[operator])]
    if operator in _SIGNS:
        yield "sign flipped", [Edit(*at, _SIGNS[operator])]
    if operator == "+=":
        yield "sum keeps only the last term", [Edit(*at, "=")]
    if operator in {"+", "-", "*", "/"}:
        yield "operand dropped", [Edit(left[1], right[1], "")]
    if operator in {"+", "*"}:
        yield "operand dropped", [Edit(left[0], right[0], "")]


def _of_loop(parsed: Parsed, cursor: Cursor) -> Iterator[tuple[str, list[Edit]]]:
    """Let the loop end early: one short, or before a tail that is no multiple of four."""
    for condition in cursor.get_children():
        if condition.kind != CursorKind.BINARY_OPERATOR or binary_operator(condition) not in {"<", "<="}:
            continue
        places = _operands(parsed, condition)
        if places is None:
            continue
        bound = _text(parsed, *places[2])
        yield "bound one short", [Edit(*places[2], f"({bound}) - 1")]
        yield "tail dropped", [Edit(*places[2], f"({bound}) / 4 * 4")]
        if cursor.kind == CursorKind.FOR_STMT:
            yield from _of_start(parsed, cursor)
        return


def _of_start(parsed: Parsed, loop: Cursor) -> Iterator[tuple[str, list[Edit]]]:
    first = next(iter(loop.get_children()), None)
    if first is None or first.kind != CursorKind.DECL_STMT:
        return
    for variable in first.get_children():
        value = initial_of(variable)
        if value is not None:
            start, end = spelled_extent(value)
            if start < end:
                first_value = _text(parsed, start, end)
                later = "1" if first_value == "0" else f"({first_value}) + 1"
                yield "loop starts one late", [Edit(start, end, later)]


def _of_subscript(parsed: Parsed, cursor: Cursor) -> Iterator[tuple[str, list[Edit]]]:
    children = list(cursor.get_children())
    if len(children) != 2:
        return
    start, end = spelled_extent(children[1])
    if not start < end <= len(parsed.data) or end - start > _MOST_EXPRESSION:
        return
    index = _text(parsed, start, end)
    yield "index off by one", [Edit(start, end, f"{index} + 1")]
    names = _names(parsed, children[1])
    for number, one in enumerate(names):
        for other in names[number + 1 :]:
            if _text(parsed, *one) != _text(parsed, *other):
                yield "indices swapped", [Edit(*one, _text(parsed, *other)), Edit(*other, _text(parsed, *one))]
                return


def _names(parsed: Parsed, index: Cursor) -> list[tuple[int, int]]:
    """Return where the index's integer variables stand that vary: parameters of the function do not."""
    found = []
    for cursor in index.walk_preorder():
        if cursor.kind != CursorKind.DECL_REF_EXPR or cursor.referenced is None:
            continue
        place = spelled_extent(cursor)
        if cursor.referenced.kind == CursorKind.VAR_DECL and _text(parsed, *place) == cursor.spelling:
            found.append(place)
    return found


def _of_initial(parsed: Parsed, cursor: Cursor) -> Iterator[tuple[str, list[Edit]]]:
    value = initial_of(cursor)
    if value is None:
        return
    start, end = spelled_extent(value)
    match = _INITIAL.fullmatch(_text(parsed, start, end)) if start < end else None
    if match is not None:
        yield "initial value changed", [Edit(start, end, "1" if match["zero"] else "0")]


def _of_call(parsed: Parsed, cursor: Cursor) -> Iterator[tuple[str, list[Edit]]]:
    start, end = spelled_extent(cursor)
    text = _text(parsed, start, end)
    name = re.match(r"\w+", text)
    if name is None:
        return
    if name.group() in _BARRIERS:
        yield "barrier dropped", [Edit(start, end, "")]
    if name.group() in _OPPOSITES:
        yield "minimum for maximum", [Edit(start, start + len(name.group().encode()), _OPPOSITES[name.group()])]


def _lower_precision(parsed: Parsed, function: Cursor) -> Iterator[tuple[str, list[Edit]]]:
    """Round what is read through each pointer to float that the function does not write through."""
    reads: dict[str, list[tuple[int, int]]] = {}
    for cursor in function.walk_preorder():
        if cursor.kind != CursorKind.ARRAY_SUBSCRIPT_EXPR:
            continue
        base = unwrapped(next(iter(cursor.get_children())))
        place = spelled_extent(cursor)
        pointee = base.type.get_pointee()
        if not pointee.is_const_qualified() or not re.fullmatch(r"const (float|[A-Z]\w*)", pointee.spelling):
            continue
        if place[0] < place[1] and _text(parsed, *place).endswith("]"):
            reads.setdefault(base.spelling, []).append(place)
    for places in reads.values():
        for name, dropped in _DROPPED_BITS.items():
            edits = [
                Edit(start, end, f"optiml_rounded({_text(parsed, start, end)}, {dropped})")
                for start, end in dict.fromkeys(places)
            ]
            yield f"input read in {name} precision", edits


def interleaved(mutants: list[Mutant], most: int) -> list[Mutant]:
    """Return at most this many, one of each kind in turn: whoever runs out of time has seen every kind."""
    kinds: dict[str, list[Mutant]] = {}
    for mutant in mutants:
        kinds.setdefault(mutant.kind, []).append(mutant)
    rounds = zip_longest(*(_spread(of_kind) for of_kind in kinds.values()))
    return [mutant for one_of_each in rounds for mutant in one_of_each if mutant is not None][:most]


def _spread(mutants: list[Mutant]) -> list[Mutant]:
    """Return one of each line first, then the second of each."""
    lines: dict[int, list[Mutant]] = {}
    for mutant in mutants:
        lines.setdefault(mutant.line, []).append(mutant)
    return [mutant for one_of_each in zip_longest(*lines.values()) for mutant in one_of_each if mutant is not None]
