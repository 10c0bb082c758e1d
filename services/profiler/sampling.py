"""Which blocks of a grid stand for all of them when counters are simulated at the true size.

The last blocks along each axis may hold a tail with less work, so blocks are sorted by which axes they are last in;
each sort that makes up a noticeable part of the grid is sampled, at places spread over it, and stands for as many
blocks as it has. That is wrong for kernels whose blocks do work that depends on the data, on each other, or irregularly
on their index; it is right for all that divide a regular domain evenly, and for those (triangular loops, guards that
idle a part of the grid) whose work changes with the index in few steps.
"""

from dataclasses import dataclass

__all__ = ["Stratum", "linear_index", "strata"]

_NEGLIGIBLE = 0.02  # of the grid
_PLACES = 15  # of the most common sort


@dataclass(frozen=True, slots=True)
class Stratum:
    """Blocks that do alike, and some of them."""

    population: float
    """How many blocks of the grid these stand for."""
    blocks: tuple[int, ...]
    """Linear indices, x fastest; any number of the first ones is spread over the stratum."""


def linear_index(place: tuple[int, int, int], grid: tuple[int, int, int]) -> int:
    """Return a block's linear index."""
    return place[0] + grid[0] * (place[1] + grid[1] * place[2])


def _fractions(count: int) -> list[float]:
    """Return van der Corput's sequence in base 2, centred: 1/2, 1/4, 3/4, 1/8 … each prefix is spread evenly."""
    found = []
    for number in range(1, count + 1):
        value, step, rest = 0.0, 0.5, number
        while rest:
            value += step * (rest & 1)
            step, rest = step / 2, rest >> 1
        found.append(value)
    return found


def _spread(extents: tuple[int, int, int], count: int) -> list[tuple[int, int, int]]:
    """Return up to `count` different places in a box, spread by their linear index."""
    total = extents[0] * extents[1] * extents[2]
    chosen = dict.fromkeys(min(int(fraction * total), total - 1) for fraction in _fractions(count))
    width, height = extents[0], extents[1]
    return [(i % width, i // width % height, i // (width * height)) for i in chosen]


def _stratum(grid: tuple[int, int, int], last: tuple[bool, bool, bool], total: int) -> Stratum | None:
    """Return the blocks that are last exactly along these axes."""
    x, y, z = (1 if is_last else extent - 1 for is_last, extent in zip(last, grid, strict=True))
    population = x * y * z
    if population < _NEGLIGIBLE * total or not population:
        return None
    origin = [extent - 1 if is_last else 0 for is_last, extent in zip(last, grid, strict=True)]
    places = _spread((x, y, z), _PLACES if population * 2 > total else 2)
    shifted = [(p[0] + origin[0], p[1] + origin[1], p[2] + origin[2]) for p in places]
    return Stratum(population, tuple(linear_index(place, grid) for place in shifted))


def strata(grid: tuple[int, int, int]) -> list[Stratum]:
    """Return the strata of a grid, largest first; their populations add up to its blocks."""
    total = grid[0] * grid[1] * grid[2]
    flags = (False, True)
    found = [_stratum(grid, (x, y, z), total) for x in flags for y in flags for z in flags]
    kept = sorted((one for one in found if one is not None), key=lambda one: -one.population)
    scale = total / sum(one.population for one in kept)
    return [Stratum(one.population * scale, one.blocks) for one in kept]
