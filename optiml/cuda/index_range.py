"""The range of an integer buffer whose values serve as indices, read off the access that uses them.

An index is a sum of products. In `x[row * C + label[row]]` the value's own factor is 1, and another term strides by C,
so the value is below C. In `table[ids[i] * D + d]` no term strides wider than the value's factor D, so the value is
below the number of elements of `table` over D.
"""

from dataclasses import dataclass

from clang.cindex import Cursor, CursorKind

from optiml.cuda.cursors import evaluated, unwrapped
from optiml.cuda.parse import binary_operator, unary_operator

__all__ = ["IndexRange", "index_range"]

_VALUE = "@"
_DEPTH = 8
_MAX_TERMS = 64
Term = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IndexRange:
    """What bounds the values: the product of `below`, or else the elements of `buffer` over the product of `over`."""

    below: Term
    """Kernel parameters and numbers; empty if the buffer bounds the values."""
    buffer: str
    """The pointer parameter that is accessed; empty if it cannot be told."""
    over: Term


def index_range(name: str, access: Cursor, scalars: frozenset[str]) -> IndexRange | None:
    """Return what bounds the values that one access uses as an index; None if it cannot be told.

    Args:
        name: the pointer parameter that holds the indices.
        access: an access whose index uses a value of it.
        scalars: the kernel's scalar parameters.
    """
    base, index = list(access.get_children())[:2]
    buffer, offset = _base(base)
    terms = offset + _terms(index, name, 0)
    own = [term for term in terms if _VALUE in term]
    if len(own) != 1 or len(terms) > _MAX_TERMS:
        return None
    factor = tuple(sorted(atom for atom in own[0] if atom != _VALUE))
    if any(atom not in scalars and not atom.isdigit() for atom in factor):
        return None
    wider: list[Term] = []
    for term in terms:
        stride = [atom for atom in term if atom in scalars or atom.isdigit()]
        if _VALUE in term or len(stride) == len(term) or not all(stride.count(a) >= factor.count(a) for a in factor):
            continue
        for atom in factor:
            stride.remove(atom)
        if stride:
            wider.append(tuple(stride))
    if wider:
        return IndexRange(min(wider, key=len), "", ())
    return IndexRange((), buffer, factor) if buffer else None


def _base(cursor: Cursor) -> tuple[str, list[Term]]:
    """Return the pointer parameter that an access goes through, and the terms that were added to it."""
    terms: list[Term] = []
    for _ in range(_DEPTH):
        cursor = unwrapped(cursor)
        if cursor.kind == CursorKind.BINARY_OPERATOR and binary_operator(cursor) == "+":
            cursor, added = cursor.get_children()
            terms += _terms(added, "", 0)
        elif cursor.kind == CursorKind.UNARY_OPERATOR and unary_operator(cursor) == "&":
            below = unwrapped(next(iter(cursor.get_children())))
            if below.kind != CursorKind.ARRAY_SUBSCRIPT_EXPR:
                break
            cursor, added = list(below.get_children())[:2]
            terms += _terms(added, "", 0)
        elif cursor.kind == CursorKind.DECL_REF_EXPR and cursor.referenced is not None:
            if cursor.referenced.kind == CursorKind.PARM_DECL:
                return cursor.referenced.spelling, terms
            initial = [c for c in cursor.referenced.get_children() if c.kind.is_expression()]
            if cursor.referenced.kind != CursorKind.VAR_DECL or not initial:
                break
            cursor = initial[-1]
        else:
            break
    return "", terms


def _terms(cursor: Cursor, name: str, depth: int) -> list[Term]:
    """Return an index expression as a sum of products of names, numbers and the value that is looked for."""
    cursor = unwrapped(cursor)
    symbol = binary_operator(cursor)
    if depth < _DEPTH and symbol in {"+", "*"}:
        left, right = (_terms(c, name, depth + 1) for c in cursor.get_children())
        if symbol == "+":
            return (left + right)[: _MAX_TERMS + 1]
        return [a + b for a in left for b in right][: _MAX_TERMS + 1]
    if cursor.kind == CursorKind.ARRAY_SUBSCRIPT_EXPR and name:
        base, _ = _base(next(iter(cursor.get_children())))
        return [(_VALUE,)] if base == name else [("[]",)]
    if cursor.kind == CursorKind.INTEGER_LITERAL:
        return [(str(evaluated(cursor)),)]
    if cursor.kind == CursorKind.DECL_REF_EXPR and cursor.referenced is not None:
        initial = [c for c in cursor.referenced.get_children() if c.kind.is_expression()]
        if cursor.referenced.kind == CursorKind.VAR_DECL and initial and depth < _DEPTH:
            inner = _terms(initial[-1], name, depth + 1)
            if any(_VALUE in term for term in inner) or all(_VALUE not in t and "?" not in t for t in inner):
                return inner
        return [(cursor.spelling,)]
    return [("?",)]
