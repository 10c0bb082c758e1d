"""CheckProblem: the kernel must pass its problem's check; trivial outputs and broken kernels must not."""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, replace

from optiml.errors import InvalidArgumentError
from optiml.identity import kernel_id, problem_id
from optiml.v1 import evaluation_pb2, profiler_service_pb2, verdict_pb2
from services.profiler.baseline import ReferenceFailedError
from services.profiler.checks import Budget, Candidate, level_0, level_1
from services.profiler.compile import toolchain_text
from services.profiler.evaluate import Pipeline
from services.profiler.failure import CandidateError
from services.profiler.oracle.batch import guilty, in_one_unit, renamed, standing_alone
from services.profiler.oracle.breaking import Broken, broken_versions
from services.profiler.oracle.constants import refuse_constant_outputs
from services.profiler.oracle.survivors import Survivor, examine
from services.profiler.oracle.trivial import trivial_outputs

__all__ = ["check_problem"]

Response = profiler_service_pb2.CheckProblemResponse
Mutant = profiler_service_pb2.Mutant

_SECONDS = 20.0
_SURVIVORS_SECONDS = 6.0  # on top: to tell why they survived
_CHECK_SECONDS = 6.0  # of one broken kernel: a loop without end is one of the faults
_BATCH = 16
_SAYS_NOTHING = {verdict_pb2.VERDICT_INTERNAL, verdict_pb2.VERDICT_NOT_CHECKABLE_HERE}


@dataclass(frozen=True, slots=True)
class _Ready:
    """A broken version that compiled."""

    told: Mutant
    candidate: Candidate


async def check_problem(
    pipeline: Pipeline, request: profiler_service_pb2.CheckProblemRequest
) -> AsyncGenerator[Response, None]:
    """Check a well-formed request's problem: yields stages as they begin, then the result.

    Raises:
        Error: a constant passes, the reference fails, or this machine lacks something.
    """
    problem, kernel = request.problem, request.kernel
    problem.id, kernel.id = problem_id(problem), kernel_id(kernel)
    result = profiler_service_pb2.ProblemCheck(
        problem_id=problem.id,
        kernel_id=kernel.id,
        device=pipeline.executor.device,
        toolchain=toolchain_text(pipeline.executor.device.architecture),
        verdict=verdict_pb2.VERDICT_OK,
    )
    yield Response(stage="baseline")
    try:
        whole = await pipeline.compiled(problem, kernel)
        await refuse_constant_outputs(problem, whole.cases)
        error_ratio = await _checks(whole)
    except (CandidateError, ReferenceFailedError) as error:
        _record(error, result, own=kernel.id == kernel_id(problem.reference.kernel))
        yield Response(result=result)
        return
    yield Response(stage="trivial outputs")
    result.trivial_outputs.extend(await trivial_outputs(problem, whole.cases))
    yield Response(stage="mutants")
    deadline = time.monotonic() + (request.seconds or _SECONDS)
    versions = await broken_versions(kernel)
    survivors: list[Survivor] = []
    batches = [versions[first : first + _BATCH] for first in range(0, len(versions), _BATCH)]
    following = asyncio.create_task(_prepared(pipeline, whole, batches[0])) if batches else None
    try:
        for number, batch in enumerate(batches):
            assert following is not None
            ready = await following
            more = number + 1 < len(batches) and time.monotonic() < deadline
            following = asyncio.create_task(_prepared(pipeline, whole, batches[number + 1])) if more else None
            yield Response(stage=f"mutants {number * _BATCH + len(batch)} of {len(versions)}")
            for one in ready:
                survivors += await _tried(one, deadline)
            if not more:
                break
    finally:
        if following is not None:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
    for version in versions:
        if version.told.fate == profiler_service_pb2.MUTANT_FATE_UNSPECIFIED:
            _not_run(version.told, "the time was over")
    yield Response(stage="survivors")
    await examine(whole, error_ratio, survivors, time.monotonic() + _SURVIVORS_SECONDS)
    result.mutants.extend(version.told for version in versions)
    yield Response(result=result)


def _record(
    error: CandidateError | ReferenceFailedError, result: profiler_service_pb2.ProblemCheck, *, own: bool
) -> None:
    """Write down how the kernel failed; a reference that is another kernel is the problem's fault."""
    if isinstance(error, ReferenceFailedError):
        if not own:
            raise InvalidArgumentError(str(error)) from error
        error = error.failure
    result.verdict, result.reason, result.log = error.verdict, error.reason, error.log


async def _checks(candidate: Candidate) -> float:
    """Run all checks; return the largest error over what is tolerated.

    Raises:
        CandidateError: the first failure.
    """
    found: list[evaluation_pb2.Check] = []
    for level in (level_0, level_1):
        await level(candidate, found.append)
    return max((check.max_error_over_tolerance for check in found), default=0.0)


async def _tried(one: _Ready, deadline: float) -> list[Survivor]:
    """Run the checks on a broken version; return it if it survives them."""
    if time.monotonic() > deadline:
        _not_run(one.told, "the time was over")
        return []
    try:
        ratio = await _checks(one.candidate)
    except CandidateError as error:
        if error.verdict in _SAYS_NOTHING:
            _not_run(one.told, error.reason)
        else:
            one.told.fate = profiler_service_pb2.MUTANT_FATE_KILLED
            one.told.verdict, one.told.reason = error.verdict, error.reason
        return []
    one.told.fate, one.told.verdict = profiler_service_pb2.MUTANT_FATE_SURVIVED, verdict_pb2.VERDICT_OK
    return [Survivor(one.told, one.candidate, ratio)]


def _not_run(told: Mutant, reason: str) -> None:
    told.fate, told.reason = profiler_service_pb2.MUTANT_FATE_NOT_RUN, reason


async def _prepared(pipeline: Pipeline, whole: Candidate, batch: Sequence[Broken]) -> list[_Ready]:
    """Compile a batch in one run; versions that the compiler names in its errors are left out, and it is run again.

    A batch that fails otherwise is compiled one by one.
    """
    left = list(batch)
    while left:
        unit = in_one_unit([version.kernel.source for version in left])
        inside = [renamed(version.kernel, number, unit) for number, version in enumerate(left)]
        together = renamed(left[0].kernel, 0, unit)
        del together.launches[:]
        together.launches.extend(launch for kernel in inside for launch in kernel.launches)
        try:
            program = (await pipeline.compiled(whole.problem, together)).program
        except CandidateError as error:
            wrong = guilty(unit, error.log)
            if not wrong:
                return [one for version in left for one in await _alone(pipeline, whole, version)]
            for number in wrong:
                _not_run(left[number].told, "it does not compile")
            left = [version for number, version in enumerate(left) if number not in wrong]
            continue
        return [
            _Ready(version.told, replace(whole, kernel=kernel, program=program, budget=Budget(_CHECK_SECONDS)))
            for version, kernel in zip(left, inside, strict=True)
        ]
    return []


async def _alone(pipeline: Pipeline, whole: Candidate, version: Broken) -> list[_Ready]:
    version.kernel.source = standing_alone(version.kernel.source)
    try:
        candidate = await pipeline.compiled(whole.problem, version.kernel)
    except CandidateError as error:
        _not_run(version.told, error.reason)
        return []
    return [_Ready(version.told, replace(candidate, budget=Budget(_CHECK_SECONDS)))]
