"""Single instructions: against what an H200 gave, and against models in Python for the rest."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from services.profiler.cpu.build import build
from services.profiler.cpu.execute import DeviceMemory, Program, run_launch
from tests.profiler.cpu.opcode_cases import CASES_PER_KERNEL, Case, module

MEASURED = Path(__file__).parent / "measured/opcodes_h200.npz"
M32, M64 = 2**32 - 1, 2**64 - 1


def evaluate(program: Program, cases: int, inputs: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Results, shape (cases, n), for inputs of shape (n, 3)."""
    n = len(inputs)
    source, target = program.memory.allocate(inputs.nbytes), program.memory.allocate(8 * cases * n)
    source.array(np.uint64, inputs.shape)[...] = inputs
    for entry in program.entries:
        arguments = [source, target, np.uint64(n)]
        result = run_launch(program, entry, (-(-n // 64), 1, 1), (64, 1, 1), 0, arguments, check=False, count=False)
        assert result.status == "ok"
    outputs = target.array(np.uint64, (cases, n)).copy()
    target.free()
    source.free()
    return outputs


def make(cases: list[Case], folder: Path, name: str) -> Program:
    out = folder / f"{name}.so"
    if not out.exists():
        build(module(cases), out, cache=folder / "cache")
    return Program(out, DeviceMemory(1 << 30))


def is_nan(kind: str, words: NDArray[np.uint64]) -> NDArray[np.bool_]:
    if kind in {"f32", "f64"}:
        values = words.astype(np.uint32).view(np.float32) if kind == "f32" else words.view(np.float64)
        return np.isnan(values)
    limit = {"f16": 0x7C00, "bf16": 0x7F80}.get(kind)
    return (words & np.uint64(0x7FFF)) > limit if limit else np.zeros(words.shape, np.bool_)


@pytest.mark.slow
def test_instructions_give_what_an_h200_gives(folder: Path) -> None:
    # 403 instructions on 340 inputs, recorded on one H200; payloads of NaNs are free.
    measured = np.load(MEASURED)
    rows = zip(measured["opcodes"], measured["results"], measured["sources"], strict=True)
    cases = [Case(str(o), str(r), tuple(str(s).split())) for o, r, s in rows]
    got = evaluate(make(cases, folder, "measured"), len(cases), measured["inputs"])
    for case, mine, theirs in zip(cases, got, measured["outputs"], strict=True):
        both_nan = is_nan(case.result, mine) & is_nan(case.result, np.ascontiguousarray(theirs))
        wrong = np.flatnonzero((mine != theirs) & ~both_nan)
        assert len(wrong) == 0, (case.opcode, measured["inputs"][wrong[0]], mine[wrong[0]], theirs[wrong[0]])


def signed(value: int, bits: int = 32) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def prmt(a: int, b: int, c: int) -> int:
    both = [(b << 32 | a) >> (8 * i) & 255 for i in range(8)]
    picked = [c >> (4 * i) & 15 for i in range(4)]
    made = [(255 if both[p & 7] & 128 else 0) if p & 8 else both[p] for p in picked]
    return sum(byte << (8 * i) for i, byte in enumerate(made))


def prmt_order(order: Callable[[int, int], int]) -> Callable[[int, int, int], int]:
    return lambda a, b, c: sum(((b << 32 | a) >> (8 * order(c & 3, i)) & 255) << (8 * i) for i in range(4))


def lop3(table: int) -> Callable[[int, int, int], int]:
    def model(a: int, b: int, c: int) -> int:
        picks = [(a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1) for i in range(32)]
        return sum((table >> pick & 1) << i for i, pick in enumerate(picks))

    return model


def bfi(at: int, length: int, bits: int) -> Callable[[int, int, int], int]:
    mask = sum(1 << i for i in range(at, min(at + length, bits)))
    return lambda a, b, _: (b & ~mask) | ((a << at) & mask)


def dp4a(a: int, b: int, c: int, *, sign_a: bool, sign_b: bool) -> int:
    def byte(x: int, i: int, sign: bool) -> int:
        return signed(x >> (8 * i), 8) if sign else x >> (8 * i) & 255

    return (c + sum(byte(a, i, sign_a) * byte(b, i, sign_b) for i in range(4))) & M32


def carry_add(bits: int) -> Callable[[int, int, int], int]:
    mask = (1 << bits) - 1
    return lambda a, b, c: (c + a + ((a + b) >> bits)) & mask


def carry_subtract(bits: int) -> Callable[[int, int, int], int]:
    mask = (1 << bits) - 1
    return lambda a, b, c: (c - a - (a < b)) & mask


def saturate(value: int, kind: str) -> int:
    bits = int(kind[1:])
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)
    return max(low, min(high, value)) & ((1 << max(bits, 16)) - 1)


def read(kind: str, word: int) -> int:
    bits = int(kind[1:])
    return signed(word, bits) if kind[0] == "s" else word & ((1 << bits) - 1)


def modelled() -> list[tuple[Case, Callable[[int, int, int], int]]]:
    u32 = ("b32", "b32", "b32")
    rows: list[tuple[Case, Any]] = [
        (Case("prmt.b32", "b32", u32), prmt),
        (Case("prmt.b32.f4e", "b32", u32), prmt_order(lambda s, i: s + i)),
        (Case("prmt.b32.b4e", "b32", u32), prmt_order(lambda s, i: (s - i) % 8)),
        (Case("prmt.b32.rc8", "b32", u32), prmt_order(lambda s, _: s)),
        (Case("prmt.b32.ecl", "b32", u32), prmt_order(max)),
        (Case("prmt.b32.ecr", "b32", u32), prmt_order(min)),
        (Case("prmt.b32.rc16", "b32", u32), prmt_order(lambda s, i: 2 * (s & 1) + (i & 1))),
        (Case("mul.wide.s32", "s64", ("s32", "s32")), lambda a, b, _: signed(a) * signed(b) & M64),
        (Case("mul.wide.u32", "u64", ("u32", "u32")), lambda a, b, _: a * b),
        (Case("mad.wide.s32", "s64", ("s32", "s32", "s64")), lambda a, b, c: (signed(a) * signed(b) + c) & M64),
        (Case("mul24.lo.s32", "s32", ("s32", "s32")), lambda a, b, _: signed(a, 24) * signed(b, 24) & M32),
        (Case("mul24.hi.u32", "u32", ("u32", "u32")), lambda a, b, _: (a & 0xFFFFFF) * (b & 0xFFFFFF) >> 16),
        (Case("add.cc.u32; addc.u32", "u32", ("u32",) * 3, carry=True), carry_add(32)),
        (Case("add.cc.u64; addc.u64", "u64", ("u64",) * 3, carry=True), carry_add(64)),
        (Case("sub.cc.u32; subc.u32", "u32", ("u32",) * 3, carry=True), carry_subtract(32)),
        (Case("sub.cc.u64; subc.u64", "u64", ("u64",) * 3, carry=True), carry_subtract(64)),
        (Case("slct.s32.s32", "s32", ("s32",) * 3), lambda a, b, c: a if signed(c) >= 0 else b),
        (Case("brev.b32", "b32", ("b32",)), lambda a, _b, _c: int(f"{a:032b}"[::-1], 2)),
        (Case("brev.b64", "b64", ("b64",)), lambda a, _b, _c: int(f"{a:064b}"[::-1], 2)),
        (Case("not.b16", "b16", ("b16",)), lambda a, _b, _c: ~a & 0xFFFF),
        (Case("cnot.b32", "b32", ("b32",)), lambda a, _b, _c: int(a == 0)),
        (Case("setp.lt.s32", "pred", ("s32", "s32")), lambda a, b, _: int(signed(a) < signed(b))),
        (Case("setp.hs.u64", "pred", ("u64", "u64")), lambda a, b, _: int(a >= b)),
        (Case("setp.ne.s16", "pred", ("s16", "s16")), lambda a, b, _: int(a != b)),
    ]
    rows += [(Case("lop3.b32", "b32", u32, str(t)), lop3(t)) for t in (0x80, 0xE8, 0x96, 0x1B, 0xFE, 0, 0xCA)]
    for bits in (32, 64):
        for at, length in ((0, 8), (5, 30), (28, 9), (40, 3), (3, 0), (0, 255)):
            rows.append((Case(f"bfi.b{bits}", f"b{bits}", (f"b{bits}",) * 2, f"{at}, {length}"), bfi(at, length, bits)))
    for a in "su":
        for b in "su":
            model = lambda x, y, z, a=a, b=b: dp4a(x, y, z, sign_a=a == "s", sign_b=b == "s")  # noqa: E731  one each
            rows.append((Case(f"dp4a.{a}32.{b}32", "b32", u32), model))
    for source in ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"):
        for target in ("s8", "u8", "s16", "u16", "s32", "u32"):
            if int(target[1:]) < int(source[1:]):
                model = lambda x, _y, _z, s=source, t=target: saturate(read(s, x), t)  # noqa: E731  one each
                rows.append((Case(f"cvt.sat.{target}.{source}", target, (source,)), model))
    return rows


MODELLED = modelled()
WORDS = st.one_of(
    st.integers(0, M64),
    st.sampled_from([0, 1, 31, 32, 33, 127, 128, 255, 2**15, 2**16 - 1, 2**31 - 1, 2**31, M32, 2**63, M64 - 1, M64]),
)


@pytest.fixture(scope="module")
def integer_program(folder: Path) -> Program:
    return make([case for case, _ in MODELLED], folder, "modelled")


def truncated(case: Case, inputs: list[int]) -> list[int]:
    bits = [64 if s.endswith("64") else 32 if s.endswith("32") else 16 for s in case.sources]
    return [x & ((1 << b) - 1) for x, b in zip(inputs, (*bits, 64, 64), strict=False)]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.tuples(WORDS, WORDS, WORDS), min_size=1, max_size=32))
def test_integer_instructions_follow_their_models(integer_program: Program, rows: list[tuple[int, int, int]]) -> None:
    got = evaluate(integer_program, len(MODELLED), np.array(rows, np.uint64))
    for (case, model), outputs in zip(MODELLED, got, strict=True):
        for row, output in zip(rows, outputs, strict=True):
            want = model(*truncated(case, list(row)))
            assert int(output) == want, (case, [hex(x) for x in row], hex(int(output)), hex(want))


def test_kernels_hold_their_share_of_cases() -> None:
    assert module([MODELLED[0][0]] * (CASES_PER_KERNEL + 1)).count(".entry") == 2
