"""Accumulators of a loop, by the form of their update."""

from dataclasses import dataclass

from services.generator.rewriting.syntax import Assign, Expression, If, Statement

__all__ = ["Update", "read_update"]

_MAXIMUM = {"fmaxf", "fmax", "max"}
_MINIMUM = {"fminf", "fmin", "min"}


@dataclass(frozen=True, slots=True)
class Update:
    """`accumulator = accumulator (operation) value`, in any of its forms."""

    accumulator: str
    operation: str
    """sum, product, max or min."""
    value: tuple[Expression, ...]
    """What is added; the two factors of a fused multiply-add."""

    @property
    def identity(self) -> str:
        """The neutral element, as text; "" where starting from any value twice does no harm."""
        return {"sum": "0", "product": "1"}.get(self.operation, "")


def _is(expression: Expression, name: str) -> bool:
    return expression.kind == "name" and expression.operator == name


def _from_value(name: str, value: Expression) -> Update | None:
    match value:
        case Expression(kind="binary", operator="+" | "*" as operator, operands=(left, right)):
            operation = "sum" if operator == "+" else "product"
            if _is(left, name):
                return Update(name, operation, (right,))
            if _is(right, name):
                return Update(name, operation, (left,))
            return _chain(name, value, operation)
        case Expression(kind="binary", operator="-", operands=(left, right)) if _is(left, name):
            return Update(name, "sum", (right,))
        case Expression(kind="call", operator="fmaf" | "fma" | "__fmaf_rn", operands=(a, b, c)) if _is(c, name):
            return Update(name, "sum", (a, b))
        case Expression(kind="call", operator=function, operands=(left, right)) if function in _MAXIMUM | _MINIMUM:
            operation = "max" if function in _MAXIMUM else "min"
            if _is(left, name):
                return Update(name, operation, (right,))
            if _is(right, name):
                return Update(name, operation, (left,))
        case Expression(kind="conditional", operands=(condition, chosen, other)):
            if _is(other, name):
                return _compared(name, condition, chosen)
            if _is(chosen, name):
                return _compared(name, condition, other, negated=True)
    return None


def _chain(name: str, value: Expression, operation: str) -> Update | None:
    """Read `acc + a + b`, which the parser groups as `(acc + a) + b`."""
    operator = value.operator
    parts: list[Expression] = []
    while value.kind == "binary" and value.operator == operator:
        left, right = value.operands
        parts.append(right)
        value = left
    if not _is(value, name):
        return None
    return Update(name, operation, tuple(parts))


def _compared(name: str, condition: Expression, value: Expression, *, negated: bool = False) -> Update | None:
    """Read `value > name ? value : name` and its mirror images."""
    if condition.kind != "binary" or condition.operator not in {"<", ">", "<=", ">="}:
        return None
    left, right = condition.operands
    greater = condition.operator.startswith(">")
    same = value.text.replace(" ", "")
    if _is(right, name) and left.text.replace(" ", "") == same:
        larger = greater
    elif _is(left, name) and right.text.replace(" ", "") == same:
        larger = not greater
    else:
        return None
    return Update(name, "max" if larger != negated else "min", (value,))


def read_update(statement: Statement) -> Update | None:
    """Return the statement's update of an accumulator, or None if it is none."""
    update: Update | None = None
    match statement:
        case Assign(target=Expression(kind="name", operator=name), operator="+=" | "-=", value=value):
            update = Update(name, "sum", (value,))
        case Assign(target=Expression(kind="name", operator=name), operator="*=", value=value):
            update = Update(name, "product", (value,))
        case Assign(target=Expression(kind="name", operator=name), operator="=", value=value):
            update = _from_value(name, value)
        case If(
            condition=condition,
            then=(Assign(target=Expression(kind="name", operator=name), operator="=", value=value),),
            otherwise=(),
        ):
            update = _compared(name, condition, value)
    if update is None or any(update.accumulator in part.names for part in update.value):
        return None
    return update
