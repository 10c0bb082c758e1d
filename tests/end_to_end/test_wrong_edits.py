"""Edits that a careless transformation would make: the profiler refuses each one, and takes its right twin."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from optiml.rpc.channel import open_channel
from optiml.rpc.server import serving
from optiml.v1 import (
    evaluation_pb2,
    kernel_pb2,
    problem_pb2,
    profiler_service_pb2,
    profiler_service_pb2_grpc,
    verdict_pb2,
)
from services.profiler.server import service

pytestmark = pytest.mark.slow

F32, I32 = kernel_pb2.DATA_TYPE_F32, kernel_pb2.DATA_TYPE_I32


def _problem(
    name: str, reference: str, buffers: dict[str, tuple[str, ...]], outputs: set[str], sizes: list[dict[str, int]]
) -> problem_pb2.Problem:
    problem = problem_pb2.Problem(name=name, reference=problem_pb2.Reference(numpy=reference))
    problem.parameters.extend(problem_pb2.Parameter(name=parameter) for parameter in sizes[0])
    for buffer, shape in buffers.items():
        out = buffer in outputs
        argument = problem.arguments.add(name=buffer, data_type=F32, shape=shape)
        argument.role = problem_pb2.ROLE_OUT if out else problem_pb2.ROLE_IN
        if not out:
            argument.draw.uniform.low, argument.draw.uniform.high = -1.0, 1.0
    problem.smoke.extend(problem_pb2.Size(parameters=size) for size in sizes[:2])
    problem.check.extend(problem_pb2.Size(parameters=size) for size in sizes[2:])
    problem.time.extend(problem_pb2.Size(parameters=size) for size in sizes[2:3])
    return problem


def _kernel(source: str, grid: list[str], block: list[str], arguments: list[str]) -> kernel_pb2.Kernel:
    launch = kernel_pb2.Launch(kernel="f", grid=grid, block=block)
    for argument in arguments:
        if argument.startswith("i32 "):
            launch.arguments.add(scalar=kernel_pb2.Scalar(data_type=I32, expression=argument[4:]))
        else:
            launch.arguments.add(buffer=argument)
    return kernel_pb2.Kernel(source=source, launches=[launch])


MATMUL = _problem(
    "matmul", "C = A @ B", {"A": ("M", "K"), "B": ("K", "N"), "C": ("M", "N")}, {"C"},
    [{"M": 37, "N": 29, "K": 31}, {"M": 5, "N": 67, "K": 19}, {"M": 96, "N": 80, "K": 64}],
)  # fmt: skip
MATMUL_SOURCE = """
__global__ void f(const float* A, const float* B, float* C, int M, int N, int K) {
  __shared__ float As[16][16], Bs[16][16];
  int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
  float sum = 0.0f;
  for (int k0 = 0; k0 < K; k0 += 16) {
    As[threadIdx.y][threadIdx.x] = row < M && k0 + threadIdx.x < K ? A[row * K + k0 + threadIdx.x] : 0.0f;
    Bs[threadIdx.y][threadIdx.x] = col < N && k0 + threadIdx.y < K ? B[(k0 + threadIdx.y) * N + col] : 0.0f;
    __syncthreads();
    for (int k = 0; k < 16; ++k) sum += As[threadIdx.y][k] * Bs[k][threadIdx.x];
    __syncthreads();  // before the tiles are written again
  }
  if (row < M && col < N) C[row * N + col] = sum;
}
"""
MATMUL_LAUNCH = (["ceil_div(N, 16)", "ceil_div(M, 16)"], ["16", "16"], ["A", "B", "C", "i32 M", "i32 N", "i32 K"])

SOFTMAX = _problem(
    "softmax", "e = np.exp(X - X.max(axis=1, keepdims=True))\nY = e / e.sum(axis=1, keepdims=True)",
    {"X": ("R", "C"), "Y": ("R", "C")}, {"Y"},
    [{"R": 7, "C": 45}, {"R": 3, "C": 129}, {"R": 64, "C": 500}],
)  # fmt: skip
SOFTMAX_SOURCE = """
__global__ void f(const float* X, float* Y, int R, int C) {
  int row = blockIdx.x, lane = threadIdx.x;
  float top = -3.402823466e38f;
  for (int c = lane; c < C; c += 32) top = fmaxf(top, X[row * C + c]);
  for (int offset = 16; offset > 0; offset /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, offset));
  float sum = 0.0f;
  for (int c = lane; c < C; c += 32) sum += expf(X[row * C + c] - top);
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  for (int c = lane; c < C; c += 32) Y[row * C + c] = expf(X[row * C + c] - top) / sum;
}
"""
SOFTMAX_LAUNCH = (["R"], ["32"], ["X", "Y", "i32 R", "i32 C"])

SCALE = _problem(
    "scale", "Y = 2 * np.maximum(X, 0)", {"X": ("N",), "Y": ("N",)}, {"Y"}, [{"N": 37}, {"N": 1003}, {"N": 65537}]
)
SCALE_SOURCE = """
__global__ void f(const float* X, float* Y, int N) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int quads = N / 4;
  if (i < quads) {
    float4 v = reinterpret_cast<const float4*>(X)[i];
    v.x = 2 * fmaxf(v.x, 0.0f); v.y = 2 * fmaxf(v.y, 0.0f); v.z = 2 * fmaxf(v.z, 0.0f); v.w = 2 * fmaxf(v.w, 0.0f);
    reinterpret_cast<float4*>(Y)[i] = v;
  }
  int rest = quads * 4 + i;
  if (i < N % 4) Y[rest] = 2 * fmaxf(X[rest], 0.0f);
}
"""
SCALE_LAUNCH = (["ceil_div(N, 256)"], ["256"], ["X", "Y", "i32 N"])

RIGHT = {
    "matmul": (MATMUL, MATMUL_SOURCE, MATMUL_LAUNCH),
    "softmax": (SOFTMAX, SOFTMAX_SOURCE, SOFTMAX_LAUNCH),
    "scale": (SCALE, SCALE_SOURCE, SCALE_LAUNCH),
}
WRONG = {
    "off_by_one_in_the_tile": ("matmul", "k < 16; ++k", "k < 15; ++k"),
    "missing_barrier_after_the_tile": ("matmul", "__syncthreads();  // before the tiles are written again", ""),
    "missing_barrier_before_the_tile": ("matmul", "    __syncthreads();\n    for", "    for"),
    "swapped_output_indices": ("matmul", "C[row * N + col]", "C[col * M + row]"),
    "swapped_tile_indices": ("matmul", "As[threadIdx.y][k] *", "As[k][threadIdx.y] *"),
    "dropped_guard_on_the_output": ("matmul", "if (row < M && col < N) C", "C"),
    "unguarded_tail_of_the_tile": ("matmul", "row < M && k0 + threadIdx.x < K ?", "row < M ?"),
    "wrong_initial_value": ("softmax", "float sum = 0.0f", "float sum = 0.01f"),
    "half_a_warp_reduced": ("softmax", "16; offset > 0; offset /= 2) sum", "8; offset > 0; offset /= 2) sum"),
    "maximum_left_out": ("softmax", "expf(X[row * C + c] - top)", "expf(X[row * C + c])"),
    "wrong_stride": ("softmax", "c += 32) Y", "c += 64) Y"),
    "dropped_tail": ("scale", "if (i < N % 4) Y[rest]", "if (i < 0) Y[rest]"),
    "tail_off_by_one": ("scale", "quads * 4 + i", "quads * 4 + i + 1"),
    "identity_for_the_positive": ("scale", "v.w = 2 * fmaxf(v.w, 0.0f)", "v.w = 2 * v.w"),
    "misaligned_vector": ("scale", "float4*>(X)[i]", "float4*>(X + 1)[i]"),
}  # fmt: skip


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def profiler(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[profiler_service_pb2_grpc.ProfilerServiceStub]:
    folder: Path = tmp_path_factory.mktemp("profiler")
    async with serving([service()], f"unix:{folder}/socket") as address, open_channel(address) as channel:
        yield profiler_service_pb2_grpc.ProfilerServiceStub(channel)


async def _evaluate(
    profiler: profiler_service_pb2_grpc.ProfilerServiceStub,
    problem: problem_pb2.Problem,
    kernel: kernel_pb2.Kernel,
) -> evaluation_pb2.Evaluation:
    request = profiler_service_pb2.EvaluateRequest(problem=problem, kernel=kernel, device=verdict_pb2.DEVICE_KIND_CPU)
    async for response in profiler.Evaluate(request, timeout=100):
        if response.HasField("result"):
            return response.result.evaluation
    raise AssertionError("the stream ended without a result")


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.asyncio(loop_scope="module")
async def test_the_right_kernel_passes(profiler: profiler_service_pb2_grpc.ProfilerServiceStub, name: str) -> None:
    problem, source, launch = RIGHT[name]
    evaluation = await _evaluate(profiler, problem, _kernel(source, *launch))
    assert evaluation.verdict == verdict_pb2.VERDICT_OK, evaluation.reason


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.asyncio(loop_scope="module")
async def test_a_wrong_edit_is_caught(profiler: profiler_service_pb2_grpc.ProfilerServiceStub, name: str) -> None:
    twin, before, after = WRONG[name]
    problem, source, launch = RIGHT[twin]
    assert before in source
    evaluation = await _evaluate(profiler, problem, _kernel(source.replace(before, after), *launch))
    assert evaluation.verdict in {
        verdict_pb2.VERDICT_WRONG_RESULT,
        verdict_pb2.VERDICT_MEMORY_FAULT,
        verdict_pb2.VERDICT_RACE,
    }, f"{verdict_pb2.Verdict.Name(evaluation.verdict)}: {evaluation.reason}"
    assert evaluation.reason


@pytest.mark.asyncio(loop_scope="module")
async def test_a_grid_that_is_too_small_is_caught(
    profiler: profiler_service_pb2_grpc.ProfilerServiceStub,
) -> None:
    _, block, arguments = SCALE_LAUNCH
    evaluation = await _evaluate(profiler, SCALE, _kernel(SCALE_SOURCE, ["max(N // 2048, 1)"], block, arguments))
    assert evaluation.verdict == verdict_pb2.VERDICT_WRONG_RESULT
