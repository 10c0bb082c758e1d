"""A kernel's launch plan at one size: every expression a number, every name a buffer or a value.

A plan that cannot be made is a fact about the candidate (LAUNCH_FAILED or RESOURCE_EXCEEDED), found before anything
runs.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optiml.devices import DeviceModel
from optiml.expressions import ExpressionError, evaluate, evaluate_integer
from optiml.v1 import kernel_pb2, problem_pb2, verdict_pb2
from services.profiler.compile import Compiled
from services.profiler.failure import CandidateError
from services.profiler.inputs import extents
from services.profiler.storage import from_float64, kind_of

__all__ = ["Buffer", "ConcreteLaunch", "Plan", "make_plan"]

_MOST_LAUNCHES = 256
_MOST_GRID = (2**31 - 1, 65535, 65535)
_MOST_BLOCK = (1024, 1024, 64)
_MOST_SCRATCH_BYTES = 8 << 30


@dataclass(frozen=True, slots=True)
class Buffer:
    """One buffer of a run."""

    name: str
    data_type: kernel_pb2.DataType.ValueType
    elements: int
    role: str
    """"in", "out", "inout" or "scratch"."""

    @property
    def size_bytes(self) -> int:
        """Its size."""
        return self.elements * kind_of(self.data_type).storage.itemsize


@dataclass(frozen=True, slots=True)
class ConcreteLaunch:
    """One launch with numbers only."""

    kernel: str
    """As the plan names it."""
    symbol: str
    """The entry's mangled name."""
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_shared_bytes: int
    arguments: tuple[str | bytes, ...]
    """A buffer's name, or a scalar's bytes as the function takes them."""
    cooperative: bool

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.block[0] * self.block[1] * self.block[2]


@dataclass(frozen=True, slots=True)
class Plan:
    """All launches of one run, and the buffers that they share."""

    buffers: tuple[Buffer, ...]
    launches: tuple[ConcreteLaunch, ...]


def _failed(where: str, why: str) -> CandidateError:
    return CandidateError(verdict_pb2.VERDICT_LAUNCH_FAILED, f"{where}: {why}")


def _triple(
    texts: Sequence[str], values: dict[str, int | float], where: str, most: tuple[int, ...]
) -> tuple[int, int, int]:
    if not 1 <= len(texts) <= len(most):
        raise _failed(where, f"{len(texts)} extents; one to three are needed")
    found = [1, 1, 1]
    for axis, text in enumerate(texts):
        found[axis] = evaluate_integer(text, values)
        if found[axis] < 1:
            raise _failed(where, f"{text!r} is {found[axis]}; at least 1 is needed")
        if found[axis] > most[axis]:
            reason = f"{where}: {text!r} is {found[axis]}; at most {most[axis]} fit in {'xyz'[axis]}"
            raise CandidateError(verdict_pb2.VERDICT_RESOURCE_EXCEEDED, reason)
    return found[0], found[1], found[2]


def _scalar_bytes(scalar: kernel_pb2.Scalar, values: dict[str, int | float]) -> bytes:
    kind = kind_of(scalar.data_type)
    if kind.is_float:
        return from_float64(np.asarray(float(evaluate(scalar.expression, values))), kind).tobytes()
    value = evaluate_integer(scalar.expression, values)
    if kind.name == "bool":
        return struct.pack("<?", bool(value))
    limits = np.iinfo(kind.storage)
    if not limits.min <= value <= limits.max:
        raise ExpressionError(f"{scalar.expression!r} is {value}, which {kind.name} cannot hold")
    return value.to_bytes(kind.ptx_bytes, "little", signed=limits.min < 0)


def _arguments(
    launch: kernel_pb2.Launch, where: str, buffers: dict[str, Buffer], values: dict[str, int | float],
    expected: tuple[int, ...],
) -> tuple[str | bytes, ...]:  # fmt: skip
    if len(launch.arguments) != len(expected):
        raise _failed(where, f"{len(launch.arguments)} arguments, but {launch.kernel} has {len(expected)} parameters")
    found: list[str | bytes] = []
    for i, (argument, size) in enumerate(zip(launch.arguments, expected, strict=True)):
        match argument.WhichOneof("value"):
            case "buffer" if argument.buffer in buffers:
                found.append(argument.buffer)
                given = 8
            case "buffer":
                raise _failed(where, f"argument {i}: no buffer {argument.buffer[:80]!r} (known: {', '.join(buffers)})")
            case "scalar":
                try:
                    encoded = _scalar_bytes(argument.scalar, values)
                except KeyError as error:
                    raise _failed(where, f"argument {i}: the scalar's data type is not set") from error
                found.append(encoded)
                given = len(encoded)
            case _:
                raise _failed(where, f"argument {i} is neither a buffer nor a scalar")
        if given != size:
            raise _failed(where, f"argument {i} has {given} bytes, but {launch.kernel} takes {size} there")
    return tuple(found)


def _buffers(problem: problem_pb2.Problem, kernel: kernel_pb2.Kernel, size: dict[str, int]) -> dict[str, Buffer]:
    roles = {problem_pb2.ROLE_IN: "in", problem_pb2.ROLE_OUT: "out", problem_pb2.ROLE_INOUT: "inout"}
    found: dict[str, Buffer] = {}
    for argument in problem.arguments:
        if argument.role in roles:
            count = int(np.prod(extents(argument, size), dtype=object))
            found[argument.name] = Buffer(argument.name, argument.data_type, count, roles[argument.role])
    taken = {*found, *(argument.name for argument in problem.arguments), *size}
    for i, scratch in enumerate(kernel.scratch):
        where = f"scratch[{i}]"
        if not scratch.name.isidentifier() or scratch.name in taken:
            raise _failed(where, f"{scratch.name[:80]!r} is not a name of its own")
        try:
            buffer = Buffer(scratch.name, scratch.data_type, evaluate_integer(scratch.elements, dict(size)), "scratch")
            allowed = 0 < buffer.size_bytes <= _MOST_SCRATCH_BYTES
        except (ExpressionError, KeyError) as error:
            raise _failed(where, str(error)) from error
        if not allowed:
            raise CandidateError(
                verdict_pb2.VERDICT_RESOURCE_EXCEEDED, f"{where}: {buffer.elements} elements of scratch"
            )
        found[scratch.name] = buffer
        taken.add(scratch.name)
    return found


def _launch(
    launch: kernel_pb2.Launch, where: str, compiled: Compiled, device: DeviceModel,
    buffers: dict[str, Buffer], values: dict[str, int | float],
) -> ConcreteLaunch:  # fmt: skip
    entry, resources = compiled.entries[launch.kernel], compiled.resources[launch.kernel]
    shared = evaluate_integer(launch.dynamic_shared_memory_bytes or "0", values)
    found = ConcreteLaunch(
        kernel=launch.kernel,
        symbol=entry.symbol,
        grid=_triple(launch.grid, values, f"{where}.grid", _MOST_GRID),
        block=_triple(launch.block, values, f"{where}.block", _MOST_BLOCK),
        dynamic_shared_bytes=shared,
        arguments=_arguments(launch, where, buffers, values, entry.parameter_bytes),
        cooperative=launch.cooperative,
    )
    if shared < 0:
        raise _failed(where, f"dynamic shared memory of {shared} bytes")
    total = shared + resources.static_shared_memory_bytes
    limits = (
        (found.threads, device.threads_per_block, "threads a block"),
        (total, device.shared_memory_per_block_bytes, "bytes of shared memory a block"),
        (-(-found.threads // 32) * 32 * resources.registers, device.registers_per_multiprocessor, "registers a block"),
    )
    for wanted, most, what in limits:
        if wanted > most:
            reason = f"{where} ({launch.kernel}): {wanted} {what}; {device.name} has {most}"
            raise CandidateError(verdict_pb2.VERDICT_RESOURCE_EXCEEDED, reason)
    return found


def make_plan(
    problem: problem_pb2.Problem, kernel: kernel_pb2.Kernel, compiled: Compiled, device: DeviceModel,
    size: dict[str, int], scalars: dict[str, int | float],
) -> Plan:  # fmt: skip
    """Return the plan at one size.

    Args:
        problem: well formed, see `services.profiler.request`.
        kernel: the candidate.
        compiled: gives entries, parameters and resources.
        device: whose limits hold.
        size: the parameters' values.
        scalars: the scalar arguments' values.

    Raises:
        CandidateError: LAUNCH_FAILED for a plan that means nothing, RESOURCE_EXCEEDED for one that does not fit.
    """
    if len(kernel.launches) > _MOST_LAUNCHES:
        raise _failed("launches", f"{len(kernel.launches)} launches; at most {_MOST_LAUNCHES} are allowed")
    values: dict[str, int | float] = {**size, **scalars}
    buffers = _buffers(problem, kernel, size)
    launches = []
    for i, launch in enumerate(kernel.launches):
        where = f"launches[{i}]"
        try:
            launches.append(_launch(launch, where, compiled, device, buffers, values))
        except ExpressionError as error:
            raise _failed(where, str(error)) from error
    return Plan(tuple(buffers.values()), tuple(launches))
