"""No transformation numbers threads anew where the work sees their numbers."""

import pytest

from optiml.v1 import generator_service_pb2, kernel_pb2, problem_pb2
from services.generator.registry import propose
from tests.generator import kernels

_NUMBERED_ANEW = {
    "warp_reduce_rows": kernels.ROW_SUM,
    "tile_shared_memory": kernels.MATMUL,
    "tile_transpose": kernels.TRANSPOSE,
    "coalesce": kernels.COLUMN_MAJOR_STENCIL,
    "vectorize": kernels.RELU,
    "block_shape": kernels.RELU,
    "coarsen": kernels.RELU,
    "grid_stride": kernels.RELU,
}
_STORES = {
    "warp_reduce_rows": "out[r] = acc",
    "tile_shared_memory": "= sum",
    "tile_transpose": "= in[y * width + x]",
    "coalesce": "b[r * w + c] = 0.5f",
    "vectorize": "y[i] = fmaxf(x[i], 0.0f)",
}


def _with(name: str, added: str, before: str = "") -> kernel_pb2.Kernel:
    """Return a kernel that the transformation takes, with `added` in what it stores."""
    kernel = kernel_pb2.Kernel()
    kernel.CopyFrom(_NUMBERED_ANEW[name])
    store = _STORES.get(name, _STORES["vectorize"])
    assert store in kernel.source
    kernel.source = before + kernel.source.replace(store, f"{store} + {added}")
    return kernel


def _outcome(name: str, kernel: kernel_pb2.Kernel) -> str:
    """Return why the transformation declined, or "proposed"."""
    size = problem_pb2.Size(parameters=dict.fromkeys("RCMNKHW", 4096) | {"N": 1 << 26})
    request = generator_service_pb2.ProposeRequest(problem=problem_pb2.Problem(time=[size]), kernel=kernel)
    response = propose(request)
    if any(edit.transformation == name for edit in response.edits):
        return "proposed"
    return next(declined.reason for declined in response.declined if declined.transformation == name)


@pytest.mark.parametrize("name", _NUMBERED_ANEW)
def test_a_harmless_addition_keeps_the_transformation(name: str) -> None:
    assert _outcome(name, _with(name, "1.0f")) == "proposed"


@pytest.mark.parametrize("name", _NUMBERED_ANEW)
def test_a_thread_number_in_the_work_is_declined(name: str) -> None:
    assert "threadIdx" in _outcome(name, _with(name, "threadIdx.x"))


@pytest.mark.parametrize("name", _NUMBERED_ANEW)
def test_a_function_that_asks_for_a_thread_number_is_declined(name: str) -> None:
    function = "__device__ int lane() { return threadIdx.x % 32; }\n__device__ int who() { return lane(); }\n"
    assert "asks for `threadIdx`" in _outcome(name, _with(name, "who()", function))


@pytest.mark.parametrize("name", _NUMBERED_ANEW)
def test_a_macro_that_asks_for_a_grid_size_is_declined(name: str) -> None:
    assert "gridDim" in _outcome(name, _with(name, "BLOCKS", "#define BLOCKS gridDim.x\n"))


def test_another_kernel_of_the_file_may_ask_for_its_numbers() -> None:
    other = "__global__ void other(int* x) { x[threadIdx.x] = blockDim.x; }\n"
    assert _outcome("vectorize", _with("vectorize", "1.0f", other)) == "proposed"


def test_a_number_that_is_declared_beside_the_coordinate_is_seen() -> None:
    kernel = _with("vectorize", "lane")
    kernel.source = kernel.source.replace("+ threadIdx.x;", "+ threadIdx.x, lane = threadIdx.x;")
    assert "threadIdx" in _outcome("vectorize", kernel)
