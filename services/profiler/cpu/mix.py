"""Which execution pipe each PTX instruction counts for.

An approximation of what ptxas makes of it on sm_80 and later: moves, parameter loads and address conversions vanish
(registers and the constant bank), everything else counts as one instruction although a division becomes about ten.
Integer multiplication runs on the FMA pipe (IMAD); comparisons, selections and 32-bit logic on the ALU; conversions
between integer and floating point, reciprocals and transcendental functions on the XU.
"""

from collections import Counter

_FREE = {"mov", "cvta"}
_XU = {"ex2", "lg2", "sin", "cos", "tanh", "rcp", "rsqrt", "sqrt", "popc", "clz", "brev", "bfind", "div", "rem"}
_LSU = {"ld", "ldu", "st", "atom", "red", "shfl", "cp", "prefetch"}
_CONTROL = {"bra", "brx", "ret", "exit", "call", "bar", "barrier", "membar", "fence", "nanosleep", "trap", "vote"} | {
    "match",
    "redux",
    "activemask",
    "elect",
}
_OPERATIONS = {"fma": "fma", "mad": "fma", "add": "add", "sub": "add", "mul": "mul"}
_PREFIX = {"f32": "f", "f64": "d", "f16": "h", "f16x2": "h", "bf16": "h", "bf16x2": "h"}


def block_mix(opcodes: list[str]) -> dict[str, int]:
    """Counts by class of one basic block's instructions.

    Returns:
        `inst` and the pipes `fma`, `fp64`, `fp16`, `alu`, `xu`, `lsu`; operations as `ffma`, `dadd`, `hmul`; `atom`,
        `load` (global) and `barrier`.
    """
    counts: Counter[str] = Counter()
    for opcode in opcodes:
        name, *modifiers = opcode.split(".")
        if name in _FREE or (name in {"ld", "st"} and "param" in modifiers):
            continue
        counts["inst"] += 1
        counts.update(_classes(name, modifiers))
    return dict(counts)


def _classes(name: str, modifiers: list[str]) -> list[str]:
    kind = modifiers[-1] if modifiers else ""
    prefix = _PREFIX.get(kind, "")
    found = [prefix + _OPERATIONS[name]] if prefix and name in _OPERATIONS else []
    if name in {"atom", "red"}:
        found.append("atom")
    if name == "ld" and "global" in modifiers:
        found.append("load")
    if name in {"bar", "barrier"}:
        found.append("barrier")
    pipe = _pipe(name, modifiers, prefix)
    return [*found, pipe] if pipe else found


def _pipe(name: str, modifiers: list[str], prefix: str) -> str:
    if name in _LSU:
        return "lsu"
    if name in _CONTROL:
        return ""
    if prefix == "d":
        return "fp64"
    if name in _XU or (name == "cvt" and any(m[0] in "fb" for m in modifiers[-2:])):
        return "xu"
    if prefix == "h":
        return "fp16"
    arithmetic = name in _OPERATIONS and (prefix == "f" or name in {"mul", "mad"})
    return "fma" if arithmetic or name in {"mul24", "mad24", "dp4a", "dp2a"} else "alu"
