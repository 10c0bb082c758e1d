"""L0 and L1: is the candidate correct? The first check that fails ends the evaluation with its verdict.

L0, on the smoke sizes: it launches and finishes, touches only its own memory, has no races (checker on), writes every
element of every output, leaves the inputs alone, and is within tolerance; twice, with different poison in the outputs.

L1, on the check sizes: several seeds, adversarial inputs, a second run on the same inputs with the blocks in another
order. Expected values never enter the process that runs the candidate.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from optiml.v1 import evaluation_pb2, kernel_pb2, problem_pb2, verdict_pb2
from services.profiler.cases import Cases, Given
from services.profiler.compare import POISON, SECOND_POISON, Difference, compare
from services.profiler.executor import Executor, Program, Ran
from services.profiler.failure import CandidateError
from services.profiler.inputs import Case, case_text, extents
from services.profiler.plan import make_plan
from services.profiler.reference import output_arguments
from services.profiler.storage import kind_of
from services.profiler.tolerance import Allowed, allowed, reduction_length

__all__ = [
    "ADVERSARIAL",
    "SEEDS",
    "Budget",
    "Candidate",
    "allowed_error",
    "check_again",
    "check_cases",
    "checked",
    "level_0",
    "level_1",
    "reject_findings",
]

SEEDS = (1, 2)
"""That inputs are drawn from at the check sizes."""
ADVERSARIAL = ("zeros", "large", "tiny")
"""What the float inputs are scaled to, at the first smoke size."""
_FRESH_SEED = 3
_SHARE_OF_ONE_RUN = 1 / 3  # of the time for all checks

_VERDICT_OF_FINDING = {
    "race": verdict_pb2.VERDICT_RACE,
    "divergent-barrier": verdict_pb2.VERDICT_RACE,
    "deadlock": verdict_pb2.VERDICT_RACE,
    "out-of-bounds": verdict_pb2.VERDICT_MEMORY_FAULT,
    "misaligned": verdict_pb2.VERDICT_MEMORY_FAULT,
    "uninitialised": verdict_pb2.VERDICT_MEMORY_FAULT,
    "trap": verdict_pb2.VERDICT_WRONG_RESULT,
}


Record: TypeAlias = Callable[[evaluation_pb2.Check], None]
"""Where each check that ran is put down."""


class Budget:
    """Seconds that the runs of one candidate's checks may take together; waiting for others is not counted."""

    def __init__(self, seconds: float) -> None:
        self._left, self._most = seconds, seconds * _SHARE_OF_ONE_RUN

    @contextmanager
    def spending(self) -> Iterator[float]:
        """Count the time inside; yields the limit of this run, seconds.

        Raises:
            CandidateError: TIMED_OUT: nothing is left.
        """
        if self._left <= 0:
            raise CandidateError(verdict_pb2.VERDICT_TIMED_OUT, "the checks did not finish within their time")
        started = time.monotonic()
        try:
            yield min(self._left, self._most)
        finally:
            self._left -= time.monotonic() - started


@dataclass(frozen=True, slots=True)
class Candidate:
    """What is checked, and what it takes to check it."""

    problem: problem_pb2.Problem
    kernel: kernel_pb2.Kernel
    program: Program
    executor: Executor
    cases: Cases
    turn: asyncio.Semaphore
    """Held while the executor works: others use it in between."""
    budget: Budget


def reject_findings(problem: problem_pb2.Problem, ran: Ran, case: Case) -> None:
    """Raise the verdict of the first finding of a run, if there is one."""
    if ran.findings:
        first = ran.findings[0]
        line = f" (line {first.line})" if first.line else ""
        reason = f"{first.kind} in {first.kernel}{line}: {first.message} ({case_text(problem, case)})"
        verdict = _VERDICT_OF_FINDING.get(first.kind, verdict_pb2.VERDICT_MEMORY_FAULT)
        raise CandidateError(verdict, reason, findings=ran.findings)


def _changed_input(problem: problem_pb2.Problem, ran: Ran, given: Given) -> str:
    """Return which input the candidate changed, empty if none."""
    for argument in problem.arguments:
        if argument.role != problem_pb2.ROLE_IN:
            continue
        before = np.ascontiguousarray(given.inputs.buffers[argument.name])
        after = np.frombuffer(ran.buffers[argument.name], before.dtype).reshape(before.shape)
        if before.tobytes() != ran.buffers[argument.name]:
            index = np.unravel_index(int(np.argmax(before != after)), before.shape)
            where = ", ".join(str(int(i)) for i in index)
            return f"the input {argument.name}[{where}] was changed from {before[index]!s} to {after[index]!s}"
    return ""


def allowed_error(problem: problem_pb2.Problem, argument: problem_pb2.Argument, given: Given) -> Allowed:
    """Return the allowed error of one output in one case."""
    expected = given.expected[argument.name]
    length = reduction_length([array.size for array in given.inputs.buffers.values()], expected.size)
    forgiven = given.sensitivity.get(argument.name, 0.0)
    return allowed(problem.tolerance, kind_of(argument.data_type), expected, length, forgiven)


def _differences(problem: problem_pb2.Problem, ran: Ran, given: Given, poison: int) -> Iterator[Difference]:
    for argument in output_arguments(problem):
        kind = kind_of(argument.data_type)
        shape = extents(argument, given.case.size)
        stored = np.frombuffer(ran.buffers[argument.name], kind.storage).reshape(shape)
        yield compare(
            argument.name,
            stored,
            given.expected[argument.name],
            kind,
            allowed_error(problem, argument, given),
            poison=poison if argument.role == problem_pb2.ROLE_OUT else None,
            may_be_unwritten=argument.may_be_unwritten,
        )


def _judged(candidate: Candidate, ran: Ran, given: Given, level: str, poison: int) -> evaluation_pb2.Check:
    """Compare all outputs and inputs of one run."""
    check = evaluation_pb2.Check(
        level=level,
        size=problem_pb2.Size(parameters=given.case.size),
        seed=given.case.seed,
        inputs=given.case.inputs,
        passed=True,
    )
    changed = _changed_input(candidate.problem, ran, given)
    if changed:
        check.passed, check.reason = False, changed
    for difference in _differences(candidate.problem, ran, given, poison):
        check.max_absolute_error = max(check.max_absolute_error, difference.max_absolute)
        check.max_error_over_tolerance = max(check.max_error_over_tolerance, difference.max_over_allowed)
        if difference.reason and check.passed:
            check.passed, check.reason = False, difference.reason
    if not check.passed:
        check.reason = f"{check.reason} ({case_text(candidate.problem, given.case)})"
    return check


async def _run(candidate: Candidate, given: Given, *, poison: int, check: bool, order: str) -> Ran:
    plan = make_plan(
        candidate.problem,
        candidate.kernel,
        candidate.program.compiled,
        candidate.executor.model,
        given.case.size,
        given.inputs.scalars,
    )
    async with candidate.turn:
        with candidate.budget.spending() as seconds:
            ran = await candidate.executor.run(
                candidate.program, plan, given.inputs.buffers, poison=poison, check=check, order=order, seconds=seconds
            )
    reject_findings(candidate.problem, ran, given.case)
    return ran


def _settle(check: evaluation_pb2.Check, verdict: verdict_pb2.Verdict.ValueType) -> None:
    if not check.passed:
        raise CandidateError(verdict, check.reason)


async def level_0(candidate: Candidate, record: Record) -> None:
    """Check all smoke sizes; each check that ran is recorded.

    Raises:
        CandidateError: the first failure.
        InvalidArgumentError: the problem's reference fails.
    """
    order = candidate.executor.orders[0]
    for size in candidate.problem.smoke:
        given = await candidate.cases.given(candidate.problem, Case.of(size, seed=1))
        assert given is not None  # drawn inputs are never passed over
        ran = await _run(candidate, given, poison=POISON, check=True, order=order)
        check = await asyncio.to_thread(_judged, candidate, ran, given, "L0", POISON)
        if check.passed:
            again = await _run(candidate, given, poison=SECOND_POISON, check=False, order=order)
            second = await asyncio.to_thread(_judged, candidate, again, given, "L0", SECOND_POISON)
            check = second if not second.passed else check
        record(check)
        _settle(check, verdict_pb2.VERDICT_WRONG_RESULT)


def check_cases(problem: problem_pb2.Problem) -> Iterator[Case]:
    """Yield every case that L0 and L1 ask for."""
    for size in problem.smoke:
        yield Case.of(size, SEEDS[0])
    yield from _cases(problem)


def _cases(problem: problem_pb2.Problem) -> Iterator[Case]:
    for size in problem.check:
        for seed in SEEDS:
            yield Case.of(size, seed)
    for inputs in ADVERSARIAL:
        yield Case.of(problem.smoke[0], 1, inputs)


async def checked(candidate: Candidate, given: Given, *, order: str = "") -> evaluation_pb2.Check:
    """Run one case and compare; the checker is off.

    Raises:
        CandidateError: it does not run, or touches what it must not.
    """
    ran = await _run(candidate, given, poison=POISON, check=False, order=order or candidate.executor.orders[0])
    return await asyncio.to_thread(_judged, candidate, ran, given, "L1", POISON)


async def _repeated(candidate: Candidate, given: Given) -> evaluation_pb2.Check:
    """Run the same inputs again, blocks in another order where the executor can: the result must stay."""
    check = await checked(candidate, given, order=candidate.executor.orders[-1])
    check.inputs = "repeat"
    if not check.passed:
        check.reason = f"a second run on the same inputs disagrees: {check.reason}"
    return check


async def level_1(candidate: Candidate, record: Record) -> None:
    """Check all check sizes with several seeds and a repetition, then adversarial inputs on the first smoke size.

    Raises:
        CandidateError: the first failure.
        InvalidArgumentError: the problem's reference fails.
    """
    repeated = False
    for case in _cases(candidate.problem):
        given = await candidate.cases.given(candidate.problem, case)
        if given is None:
            continue
        check = await checked(candidate, given)
        record(check)
        _settle(check, verdict_pb2.VERDICT_WRONG_RESULT)
        if not repeated:
            repeated = True
            again = await _repeated(candidate, given)
            record(again)
            _settle(again, verdict_pb2.VERDICT_UNSTABLE)


async def check_again(candidate: Candidate, record: Record) -> None:
    """Check once more on inputs that were never used before: for after the timing, when nothing may have changed.

    Raises:
        CandidateError: UNSTABLE: it was right before and is wrong now.
    """
    case = Case.of((candidate.problem.check or candidate.problem.smoke)[0], _FRESH_SEED)
    given = await candidate.cases.given(candidate.problem, case)
    assert given is not None  # drawn inputs are never passed over
    check = await checked(candidate, given)
    record(check)
    _settle(check, verdict_pb2.VERDICT_UNSTABLE)
