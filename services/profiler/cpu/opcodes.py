"""The arithmetic opcodes that the executor knows, with the types and modifiers that each may have.

Whatever is not listed is refused. The semantics are the functions `op_<opcode>` of the C++ headers in `runtime/`.
"""

from dataclasses import dataclass

# Modifier -> bits of `Flag` in runtime/types.h. A modifier that changes nothing here has 0: `approx` because the
# accurate function is within its error bounds.
FLAGS = {
    "rn": 0,
    "rz": 1,
    "rm": 2,
    "rp": 3,
    "ftz": 4,
    "sat": 8,
    "hi": 16,
    "lo": 32,
    "wide": 64,
    "NaN": 512,
    "relu": 1024,
    "wrap": 2048,
    "clamp": 0,
    "l": 4096,
    "r": 0,
    "rni": 8192,
    "rzi": 8193,
    "rmi": 8194,
    "rpi": 8195,
    "shiftamt": 16384,
    "approx": 0,
    "full": 0,
}
CARRY_IN = 128
CARRY_OUT = 256


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """One opcode.

    Attributes:
        signature: Destination, `=`, sources. T is the instruction's type, W the type of twice its width where `wide`
            is given (else T), u is u32, s is s32, p a predicate, other letters as in `LETTERS`.
        types: The types it may have.
        modifiers: The modifiers it may have.
    """

    signature: str
    types: frozenset[str]
    modifiers: frozenset[str]


LETTERS = {"u": "u32", "s": "s32", "p": "pred"}
_INTEGERS = "s16 u16 s32 u32 s64 u64"
_WORDS = "s32 u32 s64 u64"
_BITS = "b16 b32 b64"
_HALVES = "f16 f16x2 bf16 bf16x2"


def _row(signature: str, types: str, modifiers: str = "") -> Arithmetic:
    return Arithmetic(signature, frozenset(types.split()), frozenset(modifiers.split()))


_ROUNDED = "rn rz rm rp ftz sat"
ARITHMETIC = {
    "add": _row("T=TT", f"{_INTEGERS} f32 f64 {_HALVES} u16x2 s16x2", _ROUNDED),
    "sub": _row("T=TT", f"{_INTEGERS} f32 f64 {_HALVES}", _ROUNDED),
    "mul": _row("W=TT", f"{_INTEGERS} f32 f64 {_HALVES}", f"{_ROUNDED} lo hi wide"),
    "mad": _row("W=TTW", f"{_INTEGERS} f32 f64", f"{_ROUNDED} lo hi wide"),
    "fma": _row("T=TTT", f"f32 f64 {_HALVES}", f"{_ROUNDED} relu"),
    "div": _row("T=TT", f"{_INTEGERS} f32 f64", "rn rz rm rp ftz approx full"),
    "rem": _row("T=TT", _INTEGERS),
    "mul24": _row("T=TT", "s32 u32", "lo hi"),
    "mad24": _row("T=TTT", "s32 u32", "lo hi sat"),
    "sad": _row("T=TTT", _INTEGERS),
    "min": _row("T=TT", f"{_INTEGERS} f32 f64 {_HALVES} u16x2 s16x2", "ftz NaN relu"),
    "max": _row("T=TT", f"{_INTEGERS} f32 f64 {_HALVES} u16x2 s16x2", "ftz NaN relu"),
    "neg": _row("T=T", f"s16 s32 s64 f32 f64 {_HALVES}", "ftz"),
    "abs": _row("T=T", f"s16 s32 s64 f32 f64 {_HALVES}", "ftz"),
    "and": _row("T=TT", f"pred {_BITS}"),
    "or": _row("T=TT", f"pred {_BITS}"),
    "xor": _row("T=TT", f"pred {_BITS}"),
    "not": _row("T=T", f"pred {_BITS}"),
    "cnot": _row("T=T", _BITS),
    "shl": _row("T=Tu", _BITS),
    "shr": _row("T=Tu", f"{_BITS} {_INTEGERS}"),
    "shf": _row("u=uuu", "b32", "l r wrap clamp"),
    "bfe": _row("T=Tuu", _WORDS),
    "bfi": _row("T=TTuu", "b32 b64"),
    "bmsk": _row("u=uu", "b32", "clamp wrap"),
    "popc": _row("u=T", "b32 b64"),
    "clz": _row("u=T", "b32 b64"),
    "brev": _row("T=T", "b32 b64"),
    "bfind": _row("u=T", _WORDS, "shiftamt"),
    "fns": _row("u=uus", "b32"),
    "lop3": _row("u=uuuu", "b32"),
    "copysign": _row("T=TT", "f32 f64"),
    "sqrt": _row("T=T", "f32 f64", "rn rz rm rp ftz approx"),
    "rcp": _row("T=T", "f32 f64", "rn rz rm rp ftz approx"),
    "rsqrt": _row("T=T", "f32 f64", "ftz approx"),
    "ex2": _row("T=T", f"f32 {_HALVES}", "ftz approx"),
    "lg2": _row("T=T", "f32", "ftz approx"),
    "sin": _row("T=T", "f32", "ftz approx"),
    "cos": _row("T=T", "f32", "ftz approx"),
    "tanh": _row("T=T", f"f32 {_HALVES}", "approx"),
}

# Comparison of setp and set -> expression of the C++ template argument. The unsigned spellings follow the type.
COMPARISONS = {
    "eq": "EQ",
    "ne": "NE",
    "lt": "LT",
    "le": "LE",
    "gt": "GT",
    "ge": "GE",
    "lo": "LT",
    "ls": "LE",
    "hi": "GT",
    "hs": "GE",
    "equ": "EQ | UNORDERED",
    "neu": "NE | UNORDERED",
    "ltu": "LT | UNORDERED",
    "leu": "LE | UNORDERED",
    "gtu": "GT | UNORDERED",
    "geu": "GE | UNORDERED",
    "num": "NUM",
    "nan": "NOT_NUM",
}

CONVERTIBLE = frozenset(["s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64", "f16", "bf16", "f32", "f64"])
PRMT_MODES = {"": "PRMT", "f4e": "PRMT_F4E", "b4e": "PRMT_B4E", "rc8": "PRMT_RC8", "ecl": "PRMT_ECL"} | {
    "ecr": "PRMT_ECR",
    "rc16": "PRMT_RC16",
}
TESTS = {
    "finite": "FINITE",
    "infinite": "INFINITE",
    "number": "NUMBER",
    "notanumber": "NOTANUMBER",
    "normal": "NORMAL",
    "subnormal": "SUBNORMAL",
}
WIDENED = {"s16": "s32", "u16": "u32", "s32": "s64", "u32": "u64"}
