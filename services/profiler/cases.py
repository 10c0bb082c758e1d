"""The cases that a problem is checked on, ready to run: inputs, expected outputs, and what to forgive.

A case is drawn and its expected outputs are found once, however many candidates ask, also when they ask at once.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from optiml.v1 import problem_pb2
from services.profiler.inputs import Case, Inputs, draw
from services.profiler.reference import Expected, KernelRun, References

__all__ = ["Cases", "Given"]

_ILL_CONDITIONED = 0.05  # a case whose expected values move by more than this part of their scale checks nothing
_MOST_KEPT_BYTES = 2 << 30


@dataclass(frozen=True, slots=True)
class Given:
    """One case, ready to run."""

    case: Case
    inputs: Inputs
    expected: Expected
    sensitivity: Mapping[str, float]
    """By output: how far it moves when inputs move within their own rounding; absolute."""

    @property
    def size_bytes(self) -> int:
        """Of all arrays."""
        arrays = [*self.inputs.buffers.values(), *self.expected.values()]
        return sum(array.nbytes for array in arrays)


class Cases:
    """Draws cases and finds what they must give.

    Args:
        references: gives expected outputs.
        baseline: how to run a reference kernel, for problems whose reference is one.
    """

    def __init__(self, references: References, baseline: KernelRun) -> None:
        self._references, self._baseline = references, baseline
        self._made: OrderedDict[tuple[str, Case], asyncio.Task[Given | None]] = OrderedDict()
        self._sizes: dict[tuple[str, Case], int] = {}
        """Bytes of those that are done."""

    async def given(self, problem: problem_pb2.Problem, case: Case) -> Given | None:
        """Return a case; None where an adversarial one says nothing about a candidate. Arrays are not to be changed.

        Args:
            problem: with its id set.
            case: which.

        Raises:
            InvalidArgumentError: the problem's reference fails.
            ReferenceFailedError: the reference kernel does.
        """
        key = (problem.id, case)
        task = self._made.get(key)
        if task is None:
            task = self._made[key] = asyncio.create_task(self._make(problem, case))
            task.add_done_callback(lambda done: self._settle(key, done))
        self._made.move_to_end(key)
        return await asyncio.shield(task)  # whoever gives up waiting leaves it to the others

    def _settle(self, key: tuple[str, Case], done: "asyncio.Task[Given | None]") -> None:
        """Keep what was made, not what failed; over the limit, drop what was longest not asked for."""
        if done.cancelled() or done.exception() is not None:
            del self._made[key]
            return
        self._sizes[key] = given.size_bytes if (given := done.result()) else 0
        while sum(self._sizes.values()) > _MOST_KEPT_BYTES and len(self._sizes) > 1:
            oldest = next(key for key in self._made if key in self._sizes)
            del self._made[oldest], self._sizes[oldest]

    async def _make(self, problem: problem_pb2.Problem, case: Case) -> Given | None:
        inputs = await asyncio.to_thread(draw, problem, case)
        expected = await self._references.expected(problem, case, inputs, self._baseline)
        if case.inputs == "drawn":
            return Given(case, inputs, expected, {})
        if not all(np.all(np.isfinite(values)) for values in expected.values() if values.dtype.kind == "f"):
            return None
        sensitivity = await self._references.sensitivity(problem, case, expected, self._baseline)
        for name, moved in sensitivity.items():
            scale = float(np.max(np.abs(expected[name].astype(np.float64)), initial=0.0))
            if moved > _ILL_CONDITIONED * scale:
                return None
        return Given(case, inputs, expected, sensitivity)
