"""One evaluation: compile, L0, L1, time, counters. The first failure ends it with a verdict.

Several evaluations are under way at once, so that compiling, drawing and comparing on the CPU's cores overlap with what
the device does for others; each use of the device (a run, a timing, a count) waits for its turn.
"""

import asyncio
import os
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace

import structlog

from optiml.errors import Error, InvalidArgumentError
from optiml.identity import evaluation_id, kernel_id, problem_id
from optiml.settings import settings
from optiml.v1 import evaluation_pb2, kernel_pb2, problem_pb2, profiler_service_pb2, verdict_pb2
from services.profiler.baseline import Baselines, ReferenceFailedError
from services.profiler.cases import Cases
from services.profiler.checks import Budget, Candidate, check_again, level_0, level_1
from services.profiler.compile import compile_kernel, toolchain_text
from services.profiler.derived import resources_at
from services.profiler.executor import Executor, Program, Subject
from services.profiler.failure import CandidateError
from services.profiler.inputs import Case, scalars
from services.profiler.measure import TIME_SEED, comparison, count, subject_at, time_together
from services.profiler.oracle.constants import refuse_constant_outputs
from services.profiler.plan import make_plan
from services.profiler.reference import References
from services.profiler.source_rules import SourceRules

__all__ = ["Pipeline"]

_log = structlog.get_logger(__name__)

_UNDER_WAY = 4  # for each call that the device works on: while one is timed, others compile, draw and compare
_MOST_KEPT = 1024
_MOST_FINDINGS = 32
_REPEATABLE = frozenset({verdict_pb2.VERDICT_INTERNAL, verdict_pb2.VERDICT_TIMED_OUT})  # never answered from memory


@dataclass(slots=True)
class _Work:
    """What one evaluation has found so far."""

    problem: problem_pb2.Problem
    kernel: kernel_pb2.Kernel
    against: Sequence[kernel_pb2.Kernel]
    evaluation: evaluation_pb2.Evaluation
    known: bool
    program: Program | None = None
    others: list[Program] = field(default_factory=list)
    comparisons: list[evaluation_pb2.Comparison] = field(default_factory=list)


@contextmanager
def _timed(work: _Work, stage: str) -> Iterator[None]:
    started = time.perf_counter()
    try:
        yield
    finally:
        if not work.known:  # what is known stays as it was
            work.evaluation.stage_seconds[stage] += time.perf_counter() - started


def _identified(request: profiler_service_pb2.EvaluateRequest) -> tuple[problem_pb2.Problem, kernel_pb2.Kernel]:
    """Return problem and kernel with ids that were computed here."""
    problem, kernel = problem_pb2.Problem(), kernel_pb2.Kernel()
    problem.CopyFrom(request.problem)
    kernel.CopyFrom(request.kernel)
    problem.id, kernel.id = problem_id(problem), kernel_id(kernel)
    return problem, kernel


class Pipeline:
    """Evaluates kernels on one executor.

    Args:
        executor: runs, times and counts.
        rules: judges sources.
        references: gives expected outputs.
        checker: another executor whose memory and race checker is asked on the smoke sizes too, if it can run the
            candidate: the CPU's, for a GPU.
    """

    def __init__(
        self, executor: Executor, rules: SourceRules, references: References, checker: Executor | None = None
    ) -> None:
        self.executor = executor
        self._rules, self._references, self._checker = rules, references, checker
        self._cases = Cases(references, Baselines(executor).outputs)
        self._turn = asyncio.Semaphore(executor.at_once)
        self._under_way = asyncio.Semaphore(_UNDER_WAY * executor.at_once)
        self._compiling = asyncio.Semaphore(max(2, len(os.sched_getaffinity(0)) - 2))
        self._known: OrderedDict[str, evaluation_pb2.Evaluation] = OrderedDict()

    async def stop(self) -> None:
        """End the workers of the executor and of the checker."""
        await self.executor.stop()
        if self._checker is not None:
            await self._checker.stop()

    def _begin(self, request: profiler_service_pb2.EvaluateRequest) -> _Work:
        problem, kernel = _identified(request)
        device, toolchain = self.executor.device, toolchain_text(self.executor.device.architecture)
        evaluation = evaluation_pb2.Evaluation(
            id=evaluation_id(problem.id, kernel.id, device, toolchain),
            problem_id=problem.id,
            kernel_id=kernel.id,
            device=device,
            toolchain=toolchain,
            worker=self.executor.name,
        )
        known = request.known if request.HasField("known") else self._known.get(evaluation.id)
        if known is not None:
            if (known.problem_id, known.kernel_id) != (problem.id, kernel.id):
                raise InvalidArgumentError("known: it is an evaluation of another kernel or problem")
            evaluation.CopyFrom(known)
        return _Work(problem, kernel, request.against, evaluation, known is not None)

    async def evaluate(
        self, request: profiler_service_pb2.EvaluateRequest
    ) -> AsyncGenerator[profiler_service_pb2.EvaluateResponse, None]:
        """Evaluate a checked request: yields stages as they begin, then the result.

        Raises:
            Error: the request, the problem's reference or this machine is at fault; nothing was found out.
        """
        work = self._begin(request)
        evaluation = work.evaluation
        if not work.known:
            evaluation.queued_at.GetCurrentTime()
        try:
            async for stage in self._stages(work):
                yield profiler_service_pb2.EvaluateResponse(stage=stage)
            if not work.known:
                evaluation.verdict = verdict_pb2.VERDICT_OK
        except CandidateError as error:
            if work.known:
                raise InvalidArgumentError(f"known: this kernel fails here: {error.reason}") from error
            _record(error, evaluation)
        except ReferenceFailedError as error:
            if work.kernel.id != kernel_id(work.problem.reference.kernel):
                raise InvalidArgumentError(str(error)) from error
            _record(error.failure, evaluation)
        except Error:
            raise
        except Exception as error:  # noqa: BLE001 - a bug of ours must not look like one of the candidate's
            _log.exception("evaluation failed", kernel=evaluation.kernel_id)
            evaluation.verdict = verdict_pb2.VERDICT_INTERNAL
            evaluation.reason = f"the profiler failed ({type(error).__name__}); its log has the details"
        if not work.known:
            evaluation.finished_at.GetCurrentTime()
            self._remember(evaluation)
        result = profiler_service_pb2.EvaluationResult(evaluation=evaluation, comparisons=work.comparisons)
        yield profiler_service_pb2.EvaluateResponse(result=result)

    def _remember(self, evaluation: evaluation_pb2.Evaluation) -> None:
        if evaluation.verdict not in _REPEATABLE:
            self._known[evaluation.id] = evaluation
            if len(self._known) > _MOST_KEPT:
                self._known.popitem(last=False)

    async def _stages(self, work: _Work) -> AsyncIterator[str]:
        yield "queued"
        if work.known and (not work.against or work.evaluation.verdict != verdict_pb2.VERDICT_OK):
            return
        async with self._compiling:
            yield "compile"
            if not work.known:
                work.evaluation.started_at.GetCurrentTime()
            with _timed(work, "compile"):
                await self._compile(work)
        async with self._under_way, self._second_opinion(work) as opinion:
            if not work.known:
                async for stage in self._checked(work):
                    yield stage
                await opinion
            yield "time"
            with _timed(work, "time"):
                await self._time(work)
            if not work.known:
                yield "counters"
                with _timed(work, "counters"):
                    await self._count(work)

    async def _program(self, problem: problem_pb2.Problem, kernel: kernel_pb2.Kernel) -> Program:
        if reason := await self._rules.rejection(kernel.source):
            raise CandidateError(verdict_pb2.VERDICT_REJECTED_SOURCE, reason)
        compiled = await compile_kernel(kernel.source, kernel.launches, self.executor.device.architecture)
        for size in (*problem.smoke, *problem.time):  # a plan that cannot be made needs no worker
            make_plan(
                problem, kernel, compiled, self.executor.model, dict(size.parameters),
                scalars(problem, Case.of(size, TIME_SEED)),
            )  # fmt: skip
        return await self.executor.prepare(compiled)

    async def _compile(self, work: _Work) -> None:
        if not work.known:
            await self._references.start()
        work.program = await self._program(work.problem, work.kernel)
        for i, kernel in enumerate(work.against):
            try:
                work.others.append(await self._program(work.problem, kernel))
            except CandidateError as error:
                raise InvalidArgumentError(f"against[{i}]: {error.reason}") from error
        if not work.known:
            work.evaluation.log = work.program.compiled.log
            subject = self._subject(work, work.kernel, work.program, work.problem.time[0])
            work.evaluation.resources.extend(resources_at(work.program.compiled, subject.plan, self.executor.model))

    async def compiled(self, problem: problem_pb2.Problem, kernel: kernel_pb2.Kernel) -> Candidate:
        """Compile a kernel and make it ready for its checks.

        Raises:
            CandidateError: it is no acceptable candidate, or does not compile.
        """
        async with self._compiling:
            await self._references.start()
            return self._ready(problem, kernel, await self._program(problem, kernel))

    def _ready(self, problem: problem_pb2.Problem, kernel: kernel_pb2.Kernel, program: Program) -> Candidate:
        budget = Budget(settings().check_seconds)
        return Candidate(problem, kernel, program, self.executor, self._cases, self._turn, budget)

    def _candidate(self, work: _Work) -> Candidate:
        assert work.program is not None
        return self._ready(work.problem, work.kernel, work.program)

    async def _checked(self, work: _Work) -> AsyncIterator[str]:
        candidate = self._candidate(work)
        await refuse_constant_outputs(work.problem, self._cases)
        for stage, level in (("L0", level_0), ("L1", level_1)):
            yield stage
            with _timed(work, stage):
                await level(candidate, work.evaluation.checks.append)

    @asynccontextmanager
    async def _second_opinion(self, work: _Work) -> AsyncIterator[Awaitable[None]]:
        """Let the checker look for races and stray accesses meanwhile; awaiting it raises what it found."""
        task = asyncio.create_task(self._ask_checker(work))
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _ask_checker(self, work: _Work) -> None:
        """Ask another executor; that it cannot run the candidate says nothing."""
        if self._checker is None or work.known:
            return
        candidate, turn = self._candidate(work), asyncio.Semaphore(self._checker.at_once)
        started = time.perf_counter()
        try:
            program = await self._checker.prepare(candidate.program.compiled)
            await level_0(replace(candidate, program=program, executor=self._checker, turn=turn), _forget)
        except CandidateError as error:
            if error.findings:
                raise
            _log.info("checker passed over", reason=error.reason)
        work.evaluation.stage_seconds["checker"] = time.perf_counter() - started

    def _subject(self, work: _Work, kernel: kernel_pb2.Kernel, program: Program, size: problem_pb2.Size) -> Subject:
        return subject_at(work.problem, kernel, program, size, self.executor.model)

    async def _time(self, work: _Work) -> None:
        assert work.program is not None
        measured = []
        for size in work.problem.time:
            subject = self._subject(work, work.kernel, work.program, size)
            others = [
                self._subject(work, kernel, program, size)
                for kernel, program in zip(work.against, work.others, strict=True)
            ]
            measured.append(await time_together(self.executor, self._turn, subject, others, settings().check_seconds))
        if not work.known:
            work.evaluation.timings.extend(one.timing for one in measured)
        work.comparisons = [
            comparison(kernel_id(kernel), [one.speedups[i] for one in measured], measured[0].timing.provenance)
            for i, kernel in enumerate(work.against)
        ]

    async def _count(self, work: _Work) -> None:
        assert work.program is not None
        subject = self._subject(work, work.kernel, work.program, work.problem.time[0])
        await count(self.executor, self._turn, subject, work.evaluation, settings().check_seconds)
        if work.evaluation.timings[0].provenance == verdict_pb2.PROVENANCE_MEASURED:
            await check_again(self._candidate(work), work.evaluation.checks.append)


def _record(error: CandidateError, evaluation: evaluation_pb2.Evaluation) -> None:
    """Write down how a candidate failed."""
    evaluation.verdict, evaluation.reason = error.verdict, error.reason
    evaluation.log = error.log or evaluation.log
    evaluation.findings.extend(error.findings[:_MOST_FINDINGS])


def _forget(check: evaluation_pb2.Check) -> None:
    """Record nothing: what another executor compared is not this device's check."""
    del check
