"""Single PTX instructions with inputs: what the executor and a GPU must agree on bit for bit.

Each case is one instruction; `module` wraps all of them in one PTX module whose kernels apply them to an array of three
64-bit words a thread and write 64-bit results.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CASES_PER_KERNEL = 24
_CLASS = {"8": "b16", "16": "b16", "32": "b32", "64": "b64"}


@dataclass(frozen=True)
class Case:
    """One instruction: `opcode d, sources...`; extra immediate operands follow."""

    opcode: str
    result: str
    sources: tuple[str, ...]
    extra: str = ""
    carry: bool = False

    @property
    def name(self) -> str:
        return self.opcode + (f" {self.extra}" if self.extra else "")


def register_class(kind: str) -> str:
    if kind == "pred":
        return "pred"
    if kind in {"f32", "f64"}:
        return kind
    return "b32" if kind.endswith("x2") else _CLASS[kind.lstrip("busf")]


def _uniform(opcodes: str, types: str, arity: int) -> Iterator[Case]:
    for opcode in opcodes.split():
        for kind in types.split():
            yield Case(f"{opcode}.{kind}", kind, (kind,) * arity)


def _integer_cases() -> Iterator[Case]:
    integers = "s16 u16 s32 u32 s64 u64"
    yield from _uniform("add sub mul.lo mul.hi div rem min max", integers, 2)
    yield from _uniform("mad.lo mad.hi sad", integers, 3)
    yield from _uniform("add.sat sub.sat", "s32", 2)
    yield from _uniform("mul24.lo mul24.hi", "s32 u32", 2)
    yield from _uniform("mad24.lo", "s32 u32", 3)
    yield from _uniform("mad.hi.sat mad24.hi.sat", "s32", 3)
    yield from _uniform("abs neg", "s16 s32 s64", 1)
    yield from _uniform("and or xor", "b16 b32 b64", 2)
    yield from _uniform("not cnot", "b16 b32 b64", 1)
    yield from _uniform("brev", "b32 b64", 1)
    for narrow, wide in (("s16", "s32"), ("u16", "u32"), ("s32", "s64"), ("u32", "u64")):
        yield Case(f"mul.wide.{narrow}", wide, (narrow, narrow))
        yield Case(f"mad.wide.{narrow}", wide, (narrow, narrow, wide))
    for kind in ("b16", "b32", "b64"):
        yield Case(f"shl.{kind}", kind, (kind, "u32"))
    for kind in integers.split():
        yield Case(f"shr.{kind}", kind, (kind, "u32"))
    for kind in ("s32", "u32", "s64", "u64"):
        yield Case(f"bfe.{kind}", kind, (kind, "u32", "u32"))
        yield Case(f"bfind.{kind}", "u32", (kind,))
        yield Case(f"bfind.shiftamt.{kind}", "u32", (kind,))
    for kind in ("b32", "b64"):
        yield Case(f"popc.{kind}", "u32", (kind,))
        yield Case(f"clz.{kind}", "u32", (kind,))
        for at, length in ((0, 8), (5, 30), (28, 9), (40, 3), (3, 0), (0, 255)):
            yield Case(f"bfi.{kind}", kind, (kind, kind), f"{at}, {length}")
        yield Case(f"bfi.{kind}", kind, (kind, kind, "u32"), "13")
    for mode in ("l.wrap", "r.wrap", "l.clamp", "r.clamp"):
        yield Case(f"shf.{mode}.b32", "b32", ("b32", "b32", "u32"))
    for mode in ("", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"):
        yield Case(f"prmt.b32{mode}", "b32", ("b32", "b32", "b32"))
    for table in (0x80, 0xE8, 0x96, 0x1B, 0xFE, 0x00, 0xCA):
        yield Case("lop3.b32", "b32", ("b32", "b32", "b32"), str(table))
    for a in ("s32", "u32"):
        for b in ("s32", "u32"):
            yield Case(f"dp4a.{a}.{b}", "b32", ("b32", "b32", "b32"))
            yield Case(f"dp2a.lo.{a}.{b}", "b32", ("b32", "b32", "b32"))
            yield Case(f"dp2a.hi.{a}.{b}", "b32", ("b32", "b32", "b32"))
    for mode in ("clamp", "wrap"):
        yield Case(f"bmsk.{mode}.b32", "b32", ("u32", "u32"))
    yield Case("slct.s32.s32", "s32", ("s32", "s32", "s32"))
    yield Case("slct.u64.f32", "u64", ("u64", "u64", "f32"))
    for kind in ("u32", "u64"):
        yield Case(f"add.cc.{kind}; addc.{kind}", kind, (kind, kind, kind), carry=True)
        yield Case(f"sub.cc.{kind}; subc.{kind}", kind, (kind, kind, kind), carry=True)
    yield Case("mad.lo.cc.u32; madc.hi.u32", "u32", ("u32", "u32", "u32"), carry=True)


def _float_cases() -> Iterator[Case]:
    for mode in ("rn", "rz", "rm", "rp"):
        yield from _uniform(f"add.{mode} sub.{mode} mul.{mode} div.{mode}", "f32 f64", 2)
        yield from _uniform(f"fma.{mode}", "f32 f64", 3)
        yield from _uniform(f"sqrt.{mode} rcp.{mode}", "f32 f64", 1)
    yield from _uniform("add.ftz add.sat mul.ftz mul.sat sub.ftz min.ftz max.NaN min.NaN min max", "f32", 2)
    yield from _uniform("fma.rn.ftz fma.rn.sat", "f32", 3)
    yield from _uniform("min max", "f64", 2)
    yield from _uniform("abs neg", "f32 f64", 1)
    yield from _uniform("copysign", "f32 f64", 2)
    yield from _uniform("add sub mul min max min.NaN max.NaN", "f16 f16x2", 2)
    yield from _uniform("fma.rn fma.rn.relu", "f16 f16x2 bf16 bf16x2", 3)
    yield from _uniform("min max", "bf16 bf16x2", 2)
    yield from _uniform("abs neg", "f16 f16x2 bf16 bf16x2", 1)
    for test in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
        for kind in ("f32", "f64"):
            yield Case(f"testp.{test}.{kind}", "pred", (kind,))


def _comparison_cases() -> Iterator[Case]:
    for kind in ("s32", "s64", "s16"):
        for test in ("eq", "ne", "lt", "le", "gt", "ge"):
            yield Case(f"setp.{test}.{kind}", "pred", (kind, kind))
    for kind in ("u32", "u64"):
        for test in ("lo", "ls", "hi", "hs"):
            yield Case(f"setp.{test}.{kind}", "pred", (kind, kind))
    for kind in ("f32", "f64", "f16"):
        for test in ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"):
            yield Case(f"setp.{test}.{kind}", "pred", (kind, kind))
    for test in ("lt", "ne", "geu"):
        yield Case(f"set.{test}.u32.f32", "u32", ("f32", "f32"))
        yield Case(f"set.{test}.f32.f32", "f32", ("f32", "f32"))
        yield Case(f"set.{test}.f16x2.f16x2", "f16x2", ("f16x2", "f16x2"))


def _holds(target: str, source: str) -> bool:
    wider = int(target[1:]) > int(source[1:])
    return (target[0] == source[0] and wider) or (wider and source[0] == "u")


def _conversion_cases() -> Iterator[Case]:
    integers = ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64")
    for target in integers:
        for source in integers:
            if target != source:
                yield Case(f"cvt.{target}.{source}", target, (source,))
                if not _holds(target, source):  # .sat is for what can overflow
                    yield Case(f"cvt.sat.{target}.{source}", target, (source,))
        for source in ("f16", "f32", "f64"):
            for mode in ("rni", "rzi", "rmi", "rpi"):
                yield Case(f"cvt.{mode}.{target}.{source}", target, (source,))
    for source in integers:
        for target in ("f16", "f32", "f64"):
            for mode in ("rn", "rz", "rm", "rp"):
                yield Case(f"cvt.{mode}.{target}.{source}", target, (source,))
    for mode in ("rn", "rz", "rm", "rp"):
        yield Case(f"cvt.{mode}.f16.f32", "f16", ("f32",))
        yield Case(f"cvt.{mode}.f16.f64", "f16", ("f64",))
        yield Case(f"cvt.{mode}.f32.f64", "f32", ("f64",))
    for mode in ("rni", "rzi", "rmi", "rpi"):
        for kind in ("f16", "f32", "f64"):
            yield Case(f"cvt.{mode}.{kind}.{kind}", kind, (kind,))
    for mode in ("rn", "rz"):
        yield Case(f"cvt.{mode}.bf16.f32", "bf16", ("f32",))
        yield Case(f"cvt.{mode}.bf16x2.f32", "bf16x2", ("f32", "f32"))
        yield Case(f"cvt.{mode}.f16x2.f32", "f16x2", ("f32", "f32"))
    for name in ("cvt.f32.f16", "cvt.f32.bf16", "cvt.f64.f32", "cvt.f64.f16", "cvt.sat.f32.f32", "cvt.ftz.f32.f32"):
        kinds = name.split(".")
        yield Case(name, kinds[-2], (kinds[-1],))


def cases() -> list[Case]:
    """All cases, in a fixed order."""
    return [*_integer_cases(), *_float_cases(), *_comparison_cases(), *_conversion_cases()]


def _from_word(kind: str, word: str, target: str) -> str:
    register = register_class(kind)
    if register in {"b64", "f64"}:
        return f"mov.b64 {target}, {word};"
    if register in {"b32", "f32"}:
        return f"cvt.u32.u64 %w, {word}; mov.b32 {target}, %w;"
    return f"cvt.u16.u64 {target}, {word};"


def _to_word(kind: str, source: str) -> str:
    register = register_class(kind)
    if register == "pred":
        return f"selp.u64 %out, 1, 0, {source};"
    if register in {"b64", "f64"}:
        return f"mov.b64 %out, {source};"
    if register in {"b32", "f32"}:
        return f"mov.b32 %w, {source}; cvt.u64.u32 %out, %w;"
    return f"cvt.u64.u16 %out, {source};"


def _snippet(case: Case, index: int) -> str:
    names = [f"%{letter}_{index}" for letter in "xyz"[: len(case.sources)]]
    lines = [f".reg .{register_class(k)} {n};" for k, n in zip(case.sources, names, strict=True)]
    lines.append(f".reg .{register_class(case.result)} %d_{index};")
    lines += [_from_word(k, f"%in{i}", n) for i, (k, n) in enumerate(zip(case.sources, names, strict=True))]
    operands = ", ".join([f"%d_{index}", *names, *([case.extra] if case.extra else [])])
    if case.carry:
        first, second = case.opcode.split("; ")
        pair = ", ".join(names if first.startswith("mad") else names[:2])
        again = ", ".join([names[2], names[0], names[1]][: 3 if first.startswith("mad") else 2])
        lines.append(f"{first} %d_{index}, {pair}; {second} %d_{index}, {again};")
    else:
        lines.append(f"{case.opcode} {operands};")
    lines.append(_to_word(case.result, f"%d_{index}"))
    return "\n".join(lines)


def module(chosen: list[Case]) -> str:
    """PTX module with kernels `cases_0`, `cases_1`, …: (inputs, outputs, n), outputs of shape (cases, n)."""
    kernels = []
    for number, first in enumerate(range(0, len(chosen), CASES_PER_KERNEL)):
        body = []
        for index, case in enumerate(chosen[first : first + CASES_PER_KERNEL], first):
            body.append("{\n" + _snippet(case, index))
            body.append(f"mad.lo.u64 %to, %n, {index}, %i; shl.b64 %to, %to, 3; add.u64 %to, %to, %outputs;")
            body.append("st.global.u64 [%to], %out;\n}")
        kernels.append(
            f".visible .entry cases_{number}(.param .u64 p0, .param .u64 p1, .param .u64 p2)\n{{\n"
            ".reg .b64 %in<3>, %out, %to, %i, %n, %inputs, %outputs; .reg .b32 %w, %t, %s, %b; .reg .pred %p;\n"
            "ld.param.u64 %inputs, [p0]; ld.param.u64 %outputs, [p1]; ld.param.u64 %n, [p2];\n"
            "mov.u32 %t, %tid.x; mov.u32 %s, %ntid.x; mov.u32 %b, %ctaid.x; mad.lo.u32 %t, %b, %s, %t;\n"
            "cvt.u64.u32 %i, %t; setp.ge.u64 %p, %i, %n; @%p bra DONE;\n"
            "mad.lo.u64 %to, %i, 24, %inputs;\n"
            "ld.global.u64 %in0, [%to]; ld.global.u64 %in1, [%to+8]; ld.global.u64 %in2, [%to+16];\n"
            + "\n".join(body)
            + "\nDONE: ret;\n}\n"
        )
    return ".version 8.0\n.target sm_90\n.address_size 64\n" + "".join(kernels)


def inputs(n: int, seed: int) -> NDArray[np.uint64]:
    """Words that hit edges of all types at once, shape (n, 3)."""
    rng = np.random.default_rng(seed)
    halves = np.array([0, 1, 0x3C00, 0xBC00, 0x3F80, 0x7C00, 0xFC00, 0x7E00, 0x03FF, 0x0400, 0x8000, 0x7BFF, 0x3800], "u8")
    f32 = np.array([0, 1, -1, 0.5, 2.5, -2.5, 1e-40, -1e-40, 3e9, 1e19, -1e19, 65504, 1e30, np.inf, -np.inf, np.nan], "f4")
    f64 = np.array([0, -0.0, 1, 0.5, -1.5, 1e-310, 1e300, 2.0**31, 2.0**32, 2.0**63, -(2.0**63), np.inf, np.nan], "f8")
    small = rng.integers(0, 70, 64).astype("u8")
    edges = np.array([0, 1, 2**15, 2**16 - 1, 2**31, 2**31 - 1, 2**32 - 1, 2**63, 2**63 - 1, 2**64 - 1, 255, 128], "u8")
    pool = np.concatenate(
        [halves, halves << np.uint64(16) | halves[::-1], f32.view("u4").astype("u8"), f64.view("u8"), small, edges]
    )
    chosen = rng.choice(pool, (n, 3))
    noise = rng.integers(0, 2**64, (n, 3), np.uint64)
    scaled = (rng.standard_normal((n, 3)) * 10.0 ** rng.integers(-12, 12, (n, 3))).astype("f4").view("u4").astype("u8")
    doubles = (rng.standard_normal((n, 3)) * 10.0 ** rng.integers(-30, 30, (n, 3))).view("u8")
    which = rng.integers(0, 6, (n, 3))
    return np.where(which < 3, chosen, np.where(which == 3, noise, np.where(which == 4, scaled, doubles)))
