"""Array reads inside nests of loops: under which loops they stand, and what their index depends on."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from services.generator.rewriting.accesses import Access, accesses, expressions_of
from services.generator.rewriting.context import Context
from services.generator.rewriting.expressions import polynomial
from services.generator.rewriting.syntax import Block, For, If, Statement

__all__ = ["Read", "constant_trips", "reads_in", "starts_line", "unrolled_already"]

_WORD = re.compile(r"[A-Za-z_][\w.]*")


@dataclass(frozen=True, slots=True)
class Read:
    """A read and the loops around it, outermost first."""

    access: Access
    loops: tuple[For, ...]
    top: Statement
    """The statement of the thread's work in which it stands."""
    conditional: bool = False
    """Whether a branch decides if it happens."""

    @property
    def names(self) -> frozenset[str]:
        """What the index depends on, after locals are put in."""
        return frozenset(word for factors in self.access.index for factor in factors for word in _WORD.findall(factor))


def reads_in(context: Context, work: tuple[Statement, ...]) -> Iterator[Read]:
    """Yield every read of the work.

    Raises:
        NotApplicable: something reaches memory in a way that is not understood.
    """
    for statement in work:
        yield from _reads(context, statement, (), statement, conditional=False)


def _reads(
    context: Context, statement: Statement, loops: tuple[For, ...], top: Statement, *, conditional: bool
) -> Iterator[Read]:
    if isinstance(statement, (For, If, Block)):
        inner = (*loops, statement) if isinstance(statement, For) else loops
        body = statement.body if isinstance(statement, (For, Block)) else (*statement.then, *statement.otherwise)
        for child in body:
            yield from _reads(context, child, inner, top, conditional=conditional or isinstance(statement, If))
        if isinstance(statement, If):
            yield from _own(context, statement, loops, top, conditional=conditional)
        return
    for access in accesses((statement,), context.threads.definitions):
        yield Read(access, loops, top, conditional)


def _own(
    context: Context, statement: If, loops: tuple[For, ...], top: Statement, *, conditional: bool
) -> Iterator[Read]:
    (condition,) = expressions_of(statement)
    bare = If(condition, (), (), statement.start, statement.end)
    for access in accesses((bare,), context.threads.definitions):
        yield Read(access, loops, top, conditional)


def constant_trips(context: Context, loop: For) -> int | None:
    """Return how often a loop from 0 by 1 to a constant runs, else None."""
    if loop.first.text != "0" or loop.relation != "<" or loop.step is not None:
        return None
    found = polynomial(loop.bound, {})
    total = 0
    for factors, value in found.items():
        for factor in factors:
            if factor not in context.constants:
                return None
            value *= context.constants[factor]  # noqa: PLW2901 - the product of this term
        total += value
    return total


def starts_line(text: str, offset: int) -> bool:
    """Whether nothing but white space stands before the offset in its line."""
    return not text[text.rfind("\n", 0, offset) + 1 : offset].strip()


def unrolled_already(text: str, loop: For) -> bool:
    """Whether a pragma before the loop unrolls it."""
    line = text.rfind("\n", 0, loop.start)
    return "unroll" in text[: max(line, 0)].rstrip().rpartition("\n")[2]
