"""From what blocks touch to what L2 and DRAM must deliver: a model of the caches that needs no order of events.

The simulation runs a few blocks, one after the other, so it cannot say what is in a cache when they run together. But
it can say, for each buffer, how often a warp comes back to what it touched before, how much of that stays in its own
share of L1, and how many warps of a block touch the same sectors. From that:

- L1: warps of a block that touch the same sector do it at about the same time (they run the same loop), so one miss
  serves them all; a warp that comes back to a sector later finds it only if it is still in its share of L1.
  Sectors to L2 = misses of private caches x (sectors of the block / sum over its warps of sectors of the warp).
- Stores are written through: each sector of a store goes to L2.
- DRAM: each byte is fetched once if all that is touched fits in L2. Else blocks that run at the same time share what
  they fetch, later rounds of blocks fetch again, and what a block itself comes back to has been evicted in the
  proportion in which the footprint of the resident blocks exceeds L2.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["BufferTraffic", "Delivered", "delivered"]

_SECTOR_BYTES = 32


@dataclass(frozen=True, slots=True)
class BufferTraffic:
    """What one launch does to one buffer, in sectors and summed over the grid."""

    size_bytes: int
    load_misses: float
    """Sectors that loads miss in a cache of the warp's own, of its share of L1."""
    load_warp_sectors: float
    """Sum over all warps of the different sectors that each loads."""
    load_block_sectors: float
    """Sum over all blocks of the different sectors that each loads."""
    store_sectors: float
    """Sectors that stores touch, request by request."""
    store_block_sectors: float
    """Sum over all blocks of the different sectors that each stores to."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """Traffic of one launch."""

    l2_read_sectors: float
    l2_write_sectors: float
    dram_read_bytes: float
    dram_write_bytes: float


def _l2_reads(buffer: BufferTraffic) -> float:
    shared = buffer.load_block_sectors / buffer.load_warp_sectors if buffer.load_warp_sectors else 1.0
    return max(buffer.load_misses * shared, buffer.load_block_sectors)


def _footprint(buffer: BufferTraffic, block_sectors: float) -> float:
    """Return the bytes of a buffer that the grid touches: at most all that its blocks touch, at most the buffer."""
    return min(buffer.size_bytes, block_sectors * _SECTOR_BYTES)


def delivered(buffers: Sequence[BufferTraffic], *, blocks: int, resident_blocks: int, l2_bytes: int) -> Delivered:
    """Return what L2 and DRAM deliver to a launch.

    Args:
        buffers: what it does to each.
        blocks: of the grid.
        resident_blocks: how many run at the same time on the whole device.
        l2_bytes: capacity of L2.
    """
    at_once = min(blocks, max(resident_blocks, 1))
    rounds = math.ceil(blocks / at_once)
    total = sum(_footprint(b, b.load_block_sectors) + _footprint(b, b.store_block_sectors) for b in buffers)
    resident = sum(b.load_block_sectors * _SECTOR_BYTES for b in buffers) * at_once / blocks
    evicted = max(0.0, 1.0 - l2_bytes / resident) if resident else 0.0
    l2_reads = dram_reads = 0.0
    for buffer in buffers:
        reads = _l2_reads(buffer)
        l2_reads += reads
        footprint = _footprint(buffer, buffer.load_block_sectors)
        if total <= l2_bytes:
            dram_reads += footprint
            continue
        a_round = min(footprint, buffer.load_block_sectors * _SECTOR_BYTES * at_once / blocks)
        first = max(footprint, rounds * a_round)
        again = (reads - buffer.load_block_sectors) * _SECTOR_BYTES * evicted
        dram_reads += min(reads * _SECTOR_BYTES, first + again)
    return Delivered(
        l2_read_sectors=l2_reads,
        l2_write_sectors=sum(buffer.store_sectors for buffer in buffers),
        dram_read_bytes=dram_reads,
        dram_write_bytes=sum(_footprint(buffer, buffer.store_block_sectors) for buffer in buffers),
    )
