"""Rewrites of host expressions, which are kept as Python syntax trees, into what a launch plan says.

C's integer division becomes `ceil_div` where it rounds up, in each of the ways in which people write that.
"""

import ast
import math
from collections.abc import Mapping

__all__ = [
    "Expression", "Unknown", "chosen", "divide_product", "factors_of", "folded", "names_in", "simplified",
    "substituted", "to_text",
]  # fmt: skip

Expression = ast.expr


class Unknown(Exception):  # noqa: N818 - an outcome, not a fault of the program
    """The value cannot be told from the source."""


def _same(a: Expression, b: Expression) -> bool:
    return ast.unparse(a) == ast.unparse(b)


def _ceil_div(a: Expression, b: Expression) -> Expression:
    return ast.Call(ast.Name("ceil_div"), [a, b], [])


def simplified(value: Expression) -> Expression:
    """Fold constants and write rounding-up divisions as `ceil_div`; the parts are simplified already."""
    match value:
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return ast.Constant(-number)
        case ast.BinOp(
            left=ast.Constant(value=int() | float() as a), op=op, right=ast.Constant(value=int() | float() as b)
        ):
            return folded(a, op, b, value)
        case ast.BinOp(left=left, op=ast.Mult() | ast.Div(), right=ast.Constant(value=1)):
            return left
        case ast.BinOp(left=ast.Constant(value=1), op=ast.Mult(), right=right):
            return right
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=ast.Constant(value=0)):
            return left
        case ast.BinOp(left=ast.Constant() as left, op=ast.Add(), right=right) if not isinstance(right, ast.Compare):
            return simplified(ast.BinOp(right, ast.Add(), left))  # constants to the right
        case ast.BinOp(
            left=ast.BinOp(left=left, op=ast.Add(), right=ast.Constant(value=int() as a)),
            op=ast.Sub(),
            right=ast.Constant(value=int() as b),
        ):
            total = a - b
            if total == 0:
                return left
            return ast.BinOp(left, ast.Add() if total > 0 else ast.Sub(), ast.Constant(abs(total)))
        case ast.BinOp(op=ast.Div()) if (whole := _rounded_up(value)) is not None:
            return whole
        case ast.BinOp(
            left=ast.BinOp(left=a, op=ast.Div(), right=b),
            op=ast.Add(),
            right=ast.Compare(left=ast.BinOp(left=c, op=ast.Mod(), right=d), ops=[ast.NotEq() | ast.Gt()]),
        ) if _same(a, c) and _same(b, d):  # n / b + (n % b != 0)
            return _ceil_div(a, b)
        case ast.BinOp(
            left=ast.BinOp(left=ast.BinOp(left=a, op=ast.Sub(), right=ast.Constant(value=1)), op=ast.Div(), right=b),
            op=ast.Add(),
            right=ast.Constant(value=1),
        ):  # (n - 1) / b + 1
            return _ceil_div(a, b)
    return value


def _rounded_up(value: ast.BinOp) -> Expression | None:
    """Return `ceil_div` for (n + 15) / 16, (n + b - 1) / b, (n - 1 + b) / b and (n + (b - 1)) / b."""
    divisor = value.right
    match value.left:
        case ast.BinOp(left=left, op=ast.Add(), right=ast.Constant(value=int() as added)):
            if isinstance(divisor, ast.Constant) and isinstance(divisor.value, int) and added == divisor.value - 1:
                return _ceil_div(left, divisor)
        case ast.BinOp(left=ast.BinOp(left=left, op=ast.Add(), right=a), op=ast.Sub(), right=ast.Constant(value=1)):
            if _same(a, divisor):
                return _ceil_div(left, divisor)
            if _same(left, divisor):
                return _ceil_div(a, divisor)
        case ast.BinOp(left=ast.BinOp(left=left, op=ast.Sub(), right=ast.Constant(value=1)), op=ast.Add(), right=a):
            if _same(a, divisor):
                return _ceil_div(left, divisor)
        case ast.BinOp(left=left, op=ast.Add(), right=ast.BinOp(left=a, op=ast.Sub(), right=ast.Constant(value=1))) if (
            _same(a, divisor)
        ):
            return _ceil_div(left, divisor)
    return None


def chosen(condition: Expression, yes: Expression, no: Expression) -> Expression | None:
    """Return what `condition ? yes : no` is, where it only rounds up, or picks the smaller or larger; else None."""
    one, zero = "1", "0"
    match condition:
        case ast.Compare(left=ast.BinOp(left=a, op=ast.Mod(), right=b), ops=[ast.Eq()]):
            plain = ast.BinOp(a, ast.Div(), b)
            above = ast.BinOp(plain, ast.Add(), ast.Constant(1))
            if _same(yes, plain) and _same(no, above):
                return _ceil_div(a, b)
        case ast.Compare(left=ast.BinOp(op=ast.Mod()), ops=[ast.NotEq() | ast.Gt()]):
            if ast.unparse(yes) == one and ast.unparse(no) == zero:
                return condition  # n / b + (n % b ? 1 : 0)
        case ast.Compare(left=a, ops=[ast.Lt() | ast.LtE()], comparators=[b]):
            return _picked((a, b), (yes, no), "min", "max")
        case ast.Compare(left=a, ops=[ast.Gt() | ast.GtE()], comparators=[b]):
            return _picked((a, b), (yes, no), "max", "min")
    return None


def _picked(
    pair: tuple[Expression, Expression], branches: tuple[Expression, Expression], first: str, second: str
) -> Expression | None:
    compared, returned = [ast.unparse(x) for x in pair], [ast.unparse(x) for x in branches]
    if compared == returned:
        return ast.Call(ast.Name(first), list(pair), [])
    return ast.Call(ast.Name(second), list(pair), []) if compared[::-1] == returned else None


def folded(a: float, op: ast.operator, b: float, whole: Expression) -> Expression:
    """Return the constant that an operation on constants gives in C; `whole` if it has none."""
    both = isinstance(a, int) and isinstance(b, int)
    match op:
        case ast.Add():
            return ast.Constant(a + b)
        case ast.Sub():
            return ast.Constant(a - b)
        case ast.Mult():
            return ast.Constant(a * b)
        case ast.Div() if b:
            return ast.Constant(a // b if both and a >= 0 and b > 0 else int(a / b) if both else a / b)
        case ast.Mod() if both and b > 0 and a >= 0:
            return ast.Constant(a % b)
        case ast.LShift() if isinstance(a, int) and isinstance(b, int) and 0 <= b < 63:
            return ast.Constant(a << b)
    return whole


def divide_product(value: Expression, divisor: int) -> Expression:
    """Return a byte count over the element size.

    Raises:
        Unknown: no factor of the product is divisible by the size.
    """
    factors = factors_of(value)
    constant = math.prod(f.value for f in factors if isinstance(f, ast.Constant) and isinstance(f.value, int))
    if constant % divisor:
        raise Unknown(f"{ast.unparse(value)} bytes is no multiple of the element size {divisor}")
    others = [f for f in factors if not (isinstance(f, ast.Constant) and isinstance(f.value, int))]
    if not others:
        return ast.Constant(constant // divisor)
    result: Expression = others[0]
    for factor in [*others[1:], ast.Constant(constant // divisor)]:
        result = simplified(ast.BinOp(result, ast.Mult(), factor))
    return result


def factors_of(value: Expression) -> list[Expression]:
    """Return the factors of a product, left to right."""
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult):
        return factors_of(value.left) + factors_of(value.right)
    return [value]


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


def names_in(value: Expression) -> set[str]:
    """Return the names that an expression uses, functions excluded."""
    called = {id(node.func) for node in ast.walk(value) if isinstance(node, ast.Call)}
    return {node.id for node in ast.walk(value) if isinstance(node, ast.Name) and id(node) not in called}


def to_text(value: Expression) -> str:
    """Return the expression as `optiml.expressions` reads it.

    Raises:
        Unknown: it holds a comparison, which launch plans do not have.
    """
    if any(isinstance(node, ast.Compare) for node in ast.walk(value)):
        raise Unknown(f"cannot write {ast.unparse(value)!r} as an expression of a launch plan")
    return ast.unparse(value)
