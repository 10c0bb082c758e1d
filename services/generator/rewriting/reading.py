"""From libclang's cursors to the trees of `syntax`."""

import re
from collections.abc import Iterator

from clang.cindex import Cursor, CursorKind

from optiml.cuda.parse import Parsed, parse_cuda, walk
from services.generator.rewriting.syntax import (
    Array,
    Assign,
    Block,
    Call,
    Declare,
    Expression,
    For,
    Function,
    If,
    Other,
    Parameter,
    Return,
    Statement,
    encoded,
)

__all__ = ["global_functions", "read_functions"]

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_TRANSPARENT = {CursorKind.UNEXPOSED_EXPR, CursorKind.PAREN_EXPR}
_CASTS = {
    CursorKind.CSTYLE_CAST_EXPR,
    CursorKind.CXX_FUNCTIONAL_CAST_EXPR,
    CursorKind.CXX_STATIC_CAST_EXPR,
}
_NUMBERS = {CursorKind.INTEGER_LITERAL, CursorKind.FLOATING_LITERAL, CursorKind.CXX_BOOL_LITERAL_EXPR}
_LOOPS = {CursorKind.FOR_STMT, CursorKind.WHILE_STMT, CursorKind.DO_STMT, CursorKind.SWITCH_STMT}
_BINARY = {
    "+", "-", "*", "/", "%", "<<", ">>", "<", ">", "<=", ">=", "==", "!=", "&&", "||", "&", "|", "^", "=",
    "+=", "-=", "*=", "/=", "%=", "<<=", ">>=", "&=", "|=", "^=",
}  # fmt: skip
_NAME = re.compile(r"[A-Za-z_]\w*")


def _plain_type(spelling: str) -> str:
    return " ".join(word for word in spelling.replace("&", " ").split() if word not in {"const", "volatile"})


class _Reader:
    """Reads the cursors of one parsed file."""

    def __init__(self, parsed: Parsed) -> None:
        self.text = encoded(parsed.text)

    def _extent(self, cursor: Cursor) -> tuple[int, int]:
        return cursor.extent.start.offset, cursor.extent.end.offset

    def _between(self, start: int, end: int) -> str:
        return _COMMENT.sub(" ", self.text[start:end]).strip("() \t\r\n")

    def expression(self, cursor: Cursor) -> Expression:
        """Read an expression; what is not understood is kind "other"."""
        start, end = self._extent(cursor)
        children = list(cursor.get_children())
        if cursor.kind in _TRANSPARENT and len(children) == 1:
            inner = self.expression(children[0])
            return inner if inner.kind != "other" else self._make(cursor, "other", "", (inner,))
        kind = cursor.kind
        if kind == CursorKind.DECL_REF_EXPR:
            return self._make(cursor, "name", cursor.spelling, ())
        if kind in _NUMBERS:
            return self._make(cursor, "number", self.text[start:end], ())
        if kind in _CASTS:
            inner_cursor = [child for child in children if child.kind != CursorKind.TYPE_REF]
            if len(inner_cursor) == 1:
                operand = self.expression(inner_cursor[0])
                return self._make(cursor, "cast", _plain_type(cursor.type.spelling), (operand,))
        operands = tuple(self.expression(child) for child in children if child.kind.is_expression())
        if len(operands) == len(children):
            found = self._operation(cursor, children, operands)
            if found is not None:
                return found
        return self._make(cursor, "other", "", operands)

    def _operation(self, cursor: Cursor, children: list[Cursor], operands: tuple[Expression, ...]) -> Expression | None:
        start, end = self._extent(cursor)
        match cursor.kind:
            case CursorKind.BINARY_OPERATOR | CursorKind.COMPOUND_ASSIGNMENT_OPERATOR if len(operands) == 2:
                operator = self._between(self._extent(children[0])[1], self._extent(children[1])[0])
                if operator in _BINARY:
                    assigns = operator.endswith("=") and operator not in {"==", "!=", "<=", ">="}
                    return self._make(cursor, "assign" if assigns else "binary", operator, operands)
            case CursorKind.UNARY_OPERATOR if len(operands) == 1:
                before = self._between(start, self._extent(children[0])[0])
                after = self._between(self._extent(children[0])[1], end)
                if before in {"-", "+", "!", "~", "*", "&", "++", "--"} and not after:
                    return self._make(cursor, "unary", before, operands)
                if after in {"++", "--"} and not before:
                    return self._make(cursor, "postfix", after, operands)
            case CursorKind.ARRAY_SUBSCRIPT_EXPR if len(operands) == 2:
                return self._make(cursor, "subscript", "", operands)
            case CursorKind.MEMBER_REF_EXPR if len(operands) == 1:
                return self._make(cursor, "member", cursor.spelling, operands)
            case CursorKind.CONDITIONAL_OPERATOR if len(operands) == 3:
                return self._make(cursor, "conditional", "?:", operands)
            case CursorKind.CALL_EXPR if operands and operands[0].kind == "name" and self._is_call(cursor):
                return self._make(cursor, "call", cursor.spelling, operands[1:])
        return None

    def _is_call(self, cursor: Cursor) -> bool:
        start, end = self._extent(cursor)
        return bool(re.match(rf"(::)?(std::)?{re.escape(cursor.spelling)}\s*\(", self.text[start:end]))

    def _make(self, cursor: Cursor, kind: str, operator: str, operands: tuple[Expression, ...]) -> Expression:
        start, end = self._extent(cursor)
        names = {name for operand in operands for name in operand.names}
        if kind == "name":
            names = {operator}
        elif kind == "other":
            names |= {inner.spelling for inner in walk(cursor) if inner.kind == CursorKind.DECL_REF_EXPR}
        text = self.text[start:end]
        hidden = not names <= set(_NAME.findall(text))
        return Expression(
            kind, text, _plain_type(cursor.type.spelling), operator, operands, frozenset(names), start, end, hidden
        )

    def statements(self, cursor: Cursor) -> tuple[Statement, ...]:
        """Read a statement; a compound one gives those inside."""
        if cursor.kind == CursorKind.COMPOUND_STMT:
            return tuple(inner for child in cursor.get_children() for inner in self._statement(child))
        return tuple(self._statement(cursor))

    def _statement(self, cursor: Cursor) -> Iterator[Statement]:
        start, end = self._extent(cursor)
        match cursor.kind:
            case CursorKind.NULL_STMT:
                return
            case CursorKind.DECL_STMT:
                yield from self._declarations(cursor)
            case CursorKind.COMPOUND_STMT:
                yield Block(self.statements(cursor), start, end)
            case CursorKind.IF_STMT:
                yield self._if(cursor)
            case CursorKind.FOR_STMT:
                yield self._for(cursor)
            case CursorKind.UNEXPOSED_STMT if (loop := _under_pragma(cursor)) is not None:
                yield self._for(loop)
            case CursorKind.RETURN_STMT if not list(cursor.get_children()):
                yield Return(start, end)
            case kind if kind.is_expression():
                yield self._effect(self.expression(cursor))
            case _:
                yield self._other(cursor)

    def _effect(self, found: Expression) -> Statement:
        match found:
            case Expression(kind="assign", operands=(target, value), operator=operator):
                return Assign(target, operator, value, found.start, found.end)
            case Expression(kind="unary" | "postfix", operator="++" | "--" as operator, operands=(target,)):
                one = Expression("number", "1", "int", "1")
                return Assign(target, operator[0] + "=", one, found.start, found.end)
            case Expression(kind="call"):
                return Call(found, found.start, found.end)
        return Other(found.text, found.names, found.start, found.end)

    def _other(self, cursor: Cursor) -> Other:
        start, end = self._extent(cursor)
        names = frozenset(
            inner.spelling for inner in walk(cursor) if inner.kind in {CursorKind.DECL_REF_EXPR, CursorKind.VAR_DECL}
        )
        return Other(self.text[start:end], names, start, end)

    def _array(self, cursor: Cursor) -> Statement | None:
        children = list(cursor.get_children())
        start, end = self._extent(cursor)
        if len(children) != 1 or children[0].kind != CursorKind.VAR_DECL:
            return None
        match = re.fullmatch(r"((?:unsigned )?\w+) ?\[\d+\]", children[0].type.spelling)
        plain = not any(child.kind.is_attribute() for child in children[0].get_children())
        if match is None or not plain or "=" in self.text[start:end] or "{" in self.text[start:end]:
            return None
        return Array(children[0].spelling, match[1], start, end)

    def _declarations(self, cursor: Cursor) -> Iterator[Statement]:
        children = list(cursor.get_children())
        array = self._array(cursor)
        if array is not None:
            yield array
            return
        plain = all(
            child.kind == CursorKind.VAR_DECL
            and "[" not in child.type.spelling
            and "&" not in child.type.spelling
            and not any(inner.kind.is_attribute() for inner in child.get_children())
            for child in children
        )
        if not plain:
            yield self._other(cursor)
            return
        start, end = self._extent(cursor)
        for child in children:
            value = [inner for inner in child.get_children() if inner.kind.is_expression()]
            initial = self.expression(value[-1]) if value else None
            yield Declare(child.spelling, _declared_type(child.type.spelling), initial, start, end)

    def _if(self, cursor: Cursor) -> Statement:
        children = list(cursor.get_children())
        start, end = self._extent(cursor)
        if len(children) not in {2, 3} or not children[0].kind.is_expression():
            return self._other(cursor)
        otherwise = self.statements(children[2]) if len(children) == 3 else ()
        return If(self.expression(children[0]), self.statements(children[1]), otherwise, start, end)

    def _for(self, cursor: Cursor) -> Statement:
        children = list(cursor.get_children())
        start, end = self._extent(cursor)
        if len(children) != 4 or children[0].kind != CursorKind.DECL_STMT:
            return self._other(cursor)
        declared = tuple(self._declarations(children[0]))
        condition, effect = self.expression(children[1]), self._effect(self.expression(children[2]))
        match declared, condition, effect:
            case (
                (Declare(name=variable, type=of, value=Expression() as first),),
                Expression(
                    kind="binary", operator="<" | "<=" as relation, operands=(Expression(kind="name") as left, bound)
                ),
                Assign(target=Expression(kind="name") as stepped, operator=operator, value=value),
            ) if left.operator == stepped.operator == variable and operator in {"+=", "="}:
                step = _step(variable, operator, value)
                if step is None:
                    return self._other(cursor)
                width = None if step.text == "1" else step
                body = self.statements(children[3])
                body_start = self._extent(children[3])[0]
                return For(variable, of, first, relation, bound, width, body, start, end, body_start)
        return self._other(cursor)


def _under_pragma(cursor: Cursor) -> Cursor | None:
    """Return the loop that a pragma such as `#pragma unroll` stands before."""
    return next((child for child in cursor.get_children() if child.kind == CursorKind.FOR_STMT), None)


def _step(variable: str, operator: str, value: Expression) -> Expression | None:
    if operator == "+=":
        return value
    match value:
        case Expression(kind="binary", operator="+", operands=(left, right)):
            if left.text == variable:
                return right
            if right.text == variable:
                return left
    return None


def _declared_type(spelling: str) -> str:
    return spelling if "*" in spelling else _plain_type(spelling)


def _own_declarations(parsed: Parsed) -> Iterator[Cursor]:
    for cursor in parsed.unit.cursor.get_children():
        if cursor.location.file is None or cursor.location.file.name != parsed.unit.spelling:
            continue
        if cursor.kind in {CursorKind.LINKAGE_SPEC, CursorKind.UNEXPOSED_DECL}:  # extern "C" { ... }
            yield from cursor.get_children()
        else:
            yield cursor


def read_functions(parsed: Parsed) -> dict[str, Function]:
    """Return the __global__ functions of the file that have a body and are no templates, by name."""
    reader = _Reader(parsed)
    found = {}
    for cursor in _own_declarations(parsed):
        children = list(cursor.get_children())
        if not any(child.kind == CursorKind.CUDAGLOBAL_ATTR for child in children):
            continue
        body = children[-1]
        if cursor.kind != CursorKind.FUNCTION_DECL or body.kind != CursorKind.COMPOUND_STMT:
            continue
        parameters = tuple(
            Parameter(child.spelling, child.type.spelling, child.extent.start.offset, child.extent.end.offset)
            for child in children
            if child.kind == CursorKind.PARM_DECL
        )
        found[cursor.spelling] = Function(
            cursor.spelling,
            parameters,
            reader.statements(body),
            cursor.extent.start.offset,
            body.extent.start.offset,
            cursor.extent.end.offset,
            reader.text,
        )
    return found


def global_functions(source: str) -> dict[str, Function]:
    """Parse the source and return its __global__ functions by name."""
    return read_functions(parse_cuda(source))
