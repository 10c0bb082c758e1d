"""Parse CUDA C++ with libclang, without the CUDA toolkit.

The wheel's libclang has no builtin headers and is older than current CUDA headers, so CUDA's names come from the small
declarations in `include/` beside this file. That is enough to resolve types, macros, templates and launches; code
generation is nvcc's work. Standard headers are those of the machine, when there are any; a header that is missing
does not stop the parse.
"""

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from clang import cindex

__all__ = ["Diagnostic", "Parsed", "parse_cuda", "spelled_extent", "walk"]

_INCLUDE = Path(__file__).parent / "include"
_ARGUMENTS = (
    "-x", "cuda", "-std=c++17", "--cuda-host-only", "-nocudainc", "-nocudalib", "-Wno-unknown-cuda-version",
    "-ferror-limit=50", f"-I{_INCLUDE}", "-include", str(_INCLUDE / "optiml_cuda_names.h"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One complaint of the parser about the given file."""

    line: int
    """1-based; 0 if it has no place in the file."""
    message: str
    fatal: bool
    """True for a missing header and the like: what follows may be unresolved."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """A parsed file. The cursors stay valid as long as this object lives."""

    unit: cindex.TranslationUnit
    text: str
    diagnostics: tuple[Diagnostic, ...]
    """Errors in the file, and missing headers wherever they are; in order. Warnings are left out."""

    def source(self, cursor: cindex.Cursor) -> str:
        """Return the text that the cursor spans."""
        start, end = spelled_extent(cursor)
        return self.text.encode()[start:end].decode(errors="replace")


def spelled_extent(cursor: cindex.Cursor) -> tuple[int, int]:
    """Return the byte offsets of a cursor's text where it was written: inside a macro's arguments, not the call."""
    return _spelled(cursor.extent.start), _spelled(cursor.extent.end)


def _spelled(location: cindex.SourceLocation) -> int:
    line, column, offset = ctypes.c_uint(), ctypes.c_uint(), ctypes.c_uint()
    file = ctypes.c_void_p()
    cindex.conf.lib.clang_getSpellingLocation(
        location, ctypes.byref(file), ctypes.byref(line), ctypes.byref(column), ctypes.byref(offset)
    )
    return offset.value


@cache
def _index() -> cindex.Index:
    return cindex.Index.create()


def parse_cuda(text: str, name: str = "kernel.cu", *, directory: Path | None = None) -> Parsed:
    """Parse the text of a `.cu` file.

    Args:
        text: the source; nothing is read from disk but headers.
        name: what diagnostics call the file.
        directory: where `#include "..."` looks; None allows no header of the user's.

    Never raises for bad source: the diagnostics tell, and what could be parsed is there.
    """
    path = str((directory / name) if directory else Path("/nonexistent") / name)
    unit = _index().parse(path, args=list(_ARGUMENTS), unsaved_files=[(path, text)])
    diagnostics = tuple(
        Diagnostic(
            line=found.location.line if found.location.file and found.location.file.name == path else 0,
            message=found.spelling,
            fatal=found.severity == cindex.Diagnostic.Fatal,
        )
        for found in unit.diagnostics
        if found.severity == cindex.Diagnostic.Fatal
        or (found.severity == cindex.Diagnostic.Error and found.location.file and found.location.file.name == path)
    )
    return Parsed(unit, text, diagnostics)


def walk(cursor: cindex.Cursor, *, own_file_only: bool = True) -> Iterator[cindex.Cursor]:
    """Yield the cursor and all below it, parents first; only those of the parsed file unless told otherwise."""
    yield cursor
    for child in cursor.get_children():
        if own_file_only and cursor.kind == cindex.CursorKind.TRANSLATION_UNIT:
            file = child.location.file
            if file is None or file.name != cursor.spelling:
                continue
        yield from walk(child, own_file_only=own_file_only)
