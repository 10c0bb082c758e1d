"""Expected outputs, from NumPy statements in a sandboxed process or from the input kernel itself.

They are computed once for each (problem, size, seed, inputs) and kept in memory, least recently used out first.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import numpy as np

from optiml.errors import InvalidArgumentError
from optiml.sandboxing import sandbox
from optiml.sandboxing.frames import Frame
from optiml.sandboxing.worker_process import WorkerDiedError, WorkerProcess, WorkerTimeoutError, python_step
from optiml.settings import settings
from optiml.v1 import problem_pb2
from services.profiler.inputs import Case, Inputs, draw, extents
from services.profiler.storage import Array, from_float64, kind_of, to_wide

__all__ = ["Expected", "KernelRun", "References", "numpy_outputs", "output_arguments"]

Expected: TypeAlias = dict[str, Array]
"""Outputs by name: float64 or integer arrays, shaped."""

KernelRun: TypeAlias = Callable[[problem_pb2.Problem, Case, Inputs], Awaitable[Expected]]
"""Runs the problem's reference kernel on drawn inputs: what a reference that is a kernel needs of an executor."""

_MOST_CACHED_BYTES = 512 << 20
_MOST_OUTPUT_BYTES = 8 << 30
_LIFETIME_CPU_SECONDS = 1_000_000  # of a process that serves many calls, each with its own limit


def output_arguments(problem: problem_pb2.Problem) -> list[problem_pb2.Argument]:
    """Return the arguments that are checked: OUT and INOUT."""
    return [a for a in problem.arguments if a.role in {problem_pb2.ROLE_OUT, problem_pb2.ROLE_INOUT}]


def _wide_type(argument: problem_pb2.Argument) -> str:
    kind = kind_of(argument.data_type)
    return "float64" if kind.is_float else str(kind.storage)


def reference_process() -> WorkerProcess:
    """Return the process in which NumPy statements run; it starts when first used."""
    limits = sandbox.Limits(seconds=0, cpu_seconds=_LIFETIME_CPU_SECONDS, address_space_bytes=24 << 30)
    # One thread: the machine's cores belong to whoever measures.
    environment = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    return WorkerProcess(python_step("services.profiler.reference_child"), limits, environment=environment)


async def numpy_outputs(process: WorkerProcess, problem: problem_pb2.Problem, case: Case, inputs: Inputs) -> Expected:
    """Run the problem's NumPy statements on these inputs, floats widened to float64.

    Raises:
        InvalidArgumentError: they fail, run too long, or give an output of the wrong shape.
    """
    kinds = {argument.name: kind_of(argument.data_type) for argument in problem.arguments}
    arrays = {name: np.ascontiguousarray(to_wide(stored, kinds[name])) for name, stored in inputs.buffers.items()}
    outputs = [(a.name, extents(a, case.size), _wide_type(a)) for a in output_arguments(problem)]
    header = {
        "statements": problem.reference.numpy,
        "numbers": {**case.size, **inputs.scalars},
        "arrays": [{"name": name, "shape": list(a.shape), "dtype": str(a.dtype)} for name, a in arrays.items()],
        "outputs": [{"name": name, "shape": shape, "dtype": dtype} for name, shape, dtype in outputs],
    }
    seconds = settings().check_seconds
    try:
        frame = Frame(header, [a.tobytes() for a in arrays.values()])
        answer = await process.call(frame, seconds, _MOST_OUTPUT_BYTES)
    except WorkerTimeoutError as error:
        raise InvalidArgumentError(f"problem.reference.numpy: takes longer than {seconds:g} s") from error
    except WorkerDiedError as error:
        raise InvalidArgumentError(f"problem.reference.numpy: its process ended with status {error.status}") from error
    if answer.header.get("error"):
        raise InvalidArgumentError(f"problem.reference.numpy: {str(answer.header['error'])[:500]}")
    found: Expected = {}
    try:
        for (name, extent, dtype), blob in zip(outputs, answer.blobs, strict=True):
            found[name] = np.frombuffer(blob, np.dtype(dtype)).reshape(extent)
    except ValueError as error:
        raise InvalidArgumentError("problem.reference.numpy: its process answered nonsense") from error
    return found


class References:
    """Expected outputs of problems, computed when asked for and cached. Owns the process that NumPy runs in."""

    def __init__(self) -> None:
        self._process = reference_process()
        self._owner = ""  # the problem whose statements the process has seen
        self._turn = asyncio.Lock()
        self._cache: OrderedDict[tuple[str, Case], Expected] = OrderedDict()
        self._bytes = 0

    async def start(self) -> None:
        """Start the process ahead of its first use."""
        async with self._turn:
            await self._process.start()

    async def stop(self) -> None:
        """End the process."""
        await self._process.stop()

    def _remember(self, key: tuple[str, Case], expected: Expected) -> None:
        self._cache[key] = expected
        self._bytes += sum(array.nbytes for array in expected.values())
        while self._bytes > _MOST_CACHED_BYTES and len(self._cache) > 1:
            _, dropped = self._cache.popitem(last=False)
            self._bytes -= sum(array.nbytes for array in dropped.values())

    async def expected(self, problem: problem_pb2.Problem, case: Case, inputs: Inputs, run: KernelRun) -> Expected:
        """Return the expected outputs.

        Args:
            problem: with its id set.
            case: what is asked for; part of the cache's key.
            inputs: drawn for the case.
            run: how to run a kernel, for problems whose reference is one.

        Raises:
            InvalidArgumentError: the reference itself fails.
        """
        key = (problem.id, case)
        if key in self._cache:
            self._cache.move_to_end(key)
            return self._cache[key]
        if problem.reference.WhichOneof("source") == "kernel":
            expected = await run(problem, case, inputs)
        else:
            expected = await self._by_numpy(problem, case, inputs)
        self._remember(key, expected)
        return expected

    async def _by_numpy(self, problem: problem_pb2.Problem, case: Case, inputs: Inputs) -> Expected:
        async with self._turn:
            if self._owner != problem.id:  # one problem's statements must not meet another's
                await self._process.stop()
                self._owner = problem.id
            return await numpy_outputs(self._process, problem, case, inputs)

    async def sensitivity(
        self, problem: problem_pb2.Problem, case: Case, expected: Expected, run: KernelRun
    ) -> dict[str, float]:
        """Return how far each output moves when every float input is rounded to its type once more, at random.

        That is what no kernel of this precision can be blamed for: with large inputs a problem may be ill-conditioned.
        """
        inputs = draw(problem, case)
        generator = np.random.Generator(np.random.PCG64(case.seed))
        for argument in problem.arguments:
            kind = kind_of(argument.data_type)
            if argument.name in inputs.buffers and kind.is_float:
                values = to_wide(inputs.buffers[argument.name], kind)
                signs = generator.integers(-1, 2, values.shape)
                moved = values * (1 + 2 * kind.unit_roundoff * signs)
                inputs.buffers[argument.name] = from_float64(moved, kind)
        nearby = Case(case.parameters, case.seed, f"near {case.inputs}")
        other = await self.expected(problem, nearby, inputs, run)
        with np.errstate(invalid="ignore"):
            return {
                name: float(np.nanmax(np.abs(values.astype(np.float64) - other[name]), initial=0.0))
                for name, values in expected.items()
            }
