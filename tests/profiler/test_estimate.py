"""The model's times for known kernels, from counts that can be derived by hand, against what an H200 measured."""

from dataclasses import replace

import pytest

from optiml.devices import DEVICES
from services.profiler.estimate import Work, estimate, terms

H200 = DEVICES["H200"]


def _relu(n: int = 1 << 26) -> Work:
    warps = n / 32
    return Work(
        blocks=n // 256, threads=256, registers=10, shared_bytes=0, instructions=14 * warps, load_requests=warps,
        lines=2 * warps, sectors=8 * warps, l2_sectors=8 * warps, dram_bytes=8.0 * n,
    )  # fmt: skip


def _matmul(n: int) -> Work:
    """One thread an element, blocks of 16 x 16: a warp's loads touch 2 lines of A and 1 of B."""
    steps = n**3 / 32
    return Work(
        blocks=(n // 16) ** 2, threads=256, registers=40, shared_bytes=0, instructions=4.58 * steps, fma=steps,
        load_requests=2 * steps, lines=3 * steps, sectors=4 * steps, l2_sectors=(n // 16) ** 2 * n * 4.0,
        dram_bytes=12.0 * n * n, loads_in_flight=8,
    )  # fmt: skip


def _by_rows(passes: int, stores: int, instructions: int) -> Work:
    """4096 rows of 16384, one thread a row: a warp's access touches 32 lines."""
    requests = 4096 * 16384 / 32
    return Work(
        blocks=32, threads=128, registers=32, shared_bytes=0, instructions=instructions * requests,
        load_requests=passes * requests, lines=32 * (passes + stores) * requests,
        sectors=32 * (passes + stores) * requests, l2_sectors=4 * (passes + stores) * requests,
        dram_bytes=(passes + stores) * 4.0 * 4096 * 16384, loads_in_flight=4,
    )  # fmt: skip


KNOWN = {
    "relu": (_relu(), 0.2006),
    "matmul 2048": (_matmul(2048), 3.179),
    "matmul 4096": (_matmul(4096), 26.41),
    "softmax": (_by_rows(3, 1, 40), 5.488),
    "cross entropy": (_by_rows(2, 0, 20), 2.469),
    "layer norm": (_by_rows(3, 1, 20), 4.223),
    "row sum": (_by_rows(1, 0, 3), 0.946),
}


@pytest.mark.parametrize("name", KNOWN)
def test_known_kernels_are_estimated_within_a_third(name: str) -> None:
    work, measured_ms = KNOWN[name]
    assert estimate([work], H200).central_ms == pytest.approx(measured_ms, rel=0.34)


def test_the_range_holds_the_centre() -> None:
    found = estimate([_matmul(2048)], H200)
    assert found.low_ms < found.central_ms < found.high_ms


def test_what_takes_longest_is_named_by_its_term() -> None:
    parts = terms(_matmul(2048), H200)
    assert max(parts.values()) == parts.l1


@pytest.mark.parametrize(
    "better",
    [
        replace(_matmul(1024), load_requests=_matmul(1024).load_requests / 2, lines=_matmul(1024).lines / 2),
        replace(_matmul(1024), registers=32, instructions=_matmul(1024).instructions / 2),
    ],
)
def test_less_work_is_faster(better: Work) -> None:
    assert estimate([better], H200).central_ms < estimate([_matmul(1024)], H200).central_ms


def test_a_grid_of_one_block_uses_one_multiprocessor() -> None:
    spread = Work(blocks=132, threads=256, registers=32, shared_bytes=0, instructions=1e8)
    assert terms(replace(spread, blocks=1), H200).issue == pytest.approx(132 * terms(spread, H200).issue)


def test_a_tail_costs_a_whole_round() -> None:
    even = Work(blocks=132, threads=1024, registers=64, shared_bytes=0, instructions=132e6)
    odd = replace(even, blocks=133, instructions=133e6)
    assert terms(odd, H200).issue == pytest.approx(2 * terms(even, H200).issue)


def test_an_empty_launch_costs_its_overhead() -> None:
    work = Work(blocks=1, threads=32, registers=8, shared_bytes=0)
    assert estimate([work, work], H200).central_ms == pytest.approx(0.004)
