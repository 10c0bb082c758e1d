"""The range of an integer buffer whose values serve as indices, read off the access that uses them."""

import re

from clang.cindex import Cursor, CursorKind, TypeKind

from optiml.cuda.parse import Parsed

__all__ = ["index_range"]

_WORD = r"[A-Za-z_]\w*|\d+"


def index_range(parsed: Parsed, name: str, access: Cursor) -> str | None:
    """Return the name (or number) of the extent that bounds the values of an index buffer; None if it cannot be told.

    Two forms are known: `x[row * C + label[row]]`, bounded by C, and `p[label[row]]` where `p = x + row * C`.

    Args:
        parsed: the file.
        name: the pointer parameter that holds the indices.
        access: an access whose index uses a value of it.
    """
    base, index = list(access.get_children())[:2]
    text = re.sub(r"\s+", " ", parsed.source(index))
    match = re.search(rf"\*\s*({_WORD})\s*\)?\s*\+\s*\(?{re.escape(name)}\s*\[", text)
    if match:
        return match.group(1)
    for cursor in base.walk_preorder():
        if cursor.kind == CursorKind.DECL_REF_EXPR and cursor.referenced is not None:
            declaration = cursor.referenced
            if declaration.kind == CursorKind.VAR_DECL and declaration.type.kind == TypeKind.POINTER:
                start = re.search(rf"\*\s*({_WORD})\s*\)?\s*;?\s*$", parsed.source(declaration))
                return start.group(1) if start else None
    return None
