"""The reference of a problem that names a kernel: that kernel itself, in double precision where its source allows.

The promoted text is only believed if it compiles and agrees, on the first smoke size, with the original to half of its
digits; else the original is the reference, in its own precision.
"""

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np

from optiml.settings import settings
from optiml.v1 import kernel_pb2, problem_pb2, verdict_pb2
from services.profiler.checks import reject_findings
from services.profiler.compare import POISON
from services.profiler.compile import compile_kernel
from services.profiler.executor import Executor, Program
from services.profiler.failure import CandidateError
from services.profiler.inputs import Case, Inputs, draw, extents
from services.profiler.plan import make_plan
from services.profiler.promote import promoted_kernel, promoted_problem
from services.profiler.reference import Expected, output_arguments
from services.profiler.storage import from_float64, kind_of, to_wide

__all__ = ["Baselines", "ReferenceFailedError"]

_MOST_KEPT = 64


class ReferenceFailedError(Exception):
    """The reference kernel does not compile or run. If it is the candidate too, this is the candidate's verdict."""

    def __init__(self, failure: CandidateError) -> None:
        super().__init__(f"problem.reference.kernel: it fails itself: {failure.reason}")
        self.failure = failure


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The form of the baseline that serves as reference."""

    problem: problem_pb2.Problem
    kernel: kernel_pb2.Kernel
    program: Program


class Baselines:
    """Runs reference kernels on one executor, and remembers which of them may be promoted."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._chosen: OrderedDict[str, _Chosen] = OrderedDict()

    async def outputs(self, problem: problem_pb2.Problem, case: Case, inputs: Inputs) -> Expected:
        """Return what the problem's reference kernel computes.

        Raises:
            ReferenceFailedError: it does not compile or run.
            CandidateError: NOT_CHECKABLE_HERE: this executor cannot run it.
        """
        try:
            return await self._run(await self._choose(problem), case, inputs)
        except CandidateError as error:
            if error.verdict == verdict_pb2.VERDICT_NOT_CHECKABLE_HERE:
                reason = f"the reference kernel cannot run here: {error.reason}"
                raise CandidateError(error.verdict, reason, error.log) from error
            raise ReferenceFailedError(error) from error

    async def _prepare(self, problem: problem_pb2.Problem, kernel: kernel_pb2.Kernel) -> _Chosen:
        compiled = await compile_kernel(kernel.source, kernel.launches, self._executor.device.architecture)
        return _Chosen(problem, kernel, await self._executor.prepare(compiled))

    async def _choose(self, problem: problem_pb2.Problem) -> _Chosen:
        if problem.id in self._chosen:
            self._chosen.move_to_end(problem.id)
            return self._chosen[problem.id]
        chosen = await self._prepare(problem, problem.reference.kernel)
        promoted = promoted_kernel(problem.reference.kernel)
        if promoted is not None:
            try:
                wide = await self._prepare(promoted_problem(problem), promoted)
                if await self._agree(chosen, wide):
                    chosen = wide
            except CandidateError:
                pass  # not promotable after all: its own precision it is
        self._chosen[problem.id] = chosen
        if len(self._chosen) > _MOST_KEPT:
            self._chosen.popitem(last=False)
        return chosen

    async def _agree(self, own: _Chosen, wide: _Chosen) -> bool:
        case = Case.of(own.problem.smoke[0], seed=1)
        inputs = draw(own.problem, case)
        ours, theirs = await self._run(own, case, inputs), await self._run(wide, case, inputs)
        for argument in output_arguments(own.problem):
            kind = kind_of(argument.data_type)
            if not kind.is_float:
                if not np.array_equal(ours[argument.name], theirs[argument.name]):
                    return False
                continue
            near = float(np.sqrt(kind.unit_roundoff))
            scale = float(np.nanmax(np.abs(theirs[argument.name]), initial=0.0))
            if not np.allclose(ours[argument.name], theirs[argument.name], near, near * scale, equal_nan=True):
                return False
        return True

    async def _run(self, chosen: _Chosen, case: Case, inputs: Inputs) -> Expected:
        kinds = {argument.name: kind_of(argument.data_type) for argument in chosen.problem.arguments}
        buffers = dict(inputs.buffers)
        for name, stored in inputs.buffers.items():
            if kinds[name].name == "f64" and stored.dtype != np.float64:  # promoted: only float became double
                buffers[name] = from_float64(stored, kinds[name])
        plan = make_plan(
            chosen.problem, chosen.kernel, chosen.program.compiled, self._executor.model, case.size, inputs.scalars
        )
        seconds = settings().check_seconds
        ran = await self._executor.run(
            chosen.program, plan, buffers, poison=POISON, check=False, order=self._executor.orders[0], seconds=seconds
        )
        reject_findings(chosen.problem, ran, case)
        found = {}
        for argument in output_arguments(chosen.problem):
            kind = kinds[argument.name]
            stored = np.frombuffer(ran.buffers[argument.name], kind.storage)
            found[argument.name] = to_wide(stored, kind).reshape(extents(argument, case.size))
        return found
