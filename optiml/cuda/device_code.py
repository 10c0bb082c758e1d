"""The device-only part of a `.cu` file.

A piece of the file is kept if a kernel needs it, directly or through other pieces; the user's own text, comments and
order stay, so that edits can be patched back. The user's own headers are written out in place.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from optiml.cuda.candidate_rules import host_code_violations, is_device_header
from optiml.cuda.parse import Parsed, parse_cuda
from optiml.cuda.pieces import Piece, is_global, pieces
from optiml.errors import InvalidArgumentError

__all__ = ["Piece", "device_code", "device_words", "host_code_violations", "is_global", "pieces", "with_headers"]

_INCLUDE = re.compile(r"#\s*include\s*([<\"])([^>\"\n]+)[>\"]")
_IMPLIED = {"cuda_runtime.h", "device_launch_parameters.h", "cuda.h", "cuda_runtime_api.h"}  # nvcc includes them
_DEVICE_NAMESPACES = {"cooperative_groups", "nvcuda", "wmma", "cuda", "cub"}
_EMPTY_CONDITION = re.compile(
    r"^[ \t]*#[ \t]*if[^\n]*\n(?:[ \t\r]*\n|[ \t]*#[ \t]*el[^\n]*\n)*[ \t]*#[ \t]*endif[^\n]*(?:\n|\Z)", re.MULTILINE
)
_PRAGMA_ONCE = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+once[^\n]*\n?", re.MULTILINE)
_UNRESOLVED = re.compile(r"(?:use of undeclared identifier|unknown type name|no template named) '(\w+)'")
_MAX_HEADERS = 64


def device_words(cut: list[Piece], kernels: frozenset[str]) -> frozenset[str]:
    """Return every identifier of what the named kernels need."""
    return frozenset(_needed(cut, kernels)[1])


def device_code(parsed: Parsed, kernels: frozenset[str], *, origin: str, directory: Path | None = None) -> str:
    """Return the part of a file that the named kernels need, and nothing of the host.

    Args:
        parsed: the file.
        kernels: names of `__global__` functions.
        origin: how errors call the file.
        directory: where the user's own headers are.

    Raises:
        InvalidArgumentError: a kernel needs a header that is not there.
    """
    missing: list[tuple[str, int]] = []
    cut = list(with_headers(pieces(parsed), directory, missing, set()))
    kept, wanted = _needed(cut, kernels)
    if missing:
        _require_headers(parsed, cut, kept, missing, origin)
    inside = {word for index in kept if cut[index].kind == "open" for word in cut[index].words}
    spaces = (inside | wanted | _DEVICE_NAMESPACES) - {"namespace", "using", "inline", "std"}
    result: list[str] = []
    for index, piece in enumerate(cut):
        if piece.kind == "include":
            result.append(_included(piece))
        elif index in kept or piece.kind == "condition" or _opens(piece, spaces):
            result.append(piece.text)
    text = _PRAGMA_ONCE.sub("", "".join(result))
    while (shorter := _EMPTY_CONDITION.sub("", text)) != text:
        text = shorter
    return text.strip("\r\n") + "\n"


def with_headers(
    cut: list[Piece], directory: Path | None, missing: list[tuple[str, int]], seen: set[Path]
) -> Iterator[Piece]:
    """Yield the pieces with the user's own headers in place of their `#include`, each header once.

    Args:
        cut: the pieces of a file.
        directory: where it is; None reads no header.
        missing: gets the name and line of each header that is not there.
        seen: gets the headers that were read.
    """
    for piece in cut:
        match = _INCLUDE.search(piece.text) if piece.kind == "include" else None
        if match is None or match.group(1) == "<" or is_device_header(match.group(2)):
            yield piece
            continue
        path = _own_header(directory, match.group(2))
        if path is None:
            missing.append((match.group(2), piece.line))
        elif path not in seen and len(seen) < _MAX_HEADERS:
            seen.add(path)
            inner = parse_cuda(path.read_text(errors="replace"), path.name, directory=path.parent)
            yield from with_headers(pieces(inner), path.parent, missing, seen)


def _own_header(directory: Path | None, name: str) -> Path | None:
    """Return the path of a header below the file's folder; what is elsewhere is not read."""
    if directory is None or Path(name).is_absolute():
        return None
    path = (directory / name).resolve()
    return path if path.is_relative_to(directory.resolve()) and path.is_file() else None


def _needed(cut: list[Piece], kernels: frozenset[str]) -> tuple[set[int], set[str]]:
    """Return the pieces that the kernels need, by index, and every identifier in them."""
    wanted = set(kernels)
    kept: set[int] = set()
    grown = True
    while grown:
        grown = False
        for index, piece in enumerate(cut):
            if index in kept or piece.kind in {"host", "open", "close"} or not piece.names & wanted:
                continue
            if piece.kind == "unknown" and "{" in piece.text:
                continue
            kept.add(index)
            wanted |= piece.words
            grown = True
    return kept | set(_braces(cut, kept)), wanted


def _braces(cut: list[Piece], kept: set[int]) -> Iterator[int]:
    """Yield the braces of namespaces that hold something kept."""
    opened: list[int] = []
    for index, piece in enumerate(cut):
        if piece.kind == "open":
            opened.append(index)
        elif piece.kind == "close" and opened:
            start = opened.pop()
            if any(start < inner < index for inner in kept):
                yield start
                yield index


def _opens(piece: Piece, spaces: set[str]) -> bool:
    """Return whether a piece such as `using namespace nvcuda;` makes names of some namespaces visible."""
    plain = "namespace" in piece.words and "{" not in piece.text and piece.kind in {"data", "unknown"}
    return plain and bool(piece.words & spaces)


def _included(piece: Piece) -> str:
    match = _INCLUDE.search(piece.text)
    if match is None or match.group(2) in _IMPLIED or not is_device_header(match.group(2)):
        return ""
    return piece.text


def _require_headers(
    parsed: Parsed, cut: list[Piece], kept: set[int], missing: list[tuple[str, int]], origin: str
) -> None:
    """Complain about a missing header if the kept pieces use a name that nothing declares."""
    spans = [(p.line, p.line + p.text.lstrip().count("\n")) for i, p in enumerate(cut) if i in kept]
    header, line = missing[0]
    for diagnostic in parsed.diagnostics:
        match = _UNRESOLVED.match(diagnostic.message)
        inside = any(first <= diagnostic.line <= last for first, last in spans)
        if match and inside and not match.group(1).startswith("__"):
            raise InvalidArgumentError(
                f"{origin}:{line}: header {header!r} is not beside the file, and the kernel needs {match.group(1)!r} "
                f"(line {diagnostic.line}); put the header there or paste what is needed"
            )
