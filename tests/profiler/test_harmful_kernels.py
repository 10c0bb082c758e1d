"""A candidate that does harm gets its verdict within its limit, and the next one is judged rightly."""

import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from services.profiler.evaluate import Pipeline
from tests.profiler.evaluating import cpu_pipeline, evaluation_of, limits, named
from tests.profiler.faulty_kernels import FAULTY, HARMLESS
from tests.profiler.kernels import relu_kernel, relu_problem

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pipeline() -> AsyncIterator[Pipeline]:
    with limits(check_seconds=3.0, compile_seconds=10.0):
        async with cpu_pipeline() as pipeline:
            yield pipeline


@pytest.mark.parametrize("name", FAULTY)
async def test_a_fault_gets_its_verdict_and_the_next_kernel_is_right(pipeline: Pipeline, name: str) -> None:
    source, verdicts, word = FAULTY[name]
    started = time.monotonic()
    evaluation = await evaluation_of(pipeline, relu_problem(), relu_kernel(source))
    assert named(evaluation) in verdicts, evaluation.reason
    assert word in evaluation.reason
    assert time.monotonic() - started < 20
    assert named(await evaluation_of(pipeline, relu_problem(), relu_kernel())) == "OK"


@pytest.mark.parametrize("name", HARMLESS)
async def test_what_a_device_shrugs_off_is_no_fault(pipeline: Pipeline, name: str) -> None:
    evaluation = await evaluation_of(pipeline, relu_problem(), relu_kernel(HARMLESS[name]))
    assert named(evaluation) == "OK", evaluation.reason
