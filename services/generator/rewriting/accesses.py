"""Reads and writes of memory in expressions and statements."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from services.generator.rewriting.expressions import NotApplicable, Polynomial, polynomial
from services.generator.rewriting.syntax import (
    Array,
    Assign,
    Block,
    Call,
    Declare,
    Expression,
    For,
    If,
    Other,
    Return,
    Statement,
)

__all__ = ["Access", "accesses", "expressions_of", "require_no_side_effects", "subexpressions"]


@dataclass(frozen=True, slots=True)
class Access:
    """One array element that is read or written."""

    base: str
    """The pointer, after locals such as `row_start = x + row * n` are put in."""
    index: Polynomial
    expression: Expression
    written: bool
    read: bool


def subexpressions(expression: Expression) -> Iterator[Expression]:
    """Yield the expression and all below it."""
    yield expression
    for operand in expression.operands:
        yield from subexpressions(operand)


def expressions_of(statement: Statement) -> tuple[Expression, ...]:
    """Return the statement's own expressions, those of statements inside left out; written ones first."""
    match statement:
        case Declare(value=Expression() as value):
            return (value,)
        case Assign():
            return statement.target, statement.value
        case Call():
            return (statement.call,)
        case If():
            return (statement.condition,)
        case For():
            return statement.first, statement.bound, *([statement.step] if statement.step else [])
    return ()


def _place(pointer: Expression, definitions: Mapping[str, Expression]) -> tuple[str, Polynomial]:
    match pointer:
        case Expression(kind="name", operator=name) if name in definitions:
            rest = {key: value for key, value in definitions.items() if key != name}
            return _place(definitions[name], rest)
        case Expression(kind="name", operator=name):
            return name, {}
        case Expression(kind="binary", operator="+", operands=(left, right)):
            if "*" not in left.type:
                left, right = right, left
            base, offset = _place(left, definitions)
            return base, _sum(offset, polynomial(right, definitions))
        case Expression(kind="unary", operator="&", operands=(Expression(kind="subscript", operands=(of, index)),)):
            base, offset = _place(of, definitions)
            return base, _sum(offset, polynomial(index, definitions))
    raise NotApplicable(f"`{pointer.text}` is no plain pointer")


def _sum(left: Polynomial, right: Polynomial) -> Polynomial:
    total = dict(left)
    for key, value in right.items():
        total[key] = total.get(key, 0) + value
    return {key: value for key, value in total.items() if value}


def _access(expression: Expression, definitions: Mapping[str, Expression], *, read: bool, written: bool) -> Access:
    match expression:
        case Expression(kind="subscript", operands=(pointer, index)):
            base, offset = _place(pointer, definitions)
            return Access(base, _sum(offset, polynomial(index, definitions)), expression, written, read)
        case Expression(kind="unary", operator="*", operands=(pointer,)):
            base, offset = _place(pointer, definitions)
            return Access(base, offset, expression, written, read)
    raise NotApplicable(f"`{expression.text}` is no array element")


def _is_element(expression: Expression) -> bool:
    return expression.kind == "subscript" or (expression.kind == "unary" and expression.operator == "*")


def _reads(expression: Expression, definitions: Mapping[str, Expression]) -> Iterator[Access]:
    for inner in subexpressions(expression):
        if _is_element(inner):
            yield _access(inner, definitions, read=True, written=False)


def accesses(statements: tuple[Statement, ...], definitions: Mapping[str, Expression]) -> tuple[Access, ...]:
    """Return every read and write in the statements, also those inside loops and branches.

    Args:
        statements: what is searched.
        definitions: values of locals that are assigned once; they are put into the indices.

    Raises:
        NotApplicable: something reaches memory in another way than by a subscript of a pointer.
    """
    found: list[Access] = []
    for statement in statements:
        match statement:
            case Assign(target=target, operator=operator, value=value) if _is_element(target):
                found.append(_access(target, definitions, read=operator != "=", written=True))
                for operand in target.operands:
                    found.extend(_reads(operand, definitions))
                found.extend(_reads(value, definitions))
            case Return() | Array():
                pass
            case Other(text=text):
                raise NotApplicable(f"`{' '.join(text.split())[:60]}` is not understood")
            case _:
                for expression in expressions_of(statement):
                    found.extend(_reads(expression, definitions))
        match statement:
            case For() | Block():
                found.extend(accesses(statement.body, definitions))
            case If():
                found.extend(accesses(statement.then, definitions))
                found.extend(accesses(statement.otherwise, definitions))
    return tuple(found)


def require_no_side_effects(expression: Expression) -> None:
    """Check that evaluating the expression changes nothing.

    Raises:
        NotApplicable: it assigns, or calls something with a pointer.
    """
    for inner in subexpressions(expression):
        if inner.kind in {"assign", "postfix"} or (inner.kind == "unary" and inner.operator in {"++", "--"}):
            raise NotApplicable(f"`{inner.text}` has a side effect")
        if inner.kind == "call" and inner.operator != "__ldg" and any("*" in part.type for part in inner.operands):
            raise NotApplicable(f"`{inner.text}` may write through a pointer")
        if inner.kind == "call" and ("sync" in inner.operator or inner.operator.startswith("atomic")):
            raise NotApplicable(f"`{inner.text}` acts on other threads")
