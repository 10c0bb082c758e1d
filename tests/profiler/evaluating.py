"""Evaluations on a CPU pipeline of the test's own."""

from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager

import pytest

from optiml.settings import settings
from optiml.v1 import evaluation_pb2, kernel_pb2, problem_pb2, profiler_service_pb2, verdict_pb2
from services.profiler.cpu_executor import CpuExecutor
from services.profiler.evaluate import Pipeline
from services.profiler.reference import References
from services.profiler.source_rules import SourceRules


@asynccontextmanager
async def cpu_pipeline() -> AsyncIterator[Pipeline]:
    rules, references = SourceRules(), References()
    pipeline = Pipeline(CpuExecutor(), rules, references)
    yield pipeline
    await pipeline.stop()
    await rules.stop()
    await references.stop()


@contextmanager
def limits(**seconds: float) -> Iterator[None]:
    """Set `check_seconds` or `compile_seconds` meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in seconds.items():
            patch.setenv(f"OPTIML_{name.upper()}", str(value))
        settings.cache_clear()
        yield
    settings.cache_clear()


async def result_of(
    pipeline: Pipeline, problem: problem_pb2.Problem, kernel: kernel_pb2.Kernel, *against: kernel_pb2.Kernel
) -> profiler_service_pb2.EvaluationResult:
    request = profiler_service_pb2.EvaluateRequest(problem=problem, kernel=kernel, against=against)
    async with aclosing(pipeline.evaluate(request)) as responses:
        async for response in responses:
            if response.HasField("result"):
                return response.result
    raise AssertionError("no result")


async def evaluation_of(
    pipeline: Pipeline, problem: problem_pb2.Problem, kernel: kernel_pb2.Kernel
) -> evaluation_pb2.Evaluation:
    return (await result_of(pipeline, problem, kernel)).evaluation


def named(evaluation: evaluation_pb2.Evaluation) -> str:
    return verdict_pb2.Verdict.Name(evaluation.verdict).removeprefix("VERDICT_")
