"""Estimated time of a launch: counters, resources and occupancy over the device's peak rates.

Each term is the time that one part of the device would need if it were alone; the launch takes at least the longest of
them (perfect overlap) and at most their sum (no overlap). The estimate between is their 2-norm: two parts that are
equally busy cost 1.4 times one of them, and a part that is idle costs nothing.

- dram: bytes / bandwidth.
- l2 (slices and crossbar): sectors that miss L1 x 32 / the lesser of L2's bandwidth and 64 bytes an SM and cycle.
- l1 (tag and data stages, shared memory): max(requests, 128-byte lines touched / 2, sectors / 4) + shared wavefronts,
  one a cycle. Two tags a cycle is what an H200 shows on accesses of 32 lines (rows read by one thread each).
- issue (schedulers): warp instructions / 4 a cycle.
- fma, fp64, xu (pipes): warp instructions / each pipe's rate.
- latency (warps wait): rounds of resident blocks x the time that one warp needs alone (Little's law). Loads that are
  issued together are waited for together: as long as the slowest of them takes.

Terms of an SM are divided by the SMs that have work: blocks / ceil(blocks / SMs), which holds the tail and grids that
are too small. A launch costs 2 us besides.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields

from optiml.devices import DeviceModel, occupancy

__all__ = ["Estimate", "Work", "estimate", "terms"]

_SECTOR_BYTES = 32
_LAUNCH_SECONDS = 2e-6
# Cycles, on Hopper: Luo et al., "Benchmarking and Dissecting the Nvidia Hopper GPU Architecture" (2024), and alike.
_L1_CYCLES, _L2_CYCLES, _DRAM_CYCLES = 35.0, 260.0, 600.0
_SHARED_CYCLES, _BARRIER_CYCLES = 30.0, 30.0
_DEPENDENT_ISSUE_CYCLES = 4.0
_INDEPENDENT_INSTRUCTIONS = 2.0  # of a warp, on average: what the compiler's scheduling finds
_L2_BYTES_PER_CYCLE = 64.0  # into one SM
_LINES_PER_CYCLE = 2.0
_SCHEDULERS = 4
_XU_PER_CYCLE = 0.5  # warp instructions: 16 lanes
_NORM = 2.0


@dataclass(frozen=True, slots=True)
class Work:
    """What one launch does, summed over its grid."""

    blocks: int
    threads: int
    """Of a block."""
    registers: int
    shared_bytes: int
    """Of a block, static and dynamic."""
    instructions: float = 0.0
    """Warp instructions, of all kinds."""
    fma: float = 0.0
    """Warp instructions on the fp32 pipe; likewise below."""
    fp64: float = 0.0
    xu: float = 0.0
    load_requests: float = 0.0
    """Warp-level global loads."""
    store_requests: float = 0.0
    """Warp-level global stores."""
    lines: float = 0.0
    """128-byte lines that the requests touch, loads and stores."""
    sectors: float = 0.0
    """32-byte sectors that they touch, loads and stores."""
    l2_sectors: float = 0.0
    """Those that L1 cannot serve, loads and stores."""
    dram_bytes: float = 0.0
    shared_requests: float = 0.0
    shared_wavefronts: float = 0.0
    barriers: float = 0.0
    """Barriers that warps pass."""
    loads_in_flight: float = 1.0
    """Independent loads that a warp issues before it needs the first."""


@dataclass(frozen=True, slots=True)
class Terms:
    """Seconds that each part of the device would need alone."""

    dram: float
    l2: float
    l1: float
    issue: float
    fma: float
    fp64: float
    xu: float
    latency: float

    def values(self) -> list[float]:
        """Return all of them."""
        return [getattr(self, part.name) for part in fields(self)]


@dataclass(frozen=True, slots=True)
class Estimate:
    """Time of all launches of one run, milliseconds."""

    central_ms: float
    low_ms: float
    """With perfect overlap."""
    high_ms: float
    """Without any."""


def _load_cycles(work: Work) -> float:
    """Return how long a warp waits for loads that it issued together: as long as for the slowest of them."""
    l2_bytes = work.l2_sectors * _SECTOR_BYTES
    share_l2 = min(1.0, work.l2_sectors / work.sectors) if work.sectors else 0.0
    share_dram = share_l2 * min(1.0, work.dram_bytes / l2_bytes) if l2_bytes else 0.0
    together = max(work.loads_in_flight, 1.0)
    from_dram = min(1.0, share_dram * together)
    from_l2 = min(1.0 - from_dram, (share_l2 - share_dram) * together)
    return from_dram * _DRAM_CYCLES + from_l2 * _L2_CYCLES + (1.0 - from_dram - from_l2) * _L1_CYCLES


def _l1_cycles(work: Work) -> float:
    """Return the cycles that L1 is busy with global accesses."""
    return max(work.load_requests + work.store_requests, work.lines / _LINES_PER_CYCLE, work.sectors / 4)


def _warp_cycles(work: Work) -> float:
    """Return the cycles that an average warp needs if nobody competes with it."""
    warps = work.blocks * math.ceil(work.threads / 32)
    waiting = work.load_requests / max(work.loads_in_flight, 1.0) * _load_cycles(work) + _l1_cycles(work)
    waiting += work.shared_requests * _SHARED_CYCLES / max(work.loads_in_flight, _INDEPENDENT_INSTRUCTIONS)
    waiting += work.barriers * _BARRIER_CYCLES
    waiting += work.instructions * _DEPENDENT_ISSUE_CYCLES / _INDEPENDENT_INSTRUCTIONS
    return waiting / warps


def terms(work: Work, model: DeviceModel) -> Terms:
    """Return what each part of the device would need for a launch."""
    clock = model.clock_ghz * 1e9
    busy = work.blocks / math.ceil(work.blocks / model.multiprocessors)  # SMs with work, on average
    fma_per_cycle = model.fp32_flops / 2 / 32 / model.multiprocessors / clock
    fp64_per_cycle = model.fp64_flops / 2 / 32 / model.multiprocessors / clock
    resident = max(1, occupancy(model, work.threads, work.registers, work.shared_bytes).blocks)
    rounds = math.ceil(work.blocks / (model.multiprocessors * resident))
    l2_rate = min(model.l2_bytes_per_second, busy * _L2_BYTES_PER_CYCLE * clock)
    return Terms(
        dram=work.dram_bytes / model.dram_bytes_per_second,
        l2=work.l2_sectors * _SECTOR_BYTES / l2_rate,
        l1=(_l1_cycles(work) + work.shared_wavefronts) / busy / clock,
        issue=work.instructions / _SCHEDULERS / busy / clock,
        fma=work.fma / fma_per_cycle / busy / clock,
        fp64=work.fp64 / fp64_per_cycle / busy / clock,
        xu=work.xu / _XU_PER_CYCLE / busy / clock,
        latency=rounds * _warp_cycles(work) / clock,
    )


def estimate(launches: Iterable[Work], model: DeviceModel) -> Estimate:
    """Return the time of launches that run one after another."""
    central = low = high = 0.0
    for work in launches:
        parts = terms(work, model).values()
        low += max(parts) + _LAUNCH_SECONDS
        high += sum(parts) + _LAUNCH_SECONDS
        central += sum(part**_NORM for part in parts) ** (1 / _NORM) + _LAUNCH_SECONDS
    return Estimate(central * 1e3, low * 1e3, high * 1e3)
