"""From what the CPU executor counted on a sample of blocks to counters under Nsight Compute's names, and to `Work`."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from optiml.devices import DeviceModel, occupancy
from optiml.v1 import evaluation_pb2
from services.profiler.estimate import Work
from services.profiler.plan import ConcreteLaunch, Plan
from services.profiler.traffic import BufferTraffic, Delivered, delivered

__all__ = ["LaunchCounts", "counters_of", "lines_of_a_warp", "work_of"]

_SECTOR_BYTES, _LINE_BYTES = 32, 128
_L1_BESIDE_SHARED_BYTES = 28 << 10  # L1 and shared memory are one array, a little larger than what blocks can have
_LEAST_L1_BYTES = 16 << 10

_LD, _ST, _ATOM = (f"l1tex__t_{{}}_pipe_lsu_mem_global_op_{kind}.sum" for kind in ("ld", "st", "atom"))
_SHARED = tuple(f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{kind}.sum" for kind in ("ld", "st", "atom"))


@dataclass(frozen=True, slots=True)
class LaunchCounts:
    """What one launch does, as counted on a sample of its blocks and scaled to its grid."""

    totals: Mapping[str, float]
    """Under Nsight Compute's names, and "barriers" that warps passed."""
    loads_in_flight: float
    """Global loads of a basic block that has any, on average over its executions."""
    lines: float
    """128-byte lines that global requests touch."""
    traffic: tuple[BufferTraffic, ...]


def _resident_blocks(launch: ConcreteLaunch, resources: evaluation_pb2.Resources, model: DeviceModel) -> int:
    """Return how many blocks of a launch one multiprocessor holds."""
    shared = resources.static_shared_memory_bytes + launch.dynamic_shared_bytes
    fit = max(1, occupancy(model, launch.threads, resources.registers, shared).blocks)
    return min(fit, math.ceil(launch.blocks / model.multiprocessors))


def lines_of_a_warp(launch: ConcreteLaunch, resources: evaluation_pb2.Resources, model: DeviceModel) -> int:
    """Return how many L1 lines a warp has for itself when all resident warps get the same share."""
    blocks = _resident_blocks(launch, resources, model)
    shared = resources.static_shared_memory_bytes + launch.dynamic_shared_bytes
    whole = model.shared_memory_per_multiprocessor_bytes + _L1_BESIDE_SHARED_BYTES
    capacity = max(whole - blocks * shared, _LEAST_L1_BYTES)
    return max(1, capacity // _LINE_BYTES // (blocks * math.ceil(launch.threads / 32)))


def _delivered(
    counts: LaunchCounts, launch: ConcreteLaunch, resources: evaluation_pb2.Resources, model: DeviceModel
) -> Delivered:
    resident = _resident_blocks(launch, resources, model) * model.multiprocessors
    return delivered(counts.traffic, blocks=launch.blocks, resident_blocks=resident, l2_bytes=model.l2_bytes)


def work_of(
    counts: LaunchCounts, launch: ConcreteLaunch, resources: evaluation_pb2.Resources, model: DeviceModel
) -> Work:
    """Return a launch's work for the time estimate."""
    moved = _delivered(counts, launch, resources, model)
    totals = Counter(counts.totals)
    return Work(
        blocks=launch.blocks,
        threads=launch.threads,
        registers=resources.registers,
        shared_bytes=resources.static_shared_memory_bytes + launch.dynamic_shared_bytes,
        instructions=totals["smsp__inst_executed.sum"],
        fma=totals["sm__inst_executed_pipe_fma.sum"],
        fp64=totals["sm__inst_executed_pipe_fp64.sum"],
        xu=totals["sm__inst_executed_pipe_xu.sum"],
        load_requests=totals[_LD.format("requests")] + totals[_ATOM.format("requests")],
        store_requests=totals[_ST.format("requests")],
        lines=counts.lines,
        sectors=sum(totals[name.format("sectors")] for name in (_LD, _ST, _ATOM)),
        l2_sectors=moved.l2_read_sectors + moved.l2_write_sectors,
        dram_bytes=moved.dram_read_bytes + moved.dram_write_bytes,
        shared_requests=totals["smsp__inst_executed_op_shared_ld.sum"],
        shared_wavefronts=sum(totals[name] for name in _SHARED),
        barriers=totals["barriers"],
        loads_in_flight=counts.loads_in_flight,
    )


def counters_of(
    plan: Plan, counted: Iterable[tuple[LaunchCounts, evaluation_pb2.Resources]], model: DeviceModel
) -> dict[str, float]:
    """Return counters under Nsight Compute's names, summed over the launches."""
    totals: defaultdict[str, float] = defaultdict(float)
    for launch, (counts, resources) in zip(plan.launches, counted, strict=True):
        moved = _delivered(counts, launch, resources, model)
        modelled = {
            "lts__t_sectors_op_read.sum": moved.l2_read_sectors,
            "lts__t_sectors_op_write.sum": moved.l2_write_sectors,
            "dram__bytes_read.sum": moved.dram_read_bytes,
            "dram__bytes_write.sum": moved.dram_write_bytes,
            "dram__bytes.sum": moved.dram_read_bytes + moved.dram_write_bytes,
        }
        for name, value in (dict(counts.totals) | modelled).items():
            totals[name] += value
    return dict(totals)
