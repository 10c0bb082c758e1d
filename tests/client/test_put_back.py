"""The best kernel in the person's file, where problem and program call the same size by other names."""

import dataclasses
from pathlib import Path

import pytest

from optiml.v1 import kernel_pb2
from optimlctl.input import Input, export, read_input

SOURCE = """\
__global__ void k(const float* x, float* y, int n) { if (threadIdx.x < n) y[threadIdx.x] = x[threadIdx.x]; }
void run(const float* x, float* y, int count) { k<<<(count + 255) / 256, 256>>>(x, y, count); }
"""
PROBLEM = """\
name: k
parameters: {N: any}
arguments:
  x: {dtype: f32, shape: [N], role: in, draw: "uniform(-1, 1)"}
  y: {dtype: f32, shape: [N], role: out, may_be_unwritten: true}
reference: y = x
sizes: {smoke: [{N: 37}], check: [{N: 1000}], time: [{N: 65536}]}
launch:
  - {kernel: k, grid: ["ceil_div(N, 256)"], block: [256], arguments: [x, y, i32 N]}
"""


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Input:
    monkeypatch.chdir(tmp_path)
    Path("k.cu").write_text(SOURCE)
    Path("k.yaml").write_text(PROBLEM)
    return read_input(Path("k.cu"), "", None)


def _smaller_blocks(baseline: kernel_pb2.Kernel) -> kernel_pb2.Kernel:
    best = kernel_pb2.Kernel()
    best.CopyFrom(baseline)
    best.launches[0].grid[:], best.launches[0].block[:] = ["ceil_div(N, 128)"], ["128"]
    return best


def test_launches_are_written_in_the_programs_own_names(given: Input) -> None:
    exported = export(_smaller_blocks(given.kernel), given.kernel, given.submission)
    assert "k<<<(count + 127) / 128, 128>>>(x, y, count);" in exported.source
    assert exported.patch.startswith("--- a/k.cu\n+++ b/k.cu\n")


def test_an_unchanged_kernel_gives_the_file_as_it_was(given: Input) -> None:
    exported = export(given.kernel, given.kernel, given.submission)
    assert (exported.source, exported.patch) == (SOURCE, "")


def test_without_the_file_the_launches_are_in_a_comment(given: Input) -> None:
    exported = export(_smaller_blocks(given.kernel), given.kernel, None)
    assert "//   k<<<dim3(ceil_div(N, 128)), dim3(128)>>>(x, y, N)" in exported.source


def test_a_file_that_is_no_longer_understood_does_not_cost_the_result(given: Input) -> None:
    broken = dataclasses.replace(given.submission, text="int x;")
    assert "__global__ void k" in export(given.kernel, given.kernel, broken).source


def test_the_problem_beside_the_source_is_used_and_said(given: Input) -> None:
    assert given.origin == "problem of k.yaml"
