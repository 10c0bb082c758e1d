"""Evaluates kernels on the CPU executor, so that what is judged is what the profiler counts today."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing
from typing import TypeAlias

import pytest
import pytest_asyncio

from optiml.settings import settings
from optiml.v1 import kernel_pb2, problem_pb2, profiler_service_pb2
from services.profiler.cpu_executor import CpuExecutor
from services.profiler.evaluate import Pipeline
from services.profiler.reference import References
from services.profiler.source_rules import SourceRules

Evaluate: TypeAlias = Callable[..., Awaitable[profiler_service_pb2.EvaluationResult]]


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPTIML_CACHE_FOLDER", str(tmp_path_factory.mktemp("cache")))
        settings.cache_clear()
        yield
    settings.cache_clear()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def evaluate() -> AsyncIterator[Evaluate]:
    rules, references = SourceRules(), References()
    pipeline = Pipeline(CpuExecutor(), rules, references)

    async def evaluated(
        problem: problem_pb2.Problem, kernel: kernel_pb2.Kernel, *against: kernel_pb2.Kernel
    ) -> profiler_service_pb2.EvaluationResult:
        request = profiler_service_pb2.EvaluateRequest(problem=problem, kernel=kernel, against=against)
        async with aclosing(pipeline.evaluate(request)) as responses:
            async for response in responses:
                if response.HasField("result"):
                    return response.result
        raise AssertionError("no result")

    yield evaluated
    await pipeline.stop()
    await rules.stop()
    await references.stop()
