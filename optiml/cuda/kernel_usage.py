"""What a kernel does with its pointer parameters: reads, writes, and values that serve as indices.

Pointers computed from a parameter are followed, and so are calls of the file's own functions. What leaves the text
counts as read, and as written unless it is a pointer to const.
"""

from dataclasses import dataclass, field

from clang.cindex import Cursor, CursorKind, TypeKind

from optiml.cuda.cursors import unwrapped
from optiml.cuda.parse import binary_operator, unary_operator

__all__ = ["Usage", "usages"]

_POINTING = {TypeKind.POINTER, TypeKind.LVALUEREFERENCE, TypeKind.CONSTANTARRAY, TypeKind.INCOMPLETEARRAY}
_WRITING_CALLS = {"__stcs", "__stcg", "__stwt", "__stwb"}
_DEPTH = 8


@dataclass(slots=True)
class Usage:
    """How one pointer parameter is used."""

    reads: bool = False
    writes: bool = False
    indexes: list[Cursor] = field(default_factory=list)
    """Accesses of other pointers whose index holds a value read through this one."""


Aliases = dict[int, frozenset[str]]


def usages(kernel: Cursor, depth: int = 0) -> dict[str, Usage]:
    """Return the usage of each pointer (or reference) parameter of a function, by name.

    Args:
        kernel: the function's definition.
        depth: how many calls were followed.
    """
    parameters = [c for c in kernel.get_children() if c.kind == CursorKind.PARM_DECL and c.type.kind in _POINTING]
    walk = _Walk({parameter.spelling: Usage() for parameter in parameters}, depth)
    walk.aliases = {parameter.hash: frozenset([parameter.spelling]) for parameter in parameters}
    bodies = [c for c in kernel.get_children() if c.kind == CursorKind.COMPOUND_STMT]
    for body in bodies:
        walk.find_aliases(body)
    for body in bodies:
        walk.visit(body)
    return walk.found


class _Walk:
    """Walks one function's body."""

    def __init__(self, found: dict[str, Usage], depth: int) -> None:
        self.found = found
        self.depth = depth
        self.aliases: Aliases = {}
        self.values: Aliases = {}  # integer variables → parameters that their values were read from

    def find_aliases(self, body: Cursor) -> None:
        """Follow pointers that are computed from parameters, and integers that are read through them."""
        for cursor in body.walk_preorder():
            if cursor.kind == CursorKind.VAR_DECL:
                initial = [c for c in cursor.get_children() if c.kind.is_expression()]
                if initial:
                    self._bind(cursor, initial[-1])
            elif binary_operator(cursor) == "=":
                left, right = cursor.get_children()
                target = unwrapped(left)
                if target.kind == CursorKind.DECL_REF_EXPR and target.referenced is not None:
                    self._bind(target.referenced, right)

    def _bind(self, variable: Cursor, value: Cursor) -> None:
        pointing = variable.type.get_canonical().kind in _POINTING or variable.type.kind in _POINTING
        if pointing or variable.type.get_canonical().kind in {TypeKind.AUTO, TypeKind.DEPENDENT}:
            roots = self.roots(value)
            if roots:
                self.aliases[variable.hash] = self.aliases.get(variable.hash, frozenset()) | roots
        else:
            sources = frozenset(self.index_sources(value))
            if sources:
                self.values[variable.hash] = self.values.get(variable.hash, frozenset()) | sources

    def roots(self, cursor: Cursor) -> frozenset[str]:
        """Return the parameters that a pointer or an lvalue goes through."""
        cursor = unwrapped(cursor)
        children = list(cursor.get_children())
        kind = cursor.kind
        if kind == CursorKind.DECL_REF_EXPR:
            return (
                self.aliases.get(cursor.referenced.hash, frozenset()) if cursor.referenced is not None else frozenset()
            )
        if kind == CursorKind.ARRAY_SUBSCRIPT_EXPR or (kind == CursorKind.MEMBER_REF_EXPR and children):
            return self.roots(children[0])
        if kind == CursorKind.UNARY_OPERATOR:
            return self.roots(children[0])
        if kind == CursorKind.BINARY_OPERATOR and binary_operator(cursor) in {"+", "-"}:
            return frozenset[str]().union(*(self.roots(c) for c in children if not _subscripted_integer(c)))
        if kind == CursorKind.CONDITIONAL_OPERATOR:
            return self.roots(children[1]) | self.roots(children[2])
        if kind in {CursorKind.CALL_EXPR, CursorKind.UNEXPOSED_EXPR, CursorKind.INIT_LIST_EXPR}:
            return frozenset[str]().union(*(self.roots(c) for c in children))
        return frozenset()

    def index_sources(self, index: Cursor) -> set[str]:
        """Return the parameters whose values go into an index expression."""
        sources: set[str] = set()
        for below in index.walk_preorder():
            if below.kind == CursorKind.ARRAY_SUBSCRIPT_EXPR or unary_operator(below) == "*":
                sources |= self.roots(below)
            elif below.kind == CursorKind.DECL_REF_EXPR and below.referenced is not None:
                sources |= self.values.get(below.referenced.hash, frozenset())
        return sources

    def visit(self, cursor: Cursor) -> None:
        """Walk statements and expressions; an assignment's left side is a write, all else is a read."""
        children = list(cursor.get_children())
        target, value, also_reads = _assigned(cursor, children)
        if target is not None:
            self._write(target, also_reads=also_reads)
            if value is not None:
                self.visit(value)
            return
        if cursor.kind == CursorKind.VAR_DECL and cursor.type.kind == TypeKind.LVALUEREFERENCE and children:
            access = unwrapped(children[-1])  # `float& r = p[i]` reads nothing yet
            children = list(access.get_children())[1:]
        elif cursor.kind == CursorKind.CALL_EXPR:
            self._call(cursor)
        elif cursor.kind == CursorKind.ARRAY_SUBSCRIPT_EXPR:
            self._index(cursor, children)
            self._mark(cursor, reads=True)
        elif (unary_operator(cursor) == "*" and children) or _is_reference(cursor):
            self._mark(cursor, reads=True)
        elif unary_operator(cursor) == "&" and unwrapped(children[0]).kind == CursorKind.ARRAY_SUBSCRIPT_EXPR:
            access = unwrapped(children[0])
            self._index(access, list(access.get_children()))
            children = list(access.get_children())[1:]  # the address alone reads nothing
        for child in children:
            self.visit(child)

    def _write(self, target: Cursor, *, also_reads: bool) -> None:
        target = unwrapped(target)
        if target.kind != CursorKind.DECL_REF_EXPR or _is_reference(target):
            self._mark(target, writes=True, reads=also_reads)
        while target.kind in {CursorKind.MEMBER_REF_EXPR, CursorKind.ARRAY_SUBSCRIPT_EXPR, CursorKind.UNARY_OPERATOR}:
            children = list(target.get_children())
            if target.kind == CursorKind.ARRAY_SUBSCRIPT_EXPR:
                self._index(target, children)
                self.visit(children[1])
            if not children:
                return
            target = unwrapped(children[0])
        for child in target.get_children():
            if target.kind == CursorKind.BINARY_OPERATOR:  # `*(p + i) = …`
                self.visit(child)

    def _mark(self, cursor: Cursor, *, reads: bool = False, writes: bool = False) -> None:
        for name in self.roots(cursor):
            self.found[name].reads |= reads
            self.found[name].writes |= writes

    def _index(self, access: Cursor, children: list[Cursor]) -> None:
        for source in self.index_sources(children[1]) - self.roots(children[0]):
            self.found[source].indexes.append(access)

    def _call(self, call: Cursor) -> None:
        if call.spelling.startswith("operator"):
            return
        definition = call.referenced.get_definition() if call.referenced is not None else None
        inner: dict[str, Usage] = {}
        if definition is not None and definition.location.file is not None and self.depth < _DEPTH:
            inner = usages(definition, self.depth + 1)
        parameters = list(call.referenced.get_arguments()) if call.referenced is not None else []
        for index, argument in enumerate(call.get_arguments()):
            parameter = parameters[index] if index < len(parameters) else None
            by_reference = parameter is not None and parameter.type.kind == TypeKind.LVALUEREFERENCE
            pointer = parameter.type if by_reference and parameter is not None else argument.type.get_canonical()
            roots = self.roots(argument) if pointer.kind in _POINTING else frozenset[str]()
            known = inner.get(parameter.spelling) if parameter is not None else None
            reads, writes = True, not pointer.get_pointee().is_const_qualified()
            if known is not None:
                reads, writes = known.reads, known.writes
            elif call.spelling.startswith("__ld"):
                writes = False
            elif call.spelling in _WRITING_CALLS:
                reads = False
            for name in roots:
                self.found[name].reads |= reads
                self.found[name].writes |= writes


def _is_reference(cursor: Cursor) -> bool:
    """Return whether an expression names a reference, as in `float& r = p[i]`."""
    named = cursor.referenced if cursor.kind == CursorKind.DECL_REF_EXPR else None
    return named is not None and named.type.kind == TypeKind.LVALUEREFERENCE


def _assigned(cursor: Cursor, children: list[Cursor]) -> tuple[Cursor | None, Cursor | None, bool]:
    """Return what a statement assigns to, the value, and whether it reads the target first."""
    if cursor.kind == CursorKind.COMPOUND_ASSIGNMENT_OPERATOR and len(children) == 2:
        return children[0], children[1], True
    if cursor.kind == CursorKind.BINARY_OPERATOR and binary_operator(cursor) == "=" and len(children) == 2:
        return children[0], children[1], False
    if cursor.kind == CursorKind.UNARY_OPERATOR and unary_operator(cursor) in {"++", "--"}:
        return children[0], None, True
    if cursor.kind == CursorKind.CALL_EXPR and cursor.spelling.startswith("operator") and len(children) == 3:
        if cursor.spelling == "operator=":
            return children[0], children[2], False
        if cursor.spelling.endswith("=") and cursor.spelling not in {
            "operator==",
            "operator!=",
            "operator<=",
            "operator>=",
        }:
            return children[0], children[2], True
    return None, None, False


def _subscripted_integer(cursor: Cursor) -> bool:
    """Return whether an operand of `p + x[i]` is the integer."""
    return bool(
        cursor.type.get_canonical().kind not in _POINTING | {TypeKind.DEPENDENT, TypeKind.UNEXPOSED, TypeKind.RECORD}
    )
