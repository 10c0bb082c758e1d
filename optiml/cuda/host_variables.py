"""Finds out what is known of a host program's variables: constants, later changes, and what calls pass."""

import ast
import re
from collections.abc import Iterator

from clang import cindex
from clang.cindex import Cursor, CursorKind

from optiml.cuda.cursors import INTEGERS, constant_value, initial_of, unwrapped
from optiml.cuda.expression_algebra import substituted
from optiml.cuda.host import Host, safe_name
from optiml.cuda.kernel_functions import parameters_of
from optiml.cuda.parse import Parsed, binary_operator, unary_operator
from optiml.cuda.pieces import FUNCTIONS, Piece, is_global, words_of
from optiml.expressions import evaluate_integer

__all__ = ["host_of"]

_DEFINE = re.compile(r"#[ \t]*define[ \t]+(\w+)[ \t]+(.+)")
_SUFFIX = re.compile(r"\b(0[xX][0-9a-fA-F]+|\d+)[uUlL]+\b")
_INTEGER = re.compile(r"[\s()\dxa-fA-F+*<-]+\Z")  # what the value of a size macro is made of
_MAX_BODY = 512  # of a macro written out: those that double each other would grow without end
_FROM_OUTSIDE = re.compile(r"\b(argv|getenv|ato(i|l|ll|f)|sto(i|l|ul|ll|ull)|strto\w+|sscanf|scanf|cin)\b")


def host_of(parsed: Parsed, cut: list[Piece], device: frozenset[str]) -> Host:
    """Read the host's variables of a parsed file.

    Args:
        parsed: the file.
        cut: its pieces.
        device: every identifier of the device code; a constant that it uses is fixed, and no parameter.
    """
    host = Host(parsed)
    _note_macros(host, cut, device)
    cursors = list(_host_cursors(parsed))
    for cursor in cursors:
        _note_change(host, cursor)
        if cursor.kind == CursorKind.CALL_EXPR:
            _note_call(host, cursor)
    for cursor in cursors:
        if cursor.kind == CursorKind.VAR_DECL:
            _note_parameter(host, cursor, device)
    return host


def _note_macros(host: Host, cut: list[Piece], device: frozenset[str]) -> None:
    """Find the macros that stand for a positive integer, and those that are computed from them."""
    for piece in cut:
        match = _DEFINE.search(piece.text) if piece.kind == "define" else None
        if match is None or match.group(1) in device:
            continue
        name, body = match.group(1), re.sub(r"//.*|/\*.*?\*/", "", match.group(2)).strip()
        known = words_of(body) & host.macros.keys()
        body = re.sub(r"[A-Za-z_]\w*", lambda m: _in_parentheses(host, m.group()), _SUFFIX.sub(r"\1", body))
        if len(body) > _MAX_BODY:
            continue
        try:
            value = substituted(ast.parse(body, mode="eval").body, {})
            number = evaluate_integer(ast.unparse(value), host.values)
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            continue
        if number <= 0 or safe_name(name) != name:
            continue
        if known:
            host.macros[name] = value
        elif _INTEGER.match(body):
            host.macros[name] = ast.Name(name)
            host.values[name] = number


def _in_parentheses(host: Host, name: str) -> str:
    return f"({ast.unparse(host.macros[name])})" if name in host.macros else name


def _host_cursors(parsed: Parsed) -> Iterator[Cursor]:
    """Yield everything in the file that is not inside a kernel."""
    pending = [
        c for c in parsed.unit.cursor.get_children() if c.location.file and c.location.file.name == parsed.unit.spelling
    ][::-1]
    while pending:
        cursor = pending.pop()
        if is_global(cursor):
            continue
        yield cursor
        pending.extend(list(cursor.get_children())[::-1])


def _note_change(host: Host, cursor: Cursor) -> None:
    """Record an assignment, an increment, or an address that is passed to a function."""
    children = list(cursor.get_children())
    if cursor.kind == CursorKind.BINARY_OPERATOR and binary_operator(cursor) == "=" and len(children) == 2:
        _record(host, children[0], children[1])
    elif cursor.kind == CursorKind.COMPOUND_ASSIGNMENT_OPERATOR or (
        cursor.kind == CursorKind.UNARY_OPERATOR and unary_operator(cursor) in {"++", "--"}
    ):
        _record(host, children[0], cursor)
        _record(host, children[0], cursor)  # twice: a value that builds on another cannot be told
    elif cursor.kind == CursorKind.CALL_EXPR:
        if cursor.spelling == "operator=" and len(children) == 3:
            _record(host, children[0], children[2])
        elif cursor.spelling in {"resize", "push_back", "emplace_back", "assign", "operator>>"} and children:
            _record(host, children[-1] if cursor.spelling == "operator>>" else children[0], cursor)
        elif cursor.spelling == "swap":
            return
        for argument in cursor.get_arguments():
            below = unwrapped(argument)
            if below.kind == CursorKind.UNARY_OPERATOR and unary_operator(below) == "&":
                (target,) = below.get_children()
                if target.type.get_canonical().kind in INTEGERS:
                    _record(host, target, cursor)


def _record(host: Host, target: Cursor, value: Cursor) -> None:
    target = unwrapped(target)
    member = ""
    if target.kind == CursorKind.MEMBER_REF_EXPR and (owner := next(iter(target.get_children()), None)) is not None:
        member, target = target.spelling, unwrapped(owner)
    if target.kind == CursorKind.DECL_REF_EXPR and target.referenced is not None:
        host.changes.setdefault((target.referenced.hash, member), []).append(value)


def _note_call(host: Host, call: Cursor) -> None:
    function = call.referenced.get_definition() if call.referenced is not None else None
    if function is None or function.location.file is None or is_global(function):
        return
    if function.location.file.name != host.parsed.unit.spelling:
        return
    pattern = cindex.conf.lib.clang_getSpecializedCursorTemplate(function)
    for declared in (function, pattern) if pattern is not None else (function,):
        _note_passed(host, parameters_of(declared), list(call.get_arguments()))


def _note_passed(host: Host, parameters: list[Cursor], arguments: list[Cursor]) -> None:
    for parameter, argument in zip(parameters, arguments, strict=False):
        known = host.calls.setdefault(parameter.hash, [])
        if host.parsed.source(argument) not in {host.parsed.source(other) for other in known}:
            known.append(argument)


def _note_parameter(host: Host, variable: Cursor, device: frozenset[str]) -> None:
    if variable.type.get_canonical().kind not in INTEGERS or safe_name(variable.spelling) in host.values:
        return
    if variable.spelling in device and variable.semantic_parent.kind == CursorKind.TRANSLATION_UNIT:
        return
    changes = host.changes.get((variable.hash, ""), [])
    inside = [c for c in changes if not _FROM_OUTSIDE.search(host.parsed.source(c))]
    initial = initial_of(variable)
    value = _starting_constant(host, initial, device) if initial is not None else None
    if initial is None and len(inside) == 1 and inside[0].kind.is_expression():
        value = _starting_constant(host, inside[0], device)
        inside = []
    if value is not None and not inside:
        name = safe_name(variable.spelling)
        host.parameters[variable.hash] = name
        host.values[name] = value
        host.terms[name] = variable.spelling
        parent = variable.semantic_parent
        host.places[name] = parent.spelling if parent.kind in FUNCTIONS else ""


def _starting_constant(host: Host, value: Cursor, device: frozenset[str]) -> int | None:
    """Return the positive integer that a variable starts from, be it the default of `argc > 1 ? … : 1024`."""
    below = unwrapped(value)
    words = words_of(host.parsed.source(below))
    if below.kind != CursorKind.CONDITIONAL_OPERATOR and ("sizeof" in words or words & (host.macros.keys() | device)):
        return None  # computed from parameters or fixed numbers
    if below.kind == CursorKind.CONDITIONAL_OPERATOR:
        branches = list(below.get_children())[1:]
        constants = [v for v in map(constant_value, branches) if isinstance(v, int)]
        return constants[-1] if len(constants) == 1 and constants[-1] > 0 else None
    number = constant_value(below)
    return number if isinstance(number, int) and number > 0 else None
