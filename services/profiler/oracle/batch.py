"""Many mutants in one translation unit, each in a namespace of its own: one compiler run in place of dozens."""

import re
from collections.abc import Sequence

from optiml.v1 import kernel_pb2
from services.profiler.oracle.mutants import ROUNDING

__all__ = ["guilty", "in_one_unit", "renamed", "standing_alone"]

_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b[^\n]*\n?", re.MULTILINE)
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
_C_LINKAGE = re.compile(r'\bextern\s*"C"\s*(?=__global__|__device__|template|static|inline)')
_OPENED = re.compile(r"namespace mutant_(\d+) \{")
_ERROR = re.compile(r"^kernel\.cu\((\d+)\): (?:catastrophic )?error", re.MULTILINE)


def standing_alone(source: str) -> str:
    """Return a mutant's text as a translation unit of its own."""
    return ROUNDING + source


def in_one_unit(sources: Sequence[str]) -> str:
    """Return one text that holds all of these, the first in namespace `mutant_0`; includes come first, once."""
    includes = dict.fromkeys(line.strip() for source in sources for line in _INCLUDE.findall(source))
    parts = ["".join(f"{line}\n" for line in includes), ROUNDING]
    for number, source in enumerate(sources):
        body = _C_LINKAGE.sub("", _INCLUDE.sub("\n", source))
        undefined = "".join(f"#undef {name}\n" for name in dict.fromkeys(_DEFINE.findall(source)))
        parts.append(f"namespace mutant_{number} {{\n{body}\n}}\n{undefined}")
    return "".join(parts)


def guilty(unit: str, log: str) -> set[int]:
    """Return the numbers of the mutants in which a compiler's log places errors; a warning is none."""
    lines = unit.split("\n")
    found = set()
    for match in _ERROR.finditer(log):
        opened = [_OPENED.match(line) for line in lines[: int(match.group(1))]]
        if numbers := [int(one.group(1)) for one in opened if one]:
            found.add(numbers[-1])
    return found


def renamed(kernel: kernel_pb2.Kernel, number: int, source: str) -> kernel_pb2.Kernel:
    """Return the kernel as it is called within `source`, which is `in_one_unit` of many."""
    inside = kernel_pb2.Kernel()
    inside.CopyFrom(kernel)
    inside.id, inside.source = "", source
    for launch in inside.launches:
        launch.kernel = f"mutant_{number}::{launch.kernel}"
    return inside
