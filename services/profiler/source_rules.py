"""What a candidate's text may not be: too long, reaching for files, or host code. Decided before it is compiled.

Two sieves: forms of `#include` and of assembler that only hide what they read are refused here, by their text; the
list of allowed headers and the search for host code are `optiml.cuda.device_code`'s, whose C++ front end runs in a
sandboxed process of its own.
"""

import asyncio
import re
from collections import OrderedDict

from optiml.sandboxing import sandbox
from optiml.sandboxing.frames import Frame
from optiml.sandboxing.worker_process import WorkerDiedError, WorkerProcess, WorkerTimeoutError, python_step
from optiml.settings import settings

__all__ = ["SourceRules", "text_rejection"]

_MOST_CHARACTERS = 1 << 20
_MOST_KEPT = 512
_SHARE_OF_A_COMPILATION = 1 / 3  # that the front end may take

_SPLICE = re.compile(r"\\[ \t]*\r?\n")
_TEXT = re.compile(
    r"(?P<comment>//[^\n]*|/\*.*?\*/)"
    r'|(?P<raw>R"(?P<mark>[^()\\\s"]{0,16})\(.*?\)(?P=mark)")'
    r'|(?P<string>"(?:\\.|[^"\\\n])*")',
    re.DOTALL,
)
_DIRECTIVE = re.compile(r"^[ \t]*(?:\#|%:)[ \t]*(\w+)[ \t]*(.*?)[ \t]*$", re.MULTILINE)
_HEADER = re.compile(r"<[\w./+-]+>")
_ASSEMBLER = re.compile(r"\.\s*(?:incbin|include|file)\b", re.IGNORECASE)
_READS_FILES = {"include", "include_next", "import", "embed"}


def _includes(text: str) -> list[tuple[str, str]]:
    return [(name, rest) for name, rest in _DIRECTIVE.findall(text) if name in _READS_FILES]


def _without_comments(text: str) -> str:
    return _TEXT.sub(lambda m: " " if m.lastgroup == "comment" else m.group(), text)


def text_rejection(source: str) -> str | None:
    """Return what in the bare text is not acceptable, in one line; None if nothing is."""
    if len(source) > _MOST_CHARACTERS:
        return f"the source has {len(source)} characters; at most {_MOST_CHARACTERS} are allowed"
    if "\0" in source:
        return "the source holds a NUL character"
    spliced = _without_comments(_SPLICE.sub("", source))
    for name, rest in _includes(spliced):
        if name != "include" or not _HEADER.fullmatch(rest) or ".." in rest:
            return f"`#{name} {rest[:80]}` is not allowed: include CUDA's headers by plain names, as in <cuda_fp16.h>"
    if len(_includes(spliced)) != len(re.findall(r"#[ \t]*include\b", _without_comments(source))):
        return "an #include that is quoted, split over lines or written as %: is not allowed: write it plainly"
    strings = "".join(m.group().strip('"') for m in _TEXT.finditer(spliced) if m.lastgroup != "comment")
    if found := _ASSEMBLER.search(strings):
        return f"`{found.group()}` in a string is not allowed: it lets the assembler read files"
    return None


class SourceRules:
    """Judges sources, and remembers what it said about the last ones. Owns the process that parses them."""

    def __init__(self) -> None:
        limits = sandbox.Limits(seconds=0, cpu_seconds=1_000_000, address_space_bytes=4 << 30)
        self._process = WorkerProcess(python_step("services.profiler.source_child"), limits)
        self._turn = asyncio.Lock()
        self._known: OrderedDict[str, str | None] = OrderedDict()

    async def stop(self) -> None:
        """End the process."""
        await self._process.stop()

    async def start(self) -> None:
        """Start the process ahead of the first source."""
        async with self._turn:
            await self._process.start()

    async def rejection(self, source: str) -> str | None:
        """Return why this text is not an acceptable candidate, in one line; None if it may be compiled."""
        if source not in self._known:
            seconds = settings().compile_seconds * _SHARE_OF_A_COMPILATION
            try:
                self._known[source] = text_rejection(source) or await self._parsed_rejection(source, seconds)
            except WorkerTimeoutError:  # not remembered: the machine may have been busy
                return f"the C++ front end takes longer than {seconds:.3g} s over this text"
            except WorkerDiedError:
                return "the C++ front end crashes on this text"
            if len(self._known) > _MOST_KEPT:
                self._known.popitem(last=False)
        return self._known[source]

    async def _parsed_rejection(self, source: str, seconds: float) -> str | None:
        async with self._turn:
            answer = await self._process.call(Frame({"source": source}), seconds, 0)
        violations = answer.header.get("violations")
        return str(violations[0])[:500] if isinstance(violations, list) and violations else None
