"""Small questions about libclang's cursors that its Python interface does not answer."""

import ctypes

from clang import cindex
from clang.cindex import Cursor, CursorKind, TypeKind

__all__ = ["INTEGERS", "constant_value", "evaluated", "initial_of", "is_pointer", "unwrapped"]

INTEGERS = frozenset({
    TypeKind.INT, TypeKind.UINT, TypeKind.LONG, TypeKind.ULONG, TypeKind.LONGLONG, TypeKind.ULONGLONG, TypeKind.SHORT,
    TypeKind.USHORT,
})  # fmt: skip
_TRANSPARENT = {
    CursorKind.UNEXPOSED_EXPR,
    CursorKind.PAREN_EXPR,
    CursorKind.CSTYLE_CAST_EXPR,
    CursorKind.CXX_STATIC_CAST_EXPR,
    CursorKind.CXX_FUNCTIONAL_CAST_EXPR,
    CursorKind.CXX_REINTERPRET_CAST_EXPR,
    CursorKind.CXX_CONST_CAST_EXPR,
}


def evaluated(cursor: Cursor) -> int | float | None:
    """Return the value of a constant expression; libclang's C interface has it, its Python one does not."""
    library = cindex.conf.lib
    evaluate = library.clang_Cursor_Evaluate
    evaluate.argtypes, evaluate.restype = [Cursor], ctypes.c_void_p
    result = evaluate(cursor)
    if not result:
        return None
    pointer = ctypes.c_void_p(result)
    library.clang_EvalResult_getKind.argtypes = [ctypes.c_void_p]
    library.clang_EvalResult_getAsLongLong.argtypes = [ctypes.c_void_p]
    library.clang_EvalResult_getAsLongLong.restype = ctypes.c_longlong
    library.clang_EvalResult_getAsDouble.argtypes = [ctypes.c_void_p]
    library.clang_EvalResult_getAsDouble.restype = ctypes.c_double
    library.clang_EvalResult_dispose.argtypes = [ctypes.c_void_p]
    kind = library.clang_EvalResult_getKind(pointer)
    value: int | float | None = None
    if kind == 1:
        value = library.clang_EvalResult_getAsLongLong(pointer)
    elif kind == 2:
        value = library.clang_EvalResult_getAsDouble(pointer)
    library.clang_EvalResult_dispose(pointer)
    return value


def constant_value(cursor: Cursor) -> int | float | None:
    """Return the value of an expression without variables; None if it has any or is none."""
    if any(c.kind in {CursorKind.DECL_REF_EXPR, CursorKind.CALL_EXPR} for c in cursor.walk_preorder()):
        return None
    return evaluated(cursor)


def unwrapped(cursor: Cursor) -> Cursor:
    """Return the expression below casts, parentheses and implicit conversions."""
    while cursor.kind in _TRANSPARENT:
        below = [c for c in cursor.get_children() if c.kind.is_expression()]
        if len(below) != 1:
            break
        cursor = below[0]
    return cursor


def initial_of(variable: Cursor) -> Cursor | None:
    """Return the initial value of a variable's declaration; a default-constructed object has none."""
    found = [c for c in variable.get_children() if c.kind.is_expression()]
    if not found or (variable.type.kind == TypeKind.CONSTANTARRAY and found[-1].kind == CursorKind.INTEGER_LITERAL):
        return None
    return found[-1]


def is_pointer(cursor: Cursor) -> bool:
    """Return whether an expression or parameter is a pointer."""
    return bool(cursor.type.get_canonical().kind == TypeKind.POINTER)
