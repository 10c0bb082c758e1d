"""Which blocks of a grid stand for all of them when counters are simulated at the true size.

The last blocks along each axis may hold a tail with less work, so blocks are sorted by which axes they are last in;
each sort that makes up a noticeable part of the grid is sampled, at places spread over it, and weighs as many blocks as
it has. That is wrong for kernels whose blocks do work that depends on the data, on each other, or irregularly on their
index; it is right for all that divide a regular domain evenly, and for those (triangular loops) whose work changes
smoothly with the index.
"""

from dataclasses import dataclass

__all__ = ["Sample", "linear_index", "sample"]

_NEGLIGIBLE = 0.02  # of the grid
_INSIDE = 3  # blocks of the most common sort


@dataclass(frozen=True, slots=True)
class Sample:
    """One block, and how many blocks it stands for."""

    block: int
    """Linear index, x fastest."""
    weight: float


def linear_index(place: tuple[int, int, int], grid: tuple[int, int, int]) -> int:
    """Return a block's linear index."""
    return place[0] + grid[0] * (place[1] + grid[1] * place[2])


def _spread(extents: tuple[int, int, int], count: int) -> list[tuple[int, int, int]]:
    """Return up to `count` different places, evenly spread over a box by its linear index."""
    total = extents[0] * extents[1] * extents[2]
    chosen = sorted({(2 * i + 1) * total // (2 * count) for i in range(count)})
    width, height = extents[0], extents[1]
    return [(i % width, i // width % height, i // (width * height)) for i in chosen]


def sample(grid: tuple[int, int, int]) -> list[Sample]:
    """Return the blocks to run, most telling first; the weights add up to the grid's blocks."""
    total = grid[0] * grid[1] * grid[2]
    sorts: list[tuple[int, list[int]]] = []
    for last in ((x, y, z) for x in (False, True) for y in (False, True) for z in (False, True)):
        extents = tuple(1 if is_last else extent - 1 for is_last, extent in zip(last, grid, strict=True))
        population = extents[0] * extents[1] * extents[2]
        if population:
            origin = tuple(extent - 1 if is_last else 0 for is_last, extent in zip(last, grid, strict=True))
            inside = (extents[0], extents[1], extents[2])
            places = _spread(inside, _INSIDE if population * 2 > total else 1)
            shifted = [(p[0] + origin[0], p[1] + origin[1], p[2] + origin[2]) for p in places]
            sorts.append((population, [linear_index(place, grid) for place in shifted]))
    sorts.sort(key=lambda one: -one[0])
    kept = [one for one in sorts if one[0] >= _NEGLIGIBLE * total]
    covered = sum(population for population, _ in kept)
    return [
        Sample(block, population / len(blocks) * total / covered) for population, blocks in kept for block in blocks
    ]
