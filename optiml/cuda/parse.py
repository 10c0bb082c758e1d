"""Parse CUDA C++ with libclang, without the CUDA toolkit.

The wheel's libclang has no builtin headers and is older than current CUDA headers, so CUDA's names come from the small
declarations in `include/` beside this file. That is enough to resolve types, macros, templates and launches; code
generation is nvcc's work. Standard headers are those of the machine, when there are any; a header that is missing
does not stop the parse.
"""

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from clang import cindex

__all__ = [
    "Diagnostic",
    "Parsed",
    "binary_operator",
    "parse_cuda",
    "spelled_extent",
    "unary_operator",
    "walk",
]

_INCLUDE = Path(__file__).parent / "include"
_ARGUMENTS = (
    "-x", "cuda", "-std=c++17", "--cuda-host-only", "-nocudainc", "-nocudalib", "-Wno-unknown-cuda-version",
    # Without a toolkit on the machine clang assumes CUDA 7, whose launches were other calls.
    "-Xclang", "-target-sdk-version=12.3",
    "-ferror-limit=0", f"-I{_INCLUDE}", "-include", str(_INCLUDE / "optiml_cuda_names.h"),
)  # fmt: skip


_KEEP_GOING = 0x200  # CXTranslationUnit_KeepGoing: a missing header must not end the parse

# In the order of CXBinaryOperatorKind and CXUnaryOperatorKind (clang-c/Index.h), which libclang 18's Python lacks.
_BINARY = (
    "", ".*", "->*", "*", "/", "%", "+", "-", "<<", ">>", "<=>", "<", ">", "<=", ">=", "==", "!=", "&", "^", "|", "&&",
    "||", "=", "*=", "/=", "%=", "+=", "-=", "<<=", ">>=", "&=", "^=", "|=", ",",
)  # fmt: skip
_UNARY = ("", "++", "--", "++", "--", "&", "*", "+", "-", "~", "!")


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
    data: bytes = field(repr=False)
    """The text in UTF-8: what offsets count in."""

    def source(self, cursor: cindex.Cursor) -> str:
        """Return the text that the cursor spans."""
        start, end = spelled_extent(cursor)
        return self.data[start:end].decode(errors="replace")


def binary_operator(cursor: cindex.Cursor) -> str:
    """Return the operator of a (compound) assignment or binary expression, as in "+="; empty for anything else."""
    kind = cindex.conf.lib.clang_getCursorBinaryOperatorKind(cursor)
    return _BINARY[kind] if kind < len(_BINARY) else ""


def unary_operator(cursor: cindex.Cursor) -> str:
    """Return the operator of a unary expression; empty for anything else."""
    kind = cindex.conf.lib.clang_getCursorUnaryOperatorKind(cursor)
    return _UNARY[kind] if kind < len(_UNARY) else ""


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
    unit = _index().parse(path, args=list(_ARGUMENTS), unsaved_files=[(path, text)], options=_KEEP_GOING)
    diagnostics = tuple(
        Diagnostic(
            line=found.location.line if found.location.file and found.location.file.name == path else 0,
            message=found.spelling,
            fatal=_is_fatal(found),
        )
        for found in unit.diagnostics
        if _is_fatal(found)
        or (found.severity == cindex.Diagnostic.Error and found.location.file and found.location.file.name == path)
    )
    return Parsed(unit, text, diagnostics, text.encode(errors="replace"))


def _is_fatal(found: cindex.Diagnostic) -> bool:
    return bool(found.severity == cindex.Diagnostic.Fatal or found.spelling.endswith("file not found"))


def walk(cursor: cindex.Cursor, *, own_file_only: bool = True) -> Iterator[cindex.Cursor]:
    """Yield the cursor and all below it, parents first; only those of the parsed file unless told otherwise."""
    yield cursor
    for child in cursor.get_children():
        if own_file_only and cursor.kind == cindex.CursorKind.TRANSLATION_UNIT:
            file = child.location.file
            if file is None or file.name != cursor.spelling:
                continue
        yield from walk(child, own_file_only=own_file_only)
