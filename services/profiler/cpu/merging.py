"""Shared loads that ptxas makes one of: PTX has them one by one, the hardware executes `LDS.64` or `LDS.128`.

ptxas places static shared memory itself, so it knows alignments that PTX does not state, and joins 32-bit loads of one
basic block from consecutive addresses with nothing between them that could write there. A tile read row by row costs a
quarter of the instructions and wavefronts for it, so counters must not miss it. Global loads are never joined: their
alignment is unknown.
"""

from collections import defaultdict
from collections.abc import Sequence

from services.profiler.cpu.ptx import Address, Instruction, Label, Register, Symbol

__all__ = ["FOLLOWER", "merged_loads"]

FOLLOWER = 255  # is part of an earlier load
_WORD_BYTES = 4
_WIDTHS = (16, 8)
_WRITES = ("st", "atom", "red", "bar", "barrier", "membar", "fence", "call", "cp", "bra", "brx", "ret", "exit")

_Place = tuple[str, int]  # base and how often it has been written


def _joinable(instruction: Instruction) -> bool:
    parts = instruction.opcode.split(".")
    plain = parts[0] == "ld" and parts[1] in {"shared", "shared::cta"} and len(parts) == 3
    return plain and parts[2] in {"f32", "b32", "u32", "s32"} and instruction.guard is None


def _place(instruction: Instruction, versions: dict[str, int]) -> tuple[_Place, int] | None:
    source = instruction.operands[1]
    if not isinstance(source, Address) or not isinstance(source.base, Register | Symbol):
        return None
    return (source.base.name, versions[source.base.name]), source.offset


def _join(run: dict[_Place, dict[int, Instruction]], found: dict[int, int]) -> None:
    """Cut each base's offsets into the widest aligned pieces that are complete."""
    for at in run.values():
        for width in _WIDTHS:
            for offset in sorted(at):
                piece = [offset + i for i in range(0, width, _WORD_BYTES)]
                if offset % width == 0 and all(part in at for part in piece):
                    found[id(at[offset])] = width
                    for part in piece[1:]:
                        found[id(at[part])] = FOLLOWER
                    for part in piece:
                        del at[part]
    run.clear()


def merged_loads(body: Sequence[Instruction | Label]) -> dict[int, int]:
    """Find what is joined in a function.

    Returns:
        By the `id` of an instruction: the bytes that it loads for all (8 or 16), or FOLLOWER. Others are left out.
    """
    found: dict[int, int] = {}
    versions: defaultdict[str, int] = defaultdict(int)
    run: defaultdict[_Place, dict[int, Instruction]] = defaultdict(dict)
    for item in body:
        if isinstance(item, Label) or item.opcode.partition(".")[0] in _WRITES:
            _join(run, found)
            continue
        if _joinable(item) and (where := _place(item, versions)) is not None:
            place, offset = where
            run[place].setdefault(offset, item)
        if item.operands and isinstance(item.operands[0], Register):
            versions[item.operands[0].name] += 1
    _join(run, found)
    return found
