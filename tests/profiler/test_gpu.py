"""Whole evaluations on a GPU: measured times, comparisons with intervals, faults that do not poison the next one."""

from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest
import pytest_asyncio

from optiml.errors import PreconditionError
from optiml.v1 import kernel_pb2, problem_pb2, profiler_service_pb2, verdict_pb2
from services.profiler.capabilities import require_gpu_software
from services.profiler.cuda.executor import CudaExecutor
from services.profiler.evaluate import Pipeline
from services.profiler.reference import References
from services.profiler.source_rules import SourceRules
from tests.profiler.kernels import MATMUL_SOURCE, RELU_SOURCE, matmul_kernel, matmul_problem, relu_kernel, relu_problem

try:
    require_gpu_software()
except PreconditionError as error:
    pytest.skip(str(error), allow_module_level=True)

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pipeline() -> AsyncIterator[Pipeline]:
    rules, references = SourceRules(), References()
    pipeline = Pipeline(await CudaExecutor.open(), rules, references)
    yield pipeline
    await pipeline.stop()
    await rules.stop()
    await references.stop()


async def _result(
    pipeline: Pipeline, problem: problem_pb2.Problem, kernel: kernel_pb2.Kernel, *against: kernel_pb2.Kernel
) -> profiler_service_pb2.EvaluationResult:
    request = profiler_service_pb2.EvaluateRequest(problem=problem, kernel=kernel, against=against)
    async with aclosing(pipeline.evaluate(request)) as responses:
        async for response in responses:
            if response.HasField("result"):
                return response.result
    raise AssertionError("no result")


async def test_times_are_measured(pipeline: Pipeline) -> None:
    result = await _result(pipeline, matmul_problem(), matmul_kernel())
    timing = result.evaluation.timings[0]
    assert result.evaluation.verdict == verdict_pb2.VERDICT_OK, result.evaluation.reason
    assert timing.provenance == verdict_pb2.PROVENANCE_MEASURED
    assert len(timing.samples_ms) >= 10
    assert timing.low_ms <= timing.median_ms <= timing.high_ms
    assert timing.median_ms > timing.roofline_ms
    assert result.evaluation.counter_source


async def test_a_kernel_against_itself_is_as_fast(pipeline: Pipeline) -> None:
    result = await _result(pipeline, relu_problem(), relu_kernel(), relu_kernel())
    assert result.comparisons[0].speedup == pytest.approx(1.0, rel=0.1)


async def test_uncoalesced_access_is_slower(pipeline: Pipeline) -> None:
    worse = MATMUL_SOURCE.replace("C[row * N + col]", "C[col * M + row]")
    problem = matmul_problem()
    problem.reference.numpy = "C = (A @ B).T.reshape(M, N)"
    problem.smoke[0].parameters["N"] = 37
    for size in (*problem.check, *problem.time):
        size.parameters["N"] = size.parameters["M"]
    result = await _result(pipeline, problem, matmul_kernel(worse))
    assert result.evaluation.verdict == verdict_pb2.VERDICT_OK, result.evaluation.reason


@pytest.mark.parametrize(
    ("source", "verdicts"),
    [
        (RELU_SOURCE.replace("y[i] =", "((float*)64)[i] ="), {verdict_pb2.VERDICT_MEMORY_FAULT}),
        (RELU_SOURCE.replace("i < n", "i < n + 3"), {verdict_pb2.VERDICT_MEMORY_FAULT}),
        (RELU_SOURCE.replace(": 0.0f", ": 1.0f"), {verdict_pb2.VERDICT_WRONG_RESULT}),
    ],
)
async def test_a_fault_does_not_poison_the_next_evaluation(pipeline: Pipeline, source: str, verdicts: set[int]) -> None:
    bad = await _result(pipeline, relu_problem(), relu_kernel(source))
    assert bad.evaluation.verdict in verdicts, bad.evaluation.reason
    good = await _result(pipeline, relu_problem(), relu_kernel(RELU_SOURCE + f"// after {len(source)}\n"))
    assert good.evaluation.verdict == verdict_pb2.VERDICT_OK, good.evaluation.reason
