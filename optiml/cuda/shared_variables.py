"""Variables in device memory that host and kernels share by name, not through a kernel's arguments.

A launch plan hands over buffers and numbers only. What a kernel reads from such a variable would be zeros, and what it
leaves there would go unchecked.
"""

import re
from collections.abc import Iterator

from optiml.cuda.imported import Missing
from optiml.cuda.pieces import Piece, words_of

__all__ = ["shared_variables"]

_DECLARED = re.compile(r"\b__(?:device|constant|managed)__\b")
_FILLED = re.compile(r"ToSymbol")


def shared_variables(cut: list[Piece], kept: str) -> Iterator[Missing]:
    """Yield what is missing for each variable that the kept device code and the host both name.

    Args:
        cut: the pieces of the file.
        kept: the device code.
    """
    declared = {id(p): p for p in cut if p.kind == "data" and _DECLARED.search(_own_text(p))}
    names = {name for piece in declared.values() for name in piece.names} & words_of(kept)
    for piece in cut:
        if id(piece) in declared or piece.kind in {"kernel", "device"} or not piece.words & names:
            continue
        for number, text in enumerate(_own_text(piece).split("\n"), piece.line):
            for name in sorted(words_of(text) & names):
                names.discard(name)
                if _FILLED.search(text):
                    why = f"the host fills {name!r}, and a launch plan cannot: the kernel would see zeros"
                    yield Missing("launch", number, why, f"pass {name} as a const pointer argument")
                else:
                    why = f"host and kernel share the variable {name!r}: a launch plan hands over arguments only"
                    yield Missing("launch", number, why, f"pass {name} as a pointer argument")


def _own_text(piece: Piece) -> str:
    """Return a piece without the space and comments before it."""
    return piece.text.encode()[piece.body - piece.start :].decode(errors="replace")
