"""A few blocks stand for a grid."""

import pytest

from services.profiler.sampling import linear_index, sample


@pytest.mark.parametrize(
    "grid", [(1, 1, 1), (2, 1, 1), (3, 1, 1), (7, 5, 1), (128, 128, 1), (1, 1, 9), (40, 3, 2), (2**31 - 1, 1, 1)]
)
def test_weights_add_up_to_the_grid_and_blocks_are_different(grid: tuple[int, int, int]) -> None:
    samples = sample(grid)
    total = grid[0] * grid[1] * grid[2]
    assert sum(one.weight for one in samples) == pytest.approx(total)
    assert len({one.block for one in samples}) == len(samples)
    assert all(0 <= one.block < total for one in samples)


def test_a_tail_along_a_short_axis_is_sampled() -> None:
    tail = {linear_index((x, 3, 0), (64, 4, 1)) for x in range(64)}
    weights = sum(one.weight for one in sample((64, 4, 1)) if one.block in tail)
    assert weights == pytest.approx(64, rel=0.03)


def test_a_long_grid_takes_no_tail() -> None:
    assert 999 not in {one.block for one in sample((1000, 1, 1))}


def test_triangular_work_is_averaged() -> None:
    samples = sample((1000, 1, 1))
    assert sum(one.weight * one.block for one in samples) == pytest.approx(1000 * 999 / 2, rel=0.02)
