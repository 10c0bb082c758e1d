"""Kernels in which each thread works on one element are given a loop over several."""

import re
from dataclasses import dataclass

from optiml import expressions
from services.generator.rewriting.accesses import expressions_of, subexpressions
from services.generator.rewriting.context import Context, Replacement, apply, indentation
from services.generator.rewriting.expressions import NotApplicable
from services.generator.rewriting.planes import inlined
from services.generator.rewriting.positions import require_coordinates_only
from services.generator.rewriting.syntax import (
    Array,
    Assign,
    Block,
    Declare,
    For,
    Function,
    If,
    Other,
    Return,
    Statement,
    flat,
)
from services.generator.rewriting.threads import Coordinate

__all__ = ["Repeated", "blocks", "read_repeatable", "require_below", "wrapped"]

_TOGETHER = re.compile(r"__shared__|__sync|__shfl|__ballot|__any|__all|__match|cooperative|__reduce|\basm\b")
_LEAVES = re.compile(r"\b(return|goto)\b")
_64_BITS = {"size_t", "long", "unsigned long", "long long", "unsigned long long", "int64_t", "uint64_t", "ptrdiff_t"}


@dataclass(frozen=True, slots=True)
class Repeated:
    """A coordinate that a loop may number instead."""

    coordinate: Coordinate
    count: str
    """Its exclusive upper end, as a launch expression."""
    count_in_kernel: str
    """The same over the kernel's parameters; "" if it cannot be written before the coordinate is known."""
    returns: tuple[Return, ...]
    """The returns after it; each ends the work on one element."""

    @property
    def is_64_bits(self) -> bool:
        """Whether the coordinate's type holds more than 32 bits."""
        return self.coordinate.type in _64_BITS


def blocks(count: str, each: str) -> str:
    """Return how many blocks of `each` cover `count`, at least one: no grid is empty."""
    found = f"ceil_div({count}, {each})"
    return found if re.fullmatch(r"\w+( \* \w+)*", count) else f"max({found}, 1)"


def _returns(statements: tuple[Statement, ...], start: int) -> list[Return]:
    """Return the returns after `start`.

    Raises:
        NotApplicable: a loop or something that is not understood holds one.
    """
    found: list[Return] = []
    for statement in statements:
        match statement:
            case Return() if statement.start >= start:
                found.append(statement)
            case If():
                found += _returns((*statement.then, *statement.otherwise), start)
            case Block():
                found += _returns(statement.body, start)
            case For() if any(isinstance(inner, Return) for inner in flat(statement.body)):
                raise NotApplicable("a loop holds a return")
        for inner in flat((statement,)):
            if isinstance(inner, Other) and _LEAVES.search(inner.text):
                raise NotApplicable("a return stands in a loop or something else that is not understood")
    return found


def _changed(statement: Statement) -> set[str]:
    """Return the plain variables that the statement itself assigns to."""
    found = {statement.target.operator} if isinstance(statement, Assign) and statement.target.kind == "name" else set()
    for expression in expressions_of(statement):
        for inner in subexpressions(expression):
            changes = inner.kind in {"assign", "postfix"} or (
                inner.kind == "unary" and inner.operator in {"++", "--", "&"}
            )
            if changes and inner.operands[0].kind == "name":
                found.add(inner.operands[0].operator)
    return found


def _require_nothing_carried(function: Function, start: int) -> None:
    """Check that what comes after `start` changes no variable that was declared before it.

    Raises:
        NotApplicable: one element's work would see what another's left behind.
    """
    after = [statement for statement in flat(function.body) if statement.start >= start]
    own = {found.name for found in after if isinstance(found, (Declare, Array))}
    own |= {found.variable for found in after if isinstance(found, For)}
    parameters = {parameter.name for parameter in function.parameters}
    for statement in after:
        carried = _changed(statement) - own
        if isinstance(statement, Other):
            carried = {name for name in statement.names & parameters if re.search(_written(name), statement.text)}
        if carried:
            raise NotApplicable(f"`{min(carried)}` would be carried from one element to the next")


def _written(name: str) -> str:
    word = rf"(?<![\w.])(?<!->){re.escape(name)}"
    return rf"{word}\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)|{word}\s*(?:\+\+|--)|(?:\+\+|--|&)\s*{word}\b"


def read_repeatable(context: Context, axis: str) -> Repeated:
    """Return the coordinate along an axis.

    Raises:
        NotApplicable: threads work together, or use their numbers for more than one coordinate an axis.
    """
    function = context.function
    body = context.text[function.body_start : function.end]
    if _TOGETHER.search(body):
        raise NotApplicable("threads of a block work together")
    moving = [found for found in context.threads.coordinates.values() if not found.uniform]
    coordinate = next((found for found in moving if found.axis == axis), None)
    if coordinate is None or coordinate.bound is None:
        raise NotApplicable(f"threads have no coordinate along {axis} with a bounds check")
    known = context.threads.coordinates.values()
    places = {found.declare.start: found.declare.end for found in known}
    declared = [found.start for found in flat(function.body) if isinstance(found, Declare)]
    if any(declared.count(start) > 1 for start in places):
        raise NotApplicable("several variables are declared in one statement with a thread's coordinate")
    require_coordinates_only(context)
    if not any(found is coordinate.declare for found in function.body):
        raise NotApplicable(f"`{coordinate.name}` is declared inside a block")
    values = {name: value for name, value in context.threads.definitions.items() if name not in context.constants}
    text = inlined(coordinate.bound, values)
    names = set(re.findall(r"[A-Za-z_]\w*", text))
    before = {parameter.name for parameter in function.parameters} | set(context.constants)
    _require_nothing_carried(function, coordinate.declare.start)
    returns = tuple(_returns(function.body, coordinate.declare.end))
    return Repeated(coordinate, context.host(coordinate.bound), text if names <= before else "", returns)


def require_below(context: Context, found: Repeated, most: int) -> None:
    """Check that the count stays below a limit at every size of the problem, so that a stride past it fits its type.

    Raises:
        NotApplicable: it does not, or cannot be told.
    """
    for size in (*context.problem.time, *context.problem.check, *context.problem.smoke):
        try:
            count = expressions.evaluate_integer(found.count, dict(size.parameters))
        except expressions.ExpressionError as error:
            raise NotApplicable(f"the number of elements cannot be told: {error}") from error
        if count > most:
            raise NotApplicable(f"`{found.coordinate.name}` comes near the end of its type at {count} elements")


def _whole_line(text: str, statement: Statement) -> tuple[int, int]:
    """Return the extent of a statement with its semicolon, and of its line if it is alone there."""
    start, end = statement.start, statement.end
    if (semicolon := re.compile(r"\s*;").match(text, end)) and text[end - 1] not in "};":
        end = semicolon.end()
    line = text.rfind("\n", 0, start)
    if not text[line:start].strip() and (rest := re.compile(r"[ \t]*(?=\n)").match(text, end)):
        return line, rest.end()
    return start, end


def wrapped(context: Context, found: Repeated, opening: list[str], dropped: tuple[Statement, ...] = ()) -> str:
    """Return the file with a loop from the coordinate's declaration to the end of the function.

    Args:
        context: the kernel.
        found: the coordinate.
        opening: lines that replace its declaration; the last ones open the loop and declare it anew.
        dropped: statements that the loop makes needless.
    """
    text, function = context.text, context.function
    declare = found.coordinate.declare
    start, end = declare.start, function.end - 1
    start_inside = _whole_line(text, declare)[1]
    gone = [_whole_line(text, statement) for statement in dropped]
    changes: list[Replacement] = [(a, b, "") for a, b in gone]
    changes += [
        (leaving.start, leaving.end, "continue")
        for leaving in found.returns
        if not any(a <= leaving.start < b for a, b in gone)
    ]
    inside = apply(
        text[start_inside:end], [(a - start_inside, b - start_inside, new) for a, b, new in changes]
    ).rstrip()
    indent = indentation(text, start)
    lines = [line if not line.strip() or line.startswith("#") else f"  {line}" for line in inside.split("\n")]
    lines[0] = lines[0].lstrip()  # what followed the declaration in its line, a comment as a rule
    after = f" {lines[0]}" if lines[0] else ""
    new = "\n".join(line if line.startswith("#") or not n else f"{indent}{line}" for n, line in enumerate(opening))
    body = new + after + "\n" + "\n".join(line for line in lines[1:]).strip("\n") + f"\n{indent}}}\n"
    header = context.header_replacement()
    return apply(text, [header, (start, end, body)])
