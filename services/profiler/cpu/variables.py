"""Memory of a module's `__device__` and `__constant__` variables: places, initial bytes, addresses within them."""

import re
import struct
from typing import Any

from services.profiler.cpu.ptx import UnsupportedPtx, Variable

# Between two variables, so that an access past the end of one is found. Bytes.
GAP_BYTES = 256
_MASKED = re.compile(r"0[xX]([fF]+)(0*)\((.*)\)")
_ADDRESS = re.compile(r"(?:generic\()?([A-Za-z_$%][\w$%.]*)\)?(?:\+(\d+))?")


def place(variables: dict[str, Variable]) -> tuple[dict[str, int], int]:
    """Offsets of the .global and .const variables in the module's memory, and its size, in bytes."""
    offsets: dict[str, int] = {}
    top = GAP_BYTES
    for variable in variables.values():
        if variable.space in {"global", "const"} and not variable.extern:
            align = max(variable.align, 16)
            top = -(-top // align) * align
            offsets[variable.name] = top
            top += variable.bytes + GAP_BYTES
    return offsets, top


def memory_image(variables: dict[str, Variable], offsets: dict[str, int], size: int) -> dict[str, Any]:
    """Initial content as plain data.

    Returns:
        `bytes`: the size; `extents`: [name, offset, bytes] of each variable; `data`: [offset, hex] of what is not zero;
        `addresses`: [offset, byte count, right shift in bits, target offset] for bytes of addresses.
    """
    data: list[list[Any]] = []
    addresses: list[list[int]] = []
    for name, offset in offsets.items():
        variable = variables[name]
        width = _element_bytes(variable.type)
        content = bytearray()
        for index, text in enumerate(variable.initial):
            target = _address(text, variables, offsets)
            if target is None:
                content += _number(text, width, variable.name)
            else:
                addresses.append([offset + index * width, min(width, 8), *target])
                content += bytes(width)
        if len(content) > variable.bytes:
            raise UnsupportedPtx(f"initialiser of {name}", reason="longer than the variable")
        if any(content):
            data.append([offset, content.hex()])
    extents = [[name, offset, variables[name].bytes] for name, offset in offsets.items()]
    return {"bytes": size, "extents": extents, "data": data, "addresses": addresses}


def _element_bytes(kind: str) -> int:
    return 4 if kind.endswith("x2") else int(re.sub(r"\D", "", kind)) // 8


def _number(text: str, width: int, name: str) -> bytes:
    if text[:2] in {"0f", "0F", "0d", "0D"} and len(text) == 2 + 2 * width:
        return bytes.fromhex(text[2:])[::-1]
    try:
        value = int(text.rstrip("U"), 0)
    except ValueError as error:
        raise UnsupportedPtx(f"initialiser {text} of {name}") from error
    return struct.pack("<Q", value & (2**64 - 1))[:width]


def _address(text: str, variables: dict[str, Variable], offsets: dict[str, int]) -> tuple[int, int] | None:
    """Right shift and target offset where `text` names an address; None where it is a number."""
    shift = 0
    if masked := _MASKED.fullmatch(text):
        shift = 4 * len(masked[2])
        text = masked[3]
    found = _ADDRESS.fullmatch(text)
    if found is None or text[0].isdigit():
        return None
    if found[1] not in offsets:
        space = variables[found[1]].space if found[1] in variables else "function"
        raise UnsupportedPtx(f"initialiser {text}", reason=f"address of a {space}")
    return shift, offsets[found[1]] + int(found[2] or 0)
