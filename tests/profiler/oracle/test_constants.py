"""A problem on which a constant passes as every output is refused before anything is searched."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from optiml.errors import InvalidArgumentError
from optiml.v1 import problem_pb2
from services.profiler.evaluate import Pipeline
from tests.profiler.kernels import I32, RELU_SOURCE, buffer, relu_kernel, relu_problem
from tests.profiler.pipelines import cpu_pipeline, evaluated, verdict_name

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pipeline() -> AsyncIterator[Pipeline]:
    async with cpu_pipeline() as opened:
        yield opened


def _relu_of(reference: str, low: float = -1.0, high: float = 1.0) -> problem_pb2.Problem:
    problem = relu_problem()
    problem.reference.numpy = reference
    uniform = problem.arguments[0].draw.uniform
    uniform.low, uniform.high = low, high
    return problem


CONSTANT = {
    "a clamp above every input": (_relu_of("y = np.maximum(x, 0)", -2.0, -1.0), "writes 0 to every element of y"),
    "a mean of a softmax": (
        _relu_of("e = np.exp(x - x.max())\ny = np.full(x.shape, np.mean(e / e.sum()))"), "to every element of y",
    ),
    "all ones": (_relu_of("y = np.ones_like(x)"), "writes 1 to every element of y"),
    "infinity everywhere": (_relu_of("y = np.full(x.shape, np.inf)"), "writes inf to every element of y"),
}  # fmt: skip


@pytest.mark.parametrize("name", CONSTANT)
async def test_a_constant_task_is_refused(pipeline: Pipeline, name: str) -> None:
    problem, words = CONSTANT[name]
    with pytest.raises(InvalidArgumentError, match=words):
        await evaluated(pipeline, problem, relu_kernel())


async def test_a_tolerance_wider_than_the_outputs_is_refused(pipeline: Pipeline) -> None:
    problem = _relu_of("y = np.sin(x)")
    problem.tolerance.absolute = 2.0
    with pytest.raises(InvalidArgumentError, match=r"writes 0 to every element of y.*smaller tolerance"):
        await evaluated(pipeline, problem, relu_kernel())


async def test_an_output_that_nobody_compares_is_refused(pipeline: Pipeline) -> None:
    problem = _relu_of("y = np.full(x.shape, np.nan)")
    problem.arguments[1].may_be_unwritten = True
    with pytest.raises(InvalidArgumentError, match="nothing of y is compared"):
        await evaluated(pipeline, problem, relu_kernel())


async def test_a_fill_with_a_drawn_value_is_no_constant(pipeline: Pipeline) -> None:
    problem = _relu_of("y = np.full(x.shape, x[0])")
    evaluation = await evaluated(
        pipeline, problem, relu_kernel(RELU_SOURCE.replace("x[i] > 0.0f ? x[i] : 0.0f", "x[0]"))
    )
    assert verdict_name(evaluation) == "OK", evaluation.reason


async def test_a_constant_output_beside_one_that_varies_is_no_constant_task(pipeline: Pipeline) -> None:
    problem = _relu_of("y = np.maximum(x, 0)\nfailed = np.zeros(1)")
    problem.arguments.append(buffer("failed", problem_pb2.ROLE_OUT, "1", dtype=I32))
    kernel = relu_kernel(
        RELU_SOURCE.replace("int n)", "int n, int* failed)").replace("if (i", "if (i == 0) *failed = 0; if (i")
    )
    kernel.launches[0].arguments.add(buffer="failed")
    evaluation = await evaluated(pipeline, problem, kernel)
    assert verdict_name(evaluation) == "OK", evaluation.reason
