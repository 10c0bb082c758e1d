"""Plainer forms of a kernel: templates made concrete, macros with arguments and one-line accessors put in place.

Transformations that do not understand a kernel as written are tried on its plainer form.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from clang.cindex import Cursor, CursorKind

from optiml.cuda.parse import Parsed, parse_cuda
from optiml.v1 import kernel_pb2
from services.generator.rewriting.context import apply
from services.generator.rewriting.expressions import renamed
from services.generator.rewriting.syntax import decoded, encoded

__all__ = ["plainer"]

_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)\(([\w\s,]*)\)[ \t]+((?:[^\n]*\\\n)*[^\n]*)$", re.MULTILINE)
_ROUNDS = 6
_LONGEST_GROWTH = 4
"""Expansion stops when the text has grown so many times."""


def _arguments(text: str, start: int) -> tuple[list[str], int] | None:
    """Read the arguments between the parenthesis at `start` and its partner; return them and the end."""
    depth, parts, begin = 0, [], start + 1
    for position in range(start, len(text)):
        character = text[position]
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
            if depth == 0:
                parts.append(text[begin:position].strip())
                return parts, position + 1
        elif character == "," and depth == 1:
            parts.append(text[begin:position].strip())
            begin = position + 1
    return None


def _expanded(text: str, name: str, expand: Callable[[list[str]], str | None]) -> str:
    """Replace each call of `name` in the text by what `expand` makes of its arguments; None leaves it."""
    position = 0
    pattern = re.compile(rf"(?<![\w.>]){re.escape(name)}\s*\(")
    while (match := pattern.search(text, position)) is not None:
        found = _arguments(text, match.end() - 1)
        new = expand(found[0]) if found else None
        if found is None or new is None:
            position = match.end()
            continue
        text = text[: match.start()] + new + text[found[1] :]
        position = match.start() + 1
        if len(text) > 1 << 20:
            break
    return text


def _bodies(parsed: Parsed) -> Iterator[tuple[Cursor, int, int]]:
    """Yield each __global__ function or template with the extent of its body."""
    for cursor in parsed.unit.cursor.get_children():
        file = cursor.location.file
        if file is None or file.name != parsed.unit.spelling:
            continue
        found = list(cursor.get_children()) if cursor.kind == CursorKind.LINKAGE_SPEC else [cursor]
        for inner in found:
            if inner.kind not in {CursorKind.FUNCTION_DECL, CursorKind.FUNCTION_TEMPLATE}:
                continue
            children = list(inner.get_children())
            if children and children[-1].kind == CursorKind.COMPOUND_STMT:
                kernel = any(child.kind == CursorKind.CUDAGLOBAL_ATTR for child in children)
                if kernel:
                    extent = children[-1].extent
                    yield inner, extent.start.offset, extent.end.offset


def _expand_macros(text: str, parsed: Parsed) -> str:
    macros = []
    for match in _MACRO.finditer(text):
        if "#" not in match[3] and "__VA_ARGS__" not in match[3]:
            parameters = [part.strip() for part in match[2].split(",") if part.strip()]
            macros.append((match[1], parameters, match[3].replace("\\\n", " ").split("//")[0].strip()))
    changes = []
    for _, start, end in _bodies(parsed):
        old = body = text[start:end]
        for _round in range(_ROUNDS):
            before = body
            for name, parameters, replacement in macros:
                body = _expanded(body, name, _call(parameters, replacement))
            if body == before or len(body) > _LONGEST_GROWTH * len(old) + 4096:
                break
        if body != old:
            changes.append((start, end, body))
    return apply(text, changes)


def _call(parameters: list[str], replacement: str) -> Callable[[list[str]], str | None]:
    def expand(arguments: list[str]) -> str | None:
        if len(arguments) != len(parameters):
            return None
        return renamed(replacement, dict(zip(parameters, arguments, strict=True)))

    return expand


def _accessors(parsed: Parsed) -> Iterator[tuple[str, list[str], str]]:
    """Yield the functions that take a pointer and only return an expression: name, parameters, expression."""
    text = encoded(parsed.text)
    for cursor in parsed.unit.cursor.get_children():
        file = cursor.location.file
        if file is None or file.name != parsed.unit.spelling or cursor.kind != CursorKind.FUNCTION_DECL:
            continue
        children = list(cursor.get_children())
        parameters = [child for child in children if child.kind == CursorKind.PARM_DECL]
        if not children or children[-1].kind != CursorKind.COMPOUND_STMT:
            continue
        body = list(children[-1].get_children())
        if len(body) != 1 or body[0].kind != CursorKind.RETURN_STMT:
            continue
        value = next(iter(body[0].get_children()), None)
        pointers = any("*" in parameter.type.spelling for parameter in parameters)
        if value is None or not pointers or value.type.spelling != cursor.result_type.spelling:
            continue
        extent = value.extent
        names = [parameter.spelling for parameter in parameters]
        yield cursor.spelling, names, text[extent.start.offset : extent.end.offset]


def _inline_accessors(text: str, parsed: Parsed) -> str:
    functions = list(_accessors(parsed))
    changes = []
    for _, start, end in _bodies(parsed):
        old = body = text[start:end]
        for name, parameters, value in functions:
            plain = value if re.fullmatch(r"\w+\s*\[[^\[\]]*\]", value) else f"({value})"

            def expand(arguments: list[str], parameters: list[str] = parameters, plain: str = plain) -> str | None:
                if len(arguments) != len(parameters) or any(re.search(r"\+\+|--|[^=<>!]=[^=]", a) for a in arguments):
                    return None
                return renamed(plain, dict(zip(parameters, arguments, strict=True)))

            body = _expanded(body, name, expand)
        if body != old:
            changes.append((start, end, body))
    return apply(text, changes)


def _replaced(given: Mapping[str, str], match: re.Match[str]) -> str:
    return given.get(match[0], match[0])


def _make_concrete(text: str, parsed: Parsed, kernel: kernel_pb2.Kernel) -> str:
    """Write out the one instance of each template that is launched; the launches are renamed."""
    changes = []
    for cursor, _, end in _bodies(parsed):
        launched = {launch.kernel for launch in kernel.launches if launch.kernel.split("<")[0] == cursor.spelling}
        if cursor.kind != CursorKind.FUNCTION_TEMPLATE or len(launched) != 1:
            continue
        (instance,) = launched
        values = [part.strip() for part in instance.partition("<")[2].removesuffix(">").split(",")]
        kinds = {CursorKind.TEMPLATE_TYPE_PARAMETER, CursorKind.TEMPLATE_NON_TYPE_PARAMETER}
        names = [child.spelling for child in cursor.get_children() if child.kind in kinds]
        start = cursor.extent.start.offset
        head = re.compile(r"template\s*<[^<>]*>\s*").match(text, start)
        if head is None or len(names) != len(values) or not all(re.fullmatch(r"[\w ]+", value) for value in values):
            continue
        given = dict(zip(names, values, strict=True))
        new = re.sub(r"[A-Za-z_]\w*", partial(_replaced, given),
                     text[head.end() : end])  # fmt: skip
        changes.append((start, end, new))
        for launch in kernel.launches:
            if launch.kernel == instance:
                launch.kernel = cursor.spelling
    return apply(text, changes)


def plainer(kernel: kernel_pb2.Kernel) -> kernel_pb2.Kernel:
    """Return the kernel in plainer form, or an equal one if nothing could be made plainer."""
    plain = kernel_pb2.Kernel()
    plain.CopyFrom(kernel)
    text = encoded(kernel.source)
    parsed = parse_cuda(kernel.source)
    for step in (_expand_macros, _inline_accessors, lambda text, parsed: _make_concrete(text, parsed, plain)):
        new = step(text, parsed)
        if new != text:
            text, parsed = new, parse_cuda(decoded(new))
    plain.source = decoded(text)
    return plain
