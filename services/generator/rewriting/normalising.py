"""Kernels in plain form: templates specialised, function-like macros expanded, element functions put in place.

People hide `matrix[row * columns + column]` behind macros, `__device__` functions and template parameters. The plain
form computes the same and shows every index, so that transformations that reason about indices apply to it as well.
"""

import re
from collections.abc import Iterator

from clang.cindex import Cursor, CursorKind, Token, TokenKind, Type, TypeKind
from clang.cindex import conf as clang

from optiml.cuda.parse import Parsed, parse_cuda, walk
from optiml.v1 import kernel_pb2
from services.generator.rewriting.context import Replacement, apply
from services.generator.rewriting.expressions import NotApplicable
from services.generator.rewriting.syntax import decoded, encoded

__all__ = ["plainer"]

_MAX_ROUNDS = 8  # of macros in macros and calls in calls
_MOST_GROWTH = 4
_MARGIN = 4096  # characters; macros that double each other stop here
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)\(([\w\s,]*)\)[ \t]*((?:\\\r?\n|[^\n])*)", re.MULTILINE)
_DEFINED = re.compile(r"^[ \t]*#[ \t]*(?:define|undef)[ \t]+(\w+)", re.MULTILINE)
_ALONE = re.compile(r"[\w.]+$")
_CHANGES = re.compile(r"(?<![=!<>])=(?!=)|\+\+|--")
_ACTS = re.compile(r"sync|atomic")
_WORD = re.compile(r"(?<![\w.])[A-Za-z_]\w*")


def plainer(kernel: kernel_pb2.Kernel) -> kernel_pb2.Kernel:
    """Return a kernel that computes the same, with every index written out where the function uses it.

    The same message comes back if there is nothing to do, or if the result would not parse as well as the original.
    """
    result = kernel_pb2.Kernel()
    result.CopyFrom(kernel)
    result.id = ""
    errors = len(parse_cuda(kernel.source).diagnostics)
    _specialise(result)
    for step in (_expanded, _inlined):
        for _ in range(_MAX_ROUNDS):
            source = step(parse_cuda(result.source))
            if source == result.source or len(source) > _MOST_GROWTH * len(kernel.source) + _MARGIN:
                break
            result.source = source
    if result.source == kernel.source or len(parse_cuda(result.source).diagnostics) > errors:
        return kernel
    return result


def _kernels(parsed: Parsed, kind: CursorKind) -> Iterator[Cursor]:
    for cursor in walk(parsed.unit.cursor):
        if cursor.kind == kind and any(c.kind == CursorKind.CUDAGLOBAL_ATTR for c in cursor.get_children()):
            yield cursor


def _extent(cursor: Cursor | Token) -> tuple[int, int]:
    return cursor.extent.start.offset, cursor.extent.end.offset


def _split(text: str) -> list[str]:
    """Split at the commas that are in no brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "(<[{") - (character in ")>]}")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def _specialise(kernel: kernel_pb2.Kernel) -> None:
    """Replace each template that is launched with one list of arguments by a function."""
    parsed = parse_cuda(kernel.source)
    text, changes = encoded(kernel.source), list[Replacement]()
    for template in _kernels(parsed, CursorKind.FUNCTION_TEMPLATE):
        launches = [found for found in kernel.launches if found.kernel.partition("<")[0] == template.spelling]
        parameters = [
            child
            for child in template.get_children()
            if child.kind in {CursorKind.TEMPLATE_TYPE_PARAMETER, CursorKind.TEMPLATE_NON_TYPE_PARAMETER}
        ]
        if len({found.kernel for found in launches}) != 1 or not launches[0].kernel.endswith(">"):
            continue
        values = _split(launches[0].kernel.partition("<")[2][:-1])
        if len(values) != len(parameters):
            continue
        start, end = _extent(template)
        head = text.index(">", _extent(parameters[-1])[1]) + 1
        head += len(text[head:]) - len(text[head:].lstrip())
        changes.append((start, head, ""))
        by_name = {found.spelling: value for found, value in zip(parameters, values, strict=True)}
        changes += _renaming(template, by_name, head, end)
        for found in launches:
            found.kernel = template.spelling
    kernel.source = decoded(apply(text, changes))


def _renaming(cursor: Cursor, names: dict[str, str], start: int, end: int) -> list[Replacement]:
    changes: list[Replacement] = []
    before = ""
    for token in cursor.get_tokens():
        place = _extent(token)
        named = token.kind == TokenKind.IDENTIFIER and before not in {".", "->", "::"}
        if named and token.spelling in names and start <= place[0] < end:
            changes.append((*place, names[token.spelling]))
        before = token.spelling
    return changes


def _macros(source: str) -> dict[str, tuple[list[str], str]]:
    """Return parameters and body of the function-like macros that are expressions and are defined once."""
    defined = _DEFINED.findall(source)
    return {
        name: ([parameter.strip() for parameter in parameters.split(",")], body.strip())
        for name, parameters, body in _MACRO.findall(source)
        if defined.count(name) == 1 and parameters.strip() and body.strip() and not re.search(r"[#;{}\\]|//|/\*", body)
    }


def _expanded(parsed: Parsed) -> str:
    """Expand the outermost uses of function-like macros inside kernels."""
    text, changes = encoded(parsed.text), list[Replacement]()
    macros = _macros(parsed.text)
    for function in _kernels(parsed, CursorKind.FUNCTION_DECL) if macros else ():
        body = list(function.get_children())[-1]  # the declaration itself begins inside the macro __global__
        tokens = list(body.get_tokens()) if body.kind == CursorKind.COMPOUND_STMT else []
        position = 0
        while position < len(tokens) - 1:
            token = tokens[position]
            position += 1
            if token.spelling not in macros or tokens[position].spelling != "(":
                continue
            close = _closing(tokens, position)
            parameters, body = macros[token.spelling]
            arguments = _split(text[_extent(tokens[position])[1] : _extent(tokens[close])[0]])
            if len(arguments) == len(parameters):
                new = _substituted(body, dict(zip(parameters, arguments, strict=True)))
                start, end = _extent(token)[0], _extent(tokens[close])[1]
                if text[start - 1 : start] == "[" and text[end : end + 1] == "]":
                    new = _without_parentheses(new)
                changes.append((start, end, new))
                position = close + 1
    return decoded(apply(text, changes))


def _closing(tokens: list[Token], opening: int) -> int:
    depth = 0
    for position in range(opening, len(tokens)):
        depth += (tokens[position].spelling == "(") - (tokens[position].spelling == ")")
        if depth == 0:
            return position
    return len(tokens) - 1


def _substituted(body: str, values: dict[str, str]) -> str:
    """Put values in, as the preprocessor does; `(i)` becomes `row`, not `(row)`, where nothing is called or cast."""
    for name, value in values.items():
        if _ALONE.match(value):
            body = re.sub(rf"(?<![\w)\]])(\s*)\(\s*({re.escape(name)})\s*\)", r"\1\2", body)
    return _WORD.sub(lambda found: values.get(found[0], found[0]), body)


def _without_parentheses(text: str) -> str:
    depth = 0
    for position, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0 and position < len(text) - 1:
            return text
    return text[1:-1].strip() if text.startswith("(") else text


def _inlined(parsed: Parsed) -> str:
    """Put the bodies of functions that reach memory and only return an expression where they are called."""
    text, changes = encoded(parsed.text), list[Replacement]()
    for function in _kernels(parsed, CursorKind.FUNCTION_DECL):
        declared = {c.spelling for c in walk(function) if c.kind in {CursorKind.VAR_DECL, CursorKind.PARM_DECL}}
        last = -1
        for call in walk(function):
            start, end = _extent(call)
            if call.kind != CursorKind.CALL_EXPR or start < last or not text[start:end].startswith(call.spelling + "("):
                continue
            try:
                new = _body_of_call(parsed, call, declared)
            except NotApplicable:
                continue
            last = end
            changes.append((start, end, new))
    return decoded(apply(text, changes))


def _spelled(cursor: Cursor) -> Cursor:
    """Look through implicit conversions."""
    children = list(cursor.get_children())
    while cursor.kind == CursorKind.UNEXPOSED_EXPR and len(children) == 1:
        cursor = children[0]
        children = list(cursor.get_children())
    return cursor


def _type(of: Type) -> str:
    """Return the type without qualifiers, as in "float" or "float*"."""
    canonical = of.get_canonical()
    pointer = canonical.kind == TypeKind.POINTER
    spelling = canonical.get_pointee().spelling if pointer else canonical.spelling
    words = [word for word in str(spelling).split() if word not in {"const", "volatile"}]
    return " ".join(words) + ("*" if pointer else "")


def _converted(text: str, of: Type, to: Type) -> str:
    """Return the text as it would be passed or returned: with a cast if its type is another."""
    if _type(of) == _type(to):
        return text
    if {of.get_canonical().kind, to.get_canonical().kind} & {TypeKind.POINTER, TypeKind.RECORD, TypeKind.CONSTANTARRAY}:
        raise NotApplicable("a value is converted")
    return f"({_type(to)}){text if _ALONE.match(text) else f'({text})'}"


def _require_pure(cursor: Cursor, text: str) -> None:
    called = [inner for inner in walk(cursor) if inner.kind == CursorKind.CALL_EXPR]
    if _CHANGES.search(text) or any(_ACTS.search(inner.spelling) for inner in called):
        raise NotApplicable("it has a side effect")


def _body_of_call(parsed: Parsed, call: Cursor, declared: set[str]) -> str:
    callee = call.referenced.get_definition() if call.referenced is not None else None
    if callee is None or callee.kind != CursorKind.FUNCTION_DECL or callee.location.file.name != parsed.unit.spelling:
        raise NotApplicable("not a function of this file")
    if clang.lib.clang_getSpecializedCursorTemplate(callee) is not None:
        raise NotApplicable("a template")
    parameters, arguments = list(callee.get_arguments()), list(call.get_arguments())
    if len(parameters) != len(arguments) or not any("*" in _type(parameter.type) for parameter in parameters):
        raise NotApplicable("it reaches no memory")
    statements = list(list(callee.get_children())[-1].get_children())
    if len(statements) != 1 or statements[0].kind != CursorKind.RETURN_STMT:
        raise NotApplicable("it is more than one expression")
    value = _spelled(next(iter(statements[0].get_children())))
    used = {c.spelling for c in walk(value) if c.kind == CursorKind.DECL_REF_EXPR}
    names = {parameter.spelling for parameter in parameters}
    if (used - names) & declared or callee.spelling in used:
        raise NotApplicable("its names mean something else in the kernel")
    _require_pure(value, parsed.source(value))
    values: dict[str, str] = {}
    for parameter, argument in zip(parameters, arguments, strict=True):
        inner = _spelled(argument)
        _require_pure(inner, parsed.source(inner))
        written = _converted(encoded(parsed.source(inner)), inner.type, parameter.type)
        values[parameter.spelling] = written if _ALONE.match(written) else f"({written})"
    start, end = _extent(value)
    changes = [(a - start, b - start, new) for a, b, new in _renaming(value, values, start, end)]
    written = apply(encoded(parsed.text)[start:end], changes)
    result = _converted(written, value.type, callee.result_type)
    return result if result == written and value.kind == CursorKind.ARRAY_SUBSCRIPT_EXPR else f"({result})"
