"""Integer and scalar expressions over a problem's parameters, as in `ceil_div(N, 16) * 16`.

The grammar is a small subset of Python's: numbers, names, `+ - * / // % <<`, unary minus, parentheses, and the
functions `ceil_div`, `min` and `max`. Expressions come from requests, so they are parsed, never evaluated by Python.
`/` divides floats; between integers it truncates toward zero, as in C.
"""

import ast
import math
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache

__all__ = ["ExpressionError", "evaluate", "evaluate_integer", "names"]

Number = int | float

_MAX_LENGTH = 512
_MAX_SHIFT = 62
_LARGEST = 1 << 62  # sizes, counts and addresses stay inside a signed 64-bit integer


class ExpressionError(ValueError):
    """The expression is malformed, names something unknown, or has no value."""


def _ceil_div(a: Number, b: Number) -> Number:
    return -(-a // b)


def _divide(a: Number, b: Number) -> Number:
    if isinstance(a, int) and isinstance(b, int):
        quotient = abs(a) // abs(b)
        return quotient if (a < 0) == (b < 0) else -quotient
    return a / b


def _shift(a: Number, b: Number) -> Number:
    if not (isinstance(a, int) and isinstance(b, int)) or not 0 <= b <= _MAX_SHIFT:
        raise ExpressionError("<< needs integers and a shift of 0 to 62")
    return a << b


_BINARY: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _divide,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.LShift: _shift,
}
_FUNCTIONS: dict[str, Callable[[Number, Number], Number]] = {"ceil_div": _ceil_div, "min": min, "max": max}


@lru_cache(maxsize=4096)
def _parse(text: str) -> ast.expr:
    if len(text) > _MAX_LENGTH:
        raise ExpressionError(f"expression of {len(text)} characters; at most {_MAX_LENGTH} are allowed")
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise ExpressionError(f"cannot read the expression {text!r}") from error


def _value(node: ast.expr, values: Mapping[str, Number]) -> Number:
    match node:
        case ast.Constant(value=bool()):
            raise ExpressionError("True and False are not numbers here; write 1 or 0")
        case ast.Constant(value=int() | float() as value):
            return value
        case ast.Name(id=name):
            if name not in values:
                known = ", ".join(sorted(values)) or "none"
                raise ExpressionError(f"unknown name {name!r} (known: {known})")
            return values[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, values)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _bounded(_BINARY[type(op)](_value(left, values), _value(right, values)))
        case ast.Call(func=ast.Name(id=name), args=[left, right], keywords=[]) if name in _FUNCTIONS:
            return _bounded(_FUNCTIONS[name](_value(left, values), _value(right, values)))
    raise ExpressionError(
        f"{ast.unparse(node)!r} is not allowed here; use numbers, names, + - * / // % <<, "
        "ceil_div(a, b), min(a, b), max(a, b)"
    )


def _bounded(value: Number) -> Number:
    if isinstance(value, int) and abs(value) > _LARGEST:
        raise ExpressionError("the value does not fit into 63 bits")
    if not math.isfinite(value):
        raise ExpressionError("it has no finite value")
    return value


def evaluate(text: str, values: Mapping[str, Number]) -> Number:
    """Return the value of the expression under `values`.

    Raises:
        ExpressionError: it is malformed, names something that is not in `values`, or divides by zero.
    """
    try:
        return _value(_parse(text), values)
    except ZeroDivisionError as error:
        raise ExpressionError(f"{text!r} divides by zero") from error
    except (OverflowError, RecursionError) as error:
        raise ExpressionError(f"{text!r} has no finite value") from error


def evaluate_integer(text: str, values: Mapping[str, Number]) -> int:
    """Return the value of an expression that must be a whole number.

    Raises:
        ExpressionError: as `evaluate`, or the value is not an integer.
    """
    value = evaluate(text, values)
    if isinstance(value, float):
        if not value.is_integer():
            raise ExpressionError(f"{text!r} is {value}, not a whole number")
        return int(value)
    return value


def names(text: str) -> frozenset[str]:
    """Return the names that the expression uses, functions excluded.

    Raises:
        ExpressionError: it is malformed.
    """
    calls = {id(node.func) for node in ast.walk(_parse(text)) if isinstance(node, ast.Call)}
    return frozenset(node.id for node in ast.walk(_parse(text)) if isinstance(node, ast.Name) and id(node) not in calls)
