"""Kernels in which each thread computes one element of an output plane."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from services.generator.rewriting.context import Context
from services.generator.rewriting.expressions import NotApplicable, Polynomial, polynomial, renamed
from services.generator.rewriting.syntax import Declare, Expression, Statement
from services.generator.rewriting.threads import Coordinate, bounded

__all__ = ["Plane", "Side", "inlined", "names_in", "read_plane", "redeclared", "shared_lines", "statement_text"]


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two coordinates of an output plane."""

    name: str
    type: str
    bound: Expression


@dataclass(frozen=True, slots=True)
class Plane:
    """Two output coordinates, in no particular order, and what stays as it is."""

    sides: tuple[Side, Side]
    passive: tuple[Coordinate, ...]
    """Coordinates that are the same for a whole block."""
    prefix: tuple[Declare, ...]
    """Integer locals that are the same for all threads of a block."""
    varying: dict[str, Expression]
    """Integer and pointer locals that are not in the prefix, to be put in where they are used."""
    work: tuple[Statement, ...]
    linear: str = ""
    """The name of the one coordinate that the two were computed from, if so."""


def inlined(expression: Expression, values: Mapping[str, Expression]) -> str:
    """Return the expression's text with locals replaced by their values, again and again.

    Raises:
        NotApplicable: a macro hides one of the locals.
    """
    if expression.hidden and not expression.names.isdisjoint(values):
        raise NotApplicable(f"a macro hides the variables of `{expression.text}`")
    inner = {
        name: inlined(values[name], {key: value for key, value in values.items() if key != name})
        for name in expression.names & set(values)
    }
    return renamed(expression.text, inner)


def _depends(expression: Expression, names: set[str], definitions: Mapping[str, Expression]) -> bool:
    if expression.names & names:
        return True
    return any(
        _depends(definitions[name], names, {key: value for key, value in definitions.items() if key != name})
        for name in expression.names & set(definitions)
    )


def _split(context: Context) -> tuple[Side, Side] | None:
    """Read `row = i / n; col = i % n` with the bounds check `i < m * n`."""
    threads = context.threads
    linear = threads.only()
    assert linear.bound is not None
    for row in threads.prefix:
        match row.value:
            case Expression(kind="binary", operator="/", operands=(of, width)) if of.text == linear.name:
                column = next((found for found in threads.prefix if _is_remainder(found, linear.name, width)), None)
                height = _quotient(linear.bound, width, threads.definitions)
                if column is not None and height is not None:
                    return Side(row.name, row.type, height), Side(column.name, column.type, width)
    return None


def _joined(row: Side, column: Side) -> Expression:
    """Return `row * width + column`."""
    by_row = Expression("name", row.name, row.type, row.name, (), frozenset({row.name}))
    by_column = Expression("name", column.name, column.type, column.name, (), frozenset({column.name}))
    width = column.bound
    text = f"{row.name} * ({width.text})"
    start = Expression("binary", text, row.type, "*", (by_row, width), by_row.names | width.names)
    text = f"{text} + {column.name}" if width.kind != "name" else f"{row.name} * {width.text} + {column.name}"
    return Expression("binary", text, row.type, "+", (start, by_column), start.names | by_column.names)


def _is_remainder(found: Declare, linear: str, width: Expression) -> bool:
    match found.value:
        case Expression(kind="binary", operator="%", operands=(of, by)):
            return of.text == linear and by.text == width.text
        case Expression(kind="binary", operator="-", operands=(of, Expression(operator="*", operands=(_, by)))):
            return of.text == linear and by.text == width.text
    return False


def _quotient(product: Expression, factor: Expression, definitions: Mapping[str, Expression]) -> Expression | None:
    wanted: Polynomial = polynomial(factor, definitions)
    while product.kind == "name" and product.operator in definitions:
        product = definitions[product.operator]
    match product:
        case Expression(kind="binary", operator="*", operands=(left, right)):
            if polynomial(right, definitions) == wanted:
                return left
            if polynomial(left, definitions) == wanted:
                return right
    return None


def read_plane(context: Context) -> Plane:
    """Tell the two output coordinates from what a block shares.

    Raises:
        NotApplicable: the kernel has another shape.
    """
    threads = context.threads
    block = dict(zip("xyz", context.block(), strict=True))
    moving = [found for found in threads.coordinates.values() if not found.uniform]
    passive = tuple(found for found in threads.coordinates.values() if found.uniform)
    lower = next((found for found in passive if found.lower), None)
    if lower is not None or any(found.axis != "z" for found in passive):
        raise NotApplicable("a coordinate that a whole block shares is not on the z axis, or has a lower end")
    linear = ""
    if len(moving) == 1 and len(threads.coordinates) == 1:
        sides = _split(context)
        if sides is None:
            raise NotApplicable("threads have one coordinate, and it is not split into a row and a column")
        linear = moving[0].name
        if any(name != "1" for axis, name in block.items() if axis != moving[0].axis):
            raise NotApplicable("the block has an extent that the kernel does not use")
    elif len(moving) == 2 and {found.axis for found in moving} == {"x", "y"}:
        a, b = (bounded(found) for found in moving)
        assert a.bound is not None
        assert b.bound is not None
        sides = Side(a.name, a.type, a.bound), Side(b.name, b.type, b.bound)
    else:
        raise NotApplicable(f"threads have {len(moving)} coordinates where two are needed")
    moved = {side.name for side in sides} | ({linear} if linear else set())
    names = {found.name for found in threads.prefix} - moved
    shared = tuple(
        found
        for found in threads.prefix
        if found.name in names and found.value is not None and not _depends(found.value, moved, threads.definitions)
    )
    kept = {found.name for found in shared} | moved
    varying = {name: value for name, value in threads.definitions.items() if name not in kept}
    if linear:
        varying[linear] = _joined(*sides)
    for side in sides:
        if side.bound.names & moved or re.search(r"threadIdx|blockIdx", side.bound.text):
            raise NotApplicable(f"the bound of `{side.name}` differs between threads")
    return Plane(sides, passive, shared, varying, threads.work, linear)


def names_in(context: Context, statement: Statement) -> set[str]:
    """Return the words of a statement's text."""
    return set(re.findall(r"[A-Za-z_]\w*", context.text[statement.start : statement.end]))


def statement_text(context: Context, statement: Statement) -> str:
    """Return a statement's text with its semicolon."""
    text = context.text[statement.start : statement.end]
    return text + ";" if re.match(r"\s*;", context.text[statement.end :]) and not text.endswith(("}", ";")) else text


def _declare_of(context: Context, name: str) -> Declare | None:
    threads = context.threads
    for coordinate in threads.coordinates.values():
        if coordinate.name == name:
            return coordinate.declare
    declared = (*threads.prefix, *threads.work)
    return next((found for found in declared if isinstance(found, Declare) and found.name == name), None)


def redeclared(context: Context, plane: Plane, used: set[str]) -> list[str]:
    """Return declarations of the plane's varying locals that are used, for a place where the coordinates are known."""
    needed = set(used)
    for name in reversed(list(plane.varying)):
        if name in needed:
            needed |= plane.varying[name].names
    found = {name: _declare_of(context, name) for name in plane.varying if name in needed}
    order = sorted(found, key=lambda name: (name != plane.linear, declare.start if (declare := found[name]) else 0))
    lines = []
    for name in order:
        declare = found[name]
        value = plane.varying[name]
        of = declare.type if declare and "*" not in declare.type else "auto"
        lines.append(f"const {of} {name} = {value.text};")
    return lines


def shared_lines(plane: Plane) -> list[str]:
    """Return the declarations of what is the same for a whole block, with its bounds checks."""
    lines = []
    for passive in plane.passive:
        assert passive.declare.value is not None
        lines.append(f"const {passive.type} {passive.name} = {passive.declare.value.text};")
        if passive.bound is not None:
            lines.append(f"if ({passive.name} >= {passive.bound.text}) return;  // the whole block leaves")
    for declare in plane.prefix:
        assert declare.value is not None
        lines.append(f"const {declare.type} {declare.name} = {declare.value.text};")
    return lines
