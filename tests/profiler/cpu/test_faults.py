"""Wrong kernels are told what is wrong, at the right line, and never take the process down."""

from typing import Any

import numpy as np
import pytest

from services.profiler.cpu.execute import LaunchResult
from tests.profiler.cpu.conftest import KERNELS, Device


def line_of(name: str) -> int:
    lines = (KERNELS / "faulty.cu").read_text().splitlines()
    return next(i for i, line in enumerate(lines, 1) if line.endswith(f"// LINE {name}"))


def kinds(result: LaunchResult) -> set[str]:
    return {finding.kind for finding in result.findings}


def assert_found(result: LaunchResult, kind: str, name: str) -> None:
    found = [f for f in result.findings if f.kind == kind]
    assert found, result.findings
    assert line_of(name) in {n for f in found for n in (f.line, f.other_line)}, found


def ones(device: Device, n: int) -> Any:
    return device.array(np.ones(n, np.float32))


def test_missing_barrier_after_the_tile_is_a_race(faulty: Device) -> None:
    arguments = [ones(faulty, 32 * 32), ones(faulty, 32 * 32), faulty.output(4096), np.int32(32)]
    result = faulty.run("missing_barrier", (2, 2), (16, 16), arguments)
    assert_found(result, "race", "missing_barrier")
    assert kinds(result) == {"race"}
    assert result.status == "ok"


@pytest.mark.parametrize("check", [True, False])
def test_halo_off_by_one_is_out_of_bounds(faulty: Device, check: bool) -> None:
    y = faulty.output(400)
    result = faulty.run("halo_off_by_one", 1, 128, [ones(faulty, 100), y, np.int32(100)], check=check)
    assert_found(result, "out-of-bounds", "halo_off_by_one")
    assert result.status == "fault"
    assert list(result.findings[0].thread) == [99, 0, 0]
    assert "byte 400 of a buffer of 400 bytes" in result.findings[0].message
    np.testing.assert_array_equal(y.array(np.float32)[:99], 2)  # the others went on
    assert np.isnan(y.array(np.float32)[99])


@pytest.mark.parametrize("check", [True, False])
def test_shared_overrun(faulty: Device, check: bool) -> None:
    result = faulty.run("shared_overrun", 1, 64, [faulty.output(256)], check=check)
    assert_found(result, "out-of-bounds", "shared_overrun")
    assert result.status == "fault"


def test_divergent_barrier(faulty: Device) -> None:
    assert_found(faulty.run("divergent_barrier", 1, 64, [faulty.output(256)]), "divergent-barrier", "divergent_barrier")


def test_waiting_at_different_barriers_is_a_deadlock(faulty: Device) -> None:
    result = faulty.run("different_barriers", 1, 64, [faulty.output(256)])
    assert result.status == "deadlock"
    assert kinds(result) == {"deadlock"}


@pytest.mark.parametrize("order", ["forward", "shuffled"])
def test_endless_polling_times_out(faulty: Device, order: str) -> None:
    flag = faulty.array(np.zeros(1, np.int32))
    result = faulty.run("endless", 2, 64, [flag], time_limit_s=0.2, order=order)
    assert result.status == "timed_out"


@pytest.mark.parametrize("count", [True, False])
def test_endless_loop_times_out(faulty: Device, count: bool) -> None:
    arguments = [faulty.output(256), np.int32(3)]
    result = faulty.run("endless_quiet", 1, 64, arguments, time_limit_s=0.2, count=count)
    assert result.status == "timed_out"


def test_step_limit_ends_a_launch(faulty: Device) -> None:
    arguments = [faulty.output(256), np.int32(3)]
    result = faulty.run("endless_quiet", 1, 64, arguments, time_limit_s=60, step_limit=100_000)
    assert result.status == "timed_out"


@pytest.mark.parametrize("check", [True, False])
def test_float4_at_an_odd_offset_is_misaligned(faulty: Device, check: bool) -> None:
    result = faulty.run("odd_float4", 1, 8, [ones(faulty, 64), faulty.output(128)], check=check)
    assert_found(result, "misaligned", "odd_float4")
    assert result.status == "fault"


def test_early_return_before_a_barrier_is_told(faulty: Device) -> None:
    result = faulty.run("early_return", 2, 64, [ones(faulty, 100), faulty.output(400), np.int32(100)])
    assert_found(result, "divergent-barrier", "early_return")
    assert result.status == "ok"


def test_uninitialised_shared_memory(faulty: Device) -> None:
    y = faulty.output(256)
    assert_found(faulty.run("uninitialised_shared", 1, 64, [y]), "uninitialised", "uninitialised_shared")
    assert np.isnan(y.array(np.float32)[60:]).all()


def test_uninitialised_global_memory(faulty: Device) -> None:
    arguments = [faulty.output(256), faulty.output(256)]
    assert_found(faulty.run("uninitialised_global", 1, 64, arguments), "uninitialised", "uninitialised_global")


@pytest.mark.parametrize("blocks", [1, 4])
def test_histogram_without_atomics_is_a_race(faulty: Device, rng: np.random.Generator, blocks: int) -> None:
    x = faulty.array(rng.integers(0, 8, 64 * blocks, np.uint8))
    bins = faulty.array(np.zeros(256, np.uint32))
    result = faulty.run("plain_histogram", blocks, 64, [x, bins, np.int32(64 * blocks)])
    assert_found(result, "race", "plain_histogram")


def test_unsigned_wrap_in_a_guard(faulty: Device) -> None:
    result = faulty.run("wrapping_guard", 1, 32, [ones(faulty, 8), ones(faulty, 32), np.uint32(0)])
    assert_found(result, "out-of-bounds", "wrapping_guard")


def test_in_place_stencil_is_a_race_between_blocks(faulty: Device) -> None:
    result = faulty.run("in_place_stencil", 4, 1, [ones(faulty, 4), np.int32(4)])
    assert_found(result, "race", "in_place_stencil")


def test_ticket_without_fence_is_a_race(faulty: Device) -> None:
    out = faulty.array(np.zeros(1, np.float32))
    assert_found(faulty.run("no_fence", 8, 32, [faulty.output(32), out]), "race", "no_fence")


def test_asynchronous_copy_that_is_not_waited_for(faulty: Device, rng: np.random.Generator) -> None:
    x = faulty.array(rng.standard_normal(256, np.float32))
    assert_found(faulty.run("copy_not_waited", 1, 64, [x, faulty.output(1024)]), "uninitialised", "copy_not_waited")


def test_local_array_overrun(faulty: Device) -> None:
    result = faulty.run("local_overrun", 1, 32, [faulty.output(128), np.int32(4)])
    assert_found(result, "out-of-bounds", "local_overrun")


def test_runaway_recursion_is_a_fault(faulty: Device) -> None:
    result = faulty.run("runaway_recursion", 1, 32, [faulty.output(128)])
    assert result.status == "fault"
    assert "stack" in result.findings[0].message


def test_null_pointer(faulty: Device) -> None:
    assert_found(faulty.run("null_pointer", 1, 1, [faulty.output(4)]), "out-of-bounds", "null_pointer")


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("far", [1 << 20, -(1 << 40), (1 << 61) - 1, 1 << 44])
def test_wild_pointer_is_a_finding_and_no_crash(faulty: Device, far: int, check: bool) -> None:
    result = faulty.run("wild_pointer", 1, 32, [faulty.output(4), np.int64(far)], check=check)
    assert result.status == "fault"
    assert kinds(result) == {"out-of-bounds"}


def test_trap(faulty: Device) -> None:
    assert faulty.run("trapping", 1, 32, [faulty.array(np.zeros(1, np.int32))]).status == "trap"


def test_overrun_of_a_module_variable(faulty: Device) -> None:
    result = faulty.run("table_overrun", 1, 4, [faulty.output(16), np.int32(1)])
    assert_found(result, "out-of-bounds", "table_overrun")


def test_freed_buffer_is_out_of_bounds(faulty: Device) -> None:
    x, y = ones(faulty, 64), faulty.output(256)
    x.free()
    with pytest.raises(ValueError, match="argument 0 of uninitialised_global"):
        faulty.run("uninitialised_global", 1, 64, [x, y])
