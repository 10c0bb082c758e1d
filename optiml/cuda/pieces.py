"""Cuts a source file into its top-level pieces: declarations, preprocessor lines, and the braces of namespaces.

The pieces together are the file, byte for byte up to the last one, so that some of them can be kept and some replaced.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from clang.cindex import Cursor, CursorKind

from optiml.cuda.parse import Parsed

__all__ = ["FUNCTIONS", "Piece", "function_kind", "is_device", "is_global", "pieces", "words_of"]

FUNCTIONS = frozenset({CursorKind.FUNCTION_DECL, CursorKind.FUNCTION_TEMPLATE})
_WORD = re.compile(r"[A-Za-z_]\w*")
_DIRECTIVE = re.compile(rb"^[ \t]*#[ \t]*(\w+)(?:[^\n\\]|\\(?:\r?\n|.))*", re.MULTILINE)
_DEFINE = re.compile(r"#\s*define\s+(\w+)")
_STRIPPED = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
_SPACE_AND_COMMENTS = re.compile(rb"(?:\s|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_SEMICOLON = re.compile(rb"[ \t\r\n]*;")
_REST_OF_LINE = re.compile(rb"[ \t]*(?://[^\r\n]*|/\*[^\n]*?\*/[ \t\r]*(?=\n))?")
_CONTAINERS = {CursorKind.NAMESPACE, CursorKind.LINKAGE_SPEC, CursorKind.UNEXPOSED_DECL}


@dataclass(frozen=True, slots=True)
class Piece:
    """One top-level declaration, preprocessor line or brace."""

    start: int
    """Byte offset; space and comments before a piece are part of it."""
    body: int
    """Byte offset of its first character that is neither space nor comment."""
    end: int
    line: int
    """Of the body, 1-based."""
    names: frozenset[str]
    """What it declares."""
    words: frozenset[str]
    """Every identifier in it."""
    kind: str
    """"kernel", "device", "host", "data", "include", "define", "condition", "open", "close" or "unknown"."""
    text: str


@dataclass(slots=True)
class _Span:
    start: int
    end: int
    names: frozenset[str]
    kind: str


def is_global(cursor: Cursor) -> bool:
    """Return whether a function or function template is a `__global__` one."""
    return cursor.kind in FUNCTIONS and any(c.kind == CursorKind.CUDAGLOBAL_ATTR for c in cursor.get_children())


def is_device(cursor: Cursor) -> bool:
    """Return whether a declaration says `__device__`."""
    return any(c.kind == CursorKind.ANNOTATE_ATTR and c.spelling == "device" for c in cursor.get_children())


def function_kind(cursor: Cursor) -> str:
    """Return "kernel", "device" or "host" for a function, "data" for any other declaration."""
    if cursor.kind in FUNCTIONS:
        if is_global(cursor):
            return "kernel"
        return "device" if is_device(cursor) else "host"
    return "data"


def words_of(text: str) -> frozenset[str]:
    """Return the identifiers in a text, those in comments and strings left out."""
    return frozenset(_WORD.findall(_STRIPPED.sub(" ", text)))


def pieces(parsed: Parsed) -> list[Piece]:
    """Cut a parsed file into its top-level pieces, in order."""
    data, own = parsed.data, parsed.unit.spelling
    top = [c for c in parsed.unit.cursor.get_children() if c.location.file is not None and c.location.file.name == own]
    spans = _merged(list(_spans(data, top)))
    spans += _directives(data, spans)
    spans.sort(key=lambda span: (span.start, span.end))
    result: list[Piece] = []
    previous, line, counted = 0, 1, 0
    for span in _with_gaps(data, spans):
        end = span.end
        rest = _REST_OF_LINE.match(data, end)
        if rest is not None and span.kind not in {"define", "include", "condition"}:
            end = rest.end()
        line += data.count(b"\n", counted, span.start)
        counted = span.start
        words = words_of(data[span.start : end].decode(errors="replace"))
        text = data[previous:end].decode(errors="replace")
        result.append(Piece(previous, span.start, end, line, span.names, words, span.kind, text))
        previous = end
    return result


def _spans(data: bytes, cursors: list[Cursor]) -> Iterator[_Span]:
    for cursor in cursors:
        start, end = cursor.extent.start.offset, cursor.extent.end.offset
        inner = _contents(cursor)
        if inner:
            brace = data.find(b"{", start, inner[0].extent.start.offset)
            if brace >= 0:
                yield _Span(start, brace + 1, frozenset(), "open")
                yield from _merged(list(_spans(data, inner)))
                yield _Span(end - 1, end, frozenset(), "close")
                continue
            names = frozenset(c.spelling for c in inner if c.spelling)
            yield _Span(start, _after_semicolon(data, end), names, function_kind(inner[0]))
            continue
        yield _Span(start, _after_semicolon(data, end), _names(cursor), function_kind(cursor))


def _contents(cursor: Cursor) -> list[Cursor]:
    """Return what a namespace or `extern "C"` holds; nested ones that open together count as one."""
    if cursor.kind not in _CONTAINERS:
        return []
    inner = [c for c in cursor.get_children() if c.kind.is_declaration()]
    while len(inner) == 1 and inner[0].kind == CursorKind.NAMESPACE and inner[0].extent.end == cursor.extent.end:
        inner = [c for c in inner[0].get_children() if c.kind.is_declaration()]
    return inner


def _merged(spans: list[_Span]) -> list[_Span]:
    """Join declarations that share their text, as the two of `int a, b;`."""
    result: list[_Span] = []
    for span in spans:
        if result and span.start < result[-1].end and span.kind not in {"open", "close"}:
            last = result[-1]
            kind = last.kind if last.kind != "data" else span.kind
            result[-1] = _Span(min(last.start, span.start), max(last.end, span.end), last.names | span.names, kind)
        else:
            result.append(span)
    return result


def _names(cursor: Cursor) -> frozenset[str]:
    own = {cursor.spelling} if cursor.spelling else set()
    if cursor.kind == CursorKind.ENUM_DECL:
        own |= {child.spelling for child in cursor.get_children()}
    if cursor.kind in {CursorKind.USING_DIRECTIVE, CursorKind.USING_DECLARATION}:
        own |= {child.spelling.removeprefix("namespace ") for child in cursor.get_children()}
    return frozenset(own)


def _after_semicolon(data: bytes, offset: int) -> int:
    match = _SEMICOLON.match(data, offset)
    return match.end() if match else offset


def _directives(data: bytes, spans: list[_Span]) -> list[_Span]:
    found: list[_Span] = []
    solid = [(span.start, span.end) for span in spans]
    position = 0
    for match in _DIRECTIVE.finditer(data):
        while position < len(solid) and solid[position][1] <= match.start():
            position += 1
        if position < len(solid) and solid[position][0] <= match.start():
            continue
        word = match.group(1).decode(errors="replace")
        names: frozenset[str] = frozenset()
        kind = {"include": "include", "define": "define"}.get(word, "condition")
        if kind == "define" and (define := _DEFINE.search(match.group().decode(errors="replace"))):
            names = frozenset({define.group(1)})
        end = match.end() - match.group().endswith(b"\r")
        found.append(_Span(match.start(), end, names, kind))
    return found


def _with_gaps(data: bytes, spans: list[_Span]) -> Iterator[_Span]:
    """Yield the spans, and between them what the parser made nothing of."""
    previous = 0
    for span in spans:
        if span.start < previous:
            continue  # inside another one: the parser recovered from an error
        match = _SPACE_AND_COMMENTS.match(data, previous, span.start)
        begin = match.end() if match else previous
        if begin < span.start:
            text = data[begin : span.start].decode(errors="replace")
            yield _Span(begin, span.start, words_of(text), "unknown")
        yield span
        previous = span.end
