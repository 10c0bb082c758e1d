"""Coarsened threads and grid-stride loops: what they write, and what they decline."""

import pytest

from optiml.v1 import generator_service_pb2, kernel_pb2, problem_pb2, search_pb2
from services.generator.registry import propose
from tests.generator import kernels

_GUARDED = "int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i >= n) return;\n"


def _kernel(body: str, *, block: str = "256") -> kernel_pb2.Kernel:
    source = f"__global__ void f(const float* x, float* y, int n) {{\n  {body}\n}}\n"
    return kernels.kernel(source, "f", f"ceil_div(N, {block})", block, "x;y;int:N")


def _response(kernel: kernel_pb2.Kernel, **parameters: int) -> generator_service_pb2.ProposeResponse:
    size = problem_pb2.Size(parameters=parameters or {"N": 1 << 26})
    problem = problem_pb2.Problem(time=[size])
    return propose(generator_service_pb2.ProposeRequest(problem=problem, kernel=kernel))


def _edits(name: str, kernel: kernel_pb2.Kernel, **parameters: int) -> list[search_pb2.Edit]:
    return [edit for edit in _response(kernel, **parameters).edits if edit.transformation == name]


def _reason(name: str, kernel: kernel_pb2.Kernel, **parameters: int) -> str:
    return {d.transformation: d.reason for d in _response(kernel, **parameters).declined}.get(name, "")


def test_an_early_return_ends_the_work_on_one_element() -> None:
    first = _edits("coarsen", _kernel(_GUARDED + "  y[i] = 2.0f * x[i];"))[0]
    assert "for (int output = 0; output < OUTPUTS; ++output) {" in first.kernel.source
    assert "if (i >= n) continue;" in first.kernel.source
    assert first.kernel.launches[0].grid[0] == "ceil_div(N, 4 * (256))"


def test_rows_of_a_plane_are_coarsened_along_y() -> None:
    first = _edits("coarsen", kernels.TRANSPOSE, C=64, R=64)[0]
    assert "const int y = (blockIdx.y * OUTPUTS + output) * blockDim.y + threadIdx.y;" in first.kernel.source
    assert list(first.kernel.launches[0].grid) == ["ceil_div(C, 16)", "ceil_div(R, 4 * (16))", "1"]


def test_a_grid_is_never_empty_where_the_bound_may_be_zero() -> None:
    body = _GUARDED.replace("i >= n", "i >= n - 1") + "  y[i] = x[i];"
    assert _edits("coarsen", _kernel(body))[0].kernel.launches[0].grid[0] == "max(ceil_div(N - 1, 4 * (256)), 1)"


def test_a_grid_stride_loop_replaces_the_bounds_check() -> None:
    (edit,) = _edits("grid_stride", _kernel(_GUARDED + "  y[i] = 2.0f * x[i];"))
    assert "i < n; i += gridDim.x * blockDim.x) {" in edit.kernel.source
    assert "return" not in edit.kernel.source
    assert edit.kernel.launches[0].grid[0] == "min(ceil_div(N, 256), 1056)"


def test_a_coordinate_of_64_bits_stays_one() -> None:
    (edit,) = _edits("grid_stride", kernels.AXPY)
    assert "for (size_t id = (size_t)blockIdx.x * blockDim.x + threadIdx.x;" in edit.kernel.source
    assert "id += (size_t)gridDim.x * blockDim.x" in edit.kernel.source


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("  __shared__ float s[256]; s[threadIdx.x] = x[i]; __syncthreads(); y[i] = s[0];", "work together"),
        ("  y[i] = x[i] + threadIdx.x;", "more than the threads' coordinates"),
        ("  for (int k = 0; k < 3; k++) { if (x[i] > k) return; } y[i] = x[i];", "a loop holds a return"),
        ("  int k = i; while (true) { if (x[k] > 0) return; }", "not understood"),
        ("  int k = i; while (*x++ > 0) k++; y[k] = 0;", "`x` would be carried"),
        ("  x += i; y[i] = *x;", "`x` would be carried"),
        ("  y[i] = *(x += i);", "`x` would be carried"),
    ],
    ids=[
        "shared memory",
        "thread number",
        "return in a loop",
        "return in while",
        "moved in while",
        "moved pointer",
        "moved inside",
    ],
)
@pytest.mark.parametrize("name", ["coarsen", "grid_stride"])
def test_what_one_element_cannot_do_alone_is_declined(name: str, body: str, reason: str) -> None:
    assert reason in _reason(name, _kernel(_GUARDED + body))


def test_long_loops_are_not_coarsened() -> None:
    assert "worth a thread of its own" in _reason("coarsen", kernels.MATMUL, M=64, N=64, K=64)


def test_a_grid_that_fits_the_device_keeps_its_threads() -> None:
    assert "fit on the device at once" in _reason("grid_stride", _kernel(_GUARDED + "  y[i] = x[i];"), N=4096)


def test_a_stride_past_the_end_of_the_type_is_declined() -> None:
    assert "end of its type" in _reason("grid_stride", _kernel(_GUARDED + "  y[i] = x[i];"), N=(1 << 31) - 2)
