"""Buffers on the GPU, with guard bands, and launches by CuPy. Runs in the worker process only."""

from dataclasses import dataclass
from typing import Any

import cupy
import numpy as np

from services.profiler.jobs import JobBuffer, JobLaunch

__all__ = ["DeviceBuffer", "Loaded", "allocate", "fill", "guards_intact", "launch_all", "load"]

_GUARD_BYTES = 512  # keeps cudaMalloc's alignment
_GUARD = 0xC3
_DYNAMIC_SHARED_ATTRIBUTE = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_WITHOUT_OPT_IN_BYTES = 48 << 10


@dataclass(slots=True)
class DeviceBuffer:
    """One buffer between its guard bands."""

    name: str
    role: str
    whole: Any
    """cupy.ndarray of bytes, guards included."""
    view: Any
    """The part that kernels get."""


@dataclass(slots=True)
class Loaded:
    """One loaded cubin and its functions."""

    module: Any
    functions: dict[str, Any]


def allocate(buffer: JobBuffer) -> DeviceBuffer:
    """Allocate a buffer with its guards set; what it holds is undefined."""
    whole = cupy.empty(buffer.size_bytes + 2 * _GUARD_BYTES, dtype=cupy.uint8)
    whole[:_GUARD_BYTES] = _GUARD
    whole[-_GUARD_BYTES:] = _GUARD
    return DeviceBuffer(buffer.name, buffer.role, whole, whole[_GUARD_BYTES:-_GUARD_BYTES])


def fill(target: DeviceBuffer, source: JobBuffer, poison: int) -> None:
    """Put a job's content, or the poison, into a buffer."""
    if source.content is None:
        target.view.fill(poison)
    else:
        target.view.set(np.frombuffer(source.content, np.uint8))


def guards_intact(buffer: DeviceBuffer) -> str:
    """Return where a guard band was overwritten, empty if nowhere."""
    for band, where in ((buffer.whole[:_GUARD_BYTES], "before"), (buffer.whole[-_GUARD_BYTES:], "after")):
        changed = int(cupy.count_nonzero(band != _GUARD))
        if changed:
            return f"{changed} bytes {where} the buffer {buffer.name} were written"
    return ""


def load(file: str, launches: tuple[JobLaunch, ...]) -> Loaded:
    """Load a cubin afresh, so that its `__device__` variables hold their initial values."""
    module = cupy.cuda.function.Module()
    module.load_file(file)
    functions: dict[str, Any] = {}
    for launch in launches:
        function = functions.setdefault(launch.symbol, module.get_function(launch.symbol))
        if launch.dynamic_shared_bytes > _WITHOUT_OPT_IN_BYTES:
            cupy.cuda.driver.funcSetAttribute(function.ptr, _DYNAMIC_SHARED_ATTRIBUTE, launch.dynamic_shared_bytes)
    return Loaded(module, functions)


def _argument(argument: str | bytes, buffers: dict[str, DeviceBuffer]) -> Any:
    if isinstance(argument, str):
        return buffers[argument].view
    return np.frombuffer(argument, f"u{len(argument)}")[0]  # the bits as they are


def launch_all(loaded: Loaded, launches: tuple[JobLaunch, ...], buffers: dict[str, DeviceBuffer]) -> None:
    """Launch everything, in order, on the current stream; a refused launch raises CuPy's CUDADriverError."""
    for launch in launches:
        arguments = tuple(_argument(argument, buffers) for argument in launch.arguments)
        loaded.functions[launch.symbol](
            launch.grid,
            launch.block,
            arguments,
            shared_mem=launch.dynamic_shared_bytes,
            enable_cooperative_groups=launch.cooperative,
        )
