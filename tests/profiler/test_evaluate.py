"""Whole evaluations on the CPU executor: verdicts of right and wrong kernels, comparisons, interruptions."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest
import pytest_asyncio

from optiml.errors import InvalidArgumentError
from optiml.v1 import kernel_pb2, problem_pb2, profiler_service_pb2, verdict_pb2
from services.profiler.cpu_executor import CpuExecutor
from services.profiler.evaluate import Pipeline
from tests.profiler.evaluating import cpu_pipeline, evaluation_of, limits, named, result_of
from tests.profiler.kernels import (
    F32,
    MATMUL_SOURCE,
    RELU_SOURCE,
    buffer,
    launch,
    matmul_kernel,
    matmul_problem,
    relu_kernel,
    relu_problem,
    sizes,
)

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

SCALE = "y[i] = x[i] > 0.0f ? x[i] : 0.0f"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pipeline() -> AsyncIterator[Pipeline]:
    async with cpu_pipeline() as pipeline:
        yield pipeline


async def test_a_right_kernel_is_ok_with_everything_filled_in(pipeline: Pipeline) -> None:
    evaluation = await evaluation_of(pipeline, matmul_problem(), matmul_kernel())
    assert (named(evaluation), evaluation.reason) == ("OK", "")
    assert evaluation.id.startswith("e")
    assert evaluation.toolchain.startswith("nvcc ")
    assert {check.level for check in evaluation.checks} == {"L0", "L1"}
    assert {check.inputs for check in evaluation.checks} == {"drawn", "repeat", "zeros", "large", "tiny"}
    assert all(check.passed and check.max_error_over_tolerance <= 1 for check in evaluation.checks)
    assert evaluation.timings[0].provenance == verdict_pb2.PROVENANCE_ESTIMATED
    assert 0 < evaluation.timings[0].low_ms <= evaluation.timings[0].median_ms <= evaluation.timings[0].high_ms
    assert evaluation.timings[0].roofline_ms > 0
    assert evaluation.resources[0].registers > 0
    assert 0 < evaluation.resources[0].occupancy <= 1
    assert {"compile", "L0", "L1", "time", "counters"} == set(evaluation.stage_seconds)
    assert evaluation.finished_at.ToNanoseconds() > evaluation.started_at.ToNanoseconds()


async def test_counters_of_the_naive_matmul_are_what_the_hardware_counts(pipeline: Pipeline) -> None:
    problem = matmul_problem()
    del problem.time[:]
    problem.time.extend(sizes({"M": 2048, "N": 2048, "K": 2048}))
    evaluation = await evaluation_of(pipeline, problem, matmul_kernel())
    counters = {metric.name: metric.value for metric in evaluation.metrics}
    sectors = counters["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"]
    assert sectors == pytest.approx(1.0743e9, rel=0.01)  # Nsight Compute, H200
    assert counters["optiml__sectors_per_request_ld"] == pytest.approx(2.0, rel=0.01)
    assert evaluation.timings[0].median_ms == pytest.approx(3.179, rel=0.5)
    assert {metric.provenance for metric in evaluation.metrics} <= {
        verdict_pb2.PROVENANCE_SIMULATED,
        verdict_pb2.PROVENANCE_ESTIMATED,
    }


WRONG = {
    "wrong value": (RELU_SOURCE.replace(": 0.0f", ": 0.1f"), "WRONG_RESULT", "y["),
    "unwritten": (RELU_SOURCE.replace("i < n", "i < n - 1"), "WRONG_RESULT", "was never written"),
    "input changed": (
        RELU_SOURCE.replace(SCALE, SCALE + "; if (i == 5) ((float*)x)[5] = 7"), "WRONG_RESULT", "the input x[5]",
    ),
    "nothing done": ("__global__ void relu(const float* x, float* y, int n) {}", "WRONG_RESULT", "never written"),
    "beyond the buffer": (RELU_SOURCE.replace("i < n", "i < n + 1"), "MEMORY_FAULT", "out-of-bounds"),
    "far beyond": (RELU_SOURCE.replace("y[i] =", "y[i + (1 << 28)] ="), "MEMORY_FAULT", "out-of-bounds"),
    "wild pointer": (RELU_SOURCE.replace("y[i] =", "((float*)(size_t)(4 * n))[i] ="), "MEMORY_FAULT", "out-of-bounds"),
    "infinite loop": (RELU_SOURCE.replace("if (i < n)", "while (x[0] < 5.0f) {} if (i < n)"), "TIMED_OUT", "finish"),
    "divergent barrier": (
        RELU_SOURCE.replace("if (i < n)", "if (threadIdx.x < 100) __syncthreads(); if (i < n)"), "RACE", "barrier",
    ),
    "race in shared memory": (
        RELU_SOURCE.replace("if (i < n)", "__shared__ int s; s = threadIdx.x; if (i < n && s >= 0)"), "RACE", "race",
    ),
    "depends on the blocks' order": (
        "__device__ int turn;\n" + RELU_SOURCE.replace(
            SCALE, SCALE + "; if (threadIdx.x == 0 && atomicAdd(&turn, 1) != blockIdx.x) y[i] += 1"
        ), "UNSTABLE", "second run",
    ),
    "host code": (RELU_SOURCE + "int main() {}", "REJECTED_SOURCE", "host code"),
    "forbidden include": ('#include "/etc/passwd"\n' + RELU_SOURCE, "REJECTED_SOURCE", "/etc/passwd"),
    "no such name": (RELU_SOURCE.replace("x[i]", "z[i]"), "COMPILE_FAILED", 'kernel.cu(4): error: identifier "z"'),
    "no such kernel": (RELU_SOURCE.replace("relu", "gelu"), "COMPILE_FAILED", "launch 0"),
    "other parameters": (RELU_SOURCE.replace(", int n", ", long n"), "LAUNCH_FAILED", "argument 2 has 4 bytes"),
    "static shared memory": (
        RELU_SOURCE.replace("if (i < n)", "__shared__ float s[60000]; s[threadIdx.x] = 1; if (i < n && s[i % 9] > 0)"),
        "RESOURCE_EXCEEDED", "shared",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
async def test_a_wrong_kernel_gets_its_verdict(pipeline: Pipeline, name: str) -> None:
    source, verdict, words = WRONG[name]
    with limits(check_seconds=1.0 if verdict == "TIMED_OUT" else 30.0):
        evaluation = await evaluation_of(pipeline, relu_problem(), relu_kernel(source))
    assert named(evaluation) == verdict, evaluation.reason
    assert words in evaluation.reason
    assert not evaluation.timings


async def test_a_kernel_that_does_no_work_at_the_time_size_is_implausible(pipeline: Pipeline) -> None:
    source = RELU_SOURCE.replace("i < n", "i < n && n < 1000000")
    evaluation = await evaluation_of(pipeline, relu_problem(), relu_kernel(source))
    assert named(evaluation) == "IMPLAUSIBLE", evaluation.reason
    assert "stores 0 bytes" in evaluation.reason


@pytest.mark.parametrize(
    ("grid", "block", "verdict"),
    [
        ("ceil_div(N, 256)", "2048", "RESOURCE_EXCEEDED"),
        ("0", "256", "LAUNCH_FAILED"),
        ("N / 0", "256", "LAUNCH_FAILED"),
        ("Q", "256", "LAUNCH_FAILED"),
        ("1", "256", "WRONG_RESULT"),
    ],
)
async def test_a_wrong_launch_gets_its_verdict(pipeline: Pipeline, grid: str, block: str, verdict: str) -> None:
    evaluation = await evaluation_of(pipeline, relu_problem(), relu_kernel(grid=grid, block=block))
    assert named(evaluation) == verdict, evaluation.reason


async def test_too_much_dynamic_shared_memory_is_a_resource_verdict(pipeline: Pipeline) -> None:
    kernel = relu_kernel()
    kernel.launches[0].dynamic_shared_memory_bytes = "300 * 1024"
    evaluation = await evaluation_of(pipeline, relu_problem(), kernel)
    assert named(evaluation) == "RESOURCE_EXCEEDED"


async def test_the_reason_has_numbers(pipeline: Pipeline) -> None:
    source = MATMUL_SOURCE.replace("k < K", "k < K - 1")
    evaluation = await evaluation_of(pipeline, matmul_problem(), matmul_kernel(source))
    assert evaluation.reason.startswith("C[0, 0] is ")
    assert evaluation.reason.endswith("(M=37, N=29, K=31, seed 1)")


async def test_an_inout_argument_is_restored_before_every_run(pipeline: Pipeline) -> None:
    problem = relu_problem()
    del problem.arguments[:]
    problem.arguments.extend([buffer("x", problem_pb2.ROLE_IN, "N"), buffer("y", problem_pb2.ROLE_INOUT, "N")])
    problem.reference.numpy = "y = y + x"
    kernel = relu_kernel(RELU_SOURCE.replace(SCALE, "y[i] += x[i]"))
    evaluation = await evaluation_of(pipeline, problem, kernel)
    assert named(evaluation) == "OK", evaluation.reason


async def test_two_launches_share_scratch(pipeline: Pipeline) -> None:
    source = """
__global__ void first(const float* x, float* t, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) t[i] = fmaxf(x[i], 0.0f);
}
__global__ void second(const float* t, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = t[i];
}"""
    grid, block = ["ceil_div(N, 128)"], ["128"]
    kernel = kernel_pb2.Kernel(
        source=source,
        launches=[launch("first", grid, block, "x", "t", "i32 N"), launch("second", grid, block, "t", "y", "i32 N")],
        scratch=[kernel_pb2.Scratch(name="t", data_type=F32, elements="N")],
    )
    evaluation = await evaluation_of(pipeline, relu_problem(), kernel)
    assert named(evaluation) == "OK", evaluation.reason
    assert [resources.kernel for resources in evaluation.resources] == ["first", "second"]


async def test_a_kernel_as_reference_is_run_in_double_precision(pipeline: Pipeline) -> None:
    problem = matmul_problem()
    problem.reference.kernel.CopyFrom(matmul_kernel())
    evaluation = await evaluation_of(pipeline, problem, matmul_kernel(block=(32, 8)))
    assert named(evaluation) == "OK", evaluation.reason
    assert 0 < evaluation.checks[0].max_absolute_error < 1e-4


async def test_a_kernel_as_reference_finds_a_wrong_one(pipeline: Pipeline) -> None:
    problem = matmul_problem()
    problem.reference.kernel.CopyFrom(matmul_kernel())
    evaluation = await evaluation_of(pipeline, problem, matmul_kernel(MATMUL_SOURCE.replace("k = 0", "k = 1")))
    assert named(evaluation) == "WRONG_RESULT"


async def test_a_reference_kernel_that_fails_is_the_requests_fault(pipeline: Pipeline) -> None:
    problem = relu_problem()
    problem.reference.kernel.CopyFrom(relu_kernel(RELU_SOURCE.replace("x[i]", "z[i]")))
    with pytest.raises(InvalidArgumentError, match=r"problem\.reference\.kernel.*identifier"):
        await evaluation_of(pipeline, problem, relu_kernel())


async def test_coalesced_access_is_estimated_to_be_faster(pipeline: Pipeline) -> None:
    swapped = MATMUL_SOURCE.replace(".y * blockDim.y + threadIdx.y", ".Q").replace(
        ".x * blockDim.x + threadIdx.x", ".R"
    )
    swapped = swapped.replace("blockIdx.Q", "blockIdx.y * blockDim.y + threadIdx.x")
    swapped = swapped.replace("blockIdx.R", "blockIdx.x * blockDim.x + threadIdx.y")
    result = await result_of(pipeline, matmul_problem(), matmul_kernel(), matmul_kernel(swapped))
    (comparison,) = result.comparisons
    assert comparison.provenance == verdict_pb2.PROVENANCE_ESTIMATED
    assert comparison.speedup > 1.5
    assert comparison.speedup_low <= comparison.speedup <= comparison.speedup_high


async def test_a_known_evaluation_is_only_compared(pipeline: Pipeline) -> None:
    problem, kernel = relu_problem(), relu_kernel()
    known = await evaluation_of(pipeline, problem, kernel)
    request = profiler_service_pb2.EvaluateRequest(problem=problem, kernel=kernel, against=[kernel], known=known)
    stages = []
    async with aclosing(pipeline.evaluate(request)) as responses:
        async for response in responses:
            stages.append(response.stage or "result")
            result = response.result
    assert stages == ["queued", "compile", "time", "result"]
    assert result.evaluation == known
    assert result.comparisons[0].speedup == pytest.approx(1.0)


async def test_a_known_evaluation_of_another_kernel_is_refused(pipeline: Pipeline) -> None:
    known = await evaluation_of(pipeline, relu_problem(), relu_kernel())
    request = profiler_service_pb2.EvaluateRequest(problem=matmul_problem(), kernel=matmul_kernel(), known=known)
    with pytest.raises(InvalidArgumentError, match="known"):
        async for _ in pipeline.evaluate(request):
            pass


async def test_two_at_once_do_not_disturb_each_other(pipeline: Pipeline) -> None:
    first, second = await asyncio.gather(
        evaluation_of(pipeline, relu_problem(), relu_kernel(RELU_SOURCE + "// first\n__device__ int a;\n")),
        evaluation_of(pipeline, relu_problem(), relu_kernel(RELU_SOURCE.replace(": 0.0f", ": 9.0f"))),
    )
    assert (named(first), named(second)) == ("OK", "WRONG_RESULT")


def _processes_below(ancestor: int) -> set[int]:
    found: set[int] = set()
    for listed in Path(f"/proc/{ancestor}/task").glob("*/children"):
        for child in map(int, listed.read_text().split()):
            found |= {child} | _processes_below(child)
    return found


def _computing(processes: set[int]) -> set[int]:
    """Return which of them use a processor."""
    states = {process: Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] for process in processes}
    return {process for process, state in states.items() if state == "R"}


async def test_cancelling_ends_the_work_itself(pipeline: Pipeline) -> None:
    before = _processes_below(os.getpid())
    source = RELU_SOURCE.replace("if (i < n)", "while (x[1] < 5.0f) {} if (i < n)")
    running = asyncio.create_task(evaluation_of(pipeline, relu_problem(), relu_kernel(source)))
    await asyncio.sleep(2.0)
    assert not running.done()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not _computing(_processes_below(os.getpid()) - before)
    evaluation = await evaluation_of(pipeline, relu_problem(), relu_kernel())
    assert named(evaluation) == "OK"


async def test_a_worker_that_is_killed_is_replaced(pipeline: Pipeline) -> None:
    source = RELU_SOURCE.replace("if (i < n)", "while (x[2] < 5.0f) {} if (i < n)")
    running = asyncio.create_task(evaluation_of(pipeline, relu_problem(), relu_kernel(source)))
    await asyncio.sleep(2.0)
    executor = pipeline.executor
    assert isinstance(executor, CpuExecutor)
    os.kill(executor.runner_process_ids[0], signal.SIGKILL)
    evaluation = await running
    assert named(evaluation) == "INTERNAL"
    assert "worker" in evaluation.reason
    assert named(await evaluation_of(pipeline, relu_problem(), relu_kernel())) == "OK"
