"""The measuring half of an evaluation: times against other kernels, counters, and what follows from both."""

import asyncio
import math
from collections.abc import Sequence

from optiml.devices import DeviceModel
from optiml.errors import InvalidArgumentError
from optiml.identity import kernel_id
from optiml.v1 import evaluation_pb2, kernel_pb2, problem_pb2, verdict_pb2
from services.profiler.derived import as_metrics, derived_metrics, launch_figures, roofline_ms
from services.profiler.executor import Executor, Measured, Program, Subject
from services.profiler.failure import CandidateError
from services.profiler.gates import implausible
from services.profiler.inputs import Case, scalars
from services.profiler.plan import make_plan

__all__ = ["TIME_SEED", "comparison", "count", "subject_at", "time_together"]

TIME_SEED = 1


def subject_at(
    problem: problem_pb2.Problem,
    kernel: kernel_pb2.Kernel,
    program: Program,
    size: problem_pb2.Size,
    model: DeviceModel,
) -> Subject:
    """Return a kernel, ready to be timed at a size.

    Raises:
        CandidateError: it cannot be launched there.
    """
    values = scalars(problem, Case.of(size, TIME_SEED))
    plan = make_plan(problem, kernel, program.compiled, model, dict(size.parameters), values)
    return Subject(kernel_id(kernel), program, plan, problem, size)


async def time_together(
    executor: Executor, turn: asyncio.Semaphore, subject: Subject, others: list[Subject], seconds: float
) -> Measured:
    """Time a kernel and those it is compared against at one size.

    Raises:
        CandidateError: the kernel fails.
        InvalidArgumentError: it does not, but one of the others does.
    """
    try:
        async with turn:
            return await executor.time(subject, others, seconds=seconds)
    except CandidateError as error:
        if not others:
            raise
        async with turn:
            await executor.time(subject, [], seconds=seconds)  # whose fault was it?
        raise InvalidArgumentError(f"against: one of these kernels fails: {error.reason}") from error


def comparison(
    against: str, speedups: Sequence[tuple[float, float, float]], provenance: verdict_pb2.Provenance.ValueType
) -> evaluation_pb2.Comparison:
    """Take the geometric mean over the time sizes, of the central value and of both ends."""
    central, low, high = (
        math.exp(sum(math.log(max(one[part], 1e-12)) for one in speedups) / len(speedups)) for part in range(3)
    )
    return evaluation_pb2.Comparison(
        against_kernel_id=against, speedup=central, speedup_low=low, speedup_high=high, provenance=provenance
    )


async def count(
    executor: Executor,
    turn: asyncio.Semaphore,
    subject: Subject,
    evaluation: evaluation_pb2.Evaluation,
    seconds: float,
) -> None:
    """Count one run at the first time size, and write down the counters and what follows from them.

    Raises:
        CandidateError: the kernel fails, or its time or its counters cannot be true.
    """
    async with turn:
        metrics, evaluation.counter_source = await executor.count(subject, seconds=seconds)
    evaluation.metrics.extend(metrics)
    values = {metric.name: metric.value for metric in metrics}
    timing, compiled = evaluation.timings[0], subject.program.compiled
    if reason := implausible(subject.problem, subject.plan, timing, metrics, executor.model, compiled.ptx):
        raise CandidateError(verdict_pb2.VERDICT_IMPLAUSIBLE, reason)
    timing.roofline_ms = roofline_ms(subject.problem, subject.plan, values, executor.model)
    measured = timing.provenance == verdict_pb2.PROVENANCE_MEASURED
    provenance = verdict_pb2.PROVENANCE_MEASURED if measured else verdict_pb2.PROVENANCE_ESTIMATED
    figures = launch_figures(compiled, subject.plan, executor.model)
    evaluation.metrics.extend(as_metrics(figures, verdict_pb2.PROVENANCE_ESTIMATED))
    evaluation.metrics.extend(as_metrics(derived_metrics(values, subject.problem, subject.plan, timing), provenance))
