"""Wrong input of every kind: one line with what, where and the cure, the right code, nothing half-written."""

import asyncio
import re
from pathlib import Path

import pytest

from optiml.rpc.server import serving
from tests.command_line import error_of, optimlctl

RELU = """\
#include <cuda_runtime.h>
__global__ void relu(const float* X, float* Y, int N) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < N) Y[i] = X[i] > 0.0f ? X[i] : 0.0f;
}
"""
PROBLEM = """\
name: relu
parameters: {N: any}
arguments:
  X: {dtype: f32, shape: [N], role: in, draw: "uniform(-1, 1)"}
  Y: {dtype: f32, shape: [N], role: out}
launch:
  - {kernel: relu, grid: ["ceil_div(N, 256)"], block: [256], arguments: [X, Y, i32 N]}
reference: Y = np.maximum(X, 0)
sizes:
  smoke: [{N: 37}]
  check: [{N: 1003}]
  time: [{N: 65536}]
"""


def _told(home: Path, source: str, problem: str | None = None, *more: str, code: int = 3) -> str:
    (home / "k.cu").write_text(source)
    if problem is not None:
        (home / "k.yaml").write_text(problem)
    before = {path.name for path in home.iterdir()} | {"state", ".cache"}
    done = optimlctl(home, "optimize", "k.cu", "--device", "cpu", "--rounds", "1", *more)
    assert done.returncode == code, done.stderr
    assert {path.name for path in home.iterdir()} <= before
    return error_of(done)


def test_a_file_that_is_not_cuda_is_told(tmp_path: Path) -> None:
    assert "k.cu" in _told(tmp_path, "Dear diary, today I wrote no kernel.\n")


def test_a_file_without_a_kernel_is_told(tmp_path: Path) -> None:
    assert "__global__" in _told(tmp_path, "int main() { return 0; }\n")


def test_two_kernels_are_told_by_name(tmp_path: Path) -> None:
    told = _told(tmp_path, RELU + RELU.replace("void relu", "void relu2"))
    assert "relu2" in told
    assert "--kernel" in told


def test_a_kernel_that_the_file_does_not_have_is_told(tmp_path: Path) -> None:
    assert "relu" in _told(tmp_path, RELU, PROBLEM, "--kernel", "gelu")


def test_a_missing_header_is_told_with_its_line(tmp_path: Path) -> None:
    told = _told(tmp_path, '#include "nowhere.cuh"\n' + RELU.replace("X[i] > 0.0f", "X[i] > LIMIT"), PROBLEM)
    assert "nowhere.cuh" in told
    assert "k.cu:1" in told


def test_an_unknown_data_type_is_told(tmp_path: Path) -> None:
    assert "f31" in _told(tmp_path, RELU, PROBLEM.replace("dtype: f32", "dtype: f31", 1))


def test_a_shape_that_names_an_unknown_parameter_is_told(tmp_path: Path) -> None:
    assert "M" in _told(tmp_path, RELU, PROBLEM.replace("shape: [N]", "shape: [M]", 1))


def test_a_problem_file_that_is_not_yaml_is_told_with_its_line(tmp_path: Path) -> None:
    assert "k.yaml:" in _told(tmp_path, RELU, "name: [relu\n")


def test_a_problem_file_that_is_missing_is_told(tmp_path: Path) -> None:
    assert "no such file: p.yaml" in _told(tmp_path, RELU, None, "--problem", "p.yaml")


def test_without_a_problem_what_is_missing_is_named_and_init_is_the_cure(tmp_path: Path) -> None:
    assert "optimlctl init k.cu" in _told(tmp_path, RELU)


def test_an_output_folder_that_cannot_be_written_is_told_before_the_search(tmp_path: Path) -> None:
    told = _told(tmp_path, RELU, PROBLEM, "--out", "k.cu/out", code=1)
    assert "cannot write results to" in told


@pytest.mark.slow
def test_a_syntax_error_is_told_with_the_line_of_the_users_file(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(RELU.replace("0.0f;\n", "0.0f)\n"))
    (tmp_path / "k.yaml").write_text(PROBLEM)
    done = optimlctl(tmp_path, "optimize", "k.cu", "--device", "cpu", "--rounds", "1")
    assert done.returncode in {3, 4}, done.stderr
    assert re.search(r"^error: .*(k\.cu:4|k\.cu\(4\)|line 4)\b", done.stderr), done.stderr
    assert not (tmp_path / "optiml-out").exists()


@pytest.mark.slow
def test_a_shape_that_does_not_fit_the_kernel_is_a_failed_baseline(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(RELU)
    (tmp_path / "k.yaml").write_text(PROBLEM.replace("shape: [N], role: out", "shape: [N - 1], role: out"))
    done = optimlctl(tmp_path, "optimize", "k.cu", "--device", "cpu", "--rounds", "1")
    assert done.returncode in {3, 4}, done.stderr
    assert "error: " in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "optiml-out").exists()


@pytest.mark.slow
def test_a_baseline_that_is_wrong_exits_with_4(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(RELU.replace(": 0.0f", ": 1.0f"))
    (tmp_path / "k.yaml").write_text(PROBLEM)
    done = optimlctl(tmp_path, "optimize", "k.cu", "--device", "cpu", "--rounds", "1")
    assert done.returncode == 4, done.stderr
    assert not (tmp_path / "optiml-out").exists()


async def test_up_tells_that_its_address_is_taken(tmp_path: Path) -> None:
    async with serving([], "127.0.0.1:0") as taken:
        done = await asyncio.to_thread(optimlctl, tmp_path, "up", "--listen", taken)
    assert done.returncode == 1
    assert "Choose another address with --listen" in error_of(done)


@pytest.mark.slow
def test_a_baseline_that_leaves_its_buffers_is_told_without_a_problem_file(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(
        "__global__ void twice(const float* x, float* y, int n) {\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "  y[i] = 2 * x[i];\n"
        "}\n"
        "int main() {\n"
        "  const int n = 1000;\n"
        "  float *x, *y;\n"
        "  cudaMalloc(&x, n * sizeof(float));\n"
        "  cudaMalloc(&y, n * sizeof(float));\n"
        "  twice<<<(n + 255) / 256, 256>>>(x, y, n);\n"
        "}\n"
    )
    done = optimlctl(tmp_path, "optimize", "k.cu", "--device", "cpu", "--rounds", "1")
    assert done.returncode == 4
    assert "out-of-bounds in twice (line 3)" in done.stderr
