"""The cache model on access patterns whose traffic is known."""

import pytest

from services.profiler.traffic import BufferTraffic, Delivered, delivered

MIB = 1 << 20


def _delivered(*buffers: BufferTraffic, blocks: int, resident: int = 1056, l2: int = 60 * MIB) -> Delivered:
    return delivered(buffers, blocks=blocks, resident_blocks=resident, l2_bytes=l2)


def _streamed(size_bytes: int) -> BufferTraffic:
    sectors = size_bytes / 32
    return BufferTraffic(size_bytes, sectors, sectors, sectors, 0, 0)


def test_a_stream_is_read_once() -> None:
    found = _delivered(_streamed(256 * MIB), blocks=1 << 18)
    assert found.l2_read_sectors == 8 * MIB
    assert found.dram_read_bytes == 256 * MIB


def test_what_is_written_goes_out_once() -> None:
    found = _delivered(BufferTraffic(MIB, 0, 0, 0, 4 * MIB / 32, MIB / 32), blocks=16)
    assert found.l2_write_sectors == 4 * MIB / 32
    assert found.dram_write_bytes == MIB


def test_warps_that_share_a_tile_fetch_it_once() -> None:
    tile = BufferTraffic(MIB, load_misses=8000, load_warp_sectors=8000, load_block_sectors=1000, store_sectors=0,
                         store_block_sectors=0)  # fmt: skip
    assert _delivered(tile, blocks=1).l2_read_sectors == 1000


def test_passes_over_more_than_the_caches_hold_are_fetched_again() -> None:
    sectors = 256 * MIB / 32
    passes = BufferTraffic(256 * MIB, 3 * sectors, sectors, sectors, 0, 0)
    found = _delivered(passes, blocks=32)
    assert found.l2_read_sectors == 3 * sectors
    assert 2.4 * 256 * MIB < found.dram_read_bytes < 3 * 256 * MIB


def test_passes_over_what_l2_holds_are_not_fetched_again() -> None:
    sectors = 16 * MIB / 32
    assert (
        _delivered(BufferTraffic(16 * MIB, 3 * sectors, sectors, sectors, 0, 0), blocks=32).dram_read_bytes == 16 * MIB
    )


def test_dram_never_delivers_less_than_the_footprint_nor_more_than_l2() -> None:
    tiles = BufferTraffic(64 * MIB, 4e8, 4e8, 1e8, 0, 0)
    found = _delivered(tiles, tiles, blocks=65536)
    assert 128 * MIB <= found.dram_read_bytes <= found.l2_read_sectors * 32


def test_nothing_touched_is_nothing_delivered() -> None:
    assert _delivered(blocks=4) == Delivered(0, 0, 0, 0)
    assert _delivered(BufferTraffic(MIB, 0, 0, 0, 0, 0), blocks=4).dram_read_bytes == pytest.approx(0)
