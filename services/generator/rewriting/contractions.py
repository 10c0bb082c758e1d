"""Contractions: `for k: sum += a[..row..k..] * b[..col..k..]`, whatever the layout, and what is done with the sum."""

from dataclasses import dataclass

from services.generator.rewriting.accesses import (
    Access,
    accesses,
    expressions_of,
    require_no_side_effects,
    subexpressions,
)
from services.generator.rewriting.context import Context
from services.generator.rewriting.expressions import NotApplicable, coefficient, is_integer
from services.generator.rewriting.planes import Plane, Side, inlined, read_plane
from services.generator.rewriting.reductions import read_update
from services.generator.rewriting.syntax import (
    Array,
    Assign,
    Call,
    Declare,
    Expression,
    For,
    Other,
    Return,
    Statement,
    flat,
)

__all__ = ["Contraction", "Operand", "read_contraction"]

_ELEMENTS = {"float", "double", "int", "unsigned int"}


@dataclass(frozen=True, slots=True)
class Operand:
    """One factor of the products: an array element that depends on k and one output coordinate."""

    text: str
    """The element, over the output coordinate and k, locals put in."""
    element: str
    """Its type."""
    side: str
    """The output coordinate."""
    k_is_contiguous: bool
    """Whether neighbours along k are neighbours in memory; else those along the coordinate are."""
    base: str


@dataclass(frozen=True, slots=True)
class Contraction:
    """A contraction over k for each element of an output plane."""

    plane: Plane
    rows: Side
    """The output coordinate that strides."""
    columns: Side
    """The output coordinate along which the output is contiguous."""
    loop: For
    accumulator: Declare
    product: str
    """The summand, with `{rows}` and `{columns}` for the two operands."""
    of_rows: Operand
    of_columns: Operand
    before: tuple[Declare, ...]
    """Locals that are declared before the loop, besides the accumulator and the plane's."""
    after: tuple[Statement, ...]
    """What is done with the sum."""


def _product(loop: For, values: dict[str, Expression], accumulator: str) -> Expression:
    """Return the summand; check that the loop's body does nothing else than declare locals and add it."""
    found: Expression | None = None
    for statement in loop.body:
        if isinstance(statement, Declare) and statement.value is not None:
            values[statement.name] = statement.value
            continue
        update = read_update(statement)
        if update is None or found is not None or update.operation != "sum" or update.accumulator != accumulator:
            raise NotApplicable("the loop does more than add one product to one sum")
        if isinstance(statement, Assign) and (statement.operator == "-=" or _subtracts(statement.value)):
            raise NotApplicable("the products are subtracted")
        if len(update.value) == 2:
            found = Expression("binary", "", update.value[0].type, "*", update.value)
        else:
            found = update.value[0]
    if found is None:
        raise NotApplicable("the loop adds no product")
    return found


def _subtracts(value: Expression) -> bool:
    return value.kind == "binary" and value.operator == "-"


def _factors(expression: Expression, values: dict[str, Expression]) -> list[Expression]:
    match expression:
        case Expression(kind="binary", operator="*", operands=(left, right)):
            return _factors(left, values) + _factors(right, values)
        case Expression(kind="name", operator=name) if name in values:
            return _factors(values[name], values)
        case Expression(kind="cast", operands=(operand,)) if expression.operator == operand.type:
            return _factors(operand, values)
    return [expression]


def _operand(access: Access, side: Side, other: Side, k: str, values: dict[str, Expression]) -> Operand | None:
    along_k = coefficient(access.index, k)
    along_side = coefficient(access.index, side.name)
    along_other = coefficient(access.index, other.name)
    if along_k is None or along_side is None or along_other is None:
        raise NotApplicable(
            f"the index of `{access.expression.text}` is not linear in `{k}` and the output's coordinates"
        )
    if not along_k or not along_side or along_other:
        return None
    contiguous = along_k == {(): 1}
    element = access.expression.type
    if element not in _ELEMENTS:
        raise NotApplicable(f"elements of `{access.base}` are of type {element}")
    return Operand(inlined(access.expression, values), element, side.name, contiguous, access.base)


def _operands(
    factors: list[Expression], plane: Plane, k: str, values: dict[str, Expression]
) -> tuple[list[Operand], list[str]]:
    """Return the two operands, by the plane's sides, and the other factors' texts."""
    moving = {side.name for side in plane.sides} | {k}
    found: dict[str, Operand] = {}
    others: list[str] = []
    for factor in factors:
        require_no_side_effects(factor)
        if factor.kind != "subscript":
            text = inlined(factor, values)
            expanded = {name for inner in subexpressions(factor) for name in inner.names}
            if expanded & (moving | set(values)) or "[" in text:
                raise NotApplicable(f"the factor `{factor.text}` is no plain array element")
            others.append(text)
            continue
        access = accesses((Assign(factor, "=", factor, 0, 0),), {**plane.varying, **values})[0]
        a, b = plane.sides
        operand = _operand(access, a, b, k, values) or _operand(access, b, a, k, values)
        if operand is None or operand.side in found:
            raise NotApplicable(f"`{factor.text}` does not depend on `{k}` and exactly one output coordinate")
        found[operand.side] = operand
    if len(found) != 2:
        raise NotApplicable("the summand is no product of an element for each of the two output coordinates")
    return [found[side.name] for side in plane.sides], others


def _check_around(before: tuple[Statement, ...], after: tuple[Statement, ...]) -> tuple[Declare, ...]:
    declares = tuple(statement for statement in before if isinstance(statement, Declare))
    if len(declares) != len(before) or any(found.value is None for found in declares):
        raise NotApplicable("something besides declarations comes before the loop")
    for statement in flat((*before, *after)):
        if isinstance(statement, (Return, Array, Other, For)) or (
            isinstance(statement, Call) and not statement.call.operator.startswith("atomic")
        ):
            raise NotApplicable("what follows the loop holds a loop, a return, or something that is not understood")
        for expression in expressions_of(statement):
            if not isinstance(statement, Call):
                require_no_side_effects(expression)
    return declares


def _orient(plane: Plane, after: tuple[Statement, ...]) -> tuple[Side, Side]:
    """Return the striding and the contiguous side of the output."""
    written = [access for access in accesses(after, plane.varying) if access.written]
    if not written:
        raise NotApplicable("nothing is written after the loop")
    a, b = plane.sides
    for access in written:
        if coefficient(access.index, b.name) == {(): 1}:
            return a, b
        if coefficient(access.index, a.name) == {(): 1}:
            return b, a
    raise NotApplicable("the output is contiguous along neither coordinate")


def read_contraction(context: Context) -> Contraction:
    """Find the kernel's contraction.

    Raises:
        NotApplicable: it is none, or one that is not understood precisely.
    """
    plane = read_plane(context)
    loops = [statement for statement in plane.work if isinstance(statement, For)]
    if len(loops) != 1:
        raise NotApplicable(f"each thread runs {len(loops)} loops one after the other where one is needed")
    loop = loops[0]
    if loop.first.text != "0" or loop.relation != "<" or loop.step is not None or not is_integer(loop.type):
        raise NotApplicable(f"the loop over `{loop.variable}` does not count from 0 by 1")
    position = plane.work.index(loop)
    after = plane.work[position + 1 :]
    declares = _check_around(plane.work[:position], after)
    moving = {side.name for side in plane.sides} | {plane.linear}
    if loop.bound.names & (moving | set(plane.varying)):
        raise NotApplicable("the length of the sum differs between outputs")
    sums = [update.accumulator for statement in loop.body if (update := read_update(statement))]
    accumulator = next((found for found in declares if found.name in sums), None)
    if accumulator is None or accumulator.type not in {"float", "double", "int"}:
        raise NotApplicable("the loop adds into no local of the kernel")
    values = dict(plane.varying)
    factors = _factors(_product(loop, values, accumulator.name), values)
    operands, others = _operands(factors, plane, loop.variable, values)
    rows, columns = _orient(plane, after)
    by_side = {operand.side: operand for operand in operands}
    if {access.base for access in accesses(after, plane.varying) if access.written} & {
        operand.base for operand in operands
    }:
        raise NotApplicable("the output is an operand as well")
    product = " * ".join([*(f"({other})" for other in others), "{rows}", "{columns}"])
    before = tuple(found for found in declares if found is not accumulator)
    return Contraction(
        plane, rows, columns, loop, accumulator, product, by_side[rows.name], by_side[columns.name], before, after
    )
