"""What is known of a host program's variables."""

import keyword
import re
from dataclasses import dataclass, field

from clang.cindex import Cursor

from optiml.cuda.expression_algebra import Expression, substituted
from optiml.cuda.parse import Parsed, spelled_extent

__all__ = ["Host", "macro_value", "safe_name"]

_TAKEN = {"np", "min", "max", "ceil_div"}  # they mean something in expressions and references
_WORD = re.compile(rb"[A-Za-z_]\w*")


@dataclass(slots=True)
class Host:
    """What is known of the host's variables, each by the hash of its declaration."""

    parsed: Parsed
    parameters: dict[int, str] = field(default_factory=dict)
    """Variables that may be parameters of the problem."""
    values: dict[str, int] = field(default_factory=dict)
    """The value of each parameter in the file; one that comes from outside has none."""
    fixed: dict[str, int] = field(default_factory=dict)
    """Numbers that were parameters until a launch showed that a kernel is made for their value."""
    outside: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Parameters that come from outside the file: the line, and why the value cannot be told."""
    terms: dict[str, str] = field(default_factory=dict)
    """What the host writes for a parameter, where that is not its name."""
    places: dict[str, str] = field(default_factory=dict)
    """The function in which each parameter is declared; empty if everywhere."""
    fields: dict[tuple[int, str], str] = field(default_factory=dict)
    """Fields of structs that are parameters."""
    macros: dict[str, Expression] = field(default_factory=dict)
    """Macros that stand for a parameter, or for an expression over such macros."""
    changes: dict[tuple[int, str], list[Cursor]] = field(default_factory=dict)
    """What is assigned to a variable (member "") or to a member of it, after its declaration."""
    calls: dict[int, list[Cursor]] = field(default_factory=dict)
    """Function parameter → what the file's own calls pass for it; equal ones once."""


def safe_name(name: str) -> str:
    """Return a name that Python and expressions of launch plans take for nothing else."""
    return name + "_" * (keyword.iskeyword(name) or name in _TAKEN)


def macro_value(host: Host, cursor: Cursor) -> Expression | None:
    """Return what a macro stands for whose use is all of an expression, as in the `N` of `N * 4`; None if it is not so.

    Everything that a macro expands to has the place of its use, so nothing else of the expression has another place.
    """
    offset, _ = spelled_extent(cursor)
    word = _WORD.match(host.parsed.data, offset)
    name = word.group().decode() if word else ""
    if name not in host.macros or any(spelled_extent(below)[0] != offset for below in cursor.walk_preorder()):
        return None
    return substituted(host.macros[name], host.fixed)
