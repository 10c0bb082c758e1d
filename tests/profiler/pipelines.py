"""Real pipelines on the CPU executor, and evaluations by them."""

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

from optiml.v1 import evaluation_pb2, kernel_pb2, problem_pb2, profiler_service_pb2, verdict_pb2
from services.profiler.cpu_executor import CpuExecutor
from services.profiler.evaluate import Pipeline
from services.profiler.reference import References
from services.profiler.source_rules import SourceRules


@asynccontextmanager
async def cpu_pipeline() -> AsyncIterator[Pipeline]:
    """Open a pipeline for the context."""
    rules, references = SourceRules(), References()
    pipeline = Pipeline(CpuExecutor(), rules, references)
    try:
        yield pipeline
    finally:
        await pipeline.stop()
        await rules.stop()
        await references.stop()


async def evaluated(
    pipeline: Pipeline, problem: problem_pb2.Problem, kernel: kernel_pb2.Kernel
) -> evaluation_pb2.Evaluation:
    """Evaluate a kernel from end to end."""
    request = profiler_service_pb2.EvaluateRequest(problem=problem, kernel=kernel)
    async with aclosing(pipeline.evaluate(request)) as responses:
        async for response in responses:
            if response.HasField("result"):
                return response.result.evaluation
    raise AssertionError("no result")


def verdict_name(evaluation: evaluation_pb2.Evaluation) -> str:
    """Return the verdict without its prefix."""
    return verdict_pb2.Verdict.Name(evaluation.verdict).removeprefix("VERDICT_")
