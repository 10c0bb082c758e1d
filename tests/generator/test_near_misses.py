"""Kernels that a transformation nearly takes: one detail would make the edit wrong."""

import pytest

from optiml.v1 import generator_service_pb2, kernel_pb2, search_pb2
from services.generator.registry import propose
from tests.generator import kernels

_ROW = """
__global__ void f(const float* x, const float* k, float* y, int rows) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  float m = 0.0f;
  for (int j = 0; j < rows; j++) {
    float s = 0.0f;
    for (int d = 0; d < 8; d++) s += x[r * 8 + d] * k[j * 8 + d];
    m += s;
  }
  STORE
}
"""


def _staged(store: str) -> kernel_pb2.Kernel:
    return kernels.kernel(_ROW.replace("STORE", store), "f", "ceil_div(R, 128)", "128", "x;k;y;int:R")


def _edits(name: str, kernel: kernel_pb2.Kernel) -> list[search_pb2.Edit]:
    response = propose(generator_service_pb2.ProposeRequest(kernel=kernel))
    return [edit for edit in response.edits if edit.transformation == name]


def _reason(name: str, kernel: kernel_pb2.Kernel) -> str:
    response = propose(generator_service_pb2.ProposeRequest(kernel=kernel))
    return {found.transformation: found.reason for found in response.declined}.get(name, "")


def test_an_else_stays_with_its_if_where_a_write_is_guarded() -> None:
    (edit,) = _edits("stage_shared", _staged("if (m > 0) y[r] = m; else y[r] = -m;"))
    assert "if (m > 0) { if (inside) y[r] = m; } else { if (inside) y[r] = -m; }" in edit.kernel.source


def test_a_write_outside_branches_is_guarded_plainly() -> None:
    (edit,) = _edits("stage_shared", _staged("y[r] = m;"))
    assert "  if (inside) y[r] = m;\n}" in edit.kernel.source


def test_a_write_through_a_moved_pointer_is_not_staged() -> None:
    assert "cannot be told" in _reason("stage_shared", _staged("float* p = y; p += r; *p = m;"))


def _summed(declaration: str, step: str) -> kernel_pb2.Kernel:
    source = f"""
__global__ void f(const float* x, float* y, int rows, int cols) {{
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  {declaration}
  for (int c = 0; c < cols; c++) {step}
  y[r] = s;
}}
"""
    return kernels.kernel(source, "f", "ceil_div(R, 128)", "128", "x;y;int:R;int:C")


@pytest.mark.parametrize("step", ["s += x[r * cols + c];", "s = s + 2.0f * x[r * cols + c];"])
def test_a_sum_that_is_rounded_at_each_step_is_not_reordered(step: str) -> None:
    assert "rounded to an integer" in _reason("warp_reduce_rows", _summed("int s = 0;", step))


def test_a_count_of_floats_is_a_sum_of_integers() -> None:
    assert _edits("warp_reduce_rows", _summed("int s = 0;", "s += x[r * cols + c] > 0.0f;"))
