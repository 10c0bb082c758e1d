"""The GPU's worker: answers `hello`, `run` and `time` on standard input, one at a time, until it ends.

CUDA errors are sticky: after one the worker answers and is replaced by the service. Deadlines are the service's too: it
kills a worker that does not answer.
"""

import os
import sys
from typing import Any

import cupy

from optiml.sandboxing.frames import Bytes, Frame, read_frame, write_frame
from services.profiler.cuda import device_memory
from services.profiler.cuda.timing_run import time_subjects
from services.profiler.jobs import Job, job_of

__all__ = ["main"]

_FAULTS = (
    "illegal memory access",
    "illegal_address",
    "misaligned",
    "cudaErrorIllegalAddress",
    "cudaErrorMisalignedAddress",
    "hardware stack",
    "invalid address space",
)


def _failure(error: Exception) -> Frame:
    text = f"{type(error).__name__}: {error}".splitlines()[0][:500]
    lowered = text.lower()
    if any(fault.lower() in lowered for fault in _FAULTS):
        return Frame({"status": "memory-fault", "reason": text})
    if "out_of_memory" in lowered or "out of memory" in lowered:
        return Frame({"status": "internal", "reason": text})
    return Frame({"status": "launch-failed", "reason": text})


def _hello() -> Frame:
    properties = cupy.cuda.runtime.getDeviceProperties(0)
    driver = cupy.cuda.runtime.driverGetVersion()
    name = properties["name"]
    return Frame(
        {
            "status": "ok",
            "name": name.decode() if isinstance(name, bytes) else str(name),
            "architecture": f"sm_{properties['major']}{properties['minor']}",
            "driver": f"{driver // 1000}.{driver % 1000 // 10}",
            "l2_bytes": int(properties["l2CacheSize"]),
        }
    )


def _run(job: Job) -> Frame:
    buffers: dict[str, Any] = {}
    for described in job.buffers:
        buffers[described.name] = device_memory.allocate(described)
        device_memory.fill(buffers[described.name], described, job.poison)
    loaded = device_memory.load(str(job.file), job.launches)
    device_memory.launch_all(loaded, job.launches, buffers)
    cupy.cuda.runtime.deviceSynchronize()
    for buffer in buffers.values():
        if harm := device_memory.guards_intact(buffer):
            return Frame({"status": "memory-fault", "reason": harm})
    blobs: list[Bytes] = [
        buffers[described.name].view.get().tobytes() for described in job.buffers if described.role != "scratch"
    ]
    return Frame({"status": "ok"}, blobs)


def _answer(request: Frame) -> Frame:
    match request.header["op"]:
        case "hello":
            return _hello()
        case "run":
            return _run(job_of(request))
        case "time":
            return time_subjects(request.header)
    return Frame({"status": "internal", "reason": "unknown operation"})


def main() -> None:
    """Answer requests until standard input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # device printf must not mix with answers
    # Without the pool an access beyond a buffer is more likely to fault than to hit a neighbour.
    cupy.cuda.set_allocator(None)
    while (request := read_frame(sys.stdin.buffer)) is not None:
        try:
            answer = _answer(request)
        except Exception as error:  # noqa: BLE001 - whatever CUDA says is told as a fact
            answer = _failure(error)
        write_frame(answers, answer)


if __name__ == "__main__":
    main()
