"""Runs the kernels of a built module on the CPU.

One launch runs at a time in a process: the runtime keeps one state. A launch ends by itself within its time limit, but
for a genuine crash of the process, which is why a worker process does this.
"""

import _ctypes
import ctypes
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optiml.v1.evaluation_pb2 import Finding
from services.profiler.cpu import native
from services.profiler.cpu.counters import MEMORY_NAMES, TRAFFIC_NAMES, Counters, name_counters
from services.profiler.cpu.device_memory import Buffer, DeviceMemory

__all__ = ["Buffer", "DeviceMemory", "LaunchResult", "Program", "run_launch"]

BLOCK_THREADS_MAX = 1024
# Limits of sm_90; static shared memory beyond 48 KiB is refused by ptxas.
SHARED_BYTES_MAX = 227 * 1024
STATIC_SHARED_BYTES_MAX = 48 * 1024
SHARED_START = 1024
_GRID_MAX = (2**31 - 1, 65535, 65535)
_BLOCK_MAX = (1024, 1024, 64)
_LISTED_BLOCKS_MAX = 1 << 22
_ORDERS = ("forward", "reverse", "shuffled")

Argument = Buffer | np.generic | bytes
Dim3 = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class LaunchResult:
    """How a launch went.

    Attributes:
        status: "ok", "timed_out", "deadlock", "fault" (an access was out of bounds or misaligned; it was suppressed and
            the kernel went on) or "trap" (trap, assertion).
        findings: At most 20, one for each kind and pair of source lines.
        counters: Under Nsight Compute's names, summed over the executed blocks; empty unless counted.
        traffic: For each live buffer by address, totals in the order of `counters.TRAFFIC_NAMES`, summed over the
            executed blocks; shape (buffers, len(TRAFFIC_NAMES)), empty unless counted.
        warp_blocks: Times that warps entered each basic block; empty unless counted.
        blocks_run: Blocks that finished.
        threads_run: Their threads.
        reason: What trapped and at which line; empty for every other status.
    """

    status: str
    findings: tuple[Finding, ...]
    counters: Counters
    traffic: NDArray[np.uint64]
    warp_blocks: NDArray[np.uint64]
    blocks_run: int
    threads_run: int
    reason: str = ""


class Program:
    """A module that `services.profiler.cpu.build` has built, with its variables in device memory."""

    def __init__(self, path: Path, memory: DeviceMemory) -> None:
        """Loads the shared object and places its variables.

        Raises:
            OSError: The file is no shared object.
            ValueError: It is one, but was not built by this version.
        """
        self._library = ctypes.CDLL(str(path))
        try:
            text = ctypes.string_at(ctypes.addressof(ctypes.c_char.in_dll(self._library, "optiml_metadata")))
        except ValueError as error:
            raise ValueError(f"{path.name} is not a module that was built for this executor") from error
        self._metadata: dict[str, Any] = json.loads(text)
        self._entries = {entry["name"]: (i, entry) for i, entry in enumerate(self._metadata["entries"])}
        self.memory = memory
        self._place_variables()
        self.reset()

    def _place_variables(self) -> None:
        variables = self._metadata["variables"]
        extents = [(offset, size) for _, offset, size in variables["extents"]]
        self._base, buffers = self.memory.reserve(extents, variables["bytes"])
        names = [name for name, _, _ in variables["extents"]]
        self._extents: dict[str, Buffer] = dict(zip(names, buffers, strict=True))
        self._library.optiml_place_module(ctypes.c_uint64(self._base))

    @property
    def entries(self) -> tuple[str, ...]:
        """Mangled names of the kernels."""
        return tuple(self._entries)

    @property
    def block_mixes(self) -> list[dict[str, int]]:
        """Instructions by class of each basic block (`services.profiler.cpu.mix`)."""
        mixes: list[dict[str, int]] = self._metadata["blocks"]
        return mixes

    def entry(self, name: str) -> tuple[int, dict[str, Any]]:
        """Number and metadata of a kernel.

        Raises:
            ValueError: There is no such kernel.
        """
        if name not in self._entries:
            raise ValueError(f"no kernel {name!r}; the module has {', '.join(self._entries) or 'none'}")
        return self._entries[name]

    def static_shared_bytes(self, entry: str) -> int:
        """Static shared memory of a block, bytes."""
        return int(self.entry(entry)[1]["static_shared_bytes"])

    def variable(self, name: str) -> Buffer:
        """A `__device__` or `__constant__` variable by its mangled name."""
        return self._extents[name]

    def reset(self) -> None:
        """Gives all module variables their initial values."""
        variables = self._metadata["variables"]
        for extent in self._extents.values():
            extent.view[:] = 0
        for offset, content in variables["data"]:
            raw = bytes.fromhex(content)
            self.memory.bytes_at(self._base + offset, len(raw))[:] = np.frombuffer(raw, np.uint8)
        for offset, size, shift, target in variables["addresses"]:
            raw = ((self._base + target) >> shift).to_bytes(8, "little")[:size]
            self.memory.bytes_at(self._base + offset, size)[:] = np.frombuffer(raw, np.uint8)

    def close(self) -> None:
        """Unloads the module and frees its variables; it must not be used again."""
        self._library.optiml_close()
        for extent in self._extents.values():
            extent.free()
        self._extents, self._entries = {}, {}
        _ctypes.dlclose(self._library._handle)  # noqa: SLF001  ctypes has no public way

    def launch(self, request: native.Request, reply: native.Reply) -> None:
        """Runs one launch whose request has been checked."""
        self._library.optiml_launch(ctypes.byref(request), ctypes.byref(reply))


def run_launch(
    program: Program,
    entry: str,
    grid: Dim3,
    block: Dim3,
    dynamic_shared_bytes: int,
    arguments: Sequence[Argument],
    *,
    check: bool,
    count: bool,
    blocks: Sequence[int] | None = None,
    time_limit_s: float = 10.0,
    step_limit: int = 0,
    order: str = "forward",
    seed: int = 0,
    cooperative: bool = False,
    l1_lines_of_a_warp: int = 16,
) -> LaunchResult:
    """Runs one kernel launch to its end or limit.

    Args:
        program: The loaded module.
        entry: Mangled name of the kernel.
        grid: Blocks in x, y, z.
        block: Threads in x, y, z.
        dynamic_shared_bytes: As in `<<<grid, block, bytes>>>`.
        arguments: One for each parameter: a buffer, a NumPy scalar, or raw bytes for a struct.
        check: Look for races and uninitialised reads. Bounds and alignment are always checked.
        count: Fill the counters.
        blocks: Linear indices of the blocks to run; None for all.
        time_limit_s: Wall time.
        step_limit: Back-edges, barriers and collectives over all threads, about; 0 for no limit.
        order: Order of blocks, warps and lanes: "forward", "reverse" or "shuffled".
        seed: For "shuffled".
        cooperative: All blocks are started before any of them runs on.
        l1_lines_of_a_warp: A warp's share of L1, for the traffic; 128-byte lines.

    Raises:
        ValueError: Grid, block, shared memory, arguments or block sample are not possible.
        MemoryError: The process may not map what the launch needs; nothing is said about the kernel.
    """
    number, metadata = program.entry(entry)
    _check_shape(grid, block, metadata)
    _check_shared(metadata, dynamic_shared_bytes)
    if order not in _ORDERS:
        raise ValueError(f"order {order!r}: one of {', '.join(_ORDERS)}")
    params = _pack(metadata["parameters"], arguments, program.memory, entry)
    blocks_count = grid[0] * grid[1] * grid[2]
    sample = _sample(blocks, blocks_count) if blocks is not None else _all_blocks(blocks_count, order)
    allocations = program.memory.allocations()
    request = native.Request(
        grid=grid,
        block=block,
        entry=number,
        dynamic_shared=dynamic_shared_bytes,
        static_shared=metadata["static_shared_bytes"],
        dynamic_align=metadata["dynamic_align"],
        check=check,
        count=count,
        order=_ORDERS.index(order),
        cooperative=cooperative,
        seed=seed & (2**64 - 1),
        params=params,
        params_bytes=len(params),
        blocks=None if sample is None else sample.ctypes.data,
        blocks_count=blocks_count if sample is None else len(sample),
        time_limit_s=time_limit_s,
        step_limit=step_limit,
        arena=program.memory.base,
        arena_bytes=program.memory.capacity_bytes,
        allocations=ctypes.addressof(allocations),
        allocations_count=len(allocations),
        written=program.memory.written_base,
        l1_lines_of_a_warp=l1_lines_of_a_warp,
    )
    mixes = program.block_mixes
    totals = np.zeros(len(MEMORY_NAMES), np.uint64)
    entered = np.zeros((2, len(mixes)), np.uint64)
    traffic = np.zeros((len(allocations), len(TRAFFIC_NAMES)), np.uint64)
    reply = native.Reply(
        warp_blocks=entered[0].ctypes.data,
        thread_blocks=entered[1].ctypes.data,
        memory=totals.ctypes.data,
        traffic=traffic.ctypes.data,
    )
    program.launch(request, reply)
    if reply.status == native.NO_ADDRESS_SPACE:
        raise MemoryError("the process has no address space left for this launch's stacks, checker or counters")
    if not check:
        _assume_written(arguments)
    return LaunchResult(
        native.STATUSES[reply.status],
        tuple(_finding(f, entry) for f in reply.findings[: reply.findings_count]),
        name_counters(totals, entered[0], entered[1], mixes) if count else {},
        traffic,
        entered[0],
        reply.blocks_run,
        reply.threads_run,
        f"{reply.trap.decode()} at line {reply.trap_line}" if reply.trap else "",
    )


def _check_shape(grid: Dim3, block: Dim3, metadata: dict[str, Any]) -> None:
    for what, shape, limits in (("grid", grid, _GRID_MAX), ("block", block, _BLOCK_MAX)):
        if len(shape) != len(limits) or any(not 1 <= n <= most for n, most in zip(shape, limits, strict=True)):
            raise ValueError(f"{what} {tuple(shape)}: each of three must be 1 to {limits}")
    threads, most = block[0] * block[1] * block[2], metadata["threads_max"] or BLOCK_THREADS_MAX
    if threads > min(most, BLOCK_THREADS_MAX):
        raise ValueError(f"block {tuple(block)} has {threads} threads; {metadata['name']} takes at most {most}")
    if metadata["threads_exact"] and tuple(block) != tuple(metadata["threads_exact"]):
        raise ValueError(f"block {tuple(block)}: {metadata['name']} takes only {tuple(metadata['threads_exact'])}")


def _check_shared(metadata: dict[str, Any], dynamic_bytes: int) -> None:
    static_bytes, align = metadata["static_shared_bytes"], metadata["dynamic_align"]
    if static_bytes > STATIC_SHARED_BYTES_MAX:
        raise ValueError(
            f"{static_bytes} bytes of static shared memory: at most {STATIC_SHARED_BYTES_MAX} are possible"
        )
    begin = -(-(SHARED_START + static_bytes) // align) * align - SHARED_START if dynamic_bytes else static_bytes
    if dynamic_bytes < 0 or begin + dynamic_bytes > SHARED_BYTES_MAX:
        raise ValueError(
            f"{static_bytes} bytes of static and {dynamic_bytes} of dynamic shared memory: at most {SHARED_BYTES_MAX}"
        )


def _pack(
    parameters: Sequence[tuple[int, int]], arguments: Sequence[Argument], memory: DeviceMemory, entry: str
) -> bytes:
    if len(parameters) != len(arguments):
        raise ValueError(f"{entry} has {len(parameters)} parameters, {len(arguments)} arguments were given")
    packed = bytearray(max((offset + size for offset, size in parameters), default=0))
    for index, ((offset, size), argument) in enumerate(zip(parameters, arguments, strict=True)):
        if isinstance(argument, Buffer):
            if not memory.owns(argument):
                raise ValueError(f"argument {index} of {entry}: the buffer was freed or lives in another memory")
            raw = argument.address.to_bytes(8, "little")
        else:
            raw = argument if isinstance(argument, bytes) else argument.tobytes()
        if len(raw) != size:
            raise ValueError(f"argument {index} of {entry} has {len(raw)} bytes, the parameter has {size}")
        packed[offset : offset + size] = raw
    return bytes(packed)


def _sample(blocks: Sequence[int], count: int) -> "np.ndarray[Any, np.dtype[np.uint64]]":
    if any(not 0 <= b < count for b in blocks):
        raise ValueError(f"block sample: indices must be 0 to {count - 1}")
    return np.asarray(blocks, dtype=np.uint64)


def _all_blocks(count: int, order: str) -> "np.ndarray[Any, np.dtype[np.uint64]] | None":
    """Blocks are listed only to be shuffled; a grid that is too large to list is not shuffled."""
    return np.arange(count, dtype=np.uint64) if order == "shuffled" and count <= _LISTED_BLOCKS_MAX else None


def _assume_written(arguments: Sequence[Argument]) -> None:
    """An unchecked launch does not tell what it wrote, so nothing that it may have written is called unwritten."""
    for argument in arguments:
        if isinstance(argument, Buffer):
            argument.initialised = True


def _finding(found: native.Finding, entry: str) -> Finding:
    return Finding(
        kind=native.FINDING_KINDS[found.kind],
        message=found.message.decode(errors="replace"),
        kernel=entry,
        line=found.line,
        other_line=found.other_line,
        block=list(found.block),
        thread=list(found.thread),
    )
