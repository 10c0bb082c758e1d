"""Which thread does what: coordinates, bounds checks and the work that is left for each thread."""

from collections.abc import Mapping
from dataclasses import dataclass

from services.generator.rewriting.expressions import NotApplicable, Polynomial, is_integer, polynomial
from services.generator.rewriting.syntax import (
    Assign,
    Declare,
    Expression,
    For,
    Function,
    If,
    Return,
    Statement,
    flat,
)

__all__ = ["Coordinate", "Threads", "definitions_of", "read_threads"]

_AXES = "xyz"


@dataclass(frozen=True, slots=True)
class Coordinate:
    """A local that numbers the threads along one axis: `blockIdx.x * blockDim.x + threadIdx.x`."""

    name: str
    axis: str
    """x, y or z."""
    type: str
    declare: Declare
    bound: Expression | None
    """Exclusive upper end by the bounds check; None if there is none."""
    uniform: bool = False
    """Whether all threads of a block have the same."""
    lower: tuple[Expression, ...] = ()
    """Conditions that ask for a lower end, too, as in `i > 0`."""


@dataclass(frozen=True, slots=True)
class Threads:
    """The shape of a kernel in which each thread does its own work."""

    coordinates: dict[str, Coordinate]
    """By name."""
    definitions: dict[str, Expression]
    """Integer and pointer locals that are assigned once, coordinates excluded."""
    prefix: tuple[Declare, ...]
    """Integer locals before the work, coordinates excluded, in order."""
    work: tuple[Statement, ...]
    """What a thread within the bounds does."""
    guards: tuple[If, ...] = ()
    """The bounds checks."""

    def only(self) -> Coordinate:
        """Return the one coordinate in which threads of a block differ.

        Raises:
            NotApplicable: there are several, or none, or it has no bounds check.
        """
        moving = [found for found in self.coordinates.values() if not found.uniform]
        if len(moving) != 1:
            raise NotApplicable(f"threads have {len(moving)} coordinates where one is needed")
        return bounded(moving[0])


def bounded(coordinate: Coordinate) -> Coordinate:
    """Return the coordinate.

    Raises:
        NotApplicable: it has no bounds check.
    """
    if coordinate.bound is None:
        raise NotApplicable(f"there is no bounds check of `{coordinate.name}`")
    if coordinate.lower:
        raise NotApplicable(f"the bounds check of `{coordinate.name}` has a lower end: `{coordinate.lower[0].text}`")
    return coordinate


def assigned_names(statements: tuple[Statement, ...]) -> dict[str, int]:
    """Count the assignments to each plain variable, initial values included, also those inside expressions."""
    counts: dict[str, int] = {}
    for statement in flat(statements):
        match statement:
            case Declare(name=name):
                counts[name] = counts.get(name, 0) + 1
            case Assign(target=Expression(kind="name", operator=name)):
                counts[name] = counts.get(name, 0) + 1
            case For(variable=name):
                counts[name] = counts.get(name, 0) + 2
            case _ if not isinstance(statement, (Assign, If, Return)) and hasattr(statement, "names"):
                for name in statement.names:
                    counts[name] = counts.get(name, 0) + 2
    return counts


def definitions_of(statements: tuple[Statement, ...]) -> dict[str, Expression]:
    """Return the integer and pointer locals that have one value, with that value."""
    counts = assigned_names(statements)
    return {
        statement.name: statement.value
        for statement in flat(statements)
        if isinstance(statement, Declare)
        and statement.value is not None
        and counts[statement.name] == 1
        and (is_integer(statement.type) or "*" in statement.type)
    }


def _axis(
    found: Polynomial, extents: Mapping[str, tuple[str, int | None]], constants: Mapping[str, int]
) -> tuple[str, bool] | None:
    """Return the axis along which the polynomial numbers threads, and whether it is the same for a whole block.

    The extents are the launch's block sizes.
    """
    for axis in _AXES:
        thread, block = f"threadIdx.{axis}", f"blockIdx.{axis}"
        if found == {(block,): 1} and extents[axis][1] == 1:
            return axis, True
        rest = dict(found)
        if rest.pop((thread,), 0) != 1 or len(rest) != 1:
            continue
        ((factors, value),) = rest.items()
        others = [factor for factor in factors if factor != block]
        if len(others) == len(factors):
            continue
        if others == [f"blockDim.{axis}"] and value == 1:
            return axis, extents[axis][1] == 1
        for factor in others:
            value *= constants.get(factor, 0)
        if value == extents[axis][1]:
            return axis, value == 1
    return None


def _conditions(expression: Expression, joint: str) -> list[Expression]:
    if expression.kind == "binary" and expression.operator == joint:
        return [part for operand in expression.operands for part in _conditions(operand, joint)]
    return [expression]


_FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


def _bounds(
    condition: Expression, relation: str, joint: str, names: set[str]
) -> tuple[dict[str, Expression], dict[str, tuple[Expression, ...]]] | None:
    """Return upper ends by coordinate, and conditions for lower ends; None if the condition is something else."""
    found: dict[str, Expression] = {}
    lower: dict[str, tuple[Expression, ...]] = {}
    for part in _conditions(condition, joint):
        if part.kind != "binary" or part.operator not in _FLIPPED:
            return None
        left, right = part.operands
        operator = part.operator
        if right.kind == "name" and right.operator in names:
            left, right, operator = right, left, _FLIPPED[operator]
        if left.kind != "name" or left.operator not in names or right.names & names:
            return None
        if operator == relation and left.operator not in found:
            found[left.operator] = right
        elif operator.startswith(_FLIPPED[relation][0]):
            lower[left.operator] = (*lower.get(left.operator, ()), part)
        else:
            return None
    return found, lower


def read_threads(
    function: Function, extents: Mapping[str, tuple[str, int | None]], constants: Mapping[str, int]
) -> Threads:
    """Tell coordinates, bounds checks and work apart.

    Args:
        function: the kernel.
        extents: block sizes of its launch by axis: the expression, and its value if it is a plain number.
        constants: integer macros and constants of the file.
    """
    definitions = definitions_of(function.body)
    coordinates: dict[str, Coordinate] = {}
    prefix: list[Declare] = []
    work: list[Statement] = []
    body = function.body
    bounds: dict[str, Expression] = {}
    lower: dict[str, tuple[Expression, ...]] = {}
    guards: list[If] = []
    position = 0
    while position < len(body):
        statement = body[position]
        position += 1
        last = position == len(body) or (position == len(body) - 1 and isinstance(body[position], Return))
        match statement:
            case Declare(name=name, value=Expression() as value, type=of) if name in definitions and is_integer(of):
                axis = _axis(polynomial(value, definitions), extents, constants) if not work else None
                if axis and all(known.axis != axis[0] for known in coordinates.values()):
                    coordinates[name] = Coordinate(name, axis[0], of, statement, None, axis[1])
                    continue
                if not work:
                    prefix.append(statement)
                    continue
            case If(then=(Return(),), otherwise=()) if not work:
                found = _bounds(statement.condition, ">=", "||", set(coordinates) - set(bounds))
                if found is not None:
                    bounds |= found[0]
                    lower |= found[1]
                    guards.append(statement)
                    continue
            case If(otherwise=()) if not work and last:
                found = _bounds(statement.condition, "<", "&&", set(coordinates) - set(bounds))
                if found is not None:
                    bounds |= found[0]
                    lower |= found[1]
                    guards.append(statement)
                    body, position = statement.then, 0
                    continue
        work.append(statement)
    known = {
        name: Coordinate(
            found.name, found.axis, found.type, found.declare, bounds.get(name), found.uniform, lower.get(name, ())
        )
        for name, found in coordinates.items()
    }
    rest = {name: value for name, value in definitions.items() if name not in known}
    return Threads(known, rest, tuple(prefix), tuple(work), tuple(guards))
