"""Counters are exactly what the access pattern says, under Nsight Compute's names."""

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from services.profiler.cpu.execute import LaunchResult
from tests.profiler.cpu.conftest import Device

LOAD = "l1tex__t_{}_pipe_lsu_mem_global_op_ld.sum"
STORE = "l1tex__t_{}_pipe_lsu_mem_global_op_st.sum"
WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{}.sum"


@pytest.fixture
def counted(load: Callable[[str], Device]) -> Device:
    return load("counted")


def run(
    device: Device, entry: str, block: int, arguments: list[object], grid: int = 1, **options: object
) -> LaunchResult:
    result = device.run(entry, grid, block, arguments, check=False, count=True, **options)
    assert result.status == "ok"
    return result


@pytest.mark.parametrize(("stride", "sectors"), [(0, 1), (1, 4), (2, 8), (4, 16), (8, 32), (32, 32)])
def test_sectors_of_strided_loads(counted: Device, stride: int, sectors: int) -> None:
    arguments = [counted.output(4 * 32 * 64), counted.output(4 * 64), np.int32(stride)]
    counters = run(counted, "strided", 32, arguments).counters
    assert counters[LOAD.format("requests")] == 1
    assert counters[LOAD.format("sectors")] == sectors
    assert counters[STORE.format("sectors")] == 4


def test_float4_moves_sixteen_sectors_a_request(counted: Device) -> None:
    counters = run(counted, "vectors", 64, [counted.output(1024), counted.output(1024)]).counters
    assert counters[LOAD.format("requests")] == 2
    assert counters[LOAD.format("sectors")] == 32


def test_misaligned_warp_touches_a_fifth_sector(counted: Device) -> None:
    counters = run(counted, "shifted", 32, [counted.output(256), counted.output(128)]).counters
    assert counters[LOAD.format("sectors")] == 5


def test_predicated_lanes_make_no_access(counted: Device) -> None:
    counters = run(counted, "diverging", 32, [counted.output(128), counted.output(128)]).counters
    assert counters[LOAD.format("requests")] == 1
    assert counters[LOAD.format("sectors")] == 4


@pytest.mark.parametrize(("stride", "ways"), [(1, 1), (2, 2), (4, 4), (8, 8), (16, 16), (32, 32), (33, 1), (3, 1)])
def test_bank_conflicts_of_strided_shared_accesses(counted: Device, stride: int, ways: int) -> None:
    shared = 4 * 33 * 32
    counters = run(
        counted, "shared_strided", 32, [counted.output(128), np.int32(stride)], dynamic_shared_bytes=shared
    ).counters
    for kind in ("ld", "st"):
        assert counters[WAVEFRONTS.format(kind)] == ways
        assert counters[CONFLICTS.format(kind)] == ways - 1


@pytest.mark.parametrize(("entry", "ways"), [("transpose", 32), ("transpose_padded", 1)])
def test_padding_removes_the_conflicts_of_a_transpose(device: Device, entry: str, ways: int) -> None:
    arguments = [device.output(4096), device.output(4096), np.int32(32), np.int32(32)]
    counters = device.run(entry, 1, (32, 8), arguments, check=False, count=True).counters
    assert counters[WAVEFRONTS.format("ld")] == 32 * ways
    assert counters[CONFLICTS.format("ld")] == 32 * (ways - 1)
    assert counters[CONFLICTS.format("st")] == 0


def test_loop_longer_than_the_window_is_counted_exactly(counted: Device) -> None:
    n = 5000
    counters = run(counted, "repeated", 32, [counted.output(n * 128), counted.output(128), np.int32(n)]).counters
    assert counters[LOAD.format("requests")] == n
    assert counters[LOAD.format("sectors")] == 4 * n
    assert counters["dram__bytes_read.sum"] == n * 128
    assert counters["lts__t_sectors_op_read.sum"] == 4 * n
    assert counters["smsp__sass_thread_inst_executed_op_fadd_pred_on.sum"] == 32 * n


def test_divergent_loop_counts_its_longest_lane(counted: Device) -> None:
    counters = run(counted, "triangular", 32, [counted.output(128), counted.output(128)]).counters
    assert counters[LOAD.format("requests")] == 32
    assert counters["smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"] == 32 * 33 / 2
    assert counters["sm__inst_executed_pipe_lsu.sum"] == 33


def test_second_read_of_a_line_hits_the_first_level_cache(counted: Device) -> None:
    counters = run(counted, "same_line_twice", 32, [counted.output(128), counted.output(128)]).counters
    assert counters[LOAD.format("sectors")] == 8
    assert counters["lts__t_sectors_op_read.sum"] == 4


def test_atomics_are_counted_apart(counted: Device) -> None:
    counters = run(counted, "counting", 64, [counted.array(np.zeros(4, np.int32))]).counters
    assert counters["l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum"] == 2
    assert counters[LOAD.format("requests")] == 0


def test_sample_of_blocks_counts_only_those(device: Device) -> None:
    n = 64 * 100
    arguments = [device.output(4 * n * 4), device.output(4 * n * 4), np.int32(n)]
    options = {"check": False, "count": True, "blocks": [3, 50, 99]}
    result = device.run("relu4", 100, 64, arguments, **options)
    assert result.blocks_run == 3
    assert result.threads_run == 192
    assert result.counters[LOAD.format("sectors")] == 3 * 2 * 16


def test_instructions_of_a_straight_kernel(counted: Device) -> None:
    counters = run(counted, "vectors", 64, [counted.output(1024), counted.output(1024)]).counters
    warps, threads = counters["smsp__inst_executed.sum"], counters["smsp__thread_inst_executed.sum"]
    assert threads == 32 * warps
    assert warps == 2 * 6  # mul.wide, two additions, load, store, ret


def test_counters_do_not_change_results(device: Device, rng: np.random.Generator) -> None:
    x = device.array(rng.standard_normal((5, 333), np.float32))
    outputs = []
    for count in (False, True):
        y = device.output(5 * 333 * 4)
        device.run("softmax", 5, 128, [x, y, np.int32(333)], count=count)
        outputs.append(y.view.copy())
    np.testing.assert_array_equal(*outputs)


def test_shared_wavefronts_are_those_of_an_h200(counted: Device) -> None:
    # Recorded with ncu 2025.3 on one warp; `keep` masks the lane, so that lanes read in groups the same address.
    measured = (Path(__file__).parent / "measured/shared_wavefronts_h200.csv").read_text().splitlines()
    x = counted.array(np.zeros(512, np.uint8))
    for row in csv.DictReader(measured):
        arguments = [x, np.int32(row["stride"]), np.int32(row["keep"]), np.bool_(row["access"] == "st")]
        result = run(counted, f"pattern_{row['bytes']}", 32, arguments, dynamic_shared_bytes=32768)
        kind = row["access"]
        got = (result.counters[WAVEFRONTS.format(kind)], result.counters[CONFLICTS.format(kind)])
        assert got == (int(row["wavefronts"]), int(row["conflicts"])), row
