"""What a profiler reads from PTX: the entries, their parameters' sizes, and which launch means which."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from optiml.v1 import verdict_pb2
from services.profiler.failure import CandidateError

__all__ = ["Entry", "entries_by_launch", "without_markers"]

_ENTRY = re.compile(r"^(?:\.\w+ )?\.entry (?P<symbol>[\w$]+)\((?P<parameters>[^)]*)\)", re.MULTILINE)
_PARAMETER = re.compile(
    r"\.param (?:\.align \d+ )?\.(?P<type>[a-z]+)(?P<bits>\d+)(?: \.ptr[^,\n]*?)? [\w$]+(?:\[(?P<count>\d+)\])?"
)
_MARKED = re.compile(r"^void optiml_entry<(?P<number>\d+), &(?:\((?P<whole>.*)\)|(?P<name>.*))>\(\)$")
_MARKER_BODY = re.compile(
    r"^(?:\t// \.globl\t[^\n]*optiml_entry[^\n]*\n)?(?:\.\w+ )?\.entry \w*optiml_entryI\w*\(\)\n.*?^\}\n",
    re.MULTILINE | re.DOTALL,
)
_FOLDER = re.compile(r'^(\t\.file\t\d+ ")[^"\n]*/', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Entry:
    """One `__global__` function."""

    symbol: str
    """Its mangled name."""
    parameter_bytes: tuple[int, ...]


def _parameter_bytes(text: str) -> tuple[int, ...]:
    return tuple(int(m["bits"]) // 8 * int(m["count"] or 1) for m in _PARAMETER.finditer(text))


def _signature(demangled: str) -> str:
    """Return the function without its return type, which only template instances have in their names."""
    return demangled.removeprefix("void ").strip()


def _lookup(found: dict[str, Entry], signature: str) -> Entry | None:
    """Find a marker's function: extern "C" entries have no parameters in their names, nested markers have none."""
    for spelling in (signature, signature.partition("(")[0]):
        if spelling in found:
            return found[spelling]
    begun = [entry for name, entry in found.items() if signature and name.startswith(f"{signature}(")]
    return begun[0] if begun else None


def entries_by_launch(ptx: str, demangled: str, names: Sequence[str]) -> dict[str, Entry]:
    """Return the entry that each launch's name means.

    Args:
        ptx: the compiler's output, markers included.
        demangled: the same text after c++filt.
        names: the launches' names, in the order of the markers.

    Raises:
        CandidateError: a marker has no entry.
    """
    entries = [Entry(m["symbol"], _parameter_bytes(m["parameters"])) for m in _ENTRY.finditer(ptx)]
    readable = re.findall(r"^(?:\.\w+ )?\.entry (.*?)(?:\($|\(\)$)", demangled, re.MULTILINE)
    wanted: dict[int, str] = {}
    found: dict[str, Entry] = {}
    for entry, name in zip(entries, readable, strict=True):
        if marked := _MARKED.match(name):
            wanted[int(marked["number"])] = _signature(marked["whole"] or marked["name"])
        else:
            found[_signature(name)] = entry
    by_launch = {}
    for number, launch in enumerate(names):
        meant = _lookup(found, wanted.get(number, ""))
        if meant is None:
            raise CandidateError(
                verdict_pb2.VERDICT_LAUNCH_FAILED, f"launch of {launch!r}: no such __global__ function"
            )
        by_launch[launch] = meant
    return by_launch


def without_markers(ptx: str) -> str:
    """Return the PTX without the marker kernels that `services.profiler.compile` appended, and without folders."""
    return _FOLDER.sub(r"\1", _MARKER_BODY.sub("", ptx))
