"""What is known of a host program's variables."""

import keyword
from dataclasses import dataclass, field

from clang.cindex import Cursor

from optiml.cuda.parse import Parsed

__all__ = ["Host", "macro_name", "safe_name"]

_TAKEN = {"np", "min", "max", "ceil_div"}  # they mean something in expressions and references
_MAX_MACRO_LENGTH = 64


@dataclass(slots=True)
class Host:
    """What is known of the host's variables, each by the hash of its declaration."""

    parsed: Parsed
    parameters: dict[int, str] = field(default_factory=dict)
    """Variables that may be parameters of the problem."""
    values: dict[str, int] = field(default_factory=dict)
    """The value of each parameter in the file; one that comes from outside has none."""
    outside: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Parameters that come from outside the file: the line, and why the value cannot be told."""
    places: dict[str, str] = field(default_factory=dict)
    """The function in which each parameter is declared; empty if everywhere."""
    fields: dict[tuple[int, str], str] = field(default_factory=dict)
    """Fields of structs that are parameters."""
    macros: dict[str, int] = field(default_factory=dict)
    """Macros that stand for an integer and may be parameters."""
    changes: dict[tuple[int, str], list[Cursor]] = field(default_factory=dict)
    """What is assigned to a variable (member "") or to a member of it, after its declaration."""
    calls: dict[int, list[Cursor]] = field(default_factory=dict)
    """Function parameter → what the file's own calls pass for it; equal ones once."""


def safe_name(name: str) -> str:
    """Return a name that Python and expressions of launch plans take for nothing else."""
    return name + "_" * (keyword.iskeyword(name) or name in _TAKEN)


def macro_name(host: Host, cursor: Cursor) -> str | None:
    """Return the macro whose use is all of an expression, as in the `N` of `N * 4`."""
    start, end = cursor.extent.start.offset, cursor.extent.end.offset
    text = host.parsed.data[start:end] if end - start <= _MAX_MACRO_LENGTH else b""
    name = text.decode(errors="replace")
    return name if name in host.macros else None
