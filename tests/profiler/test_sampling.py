"""A few blocks stand for a grid."""

import pytest

from services.profiler.sampling import linear_index, strata

GRIDS = [(1, 1, 1), (2, 1, 1), (3, 1, 1), (7, 5, 1), (128, 128, 1), (1, 1, 9), (40, 3, 2), (2**31 - 1, 1, 1)]


@pytest.mark.parametrize("grid", GRIDS)
def test_populations_add_up_to_the_grid_and_blocks_are_different(grid: tuple[int, int, int]) -> None:
    total = grid[0] * grid[1] * grid[2]
    found = strata(grid)
    blocks = [block for stratum in found for block in stratum.blocks]
    assert sum(stratum.population for stratum in found) == pytest.approx(total)
    assert len(set(blocks)) == len(blocks)
    assert all(0 <= block < total for block in blocks)


def test_a_tail_along_a_short_axis_is_a_stratum() -> None:
    tail = {linear_index((x, 3, 0), (64, 4, 1)) for x in range(64)}
    population = sum(stratum.population for stratum in strata((64, 4, 1)) if set(stratum.blocks) <= tail)
    assert population == pytest.approx(64, rel=0.05)


def test_a_long_grid_takes_no_tail() -> None:
    assert [999 in stratum.blocks for stratum in strata((1000, 1, 1))] == [False]


@pytest.mark.parametrize("count", [1, 3, 7, 15])
def test_triangular_work_is_averaged_by_any_first_blocks(count: int) -> None:
    (stratum,) = strata((1000, 1, 1))
    mean = sum(stratum.blocks[:count]) / count
    assert mean == pytest.approx(499.5, rel=0.02)


def test_the_working_quarter_of_a_grid_has_a_quarter_of_the_blocks() -> None:
    (stratum,) = strata((1 << 20, 1, 1))
    working = sum(block < 1 << 18 for block in stratum.blocks)
    assert working / len(stratum.blocks) == pytest.approx(0.25, abs=0.02)
