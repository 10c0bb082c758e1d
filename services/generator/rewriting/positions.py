"""Whether a thread's work depends on its numbers in another way than through its coordinates."""

import re

from services.generator.rewriting.context import Context, apply
from services.generator.rewriting.expressions import NotApplicable

__all__ = ["require_coordinates_only"]

_NUMBERS = re.compile(r"\b(threadIdx|blockIdx|blockDim|gridDim|warpSize|__activemask|this_thread\w*|this_grid|asm)\b")
_WORD = re.compile(r"[A-Za-z_]\w*")
_DEFINE = re.compile(r"\s*#\s*define\s+(\w+)")
_BEFORE_PARENTHESIS = re.compile(r"([A-Za-z_]\w*)\s*\(")


def _definitions(text: str) -> list[tuple[set[str], str]]:
    """Cut a file into its macros and declarations; return what each may define by name, and its text."""
    found: list[tuple[set[str], str]] = []
    depth, current = 0, ""
    for line in text.replace("\\\n", " ").split("\n"):
        macro = _DEFINE.match(line)
        if macro and depth == 0:
            found.append(({macro[1]}, line))
            continue
        current += line + "\n"
        depth += line.count("{") - line.count("}")
        if depth <= 0 and line.rstrip().endswith(("}", ";")):
            head = current.partition("{")[0]
            found.append((set(_BEFORE_PARENTHESIS.findall(head)), current))
            depth, current = 0, ""
    return found


def _reached(context: Context, body: str) -> str:
    """Return the macros and functions of the file that the body uses, directly or through others."""
    function = context.function
    outside = context.text[: function.start] + "\n" + context.text[function.end :]
    left = [piece for piece in _definitions(outside) if "__global__" not in piece[1]]
    words, texts, grown = set(_WORD.findall(body)), list[str](), True
    while grown:
        grown = False
        for piece in list(left):
            if piece[0] & words:
                left.remove(piece)
                texts.append(piece[1])
                words |= set(_WORD.findall(piece[1]))
                grown = True
    return "\n".join(texts)


def require_coordinates_only(context: Context) -> None:
    """Check that threads may be numbered anew: their work sees their numbers only through their coordinates.

    Raises:
        NotApplicable: the work, or a function or macro that it uses, asks for a thread's number or a block's size.
    """
    function = context.function
    offset = function.body_start
    values = [found.declare.value for found in context.threads.coordinates.values() if found.declare.value]
    body = apply(
        context.text[offset : function.end], [(value.start - offset, value.end - offset, "") for value in values]
    )
    if used := _NUMBERS.search(body):
        raise NotApplicable(f"`{used[1]}` is used for more than the threads' coordinates")
    if used := _NUMBERS.search(_reached(context, body)):
        raise NotApplicable(f"a function or macro that the kernel uses asks for `{used[1]}`")
