"""All broken versions of a kernel: of its source, by a sandboxed process, and of its launches, here."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass

from optiml.errors import InvalidArgumentError
from optiml.sandboxing import sandbox
from optiml.sandboxing.frames import Frame
from optiml.sandboxing.worker_process import WorkerDiedError, WorkerProcess, WorkerTimeoutError, python_step
from optiml.v1 import kernel_pb2, profiler_service_pb2

__all__ = ["Broken", "broken_versions"]

_MOST_MUTANTS = 96
_MOST_BYTES = 64 << 20
_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Broken:
    """A broken version and what will be told of it."""

    kernel: kernel_pb2.Kernel
    told: profiler_service_pb2.Mutant


async def broken_versions(kernel: kernel_pb2.Kernel) -> list[Broken]:
    """Return the broken versions, those of the launches first, then one of each kind in turn.

    Raises:
        InvalidArgumentError: the C++ front end cannot read the source.
    """
    limits = sandbox.Limits(seconds=0, cpu_seconds=int(_SECONDS) + 10, address_space_bytes=4 << 30)
    async with WorkerProcess(python_step("services.profiler.oracle.child"), limits) as process:
        try:
            frame = Frame({"source": kernel.source, "most": _MOST_MUTANTS})
            answer = await process.call(frame, _SECONDS, _MOST_BYTES)
        except (WorkerTimeoutError, WorkerDiedError) as error:
            raise InvalidArgumentError(f"kernel.source: the C++ front end cannot read it: {error}") from error
    found = [*_broken_launches(kernel)]
    for described, source in zip(answer.header["mutants"], answer.blobs, strict=True):
        version = copy.deepcopy(kernel)
        version.id, version.source = "", bytes(source).decode(errors="replace")
        found.append(Broken(version, profiler_service_pb2.Mutant(**described)))
    return found


def _broken_launches(kernel: kernel_pb2.Kernel) -> Iterator[Broken]:
    for number, launch in enumerate(kernel.launches):
        for axis, extent in enumerate(launch.grid):
            if not extent.isdigit():
                changed = f"max(1, ({extent}) - 1)"
                version = copy.deepcopy(kernel)
                version.id, version.launches[number].grid[axis] = "", changed
                yield _of_launch(version, "last block of the grid dropped", f"grid {extent}", f"grid {changed}")
        for index, argument in enumerate(launch.arguments):
            if argument.HasField("scalar") and argument.scalar.data_type in _FLOATS:
                before = argument.scalar.expression
                version = copy.deepcopy(kernel)
                version.id, version.launches[number].arguments[index].scalar.expression = "", "1"
                yield _of_launch(version, "parameter replaced by one", f"argument {before}", "argument 1")


_FLOATS = {
    kernel_pb2.DATA_TYPE_F16,
    kernel_pb2.DATA_TYPE_BF16,
    kernel_pb2.DATA_TYPE_F32,
    kernel_pb2.DATA_TYPE_F64,
}


def _of_launch(version: kernel_pb2.Kernel, kind: str, before: str, after: str) -> Broken:
    return Broken(version, profiler_service_pb2.Mutant(kind=kind, before=before, after=after))
