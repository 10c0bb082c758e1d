"""Medians, intervals and what ncu prints: all that can be tested of the GPU's side without one."""

from pathlib import Path

import numpy as np
import pytest

from services.profiler.cuda import ncu
from services.profiler.cuda.statistics import interleaved_order, median_interval, ratio_interval

SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
THROUGHPUT = "dram__throughput.avg.pct_of_peak_sustained_elapsed"
CSV = f"""==PROF== Connected to process 1
"ID","Kernel Name","{SECTORS}","{THROUGHPUT}","gpu__time_duration.sum"
"","","sector","%","ns"
"0","f","1,000","80","3000"
"1","f","500","20","1000"
"""


def test_the_order_is_mirrored() -> None:
    assert interleaved_order(2, 3) == [[0, 1], [1, 0], [0, 1]]


def test_the_interval_holds_the_median_and_is_reproducible() -> None:
    samples = list(np.random.default_rng(0).normal(1.0, 0.05, 40))
    first, second = median_interval(samples), median_interval(samples)
    assert first == second
    assert first.low <= first.central <= first.high


def test_equal_kernels_have_a_ratio_of_one_within_the_interval() -> None:
    generator = np.random.default_rng(1)
    ours, others = list(generator.normal(1.0, 0.02, 60)), list(generator.normal(1.0, 0.02, 60))
    ratio = ratio_interval(ours, others)
    assert ratio.low < 1 < ratio.high


def test_a_drift_that_hits_both_does_not_widen_the_ratio() -> None:
    drift = np.linspace(1.0, 2.0, 50)
    ratio = ratio_interval(list(drift), list(drift * 1.5))
    assert ratio.low == pytest.approx(1.5, rel=0.1)
    assert ratio.high == pytest.approx(1.5, rel=0.1)


def test_sums_are_added_and_rates_weighted_by_time() -> None:
    answer = ncu.parse(CSV)
    assert answer.values[SECTORS] == 1500
    assert answer.values[THROUGHPUT] == pytest.approx(65)
    assert not answer.trouble


@pytest.mark.parametrize(
    ("output", "trouble"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission", "ERR_NVGPUCTRPERM"),
        ("==ERROR== Profiler failed to start", "Profiler failed to start"),
        ("", "ncu printed no table"),
        (CSV.replace('"1,000","80"', '"nan","nan"').replace('"500","20"', '"n/a","nan"').replace("3000", "x")
         .replace('"1000"', '"x"'), "ncu gave no value"),
    ],
)  # fmt: skip
def test_why_there_are_no_counters_is_told(output: str, trouble: str) -> None:
    answer = ncu.parse(output)
    assert not answer.values
    assert answer.trouble == trouble


def test_metrics_that_the_device_lacks_are_left_out_next_time() -> None:
    unknown = ncu.unknown_metrics(f"==ERROR== Failed to find metric {SECTORS}\n==ERROR== Failed to find metric evil")
    assert unknown == {SECTORS}
    command = ncu.arguments(Path("/ncu"), ["f"], 1, unknown)
    assert SECTORS not in command[-1]
    assert THROUGHPUT in command[-1]
