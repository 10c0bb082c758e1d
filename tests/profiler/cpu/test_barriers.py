"""A barrier is known by its place in the PTX: however often the host compiler copies the call, it stays one barrier."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from services.profiler.cpu.build import build
from services.profiler.cpu.execute import DeviceMemory, Program
from tests.profiler.cpu.conftest import KERNELS, Device


@pytest.fixture(scope="module", params=[1, 2, 3], ids=lambda level: f"O{level}")
def copied(request: pytest.FixtureRequest, folder: Path, compile_ptx: Callable[[Path], str]) -> Device:
    out = folder / f"barriers-O{request.param}.so"
    build(compile_ptx(KERNELS / "barriers.cu"), out, cache=folder / "cache", optimisation=request.param)
    return Device(Program(out, DeviceMemory(8 << 30)))


def _branches_before(x: Any) -> Any:
    t = np.arange(128)
    v = x[:128].copy()
    for bit in range(4):
        odd = (t >> bit & 1) == 1
        v = np.where(odd, v * 2, np.where(v > 3, v - 1, v))
        v = np.where(odd, v[t ^ 1] + 1, v[127 - t])
    return v


def _with_exits(x: Any, n: int, stop: int) -> Any:
    t = np.arange(128)
    v = x[:128].copy()
    for step in range(n):
        s = v.copy()
        if step == stop:
            break
        v = np.where(t < 32, v + s[(t + 64) % 128], v - s[t - 32])
        if stop < -step:
            break
    return v


def _switched(x: Any, n: int) -> Any:
    t = np.arange(128)
    s = x[:128].copy()
    for i in range(n):
        if i % 3 == 0:
            s = np.where(t & 1, s + 1, s)
            continue
        if i % 3 == 1:
            s = np.where(t & 2, s * 2, s)
        s = np.where(t & 4, s - 3, s)
    return s


@pytest.mark.parametrize("order", ["forward", "reverse", "shuffled"])
@pytest.mark.parametrize(
    ("entry", "numbers", "expected"),
    [
        ("branches_before", [], _branches_before),
        ("unrolled_tree", [], lambda x: x.sum(keepdims=True)),
        ("unrolled_with_exits", [11, 9], lambda x: _with_exits(x, 11, 9)),
        ("unrolled_with_exits", [7, -3], lambda x: _with_exits(x, 7, -3)),
        ("switched", [8], lambda x: _switched(x, 8)),
    ],
)
def test_copies_of_one_barrier_are_no_divergence(
    copied: Device, entry: str, numbers: list[int], expected: Callable[[Any], Any], order: str
) -> None:
    x = np.random.default_rng(3).integers(0, 8, 256).astype(np.float32)
    y = copied.output(4 * 128)
    result = copied.run(entry, 1, 128, [copied.array(x), y, *map(np.int32, numbers)], order=order)
    assert not result.findings
    wanted = expected(x)
    np.testing.assert_array_equal(y.array(np.float32)[: wanted.size], wanted)
