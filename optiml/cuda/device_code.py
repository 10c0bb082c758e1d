"""The device-only part of a `.cu` file, and what makes a text unfit to be one.

A file is cut into top-level pieces (declarations and preprocessor lines). A piece is kept if a kernel needs it,
directly or through other pieces; the user's own text, comments and order stay, so that edits can be patched back.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from clang.cindex import Cursor, CursorKind

from optiml.cuda.parse import Parsed
from optiml.errors import InvalidArgumentError

__all__ = ["Piece", "device_code", "host_code_violations", "is_global", "pieces"]

_WORD = re.compile(r"[A-Za-z_]\w*")
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(\w+)(?:[^\n\\]|\\(?:\r?\n|.))*", re.MULTILINE)
_INCLUDE = re.compile(r"#\s*include\s*([<\"])([^>\"\n]+)[>\"]")
_DEFINE = re.compile(r"#\s*define\s+(\w+)")
_STRIPPED = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)

_DEVICE_HEADERS = re.compile(
    r"(cuda(_runtime|_fp16|_bf16|_fp8|_pipeline|_awbarrier)?\.h|device_launch_parameters\.h|math_constants\.h|mma\.h"
    r"|cooperative_groups(/\w+)*(\.h)?|cuda/(std/)?\w+|cub/[\w/]+\.cuh|c?(float|limits|stdint|math|stddef)(\.h)?)\Z"
)
_FUNCTIONS = {CursorKind.FUNCTION_DECL, CursorKind.FUNCTION_TEMPLATE}


@dataclass(frozen=True, slots=True)
class Piece:
    """One top-level declaration or preprocessor line."""

    start: int
    """Byte offset; text between pieces belongs to the next one."""
    end: int
    line: int
    names: frozenset[str]
    """What it declares."""
    words: frozenset[str]
    """Every identifier in it."""
    kind: str
    """"kernel", "device", "host", "data", "include", "define" or "condition"."""
    text: str


def is_global(cursor: Cursor) -> bool:
    """Return whether a function or function template is a `__global__` one."""
    return cursor.kind in _FUNCTIONS and any(c.kind == CursorKind.CUDAGLOBAL_ATTR for c in cursor.get_children())


def _is_device(cursor: Cursor) -> bool:
    return any(c.kind == CursorKind.ANNOTATE_ATTR and c.spelling == "device" for c in cursor.get_children())


def _kind(cursor: Cursor) -> str:
    if cursor.kind in _FUNCTIONS:
        if is_global(cursor):
            return "kernel"
        return "device" if _is_device(cursor) else "host"
    return "data"


def _names(cursor: Cursor) -> frozenset[str]:
    own = {cursor.spelling} if cursor.spelling else set()
    if cursor.kind in {CursorKind.ENUM_DECL, CursorKind.NAMESPACE, CursorKind.LINKAGE_SPEC, CursorKind.UNEXPOSED_DECL}:
        own |= {child.spelling for child in cursor.get_children()}
    return frozenset(own)


def _after_semicolon(data: bytes, offset: int) -> int:
    match = re.compile(rb"[ \t\r\n]*;").match(data, offset)
    return match.end() if match else offset


def pieces(parsed: Parsed) -> list[Piece]:
    """Cut a parsed file into its top-level pieces, in order."""
    data = parsed.text.encode()
    own = parsed.unit.spelling
    spans: list[tuple[int, int, int, frozenset[str], str]] = []
    for cursor in parsed.unit.cursor.get_children():
        file = cursor.location.file
        if file is None or file.name != own:
            continue
        start, end = cursor.extent.start.offset, _after_semicolon(data, cursor.extent.end.offset)
        if spans and start < spans[-1][1]:  # `int a, b;` gives two cursors
            last = spans.pop()
            spans.append((last[0], max(last[1], end), last[2], last[3] | _names(cursor), last[4]))
            continue
        spans.append((start, end, cursor.extent.start.line, _names(cursor), _kind(cursor)))
    spans += _directives(data, spans)
    spans.sort()
    result: list[Piece] = []
    previous = 0
    for start, end, line, names, kind in spans:
        text = data[previous:end].decode(errors="replace")
        code = data[min(previous, start) : end].decode(errors="replace")
        words = frozenset(_WORD.findall(_STRIPPED.sub(" ", code)))
        result.append(Piece(previous, end, line, names, words, kind, text))
        previous = end
    return result


def _directives(
    data: bytes, spans: list[tuple[int, int, int, frozenset[str], str]]
) -> list[tuple[int, int, int, frozenset[str], str]]:
    found: list[tuple[int, int, int, frozenset[str], str]] = []
    text = data.decode("latin-1")  # one character a byte, so that offsets agree
    for match in _DIRECTIVE.finditer(text):
        if any(start <= match.start() < end for start, end, *_ in spans):
            continue
        word = match.group(1)
        names: frozenset[str] = frozenset()
        kind = "condition"
        if word == "include":
            kind = "include"
        elif word == "define":
            kind = "define"
            define = _DEFINE.search(match.group())
            names = frozenset({define.group(1)} if define else ())
        found.append((match.start(), match.end(), text.count("\n", 0, match.start()) + 1, names, kind))
    return found


def device_code(parsed: Parsed, kernels: frozenset[str], *, origin: str, directory: Path | None = None) -> str:
    """Return the part of a file that the named kernels need, and nothing of the host.

    Args:
        parsed: the file.
        kernels: names of `__global__` functions.
        origin: how errors call the file.
        directory: where the user's own headers are.

    Raises:
        InvalidArgumentError: a kernel needs a header that is not there, or one that is not allowed.
    """
    cut = pieces(parsed)
    wanted = set(kernels)
    kept: set[int] = set()
    grown = True
    while grown:
        grown = False
        for index, piece in enumerate(cut):
            if index not in kept and piece.kind != "host" and piece.names & wanted:
                kept.add(index)
                wanted |= piece.words
                grown = True
    result: list[str] = []
    for index, piece in enumerate(cut):
        if piece.kind == "include":
            result.append(_included(piece, wanted, origin, directory))
        elif index in kept or piece.kind == "condition":
            result.append(piece.text)
    return _without_empty_conditions("".join(result)).strip("\n") + "\n"


def _included(piece: Piece, wanted: set[str], origin: str, directory: Path | None) -> str:
    match = _INCLUDE.search(piece.text)
    if match is None:
        return ""
    quoted, name = match.group(1) == '"', match.group(2)
    if _DEVICE_HEADERS.match(name):
        return "" if name in {"cuda_runtime.h", "device_launch_parameters.h", "cuda.h"} else piece.text
    if not quoted:
        return ""  # the host's
    path = (directory / name) if directory else None
    if path is None or ".." in Path(name).parts or not path.is_file():
        raise InvalidArgumentError(
            f"{origin}:{piece.line}: header {name!r} is not beside the file; put it there or paste what is needed"
        )
    text = path.read_text(errors="replace")
    return text if wanted & set(_WORD.findall(_STRIPPED.sub(" ", text))) else ""


def _without_empty_conditions(text: str) -> str:
    empty = re.compile(
        r"^[ \t]*#[ \t]*if[^\n]*\n(?:[ \t]*\n|[ \t]*#[ \t]*el[^\n]*\n)*[ \t]*#[ \t]*endif[^\n]*(?:\n|\Z)", re.MULTILINE
    )
    pragma_once = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+once[^\n]*\n", re.MULTILINE)
    text = pragma_once.sub("", text)
    while (shorter := empty.sub("", text)) != text:
        text = shorter
    return text


_FORBIDDEN = (
    (re.compile(r"#\s*include_next|__has_include|#\s*line\b|#\s*import\b"), "this preprocessor feature is not allowed"),
    (re.compile(r"%:|\?\?="), "digraphs and trigraphs are not allowed"),
    (re.compile(r"\.incbin|\.include\b"), "assembler that reads files is not allowed"),
    (
        re.compile(r"#\s*pragma\s+(?!unroll|nounroll|once|nv_)\w+|_Pragma"),
        "only #pragma unroll, once and nv_… are allowed",
    ),
    (re.compile(r"\b(constructor|destructor|ifunc|section|weakref|alias)\s*(\(|\))"), "this attribute is not allowed"),
    (re.compile(r"<<<"), "a launch is host code; launches belong to the launch plan"),
)
_ASSEMBLER = re.compile(r"\b(?:asm|__asm__|__asm)\b[^;]*;", re.DOTALL)


def host_code_violations(source: str, parsed: Parsed) -> list[str]:
    """Return why a text is not acceptable as device code; empty if it is.

    Args:
        source: the text.
        parsed: `parse_cuda` of that text, without a directory.
    """
    code = re.sub(r"//[^\n]*|/\*.*?\*/", " ", source, flags=re.DOTALL)
    plain = _STRIPPED.sub(" ", source)
    found = [why for pattern, why in _FORBIDDEN if pattern.search(plain)]
    found += [_FORBIDDEN[2][1] for asm in _ASSEMBLER.findall(code) if _FORBIDDEN[2][0].search(asm)]
    for match in re.finditer(r"#\s*include\b([^\n]*)", code):
        header = _INCLUDE.match(match.group())
        if header is None or header.group(1) == '"' or not _DEVICE_HEADERS.match(header.group(2)):
            found.append(f"#include {match.group(1).strip()} is not allowed; CUDA and libcu++ headers are")
    for cursor in parsed.unit.cursor.get_children():
        file = cursor.location.file
        if file is None or file.name != parsed.unit.spelling:
            continue
        if cursor.kind in _FUNCTIONS and cursor.is_definition() and _kind(cursor) == "host" and not _constexpr(cursor):
            found.append(f"line {cursor.location.line}: {cursor.spelling!r} is host code; only device code is allowed")
    return list(dict.fromkeys(found))


def _constexpr(cursor: Cursor) -> bool:
    return any(
        token.spelling in {"constexpr", "consteval"} for token, _ in zip(cursor.get_tokens(), range(6), strict=False)
    )
