"""What host code computes, as expressions over a problem's parameters.

A host variable that starts from a plain constant (or from the command line with a constant default) may become a
parameter; one that is computed from others is written out; one that changes has no value that could be told.
"""

import ast

from clang.cindex import Cursor, CursorKind, TypeKind

from optiml.cuda.cursors import INTEGERS, constant_value, evaluated, initial_of, unwrapped
from optiml.cuda.expression_algebra import Expression, Unknown, chosen, simplified
from optiml.cuda.host import Host, macro_value, safe_name
from optiml.cuda.parse import binary_operator, unary_operator

__all__ = ["dim3_extents", "expression"]

_FLOATS = {TypeKind.FLOAT, TypeKind.DOUBLE, TypeKind.LONGDOUBLE}
_OPERATORS: dict[str, type[ast.operator]] = {
    "+": ast.Add, "-": ast.Sub, "*": ast.Mult, "/": ast.Div, "%": ast.Mod, "<<": ast.LShift,
}  # fmt: skip
_COMPARISONS: dict[str, type[ast.cmpop]] = {
    "==": ast.Eq, "!=": ast.NotEq, "<": ast.Lt, "<=": ast.LtE, ">": ast.Gt, ">=": ast.GtE,
}  # fmt: skip
_LITERALS = {CursorKind.INTEGER_LITERAL, CursorKind.FLOATING_LITERAL, CursorKind.CXX_UNARY_EXPR}
_DEPTH = 40

Bound = dict[int, Expression]


def expression(host: Host, cursor: Cursor, bound: Bound | None = None, depth: int = 0) -> Expression:
    """Return what an expression of the host computes, over the problem's parameters.

    Args:
        host: what is known of the host.
        cursor: the expression.
        bound: values of function parameters, by hash, while a call is written out.
        depth: how many variables and calls were followed.

    Raises:
        Unknown: it depends on something that the source does not tell.
    """
    if depth > _DEPTH:
        raise Unknown(f"line {cursor.location.line}: the value depends on itself")
    macro = macro_value(host, cursor)
    if macro is not None:
        return macro
    cursor = unwrapped(cursor)
    kind = cursor.kind
    bound = bound or {}
    if kind in _LITERALS:
        value = evaluated(cursor)
        if value is None:
            raise _unknown(host, cursor)
        return ast.Constant(value)
    if kind == CursorKind.CXX_BOOL_LITERAL_EXPR:
        return ast.Constant(int(host.parsed.source(cursor) == "true"))
    if kind == CursorKind.DECL_REF_EXPR:
        return _reference(host, cursor, bound, depth)
    if kind == CursorKind.BINARY_OPERATOR:
        return _binary(host, cursor, bound, depth)
    if kind == CursorKind.UNARY_OPERATOR and unary_operator(cursor) in {"-", "+"}:
        (operand,) = cursor.get_children()
        value_of = expression(host, operand, bound, depth + 1)
        return simplified(ast.UnaryOp(ast.USub(), value_of)) if unary_operator(cursor) == "-" else value_of
    if kind == CursorKind.CONDITIONAL_OPERATOR:
        return _conditional(host, cursor, bound, depth)
    if kind == CursorKind.MEMBER_REF_EXPR:
        return _member(host, cursor, bound, depth)
    if kind == CursorKind.CALL_EXPR:
        return _call(host, cursor, bound, depth)
    raise _unknown(host, cursor)


def _unknown(host: Host, cursor: Cursor) -> Unknown:
    text = " ".join(host.parsed.source(cursor).split())
    return Unknown(f"line {cursor.location.line}: cannot tell the value of {text[:80]!r}")


def _reference(host: Host, cursor: Cursor, bound: Bound, depth: int) -> Expression:
    variable = cursor.referenced
    if variable is None:
        raise _unknown(host, cursor)
    if variable.hash in bound:
        return bound[variable.hash]
    if variable.hash in host.parameters:
        name = host.parameters[variable.hash]
        return ast.Constant(host.fixed[name]) if name in host.fixed else ast.Name(name)
    if variable.kind == CursorKind.ENUM_CONSTANT_DECL:
        return ast.Constant(variable.enum_value)
    if variable.kind == CursorKind.VAR_DECL:
        initial = _only_value(host, variable, "")
        try:
            return expression(host, initial, bound, depth + 1)
        except Unknown as unknown:
            if variable.type.get_canonical().kind in INTEGERS:
                return _outside(host, variable, str(unknown))
            raise
    if variable.kind == CursorKind.PARM_DECL:
        passed = host.calls.get(variable.hash, [])
        if len(passed) == 1 and (variable.hash, "") not in host.changes:
            return expression(host, passed[0], {}, depth + 1)
        if not passed and variable.type.get_canonical().kind in INTEGERS:
            return _outside(host, variable, f"line {variable.location.line}: {variable.spelling!r} comes from outside")
    raise _unknown(host, cursor)


def _outside(host: Host, variable: Cursor, why: str) -> Expression:
    """Make a variable whose value the file does not tell a parameter; a person has to give its value."""
    name = safe_name(variable.spelling)
    if name in host.values or name in host.outside:
        raise Unknown(why)  # another variable of that name is a parameter
    host.parameters[variable.hash] = name
    host.outside[name] = (variable.location.line, why)
    host.places[name] = variable.semantic_parent.spelling
    host.terms[name] = variable.spelling
    return ast.Name(name)


def _only_value(host: Host, variable: Cursor, member: str) -> Cursor:
    """Return the one value that a variable (or its member) ever has."""
    changes = host.changes.get((variable.hash, member), [])
    initial = initial_of(variable)
    if initial is not None and not changes:
        return initial
    if initial is None and len(changes) == 1 and changes[0].kind.is_expression():
        return changes[0]
    what = f"{variable.spelling}.{member}" if member else variable.spelling
    if changes:
        raise Unknown(f"line {changes[-1].location.line}: {what!r} changes, so its value cannot be told")
    raise Unknown(f"line {variable.location.line}: {what!r} has no value here")


def _binary(host: Host, cursor: Cursor, bound: Bound, depth: int) -> Expression:
    symbol = binary_operator(cursor)
    left, right = cursor.get_children()
    if symbol == ">>":
        shift = constant_value(unwrapped(right))
        if isinstance(shift, int) and 0 <= shift < 63:
            divisor = ast.Constant(1 << shift)
            return simplified(ast.BinOp(expression(host, left, bound, depth + 1), ast.Div(), divisor))
    if symbol not in _OPERATORS and symbol not in _COMPARISONS:
        raise _unknown(host, cursor)
    first, second = expression(host, left, bound, depth + 1), expression(host, right, bound, depth + 1)
    if symbol in _COMPARISONS:
        return ast.Compare(first, [_COMPARISONS[symbol]()], [second])
    return simplified(ast.BinOp(first, _OPERATORS[symbol](), second))


def _conditional(host: Host, cursor: Cursor, bound: Bound, depth: int) -> Expression:
    condition, yes, no = cursor.get_children()
    test = expression(host, condition, bound, depth + 1)
    if isinstance(test, ast.BinOp) and isinstance(test.op, ast.Mod):  # n % b ? 1 : 0
        test = ast.Compare(test, [ast.NotEq()], [ast.Constant(0)])
    result = chosen(test, expression(host, yes, bound, depth + 1), expression(host, no, bound, depth + 1))
    if result is None:
        raise _unknown(host, cursor)
    return result


def _member(host: Host, cursor: Cursor, bound: Bound, depth: int) -> Expression:
    owner = next(iter(cursor.get_children()), None)
    variable = unwrapped(owner).referenced if owner is not None else None
    if variable is None or variable.kind not in {CursorKind.VAR_DECL, CursorKind.PARM_DECL}:
        raise _unknown(host, cursor)
    if cursor.spelling in {"x", "y", "z"} and "dim3" in variable.type.spelling:
        return dim3_extents(host, variable, bound, depth)["xyz".index(cursor.spelling)]
    passed = host.calls.get(variable.hash, [])
    if variable.kind == CursorKind.PARM_DECL and len(passed) == 1:
        value = unwrapped(passed[0])
        while value.kind == CursorKind.CALL_EXPR and len(copied := list(value.get_arguments())) == 1:
            value = unwrapped(copied[0])  # a struct is passed as a copy
        variable = value.referenced
    if variable is not None and variable.kind == CursorKind.VAR_DECL:
        return _field(host, variable, cursor, bound, depth)
    raise _unknown(host, cursor)


def _field(host: Host, variable: Cursor, cursor: Cursor, bound: Bound, depth: int) -> Expression:
    """Return the value of a struct's field: a parameter of its name if it is an integer constant."""
    value = expression(host, _field_value(host, variable, cursor), bound, depth + 1)
    name, key = safe_name(cursor.spelling), (variable.hash, cursor.spelling)
    if not (isinstance(value, ast.Constant) and isinstance(value.value, int) and value.value > 0):
        return value
    if name in host.fixed or (key not in host.fields and name in host.values):
        return value  # or another variable of that name is a parameter
    host.fields[key] = name
    host.terms[name] = f"{variable.spelling}.{cursor.spelling}"
    host.values[name] = value.value
    host.places[name] = variable.semantic_parent.spelling
    return ast.Name(name)


def _field_value(host: Host, variable: Cursor, cursor: Cursor) -> Cursor:
    """Return the value of a plain struct's field: assigned once, listed at its place in `{…}`, or its default."""
    changes = host.changes.get((variable.hash, cursor.spelling), [])
    if (variable.hash, "") in host.changes or len(changes) > 1:
        raise _unknown(host, cursor)
    if changes:
        return changes[0]
    fields = [f.spelling for f in variable.type.get_canonical().get_fields()]
    initial = initial_of(variable)
    if initial is not None and initial.kind == CursorKind.INIT_LIST_EXPR and cursor.spelling in fields:
        listed = list(initial.get_children())
        if fields.index(cursor.spelling) < len(listed) and "." not in host.parsed.source(initial)[:3]:
            return listed[fields.index(cursor.spelling)]
    default = initial_of(cursor.referenced) if cursor.referenced is not None else None
    if default is None:
        raise _unknown(host, cursor)
    return default


def dim3_extents(host: Host, cursor: Cursor, bound: Bound | None = None, depth: int = 0) -> list[Expression]:
    """Return the three extents of a dim3: an expression, or a variable of that type.

    Raises:
        Unknown: one of them cannot be told.
    """
    bound = bound or {}
    if depth > _DEPTH:
        raise Unknown(f"line {cursor.location.line}: the value depends on itself")
    cursor = unwrapped(cursor)
    if cursor.kind == CursorKind.DECL_REF_EXPR and "dim3" in cursor.type.spelling:
        return dim3_extents(host, cursor.referenced, bound, depth + 1)
    if cursor.kind == CursorKind.PARM_DECL:
        passed = host.calls.get(cursor.hash, [])
        if len(passed) == 1:
            return dim3_extents(host, passed[0], {}, depth + 1)
        raise Unknown(f"line {cursor.location.line}: dim3 {cursor.spelling!r} comes from outside")
    if cursor.kind == CursorKind.VAR_DECL:
        return _dim3_variable(host, cursor, bound, depth)
    if "dim3" in cursor.type.spelling and cursor.kind in {CursorKind.CALL_EXPR, CursorKind.INIT_LIST_EXPR}:
        given = [c for c in cursor.get_children() if c.kind.is_expression() and host.parsed.source(c)]
        if len(given) == 1 and "dim3" in unwrapped(given[0]).type.spelling:
            return dim3_extents(host, given[0], bound, depth + 1)
        extents = [expression(host, c, bound, depth + 1) for c in given]
        return (extents + [ast.Constant(1)] * 3)[:3]
    return [expression(host, cursor, bound, depth + 1), ast.Constant(1), ast.Constant(1)]


def _dim3_variable(host: Host, variable: Cursor, bound: Bound, depth: int) -> list[Expression]:
    changes = host.changes.get((variable.hash, ""), [])
    initial = initial_of(variable)
    listed = initial is not None and host.parsed.source(initial) != variable.spelling  # `dim3 grid;` has no more
    if len(changes) > 1 or (changes and listed):
        raise Unknown(f"line {changes[-1].location.line}: {variable.spelling!r} changes, so its extents cannot be told")
    source = changes[0] if changes else initial if listed else None
    extents: list[Expression] = [ast.Constant(1)] * 3
    if source is not None:
        extents = dim3_extents(host, source, bound, depth + 1)
    for axis, member in enumerate("xyz"):
        assigned = host.changes.get((variable.hash, member), [])
        if len(assigned) > 1:
            raise Unknown(f"line {assigned[-1].location.line}: {variable.spelling}.{member} changes")
        if assigned:
            extents[axis] = expression(host, assigned[0], bound, depth + 1)
    return extents


def _call(host: Host, cursor: Cursor, bound: Bound, depth: int) -> Expression:
    arguments = list(cursor.get_arguments())
    name = cursor.spelling
    if name in {"min", "max"} and len(arguments) == 2:
        left, right = (expression(host, a, bound, depth + 1) for a in arguments)
        return ast.Call(ast.Name(name), [left, right], [])
    if name in {"ceil", "ceilf"} and len(arguments) == 1:
        below = unwrapped(arguments[0])
        if below.type.get_canonical().kind in _FLOATS and binary_operator(below) == "/":
            left, right = (_whole(expression(host, c, bound, depth + 1)) for c in below.get_children())
            return ast.Call(ast.Name("ceil_div"), [left, right], [])
        return expression(host, arguments[0], bound, depth + 1)
    if name == "size" and not arguments:
        owner = next((c.referenced for c in cursor.walk_preorder() if c.kind == CursorKind.DECL_REF_EXPR), None)
        if owner is not None and "vector" in owner.type.spelling:
            return _vector_size(host, owner, bound, depth)
    definition = cursor.referenced.get_definition() if cursor.referenced is not None else None
    if definition is not None and definition.kind == CursorKind.FUNCTION_DECL:
        returned = [c for c in definition.walk_preorder() if c.kind == CursorKind.RETURN_STMT]
        values: Bound = {
            parameter.hash: expression(host, argument, bound, depth + 1)
            for parameter, argument in zip(definition.get_arguments(), arguments, strict=False)
        }
        if len(returned) == 1 and (result := list(returned[0].get_children())):
            return expression(host, result[0], values, depth + 1)
    raise _unknown(host, cursor)


def _vector_size(host: Host, vector: Cursor, bound: Bound, depth: int) -> Expression:
    constructors = [c for c in vector.walk_preorder() if c.kind == CursorKind.CALL_EXPR and c.spelling == "vector"]
    arguments = list(constructors[-1].get_arguments()) if constructors else []
    if not arguments or (vector.hash, "") in host.changes:
        raise Unknown(f"line {vector.location.line}: cannot tell the size of {vector.spelling!r}")
    return expression(host, arguments[0], bound, depth + 1)


def _whole(value: Expression) -> Expression:
    if isinstance(value, ast.Constant) and isinstance(value.value, float) and value.value.is_integer():
        return ast.Constant(int(value.value))
    return value
