"""Puts new device code into a user's file: what is replaced, what stays since others use it, what gets another name."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from optiml.cuda.device_code import with_headers
from optiml.cuda.imported import Imported
from optiml.cuda.parse import parse_cuda
from optiml.cuda.pieces import Piece, pieces, words_of
from optiml.identity import normalised_source
from optiml.v1 import kernel_pb2

__all__ = ["Edit", "Replacement", "replacement"]

Edit = tuple[int, int, str]
"""Byte offsets of what goes, and what comes in its place."""
_SUFFIX = "_optimized"
_STRUCTURE = {"include", "condition", "open", "close"}


@dataclass(slots=True)
class Replacement:
    """How the device code of a file changes."""

    edits: list[Edit] = field(default_factory=list)
    renamed: dict[str, str] = field(default_factory=dict)
    """New names of functions whose old ones stay in use by other code of the file."""


def _key(piece: Piece) -> str:
    return normalised_source(piece.text)


def replacement(imported: Imported, best: kernel_pb2.Kernel, edited: Sequence[tuple[int, int]]) -> Replacement:
    """Return how the file's device code becomes the best kernel's.

    Args:
        imported: the file as it was read.
        best: the kernel to put in.
        edited: byte ranges of the launches that are rewritten; what they name is not in use any more.
    """
    baseline = {_key(p): p for p in pieces(parse_cuda(imported.kernel.source)) if p.kind not in _STRUCTURE}
    wanted = [p for p in pieces(parse_cuda(best.source)) if p.kind != "condition"]
    new = [p for p in wanted if p.kind not in _STRUCTURE and _key(p) not in baseline]
    kept = [p for p in wanted if p.kind not in _STRUCTURE and _key(p) in baseline]
    gone = baseline.keys() - {_key(p) for p in kept}
    removed = _removable([p for p in imported.cut if p.kind not in _STRUCTURE and _key(p) in gone], imported, edited)
    result = Replacement()
    defined = _names_left(imported, removed)
    while True:
        clashes = {name for piece in new for name in piece.names} & defined
        result.renamed = {name: _free(name, defined) for name in sorted(clashes)}
        copied = [piece for piece in kept if piece.words & clashes]
        if not copied:
            break
        kept = [piece for piece in kept if not piece.words & clashes]
        new = [p for p in wanted if p in new or p in copied]
    result.edits = list(_edits(imported, removed, new, result.renamed))
    result.edits += _headers(imported, wanted)
    return result


def _removable(candidates: list[Piece], imported: Imported, edited: Sequence[tuple[int, int]]) -> list[Piece]:
    """Return the pieces that nothing else in the file uses."""
    removed = list(candidates)
    while True:
        words: set[str] = set()
        for piece in imported.cut:
            if piece not in removed:
                words |= _words_outside(imported, piece, edited)
        left = [piece for piece in removed if not piece.names & words]
        if len(left) == len(removed):
            return left
        removed = left


def _words_outside(imported: Imported, piece: Piece, edited: Sequence[tuple[int, int]]) -> frozenset[str]:
    if not any(piece.start <= start < piece.end for start, _ in edited):
        return piece.words
    data = bytearray(imported.parsed.data[piece.body : piece.end])
    for start, end in edited:
        if piece.body <= start < piece.end:
            data[start - piece.body : end - piece.body] = b" " * (end - start)
    return words_of(data.decode(errors="replace"))


def _names_left(imported: Imported, removed: list[Piece]) -> set[str]:
    """Return what the file still declares, its own headers included."""
    left = {name for piece in imported.cut if piece not in removed for name in piece.names}
    for piece in with_headers(imported.cut, imported.directory, [], set()):
        if piece not in imported.cut:
            left |= piece.names
    return left


def _free(name: str, defined: set[str]) -> str:
    fresh = name + _SUFFIX
    while fresh in defined:
        fresh += "_"
    return fresh


def _edits(imported: Imported, removed: list[Piece], new: list[Piece], renamed: dict[str, str]) -> Iterator[Edit]:
    text = "\n\n".join(_renamed(piece.text.strip("\r\n"), renamed) for piece in new)
    anchor = next((p for p in removed if p.kind == "kernel"), removed[0] if removed else None)
    for piece in removed:
        start = piece.end - len(piece.text.lstrip().encode())
        end = piece.end
        if piece is anchor and text:
            yield (start, end, text)
        else:
            rest = re.compile(rb"[ \t]*\r?\n(?:[ \t]*\r?\n)?").match(imported.parsed.data, end)
            yield (start, rest.end() if rest else end, "")
    if text and anchor is None:
        first = next((p for p in imported.cut if p.kind == "kernel"), None)
        at = first.end - len(first.text.lstrip().encode()) if first is not None else len(imported.parsed.data)
        yield (at, at, text + "\n\n")


def _renamed(text: str, renamed: dict[str, str]) -> str:
    for old, fresh in renamed.items():
        text = re.sub(rf"(?<![\w.]){re.escape(old)}\b", fresh, text)
    return text


def _headers(imported: Imported, wanted: list[Piece]) -> Iterator[Edit]:
    have = {normalised_source(p.text) for p in imported.cut if p.kind == "include"}
    lines = [p.text.strip() for p in wanted if p.kind == "include" and normalised_source(p.text) not in have]
    lines = [line for line in lines if normalised_source(line) not in have]
    if lines:
        first = next((p for p in imported.cut if p.kind == "include"), None)
        at = first.body if first is not None else 0
        yield (at, at, "\n".join(normalised_source(line) for line in lines) + "\n")
