"""What a kernel does with its pointer parameters: reads, writes, and values that serve as indices."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from clang.cindex import Cursor, CursorKind, TypeKind

from optiml.cuda.host_expressions import unwrapped
from optiml.cuda.parse import Parsed

__all__ = ["Usage", "usages"]

_ASSIGNMENTS = {CursorKind.BINARY_OPERATOR, CursorKind.COMPOUND_ASSIGNMENT_OPERATOR}


@dataclass(slots=True)
class Usage:
    """How one pointer parameter is used."""

    reads: bool = False
    writes: bool = False
    indexes: list[Cursor] = field(default_factory=list)
    """Index expressions of other accesses that hold a value read through this pointer, each with its base."""


def usages(parsed: Parsed, kernel: Cursor) -> dict[str, Usage]:
    """Return the usage of each pointer parameter of a kernel, by name.

    A pointer that leaves the kernel's own text (passed to a function) counts as read, and as written unless it is a
    pointer to const.
    """
    parameters = [
        c for c in kernel.get_children() if c.kind == CursorKind.PARM_DECL and c.type.kind == TypeKind.POINTER
    ]
    found = {parameter.spelling: Usage() for parameter in parameters}
    aliases = {parameter.hash: parameter.spelling for parameter in parameters}
    for cursor in kernel.walk_preorder():
        if cursor.kind == CursorKind.VAR_DECL and cursor.type.kind == TypeKind.POINTER:
            roots = {aliases[c.referenced.hash] for c in _references(cursor) if c.referenced.hash in aliases}
            if len(roots) == 1:
                aliases[cursor.hash] = roots.pop()
    for body in (c for c in kernel.get_children() if c.kind == CursorKind.COMPOUND_STMT):
        _visit(parsed, body, aliases, found)
    return found


def _references(cursor: Cursor) -> Iterator[Cursor]:
    for below in cursor.walk_preorder():
        if below.kind == CursorKind.DECL_REF_EXPR and below.referenced is not None:
            yield below


def _root(cursor: Cursor, aliases: dict[int, str]) -> str | None:
    """Return the parameter that an lvalue such as `p[i]`, `*p` or `p[i].x` goes through."""
    cursor = unwrapped(cursor)
    if cursor.kind in {CursorKind.ARRAY_SUBSCRIPT_EXPR, CursorKind.MEMBER_REF_EXPR, CursorKind.UNARY_OPERATOR}:
        first = next(iter(cursor.get_children()), None)
        return None if first is None else _root(first, aliases) or _pointer(first, aliases)
    return None


def _pointer(cursor: Cursor, aliases: dict[int, str]) -> str | None:
    names = {aliases[c.referenced.hash] for c in _references(cursor) if c.referenced.hash in aliases}
    return names.pop() if len(names) == 1 else None


def _visit(parsed: Parsed, cursor: Cursor, aliases: dict[int, str], found: dict[str, Usage]) -> None:
    """Walk statements and expressions; an assignment's left side is a write, all else is a read."""
    children = list(cursor.get_children())
    if cursor.kind in _ASSIGNMENTS and len(children) == 2 and _assigns(parsed, cursor, children):
        target = _root(children[0], aliases)
        if target is not None:
            found[target].writes = True
            found[target].reads |= cursor.kind == CursorKind.COMPOUND_ASSIGNMENT_OPERATOR
            for index in list(unwrapped(children[0]).get_children())[1:]:
                _visit(parsed, index, aliases, found)
            _visit(parsed, children[1], aliases, found)
            return
    if cursor.kind == CursorKind.UNARY_OPERATOR and any(s in parsed.source(cursor) for s in ("++", "--")):
        target = _root(children[0], aliases) if children else None
        if target is not None:
            found[target].writes = found[target].reads = True
    if cursor.kind == CursorKind.CALL_EXPR:
        _call(cursor, aliases, found)
    if cursor.kind == CursorKind.ARRAY_SUBSCRIPT_EXPR:
        target = _pointer(children[0], aliases)
        if target is not None:
            found[target].reads = True
        for inner in _index_sources(children[1], aliases):
            found[inner].indexes.append(cursor)
    elif cursor.kind == CursorKind.UNARY_OPERATOR and parsed.source(cursor).lstrip().startswith("*") and children:
        target = _pointer(children[0], aliases)
        if target is not None:
            found[target].reads = True
    for child in children:
        _visit(parsed, child, aliases, found)


def _assigns(parsed: Parsed, cursor: Cursor, children: list[Cursor]) -> bool:
    if cursor.kind == CursorKind.COMPOUND_ASSIGNMENT_OPERATOR:
        return True
    data = parsed.text.encode()
    between = data[children[0].extent.end.offset : children[1].extent.start.offset].decode(errors="replace")
    return between.strip().strip("()").strip() == "="


def _call(cursor: Cursor, aliases: dict[int, str], found: dict[str, Usage]) -> None:
    if cursor.spelling.startswith("__ld"):
        return
    for argument in cursor.get_arguments():
        if argument.type.get_canonical().kind != TypeKind.POINTER:
            continue
        target = _pointer(argument, aliases)
        if target is not None:
            found[target].reads = True
            found[target].writes |= not argument.type.get_canonical().get_pointee().is_const_qualified()


def _index_sources(index: Cursor, aliases: dict[int, str]) -> set[str]:
    """Return the integer pointers whose values go into an index expression."""
    sources: set[str] = set()
    for below in index.walk_preorder():
        if below.kind == CursorKind.ARRAY_SUBSCRIPT_EXPR:
            name = _pointer(next(iter(below.get_children())), aliases)
            if name is not None:
                sources.add(name)
    return sources
