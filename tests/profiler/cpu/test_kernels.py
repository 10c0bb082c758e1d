"""Correct kernels give what NumPy gives, with the checker silent, in every order."""

from typing import Any

import numpy as np
import pytest

from tests.profiler.cpu.conftest import Device

ORDERS = ("forward", "reverse", "shuffled")


def clean(result: Any) -> None:
    assert result.status == "ok"
    assert result.findings == ()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("entry", "side"), [("matmul_naive", 8), ("matmul_tiled", 16)])
def test_matmul_of_sizes_that_are_no_multiple(
    device: Device, rng: np.random.Generator, entry: str, side: int, order: str
) -> None:
    m, n, k = 37, 41, 29
    a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
    c = device.output(4 * m * n)
    grid = (-(-n // side), -(-m // side))
    sizes = [np.int32(m), np.int32(n), np.int32(k)]
    clean(device.run(entry, grid, (side, side), [device.array(a), device.array(b), c, *sizes], order=order))
    np.testing.assert_allclose(c.array(np.float32, (m, n)), a @ b, rtol=1e-4, atol=1e-5)


def test_relu_with_float4(device: Device, rng: np.random.Generator) -> None:
    x = rng.standard_normal(4 * 300, np.float32)
    y = device.output(x.nbytes)
    clean(device.run("relu4", 3, 128, [device.array(x), y, np.int32(300)]))
    np.testing.assert_array_equal(y.array(np.float32), np.maximum(x, 0))


def test_maxpool3d(device: Device, rng: np.random.Generator) -> None:
    x = rng.standard_normal((9, 11, 13), np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3, 3))[::2, ::2, ::2].max(axis=(3, 4, 5))
    y = device.output(windows.size * 4)
    sizes = [np.int32(v) for v in (*x.shape, 3, 2)]
    clean(device.run("maxpool3d", 3, 64, [device.array(x), y, *sizes]))
    np.testing.assert_array_equal(y.array(np.float32, windows.shape), windows)


@pytest.mark.parametrize("order", ORDERS)
def test_softmax_with_shuffles(device: Device, rng: np.random.Generator, order: str) -> None:
    x = rng.standard_normal((5, 333), np.float32) * 4
    y = device.output(x.nbytes)
    clean(device.run("softmax", 5, 128, [device.array(x), y, np.int32(333)], order=order))
    e = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(y.array(np.float32, x.shape), e / e.sum(axis=1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("order", ORDERS)
def test_block_scan_in_dynamic_shared_memory(device: Device, rng: np.random.Generator, order: str) -> None:
    x = rng.integers(-50, 50, 300, np.int32)
    y = device.output(x.nbytes)
    clean(device.run("block_scan", 3, 128, [device.array(x), y, np.int32(300)], dynamic_shared_bytes=1024, order=order))
    want = np.concatenate([np.cumsum(x[i : i + 128]) for i in range(0, 300, 128)])
    np.testing.assert_array_equal(y.array(np.int32), want)


def test_histogram_with_shared_atomics(device: Device, rng: np.random.Generator) -> None:
    x = rng.integers(0, 256, 5000, np.uint8)
    bins = device.array(np.zeros(256, np.uint32))
    clean(device.run("histogram", 4, 96, [device.array(x), bins, np.int64(5000)]))
    np.testing.assert_array_equal(bins.array(np.uint32), np.bincount(x, minlength=256))


@pytest.mark.parametrize("entry", ["transpose", "transpose_padded"])
def test_transpose(device: Device, rng: np.random.Generator, entry: str) -> None:
    x = rng.standard_normal((70, 45), np.float32)
    y = device.output(x.nbytes)
    clean(device.run(entry, (2, 3), (32, 8), [device.array(x), y, np.int32(70), np.int32(45)]))
    np.testing.assert_array_equal(y.array(np.float32, (45, 70)), x.T)


def test_stencil_with_halo(device: Device, rng: np.random.Generator) -> None:
    x = rng.standard_normal(500, np.float32)
    y = device.output(x.nbytes)
    clean(device.run("stencil", 4, 128, [device.array(x), y, np.int32(500)]))
    padded = np.pad(x, 1)
    np.testing.assert_allclose(
        y.array(np.float32), 0.25 * padded[:-2] + 0.5 * x + 0.25 * padded[2:], rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("order", ORDERS)
def test_bitonic_sort(device: Device, rng: np.random.Generator, order: str) -> None:
    x = rng.integers(-1000, 1000, (2, 256), np.int32)
    buffer = device.array(x)
    clean(device.run("bitonic_sort", 2, 256, [buffer], order=order))
    np.testing.assert_array_equal(buffer.array(np.int32, x.shape), np.sort(x, axis=1))


def test_half2_fma_rounds_once(device: Device, rng: np.random.Generator) -> None:
    x, y = (rng.standard_normal(512).astype(np.float16) for _ in range(2))
    a = np.float16(1.337)
    buffer = device.array(y)
    clean(device.run("half_axpy", 2, 128, [device.array(x), buffer, a, np.int32(256)]))
    want = (x.astype(np.float64) * np.float64(a) + y.astype(np.float64)).astype(np.float16)
    np.testing.assert_array_equal(buffer.array(np.float16), want)


def test_bfloat16(device: Device, rng: np.random.Generator) -> None:
    def rounded(v: Any) -> Any:
        u = np.asarray(v, np.float32).view(np.uint32)
        return ((u + 0x7FFF + (u >> 16 & 1)) & 0xFFFF0000).view(np.float32)

    x = rounded(rng.standard_normal(100, np.float32))
    y = device.output(200)
    bits = (x.view(np.uint32) >> 16).astype(np.uint16)
    clean(device.run("bfloat_scale", 1, 128, [device.array(bits), y, np.float32(0.3), np.int32(100)]))
    got = (y.array(np.uint16).astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_array_equal(got, rounded(rounded(x * np.float32(0.3)) + np.float32(1)))


def test_device_functions_are_called(device: Device, rng: np.random.Generator) -> None:
    x = rng.standard_normal(40)
    y = device.output(x.nbytes)
    clean(device.run("calls", 1, 64, [device.array(x), y, np.int32(40)]))
    factorials = [float(np.prod(range(1, i % 10 + 1))) for i in range(40)]
    want = np.polynomial.polynomial.polyval(x, [1.0, -0.5, 0.25, 3.0, -2.0]) + factorials
    np.testing.assert_allclose(y.array(np.float64), want, rtol=1e-14)


def test_switch(device: Device) -> None:
    i = np.arange(100, dtype=np.int32)
    x = (i % 11 - 1).astype(np.int32)
    y = device.output(x.nbytes)
    clean(device.run("switched", 1, 128, [device.array(x), y, np.int32(100)]))
    cases = [x * 7 + i, x - i * 3, (x ^ i) << 2, i // 3, i % 5, -i, i * i, ~i]
    np.testing.assert_array_equal(y.array(np.int32), np.select([x == k for k in range(8)], cases, 12345))


def test_struct_by_value(device: Device, rng: np.random.Generator) -> None:
    layout = np.dtype([("scale", "f4"), ("shift", "i4", 3), ("offset", "f8"), ("last", "i1")], align=True)
    p = np.array((1.5, (1, -2, 3), 0.25, 7), layout)
    x = rng.standard_normal(50, np.float32)
    y = device.output(x.nbytes)
    clean(device.run("structured", 1, 64, [device.array(x), y, p[()], np.int32(50)]))
    want = x * 1.5 + np.resize([1, -2, 3], 50) + 0.25 + 7
    np.testing.assert_allclose(y.array(np.float32), want, rtol=1e-6)


def test_index_past_two_to_the_32(device: Device) -> None:
    x = device.program.memory.allocate(5 << 30)
    start = (1 << 32) + 12345
    x.view[start : start + 64] = np.arange(64)
    y = device.output(64)
    clean(device.run("far_index", 1, 64, [x, y, np.int64(start), np.int32(64)]))
    np.testing.assert_array_equal(y.view, np.arange(64))


def test_asynchronous_copies(device: Device, rng: np.random.Generator) -> None:
    x = rng.standard_normal((5, 64, 4), np.float32)
    y = device.output(x.nbytes)
    clean(device.run("pipelined", 1, 64, [device.array(x), y, np.int32(5)]))
    np.testing.assert_array_equal(y.array(np.float32, x.shape), x[:, ::-1])


@pytest.mark.parametrize("order", ORDERS)
def test_last_block_reduction_is_no_race(device: Device, rng: np.random.Generator, order: str) -> None:
    x = rng.standard_normal(5000, np.float32)
    out = device.output(4)
    for _ in range(2):  # the ticket wraps around
        clean(
            device.run(
                "sum_last_block", 16, 128, [device.array(x), device.output(64), out, np.int32(5000)], order=order
            )
        )
        np.testing.assert_allclose(out.array(np.float32)[0], x.sum(dtype=np.float64), rtol=1e-4)


@pytest.mark.parametrize("order", ORDERS)
def test_blocks_that_wait_for_each_other_finish(device: Device, order: str) -> None:
    x = np.arange(640, dtype=np.int32)
    y = device.output(x.nbytes)
    flags = device.array(np.zeros(10, np.int32))
    clean(device.run("chained", 10, 64, [device.array(x), y, device.output(40), flags, np.int32(640)], order=order))
    np.testing.assert_array_equal(y.array(np.int32), np.cumsum(x.reshape(10, 64).sum(axis=1)).repeat(64))


def test_spin_lock_within_a_warp_finishes(device: Device) -> None:
    counter = device.array(np.zeros(1, np.int32))
    clean(device.run("locked", 3, 64, [device.array(np.zeros(1, np.int32)), counter]))
    assert counter.array(np.int32)[0] == 192


def test_ballot_compaction(device: Device, rng: np.random.Generator) -> None:
    x = rng.standard_normal(500, np.float32)
    out, count = device.output(2000), device.array(np.zeros(1, np.int32))
    clean(device.run("compact", 4, 128, [device.array(x), out, count, np.int32(500)]))
    n = count.array(np.int32)[0]
    np.testing.assert_array_equal(np.sort(out.array(np.int32)[:n]), np.flatnonzero(x > 0))


def test_module_variables_are_initialised_and_reset(device: Device) -> None:
    for _ in range(2):
        y = device.output(16)
        clean(device.run("initialised", 1, 1, [y]))
        np.testing.assert_array_equal(y.array(np.float32), [49, 0, ord("g") + ord("u"), 0])
        assert device.program.variable("cell").array(np.int32)[0] == 1
        device.program.reset()


@pytest.mark.parametrize("space", [0, 1, 2])
def test_generic_pointer_to_each_space(device: Device, space: int) -> None:
    x = np.arange(100, 164, dtype=np.int32)
    y = device.output(x.nbytes)
    clean(device.run("generic_pointers", 1, 64, [device.array(x), y, np.int32(space)]))
    want = x[::-1] if space < 2 else np.resize([1, 2, 3, 4], 64)
    np.testing.assert_array_equal(y.array(np.int32), want)
