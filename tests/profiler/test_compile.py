"""Sources become PTX, cubins and resources; the compiler's refusals become verdicts with the user's lines."""

from pathlib import Path

import pytest

from optiml.v1 import kernel_pb2, verdict_pb2
from services.profiler import toolchain
from services.profiler.compile import Compiled, compile_kernel
from services.profiler.failure import CandidateError
from tests.profiler.kernels import RELU_SOURCE

try:
    toolchain.find_toolchain()
except toolchain.PreconditionError as error:  # pragma: no cover - depends on the machine
    pytest.skip(str(error), allow_module_level=True)


async def _compiled(source: str, *names: str) -> Compiled:
    return await compile_kernel(source, [kernel_pb2.Launch(kernel=name) for name in names], "sm_90")


async def _failure(source: str, *names: str) -> CandidateError:
    with pytest.raises(CandidateError) as caught:
        await _compiled(source, *names)
    return caught.value


async def test_a_plain_kernel_is_found_with_its_parameters() -> None:
    compiled = await _compiled(RELU_SOURCE, "relu")
    assert compiled.entries["relu"].parameter_bytes == (8, 8, 4)
    assert compiled.resources["relu"].registers > 0
    assert compiled.cubin.read_bytes()[:4] == b"\x7fELF"


@pytest.mark.parametrize(
    ("declaration", "name"),
    [
        ("template <typename T, int V> __global__ void k(T* y) { y[0] = V; }", "k<float,  4>"),
        ("template <typename T> __global__ void k(T* y) { y[0] = 1; }", "k<unsigned>"),
        ("template <bool B> __global__ void k(int* y) { y[0] = B; }", "k<true>"),
        ('extern "C" __global__ void k(int* y) { y[0] = 1; }', "k"),
        ("static __global__ void k(int* y) { y[0] = 1; }", "k"),
        ("namespace a { __global__ void k(int* y) { y[0] = 1; } }", "a::k"),
        ("namespace { template <int I> __global__ void k(int* y) { y[0] = I; } }", "k<3>"),
        ("constexpr int W = 8; template <int I> __global__ void k(int* y) { y[0] = I; }", "k<W * 2>"),
        ("__device__ void k2(int* y); __global__ void k(int* y) { y[0] = 1; }", "k"),
    ],
)  # fmt: skip
async def test_every_way_to_name_a_kernel_finds_it(declaration: str, name: str) -> None:
    compiled = await _compiled(declaration, name)
    assert compiled.entries[name].symbol in compiled.ptx


async def test_markers_and_folders_stay_out_of_the_ptx() -> None:
    compiled = await _compiled(RELU_SOURCE, "relu")
    assert "optiml" not in compiled.ptx


async def test_an_error_tells_the_users_line() -> None:
    error = await _failure("__global__ void k(float* y) {\n  y[0] = zz;\n}\n", "k")
    assert error.verdict == verdict_pb2.VERDICT_COMPILE_FAILED
    assert error.reason == 'kernel.cu(2): error: identifier "zz" is undefined'
    assert "/" not in error.log.replace("//", "")


async def test_a_failure_is_remembered() -> None:
    first, second = await _failure("bad", "k"), await _failure("bad", "k")
    assert (first.reason, first.log) == (second.reason, second.log)


async def test_a_launch_of_something_unknown_is_told() -> None:
    error = await _failure(RELU_SOURCE, "relu", "gelu")
    assert "launch 1" in error.reason
    assert "gelu" in error.reason


async def test_a_device_function_cannot_be_launched() -> None:
    error = await _failure("__device__ void k(int* y) { y[0] = 1; }", "k")
    assert error.verdict in {verdict_pb2.VERDICT_LAUNCH_FAILED, verdict_pb2.VERDICT_COMPILE_FAILED}


@pytest.mark.parametrize("name", ['k>();\n#include "/etc/passwd"\n//', "k; int x", 'k"', "", "k\n"])
async def test_a_name_cannot_carry_source(name: str) -> None:
    error = await _failure("__global__ void k() {}", name)
    assert error.verdict == verdict_pb2.VERDICT_LAUNCH_FAILED


async def test_too_much_static_shared_memory_is_a_resource_verdict() -> None:
    source = "__global__ void k(float* y) { __shared__ float s[99999]; s[threadIdx.x] = 1; y[0] = s[(int)y[1]]; }"
    error = await _failure(source, "k")
    assert error.verdict == verdict_pb2.VERDICT_RESOURCE_EXCEEDED


async def test_spills_and_shared_memory_are_read_from_the_compiler() -> None:
    source = """
__global__ void __launch_bounds__(1024, 2) k(const float* x, float* y) {
  __shared__ float s[256];
  float v[64];
  for (int i = 0; i < 64; i++) v[i] = x[threadIdx.x + i * 1024];
  s[threadIdx.x % 256] = v[0];
  __syncthreads();
  for (int r = 0; r < 8; r++) for (int i = 0; i < 64; i++) v[i] = v[i] * v[(i + 1) % 64] + s[i];
  for (int i = 0; i < 64; i++) y[threadIdx.x + i * 1024] = v[i];
}"""
    resources = (await _compiled(source, "k")).resources["k"]
    assert resources.static_shared_memory_bytes == 1024
    assert resources.spill_store_bytes > 0


async def test_forbidden_files_do_not_reach_the_log(tmp_path: Path) -> None:
    secret = tmp_path / "secret.h"
    secret.write_text("int hidden_word = ;\n")
    error = await _failure(f'#include "{secret}"\n__global__ void k() {{}}', "k")
    assert "hidden_word" not in error.log
