"""What a candidate's text may not be: too long, reaching for files, or host code. Decided before it is compiled."""

import re

__all__ = ["rejection"]

_MOST_CHARACTERS = 1 << 20

# Headers of the CUDA toolkit that declare device code, and those of the C++ standard that do no input or output.
_HEADERS = frozenset(
    """
    cuda.h cuda_runtime.h cuda_runtime_api.h device_launch_parameters.h cuda_fp16.h cuda_bf16.h cuda_fp8.h
    math_constants.h mma.h cooperative_groups.h cuda_pipeline.h cuda_pipeline_primitives.h vector_types.h
    vector_functions.h sm_61_intrinsics.h device_functions.h cuda_awbarrier.h cuda_awbarrier_primitives.h
    math.h float.h limits.h stdint.h stddef.h cmath cfloat climits cstdint cstddef limits type_traits utility algorithm
    assert.h cassert array tuple initializer_list functional
    """.split()  # noqa: SIM905 - names read better as text
)
_FOLDERS = ("cooperative_groups/", "cuda/std/", "cuda/", "cub/", "thrust/")

_SPLICE = re.compile(r"\\[ \t]*\r?\n")
_TEXT = re.compile(
    r"(?P<comment>//[^\n]*|/\*.*?\*/)"
    r'|(?P<raw>R"(?P<mark>[^()\\\s"]{0,16})\(.*?\)(?P=mark)")'
    r'|(?P<string>"(?:\\.|[^"\\\n])*")',
    re.DOTALL,
)
_DIRECTIVE = re.compile(r"^[ \t]*(?:\#|%:)[ \t]*(\w+)[ \t]*(.*?)[ \t]*$", re.MULTILINE)
_HEADER = re.compile(r'(?:<([\w./+-]+)>|"([\w./+-]+)")')
_ASSEMBLER = re.compile(r"\.\s*(?:incbin|include|file)\b", re.IGNORECASE)
_READS_FILES = {"include", "include_next", "import", "embed"}


def _without_comments(source: str) -> str:
    """Return the text with lines spliced and comments gone, as the compiler's preprocessor sees it."""
    return _TEXT.sub(lambda m: " " if m.lastgroup == "comment" else m.group(), _SPLICE.sub("", source))


def _allowed(header: str) -> bool:
    return header in _HEADERS or (header.startswith(_FOLDERS) and ".." not in header)


def _include_rejection(text: str) -> str | None:
    for name, rest in _DIRECTIVE.findall(text):
        if name not in _READS_FILES:
            continue
        header = _HEADER.fullmatch(rest)
        wanted = (header.group(1) or header.group(2)) if header else None
        if name != "include" or wanted is None:
            return f"`#{name} {rest[:80]}` is not allowed: include a header by its plain name"
        if not _allowed(wanted):
            return f"the header {wanted!r} is not allowed: only CUDA's device headers and C++'s pure ones are"
    return None


def rejection(source: str) -> str | None:
    """Return why this text is not an acceptable candidate, in one line; None if it may be compiled."""
    if len(source) > _MOST_CHARACTERS:
        return f"the source has {len(source)} characters; at most {_MOST_CHARACTERS} are allowed"
    if "\0" in source:
        return "the source holds a NUL character"
    text = _without_comments(source)
    if reason := _include_rejection(text):
        return reason
    if found := _ASSEMBLER.search("".join(m.group() for m in _TEXT.finditer(text))):
        return f"`{found.group()}` in a string is not allowed: it lets the assembler read files"
    return None
