"""Places in the device code as places in the person's file: compilers know only the first, people only the second."""

import difflib
import re

__all__ = ["in_users_lines"]

_PLACE = re.compile(r"\bkernel\.cu(?:\((\d+)\)|:(\d+)\b)")


def in_users_lines(text: str, device_code: str, file: str, file_text: str) -> str:
    """Return a compiler's words with `kernel.cu(3)` as the file and line that the person knows, as in `relu.cu:8`.

    Args:
        text: the words.
        device_code: what was compiled.
        file: the file's name.
        file_text: its content, from which the device code was cut.
    """
    ours = [line.strip() for line in device_code.splitlines()]
    theirs = [line.strip() for line in file_text.splitlines()]
    matcher = difflib.SequenceMatcher(None, ours, theirs, autojunk=False)
    lines = {
        block.a + offset + 1: block.b + offset + 1
        for block in matcher.get_matching_blocks()
        for offset in range(block.size)
    }

    def replace(match: re.Match[str]) -> str:
        line = lines.get(int(match.group(1) or match.group(2)))
        return match.group() if line is None else f"{file}:{line}"

    return _PLACE.sub(replace, text)
