"""Times kernels against each other in one process: interleaved, cold L2, inputs restored before every run.

Runs in the worker process only. Before each timed run the INOUT arguments are restored, scratch is poisoned, and a
buffer of twice the L2's size is written, so that every run starts from the same cold cache. Device code cannot set a
persisting-L2 window, so nothing survives the flush.
"""

from pathlib import Path
from typing import Any

import cupy

from optiml.sandboxing.frames import Frame
from services.profiler.cuda import device_memory
from services.profiler.cuda.device_memory import DeviceBuffer, Loaded
from services.profiler.cuda.statistics import interleaved_order
from services.profiler.jobs import JobBuffer, JobLaunch, job_launches

__all__ = ["run_once", "time_subjects"]

_WARM_UPS = 3
_LEAST_ROUNDS, _MOST_ROUNDS = 10, 100
_POISON = 0xFF


class _Contender:
    """One kernel: its module, its launches and the buffers that only it uses."""

    def __init__(self, header: dict[str, Any], shared: dict[str, DeviceBuffer], pristine: dict[str, Any]) -> None:
        self.launches: tuple[JobLaunch, ...] = job_launches(header["launches"])
        self.loaded: Loaded = device_memory.load(str(Path(header["file"])), self.launches)
        self.scratch = [
            device_memory.allocate(JobBuffer(b["name"], b["bytes"], b["role"], None)) for b in header["scratch"]
        ]
        self.buffers = shared | {buffer.name: buffer for buffer in self.scratch}
        self.pristine = pristine

    def restore(self) -> None:
        """Bring INOUT arguments and scratch back to what they are before a run."""
        for name, content in self.pristine.items():
            self.buffers[name].view[:] = content
        for buffer in self.scratch:
            buffer.view.fill(_POISON)

    def timed_ms(self, flush: Any) -> float:
        """Run once and return the device's time, milliseconds."""
        self.restore()
        flush.fill(1)
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        device_memory.launch_all(self.loaded, self.launches, self.buffers)
        end.record()
        end.synchronize()
        return float(cupy.cuda.get_elapsed_time(start, end))


def _draw(described: dict[str, Any], seed: int) -> DeviceBuffer:
    """Allocate an argument and draw its values on the GPU: at these sizes they would take seconds to send."""
    buffer = device_memory.allocate(JobBuffer(described["name"], described["bytes"], described["role"], None))
    bfloat16 = described["dtype"] == "bf16"
    values = buffer.view.view(cupy.dtype("uint16" if bfloat16 else described["dtype"]))
    generator = cupy.random.Generator(cupy.random.XORWOW(seed))
    step = 1 << 26  # draw in parts: a whole float64 image of a large buffer may not fit
    for begin in range(0, values.size, step):
        part = values[begin : begin + step]
        match described["draw"]["kind"]:
            case "uniform":
                low, high = described["draw"]["low"], described["draw"]["high"]
                drawn = generator.random(part.size, dtype=cupy.float32) * (high - low) + low
            case "normal":
                drawn = generator.standard_normal(part.size, dtype=cupy.float32)
                drawn = drawn * described["draw"]["deviation"] + described["draw"]["mean"]
            case "integers":
                drawn = generator.integers(described["draw"]["low"], described["draw"]["high"], part.size)
            case _:
                drawn = cupy.full(part.size, described["draw"]["value"])
        if bfloat16:
            drawn = (drawn.astype(cupy.float32).view(cupy.uint32) >> 16).astype(cupy.uint16)
        part[:] = drawn.astype(part.dtype)
    return buffer


def _prepare(header: dict[str, Any]) -> tuple[dict[str, DeviceBuffer], list[_Contender]]:
    """Draw the arguments and load every subject."""
    shared: dict[str, DeviceBuffer] = {}
    for number, described in enumerate(header["arguments"]):
        if described["role"] == "out":
            empty = JobBuffer(described["name"], described["bytes"], "out", None)
            shared[described["name"]] = device_memory.allocate(empty)
        else:
            shared[described["name"]] = _draw(described, header["seed"] * 64 + number)
    pristine = {b.name: b.view.copy() for b in shared.values() if b.role == "inout"}
    return shared, [_Contender(subject, shared, pristine) for subject in header["subjects"]]


def run_once(header: dict[str, Any]) -> None:
    """Run the first subject once, cold; header as in `time_subjects`."""
    _, contenders = _prepare(header)
    contenders[0].restore()
    device_memory.launch_all(contenders[0].loaded, contenders[0].launches, contenders[0].buffers)
    cupy.cuda.runtime.deviceSynchronize()


def time_subjects(header: dict[str, Any]) -> Frame:
    """Time all subjects of a request on the same inputs.

    Args:
        header: `arguments` (name, bytes, role, dtype, draw), `subjects` (file, launches, scratch), `seconds`, `seed`.

    Returns:
        `samples_ms`: one list for each subject, all of the same length.
    """
    shared, contenders = _prepare(header)
    l2_bytes = int(cupy.cuda.runtime.getDeviceProperties(0)["l2CacheSize"])
    flush = cupy.empty(max(2 * l2_bytes, 1 << 20), dtype=cupy.uint8)
    warm = [[contender.timed_ms(flush) for _ in range(_WARM_UPS)][-1] for contender in contenders]
    round_ms = sum(warm) + 0.2 * len(warm)  # flush and launch
    rounds = max(_LEAST_ROUNDS, min(_MOST_ROUNDS, int(header["seconds"] * 1000 / round_ms)))
    samples: list[list[float]] = [[] for _ in contenders]
    for order in interleaved_order(len(contenders), rounds):
        for index in order:
            samples[index].append(contenders[index].timed_ms(flush))
    for buffer in [*shared.values(), *(buffer for contender in contenders for buffer in contender.scratch)]:
        if harm := device_memory.guards_intact(buffer):
            return Frame({"status": "memory-fault", "reason": harm})
    return Frame({"status": "ok", "samples_ms": samples})
