"""What makes a text unfit to be a candidate: anything but device code, and anything that makes a compiler read files.

The rules are strict on purpose. A candidate comes from a model, a request or a rewrite; nothing that a kernel needs is
lost by refusing what only hides its meaning.
"""

import re
from collections.abc import Iterator

from clang.cindex import Cursor, CursorKind, TypeKind

from optiml.cuda.cursors import evaluated, initial_of
from optiml.cuda.parse import Parsed
from optiml.cuda.pieces import FUNCTIONS, is_device, is_global

__all__ = ["host_code_violations", "is_device_header"]

_DEVICE_HEADERS = re.compile(
    r"(cuda(_runtime|_runtime_api|_fp16|_bf16|_fp8|_fp6|_fp4|_pipeline|_pipeline_primitives|_awbarrier\w*)?\.h"
    r"|(device_launch_parameters|device_functions|math_constants|vector_types|mma|cuComplex|curand_kernel)\.h"
    r"|cooperative_groups(/\w+)*(\.h)?|cuda/(std/)?\w+|cub/(\w+/)*\w+\.cuh"
    r"|c?(float|limits|stdint|math|stddef|assert)(\.h)?|type_traits)\Z"
)
_LEXED = re.compile(
    r"(?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))"
    r'|(?P<raw>(?:u8|[uUL])?R"(?P<mark>[^()\\\s"]{0,16})\((?P<inside>.*?)\)(?P=mark)")'
    r'|(?P<string>(?:u8|[uUL])?"(?:\\.|[^"\\\n])*")'
    r"|(?P<char>(?<![0-9a-zA-Z_])'(?:\\.|[^'\\\n])*')",
    re.DOTALL,
)
_SPLICE = re.compile(r"\\[ \t]*\r?\n")
_MANY_SPLICES = re.compile(r"(?:\\[ \t]*\r?\n[ \t]*){300}")  # thousands of them make the parser overflow its stack
_SPLICED_WORD = re.compile(r"\w\\[ \t]*\r?\n\w")
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(\w*)([^\n]*)", re.MULTILINE)
_DIRECTIVES = {
    "define", "undef", "if", "ifdef", "ifndef", "elif", "else", "endif", "include", "pragma", "error", "warning", "",
}  # fmt: skip
_HEADER = re.compile(r"\s*<([\w./+-]+)>\s*\Z")
_PRAGMA = re.compile(r"\s*(unroll\b|nounroll\b|once\b|nv_\w+)")
_ATTRIBUTE = re.compile(r"__attribute(?:__)?\b\s*([^;{]{0,200})")
_ALLOWED_ATTRIBUTE = re.compile(
    r"\(\(\s*(?:(?:__)?(?:aligned|packed|always_inline|noinline|unused|may_alias|const|pure|device|global|shared|constant)"
    r"(?:__)?\s*(?:\([\w\s*()]*\))?\s*,?\s*)*\)\)"
)
_FORBIDDEN = (
    (re.compile(r"__has_\w+"), "__has_… asks what files are there"),
    (re.compile(r"%:|\?\?[=/'()!<>-]"), "digraphs and trigraphs are not allowed; write # and \\ plainly"),
    (re.compile(r"_Pragma\b|__pragma\b"), "_Pragma is not allowed; write #pragma unroll"),
    (re.compile(r"<<<|>>>(?=\s*\()"), "a launch is host code; launches belong to the launch plan"),
    (re.compile(r"\b(constructor|destructor|ifunc|weakref|init_priority)\b\s*\)"), "this attribute is not allowed"),
    (re.compile(r"\b(import|module|export)\s+[<\"\w]"), "modules are not allowed"),
    (re.compile(r"__host__(?!\s*(__device__|__forceinline__|inline|constexpr|static)\b)"), "__host__ is not allowed"),
)
_ASSEMBLER = re.compile(r"\b(?:asm|__asm__|__asm)\b((?:\s|volatile\b|__volatile__\b|goto\b|inline\b)*)\(([^:)]*)")
_READS_FILES = re.compile(r"\.\s*(incbin|include)", re.IGNORECASE)
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]+|[0-7]{1,3}|.)", re.DOTALL)
_CALLS = {CursorKind.CALL_EXPR, CursorKind.LAMBDA_EXPR, CursorKind.CXX_NEW_EXPR}
_METHODS = FUNCTIONS | {
    CursorKind.CXX_METHOD, CursorKind.CONSTRUCTOR, CursorKind.DESTRUCTOR, CursorKind.CONVERSION_FUNCTION,
}  # fmt: skip


def is_device_header(name: str) -> bool:
    """Return whether a candidate may include this header: CUDA's own, libcu++, CUB and what device code can use."""
    return bool(_DEVICE_HEADERS.match(name))


def host_code_violations(source: str, parsed: Parsed) -> list[str]:
    """Return why a text is not acceptable as device code, each with its line; empty if it is.

    Args:
        source: the text.
        parsed: `parse_cuda` of that text, without a directory.
    """
    found = list(_text_violations(source)) + list(_declarations(parsed))
    return [f"line {line}: {what}" if line else what for line, what in dict.fromkeys(found)]


def _text_violations(source: str) -> Iterator[tuple[int, str]]:
    if match := _SPLICED_WORD.search(source):
        yield _line(source, match.start()), "a word is split by a backslash at the end of a line"
    if match := _MANY_SPLICES.search(source):
        yield _line(source, match.start()), "hundreds of lines are spliced; write them out"
    # A spliced line end becomes a vertical tab: white space that keeps line numbers right when counted.
    text = _SPLICE.sub(" \v", source)
    strings: list[str] = []

    def blank(match: re.Match[str]) -> str:
        if match.lastgroup == "comment":
            return " " + "\n" * match.group().count("\n")
        if match.group("char") is None:
            strings.append(match.group("inside") or _unescaped(match.group().partition('"')[2].rstrip('"')))
        return '""' + "\n" * match.group().count("\n")

    code = _LEXED.sub(blank, text)
    uncommented = _LEXED.sub(lambda m: blank(m) if m.lastgroup == "comment" else m.group(), text)
    for pattern, why in _FORBIDDEN:
        if match := pattern.search(code):
            yield _line(code, match.start()), why
    yield from _directives(uncommented)
    for match in _ATTRIBUTE.finditer(code):
        if not _ALLOWED_ATTRIBUTE.match(match.group(1)):
            yield _line(code, match.start()), f"{' '.join(match.group().split())[:60]!r}: this attribute is not allowed"
    for match in _ASSEMBLER.finditer(code):
        if match.group(2).replace('""', "").strip():
            yield _line(code, match.start()), "the text of asm must be string literals"
    if read := _READS_FILES.search("".join("".join(strings).split())):
        yield 0, f"'.{read.group(1)}' in a string is not allowed: it lets the assembler read files"


def _line(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + text.count("\v", 0, offset) + 1


def _unescaped(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        code = match.group(1)
        if code[0] == "x":
            return chr(int(code[1:], 16) & 0xFF)
        return chr(int(code, 8) & 0xFF) if code[0].isdigit() else {"n": "\n", "t": "\t"}.get(code, code)

    return _ESCAPE.sub(one, text)


def _directives(text: str) -> Iterator[tuple[int, str]]:
    for match in _DIRECTIVE.finditer(text):
        word, rest = match.group(1), match.group(2)
        line = _line(text, match.start(1))
        if word not in _DIRECTIVES:
            yield line, f"#{word} is not allowed"
        elif word == "include":
            header = _HEADER.match(rest)
            if header is None or ".." in rest or not is_device_header(header.group(1)):
                yield line, f"#include {rest.strip()[:80]} is not allowed; CUDA, libcu++ and CUB headers in <> are"
        elif word == "pragma" and not _PRAGMA.match(rest):
            yield line, f"#pragma{rest[:40]} is not allowed; unroll, nounroll, once and nv_… are"


def _declarations(parsed: Parsed) -> Iterator[tuple[int, str]]:
    """Yield host functions, methods and objects; device code holds none."""
    own = parsed.unit.spelling
    pending = [c for c in parsed.unit.cursor.get_children() if c.location.file and c.location.file.name == own][::-1]
    while pending:
        cursor = pending.pop()
        line = cursor.location.line
        if cursor.kind in _METHODS:
            if _is_host(cursor) and _has_body(cursor):
                yield (
                    line,
                    f"{cursor.spelling!r} is host code; only __global__, __device__ and constexpr functions may be",
                )
            continue
        if cursor.kind == CursorKind.VAR_DECL and (why := _host_object(cursor)):
            yield line, f"{cursor.spelling!r} {why}"
        if cursor.kind.is_declaration() and cursor.kind != CursorKind.VAR_DECL:
            pending.extend(list(cursor.get_children())[::-1])


def _has_body(cursor: Cursor) -> bool:
    return any(c.kind in {CursorKind.COMPOUND_STMT, CursorKind.CXX_TRY_STMT} for c in cursor.get_children())


def _is_host(cursor: Cursor) -> bool:
    return not (is_global(cursor) or is_device(cursor) or _constexpr(cursor))


def _constexpr(cursor: Cursor) -> bool:
    for token in cursor.get_tokens():
        if token.spelling in {"constexpr", "consteval"}:
            return True
        if token.spelling in {"{", cursor.spelling}:
            return False
    return False


def _host_object(variable: Cursor) -> str:
    """Return why a variable outside functions is a host object; empty if it is a constant or on the device."""
    kinds = {c.kind for c in variable.get_children()}
    if is_device(variable) or kinds & {
        CursorKind.CUDACONSTANT_ATTR,
        CursorKind.CUDASHARED_ATTR,
        CursorKind.CUDADEVICE_ATTR,
    }:
        return ""
    if _constexpr(variable):
        return ""
    scalar = variable.type
    while not scalar.is_const_qualified() and scalar.get_canonical().kind == TypeKind.CONSTANTARRAY:
        scalar = scalar.get_array_element_type()
    if not scalar.is_const_qualified():
        return "is a host variable; write __device__ or __constant__"
    initial = initial_of(variable)
    computed = any(c.kind in _CALLS for c in variable.walk_preorder())
    if computed and (initial is None or evaluated(initial) is None):
        return "is computed by host code; write constexpr"
    return ""
