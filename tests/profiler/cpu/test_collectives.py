"""Warp collectives, atomics, named barriers and cooperative groups."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.profiler.cpu.conftest import Device


@pytest.fixture
def warps(load: Callable[[str], Device]) -> Device:
    return load("collectives")


@pytest.mark.parametrize("order", ["forward", "reverse"])
def test_collectives_give_what_the_manual_says(warps: Device, order: str) -> None:
    y = warps.output(16 * 32 * 4)
    result = warps.run("collectives", 1, 32, [y], order=order)
    assert (result.status, result.findings) == ("ok", ())
    t = np.arange(32)
    squares = int(np.bitwise_xor.reduce(t * t))
    want = [
        np.where(t % 16 >= 3, t - 3, t),
        np.where(t + 5 < 32, t + 5, t),
        t ^ 9,
        t // 8 * 8 + (t + 1) % 8,
        0xAAAAAAAA,
        3,
        [sum(1 << k for k in range(32) if k % 3 == lane % 3) for lane in t],
        0,  # all ones and 1
        496,
        np.where(t < 16, 15, 31),
        squares,
        -7 & 0xFFFFFFFF,
        1 + 36,
        0xFFFFFFFF,
        np.where(t % 2, 0xAAAAAAAA, 0),
        np.where(t < 10, 9 - t, t),
    ]
    for row, (mine, theirs) in enumerate(zip(y.array(np.uint32, (16, 32)), want, strict=True)):
        np.testing.assert_array_equal(mine, np.broadcast_to(theirs, 32), err_msg=f"row {row}")


def test_atomics_of_every_type(warps: Device) -> None:
    i, u = warps.array(np.zeros(4, np.int32)), warps.array(np.array([0, 0, 2**32 - 1, 0, 0], np.uint32))
    wide, f = warps.array(np.zeros(3, np.uint64)), warps.array(np.zeros(1, np.float32))
    d, h = warps.array(np.zeros(1)), warps.array(np.zeros(2, np.float16))
    result = warps.run("atomics", 1, 32, [i, u, wide, f, d, h])
    assert (result.status, result.findings) == ("ok", ())
    assert i.array(np.int32).tolist() == [496, -5, 31, -64]
    assert u.array(np.uint32).tolist() == [0, 2**32 - 1, 0, 32 % 11, 1]
    assert wide.array(np.uint64).tolist() == [496 << 33, 31 << 40, (3**32 - 1) // 2]
    assert (f.array(np.float32)[0], d.array(np.float64)[0]) == (248, 124)
    assert h.array(np.float16).tolist() == [32, 64]


@pytest.mark.parametrize("order", ["forward", "reverse", "shuffled"])
def test_grid_barrier(warps: Device, order: str) -> None:
    a = warps.output(4000)
    result = warps.run("grid_reverse", 8, 128, [a, np.int32(1000)], cooperative=True, order=order)
    assert (result.status, result.findings) == ("ok", ())
    np.testing.assert_array_equal(a.array(np.int32), 2 * np.arange(1000)[::-1])


def test_tiled_partition(warps: Device, rng: np.random.Generator) -> None:
    x = rng.standard_normal(64, np.float32)
    y = warps.output(256)
    assert warps.run("tile_sums", 1, 64, [warps.array(x), y]).findings == ()
    np.testing.assert_allclose(y.array(np.float32), x.reshape(4, 16).sum(axis=1).repeat(16), rtol=1e-4, atol=1e-5)


def test_coalesced_threads_are_those_of_the_branch(warps: Device) -> None:
    c = warps.array(np.zeros(1, np.int32))
    assert warps.run("coalesced_count", 1, 64, [c]).status == "ok"
    assert c.array(np.int32)[0] == 22


@pytest.mark.slow
def test_radix_sort_of_cub(load: Callable[[str], Device], rng: np.random.Generator) -> None:
    device = load("cub")
    x = rng.integers(-1000, 1000, 512, np.int32)
    y = device.output(2048)
    result = device.run("block_sort", 1, 128, [device.array(x), y])
    assert (result.status, result.findings) == ("ok", ())
    np.testing.assert_array_equal(y.array(np.int32), np.sort(x))


@pytest.mark.parametrize(("value", "status"), [(0, "ok"), (1, "trap")])
def test_assertion_traps_at_its_line(warps: Device, value: int, status: str) -> None:
    x = warps.array(np.array([value], np.int32))
    result = warps.run("asserting", 1, 1, [x])
    assert result.status == status
    assert result.reason.startswith("assertion failed at line ") == (value == 1)
    assert x.array(np.int32)[0] == (5 if value == 0 else 1)


def test_named_barriers_order_their_warps(warps: Device) -> None:
    y = warps.output(512)
    assert warps.run("named_barriers", 1, 128, [y]).findings == ()
    np.testing.assert_array_equal(y.array(np.int32), np.arange(128) ^ 32)


def test_named_barriers_do_not_order_others(warps: Device) -> None:
    assert "race" in {f.kind for f in warps.run("wrong_named_barriers", 1, 128, [warps.output(512)]).findings}
