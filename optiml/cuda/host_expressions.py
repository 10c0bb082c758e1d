"""What host code computes, as expressions over a problem's parameters.

A host variable that starts from a plain constant (or from the command line with a constant default) may become a
parameter; one that is computed from others is written out. C's integer division becomes `ceil_div` where it rounds up.
"""

import ast
import ctypes
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from clang import cindex
from clang.cindex import Cursor, CursorKind, TypeKind

from optiml.cuda.parse import Parsed, spelled_extent

__all__ = [
    "Host", "Unknown", "constant_value", "dim3_extents", "divide_product", "expression", "factors_of", "host_of",
    "simplified", "substituted", "to_text", "unwrapped",
]  # fmt: skip

Expression = ast.expr

_TRANSPARENT = {
    CursorKind.UNEXPOSED_EXPR,
    CursorKind.PAREN_EXPR,
    CursorKind.CSTYLE_CAST_EXPR,
    CursorKind.CXX_STATIC_CAST_EXPR,
    CursorKind.CXX_FUNCTIONAL_CAST_EXPR,
    CursorKind.CXX_REINTERPRET_CAST_EXPR,
    CursorKind.CXX_CONST_CAST_EXPR,
}
_OPERATORS: dict[str, type[ast.operator]] = {
    "+": ast.Add, "-": ast.Sub, "*": ast.Mult, "/": ast.Div, "%": ast.Mod, "<<": ast.LShift,
}  # fmt: skip
_LITERALS = {CursorKind.INTEGER_LITERAL, CursorKind.FLOATING_LITERAL, CursorKind.CXX_UNARY_EXPR}
_DEPTH = 40


class Unknown(Exception):  # noqa: N818 - an outcome, not a fault of the program
    """The value cannot be told from the source."""


@dataclass(slots=True)
class Host:
    """Variables of the host, by the hash of their declaration."""

    parsed: Parsed
    parameters: dict[int, str] = field(default_factory=dict)
    """Variables that are parameters of the problem."""
    values: dict[str, int] = field(default_factory=dict)
    """The value of each parameter in the file."""
    used: set[str] = field(default_factory=set)
    """Parameters that some expression used."""


def _evaluated(cursor: Cursor) -> int | float | None:
    """Return the value of a constant expression; libclang's C interface has it, its Python one does not."""
    library = cindex.conf.lib
    evaluate = library.clang_Cursor_Evaluate
    evaluate.argtypes, evaluate.restype = [Cursor], ctypes.c_void_p
    result = evaluate(cursor)
    if not result:
        return None
    pointer = ctypes.c_void_p(result)
    library.clang_EvalResult_getKind.argtypes = [ctypes.c_void_p]
    library.clang_EvalResult_getAsLongLong.argtypes = [ctypes.c_void_p]
    library.clang_EvalResult_getAsLongLong.restype = ctypes.c_longlong
    library.clang_EvalResult_getAsDouble.argtypes = [ctypes.c_void_p]
    library.clang_EvalResult_getAsDouble.restype = ctypes.c_double
    library.clang_EvalResult_dispose.argtypes = [ctypes.c_void_p]
    kind = library.clang_EvalResult_getKind(pointer)
    value: int | float | None = None
    if kind == 1:
        value = library.clang_EvalResult_getAsLongLong(pointer)
    elif kind == 2:
        value = library.clang_EvalResult_getAsDouble(pointer)
    library.clang_EvalResult_dispose(pointer)
    return value


def constant_value(cursor: Cursor) -> int | float | None:
    """Return the value of an expression without variables; None if it has any or is none."""
    if any(c.kind in {CursorKind.DECL_REF_EXPR, CursorKind.CALL_EXPR} for c in cursor.walk_preorder()):
        return None
    return _evaluated(cursor)


def unwrapped(cursor: Cursor) -> Cursor:
    """Return the expression below casts, parentheses and implicit conversions."""
    while cursor.kind in _TRANSPARENT:
        below = [c for c in cursor.get_children() if c.kind.is_expression()]
        if len(below) != 1:
            break
        cursor = below[0]
    return cursor


def host_of(parsed: Parsed, device_words: frozenset[str]) -> Host:
    """Find the host's integer variables that may be parameters.

    Args:
        parsed: the file.
        device_words: identifiers of the device code; a constant that is used there is fixed.
    """
    host = Host(parsed)
    for cursor in _variables(parsed.unit.cursor, parsed.unit.spelling):
        if cursor.spelling in device_words and cursor.semantic_parent.kind == CursorKind.TRANSLATION_UNIT:
            continue
        value = _starting_constant(cursor)
        if value is not None and cursor.spelling not in host.values:
            host.parameters[cursor.hash] = cursor.spelling
            host.values[cursor.spelling] = value
    return host


def _variables(cursor: Cursor, own: str) -> Iterator[Cursor]:
    for child in cursor.get_children():
        file = child.location.file
        if cursor.kind == CursorKind.TRANSLATION_UNIT and (file is None or file.name != own):
            continue
        if child.kind == CursorKind.VAR_DECL:
            yield child
        if child.kind != CursorKind.FUNCTION_TEMPLATE and not any(
            c.kind == CursorKind.CUDAGLOBAL_ATTR for c in child.get_children()
        ):
            yield from _variables(child, own)


_INTEGERS = {
    TypeKind.INT, TypeKind.UINT, TypeKind.LONG, TypeKind.ULONG, TypeKind.LONGLONG, TypeKind.ULONGLONG, TypeKind.SHORT,
    TypeKind.USHORT,
}  # fmt: skip


def _starting_constant(variable: Cursor) -> int | None:
    if variable.type.get_canonical().kind not in _INTEGERS:
        return None
    initial = [c for c in variable.get_children() if c.kind.is_expression()]
    if not initial:
        return None
    below = unwrapped(initial[-1])
    if below.kind == CursorKind.CONDITIONAL_OPERATOR:  # argc > 1 ? atoi(argv[1]) : 1024
        branches = list(below.get_children())[1:]
        constants = [v for v in map(constant_value, branches) if isinstance(v, int)]
        return constants[-1] if len(constants) == 1 else None
    value = constant_value(below)
    return value if isinstance(value, int) and value > 0 else None


def expression(host: Host, cursor: Cursor, bound: dict[int, Expression] | None = None, depth: int = 0) -> Expression:
    """Return what an expression of the host computes, over the problem's parameters.

    Args:
        host: what is known of the host.
        cursor: the expression.
        bound: values of function parameters, by hash, while a call is written out.
        depth: how many variables and calls were followed.

    Raises:
        Unknown: it depends on something that the source does not tell.
    """
    if depth > _DEPTH:
        raise Unknown("the value depends on itself")
    cursor = unwrapped(cursor)
    kind = cursor.kind
    if kind in _LITERALS:
        value = _evaluated(cursor)
        if value is None:
            raise Unknown(f"line {cursor.location.line}: a literal without value")
        return ast.Constant(value)
    if kind == CursorKind.DECL_REF_EXPR:
        return _reference(host, cursor, bound or {}, depth)
    if kind == CursorKind.BINARY_OPERATOR:
        return _binary(host, cursor, bound or {}, depth)
    if kind == CursorKind.UNARY_OPERATOR:
        (operand,) = cursor.get_children()
        if host.parsed.source(cursor).lstrip().startswith("-"):
            return simplified(ast.UnaryOp(ast.USub(), expression(host, operand, bound, depth + 1)))
    if kind == CursorKind.MEMBER_REF_EXPR:
        return _member(host, cursor, bound or {}, depth)
    if kind == CursorKind.CALL_EXPR:
        return _call(host, cursor, bound or {}, depth)
    raise Unknown(f"line {cursor.location.line}: cannot tell the value of {host.parsed.source(cursor)!r}")


def _initial(cursor: Cursor) -> Cursor | None:
    found = [c for c in cursor.get_children() if c.kind.is_expression()]
    return found[-1] if found else None


def _reference(host: Host, cursor: Cursor, bound: dict[int, Expression], depth: int) -> Expression:
    variable = cursor.referenced
    if variable is not None and variable.hash in bound:
        return bound[variable.hash]
    if variable is not None and variable.hash in host.parameters:
        name = host.parameters[variable.hash]
        host.used.add(name)
        return ast.Name(name)
    if variable is not None and variable.kind == CursorKind.VAR_DECL:
        initial = _initial(variable)
        if initial is not None:
            return expression(host, initial, bound, depth + 1)
    if variable is not None and variable.kind == CursorKind.ENUM_CONSTANT_DECL:
        return ast.Constant(variable.enum_value)
    raise Unknown(f"line {cursor.location.line}: cannot tell the value of {cursor.spelling!r}")


def _operator(host: Host, cursor: Cursor) -> str:
    left, right = cursor.get_children()
    data = host.parsed.text.encode()
    between = data[spelled_extent(left)[1] : spelled_extent(right)[0]].decode(errors="replace")
    return between.strip().strip("()").strip()


def _binary(host: Host, cursor: Cursor, bound: dict[int, Expression], depth: int) -> Expression:
    symbol = _operator(host, cursor)
    left, right = cursor.get_children()
    if symbol == ">>":
        shift = constant_value(unwrapped(right))
        if isinstance(shift, int) and 0 <= shift < 63:
            divisor = ast.Constant(1 << shift)
            return simplified(ast.BinOp(expression(host, left, bound, depth + 1), ast.Div(), divisor))
    if symbol not in _OPERATORS:
        raise Unknown(f"line {cursor.location.line}: cannot tell the value of {host.parsed.source(cursor)!r}")
    return simplified(
        ast.BinOp(
            expression(host, left, bound, depth + 1), _OPERATORS[symbol](), expression(host, right, bound, depth + 1)
        )
    )


def _member(host: Host, cursor: Cursor, bound: dict[int, Expression], depth: int) -> Expression:
    (owner,) = list(cursor.get_children()) or [None]
    variable = unwrapped(owner).referenced if owner is not None else None
    if variable is not None and cursor.spelling in {"x", "y", "z"} and "dim3" in variable.type.spelling:
        return dim3_extents(host, variable, bound, depth)["xyz".index(cursor.spelling)]
    raise Unknown(f"line {cursor.location.line}: cannot tell the value of {host.parsed.source(cursor)!r}")


def dim3_extents(host: Host, cursor: Cursor, bound: dict[int, Expression], depth: int = 0) -> list[Expression]:
    """Return the three extents of a dim3: an expression, or a variable of that type.

    Raises:
        Unknown: one of them cannot be told.
    """
    if depth > _DEPTH:
        raise Unknown("the value depends on itself")
    cursor = unwrapped(cursor)
    if cursor.kind == CursorKind.DECL_REF_EXPR and "dim3" in cursor.type.spelling:
        return dim3_extents(host, cursor.referenced, bound, depth + 1)
    if cursor.kind == CursorKind.VAR_DECL:
        initial = _initial(cursor)
        if initial is None:
            raise Unknown(
                f"line {cursor.location.line}: dim3 {cursor.spelling!r} is filled later; give its extents here"
            )
        return dim3_extents(host, initial, bound, depth + 1)
    if "dim3" in cursor.type.spelling and cursor.kind in {CursorKind.CALL_EXPR, CursorKind.INIT_LIST_EXPR}:
        given = [
            c for c in cursor.get_children() if c.kind.is_expression() and c.extent.start.offset != c.extent.end.offset
        ]
        if len(given) == 1 and "dim3" in unwrapped(given[0]).type.spelling:
            return dim3_extents(host, given[0], bound, depth + 1)
        extents = [expression(host, c, bound, depth + 1) for c in given]
        return (extents + [ast.Constant(1)] * 3)[:3]
    return [expression(host, cursor, bound, depth + 1), ast.Constant(1), ast.Constant(1)]


def _call(host: Host, cursor: Cursor, bound: dict[int, Expression], depth: int) -> Expression:
    arguments = list(cursor.get_arguments())
    name = cursor.spelling
    if name in {"min", "max"} and len(arguments) == 2:
        left, right = (expression(host, a, bound, depth + 1) for a in arguments)
        return ast.Call(ast.Name(name), [left, right], [])
    if name in {"ceil", "ceilf"} and len(arguments) == 1:
        inner = expression(host, arguments[0], bound, depth + 1)
        if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Div):
            return simplified(ast.Call(ast.Name("ceil_div"), [_whole(inner.left), _whole(inner.right)], []))
    if name == "size" and not arguments:
        owner = next((c.referenced for c in cursor.walk_preorder() if c.kind == CursorKind.DECL_REF_EXPR), None)
        if owner is not None and "vector" in owner.type.spelling:
            return _vector_size(host, owner, bound, depth)
    definition = cursor.referenced.get_definition() if cursor.referenced is not None else None
    if definition is not None and definition.kind == CursorKind.FUNCTION_DECL:
        returned = [c for c in definition.walk_preorder() if c.kind == CursorKind.RETURN_STMT]
        if len(returned) == 1:
            values = {
                parameter.hash: expression(host, argument, bound, depth + 1)
                for parameter, argument in zip(definition.get_arguments(), arguments, strict=True)
            }
            (result,) = returned[0].get_children()
            return expression(host, result, values, depth + 1)
    raise Unknown(f"line {cursor.location.line}: cannot tell the value of {host.parsed.source(cursor)!r}")


def _vector_size(host: Host, vector: Cursor, bound: dict[int, Expression], depth: int) -> Expression:
    constructors = [c for c in vector.walk_preorder() if c.kind == CursorKind.CALL_EXPR and c.spelling == "vector"]
    arguments = list(constructors[-1].get_arguments()) if constructors else []
    if not arguments:
        raise Unknown(f"line {vector.location.line}: cannot tell the size of {vector.spelling!r}")
    return expression(host, arguments[0], bound, depth + 1)


def _whole(value: Expression) -> Expression:
    if isinstance(value, ast.Constant) and isinstance(value.value, float) and value.value.is_integer():
        return ast.Constant(int(value.value))
    return value


def _same(a: Expression, b: Expression) -> bool:
    return ast.unparse(a) == ast.unparse(b)


def simplified(value: Expression) -> Expression:
    """Fold constants and write rounding-up divisions as `ceil_div`; the parts are simplified already."""
    match value:
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return ast.Constant(-number)
        case ast.BinOp(
            left=ast.Constant(value=int() | float() as a), op=op, right=ast.Constant(value=int() | float() as b)
        ):
            return _folded(a, op, b, value)
        case ast.BinOp(left=left, op=ast.Mult(), right=ast.Constant(value=1)):
            return left
        case ast.BinOp(left=ast.Constant(value=1), op=ast.Mult(), right=right):
            return right
        case ast.BinOp(left=left, op=ast.Div(), right=ast.Constant(value=1)):
            return left
        case ast.BinOp(
            left=ast.BinOp(left=left, op=ast.Add(), right=ast.Constant(value=int() as a)),
            op=ast.Sub(),
            right=ast.Constant(value=int() as b),
        ):
            total = a - b
            if total == 0:
                return left
            return ast.BinOp(left, ast.Add() if total > 0 else ast.Sub(), ast.Constant(abs(total)))
        case ast.BinOp(
            left=ast.BinOp(left=left, op=ast.Add(), right=ast.Constant(value=int() as a)),
            op=ast.Div(),
            right=ast.Constant(value=int() as b),
        ) if a == b - 1:
            return ast.Call(ast.Name("ceil_div"), [left, ast.Constant(b)], [])
        case ast.BinOp(
            left=ast.BinOp(left=ast.BinOp(left=left, op=ast.Add(), right=a), op=ast.Sub(), right=ast.Constant(value=1)),
            op=ast.Div(), right=b) if _same(a, b):  # fmt: skip
            return ast.Call(ast.Name("ceil_div"), [left, b], [])
    return value


def _folded(a: float, op: ast.operator, b: float, whole: Expression) -> Expression:
    match op:
        case ast.Add():
            return ast.Constant(a + b)
        case ast.Sub():
            return ast.Constant(a - b)
        case ast.Mult():
            return ast.Constant(a * b)
        case ast.Div() if b:
            both = isinstance(a, int) and isinstance(b, int)
            return ast.Constant(a // b if both and a >= 0 and b > 0 else a / b)
        case ast.Mod() if b and a >= 0:
            return ast.Constant(a % b)
        case ast.LShift() if isinstance(a, int) and isinstance(b, int) and 0 <= b < 63:
            return ast.Constant(a << b)
    return whole


def divide_product(value: Expression, divisor: int) -> Expression:
    """Return a byte count over the element size.

    Raises:
        Unknown: no factor of the product is divisible by the size.
    """
    factors = _factors(value)
    for index, factor in enumerate(factors):
        if isinstance(factor, ast.Constant) and isinstance(factor.value, int) and factor.value % divisor == 0:
            factors[index] = ast.Constant(factor.value // divisor)
            break
    else:
        if divisor != 1:
            raise Unknown(f"{ast.unparse(value)} bytes is no multiple of the element size {divisor}")
    constant = math.prod(f.value for f in factors if isinstance(f, ast.Constant) and isinstance(f.value, int))
    others = [f for f in factors if not (isinstance(f, ast.Constant) and isinstance(f.value, int))]
    result: Expression = ast.Constant(constant) if not others else others[0]
    for factor in [*others[1:], ast.Constant(constant)] if others else []:
        result = simplified(ast.BinOp(result, ast.Mult(), factor))
    return result


def factors_of(value: Expression) -> list[Expression]:
    """Return the factors of a product, left to right."""
    return _factors(value)


def substituted(value: Expression, values: Mapping[str, int]) -> Expression:
    """Return the expression with some names replaced by numbers, and simplified again."""
    match value:
        case ast.Name(id=name) if name in values:
            return ast.Constant(values[name])
        case ast.BinOp(left=left, op=op, right=right):
            return simplified(ast.BinOp(substituted(left, values), op, substituted(right, values)))
        case ast.Call(func=func, args=arguments):
            return ast.Call(func, [substituted(a, values) for a in arguments], [])
        case ast.UnaryOp(op=op, operand=operand):
            return simplified(ast.UnaryOp(op, substituted(operand, values)))
    return value


def _factors(value: Expression) -> list[Expression]:
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult):
        return _factors(value.left) + _factors(value.right)
    return [value]


def to_text(value: Expression) -> str:
    """Return the expression as `optiml.expressions` reads it."""
    return ast.unparse(value)
