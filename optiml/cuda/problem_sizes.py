"""Default sizes of a problem: small odd ones that no block divides, a moderate one, and the file's own."""

from collections.abc import Mapping

from optiml.v1 import problem_pb2

__all__ = ["add_default_sizes"]

_SMOKE = {
    1: ([37], [1003]),
    2: ([37, 29], [5, 67]),
    3: ([17, 29, 31], [5, 37, 19]),
    4: ([3, 11, 13, 17], [2, 7, 19, 5]),
}
# About 10^5 to 10^6 steps for an element-wise kernel, a row reduction, a matrix product, a window over volumes.
_CHECK = {1: [65537], 2: [131, 257], 3: [89, 97, 103], 4: [3, 19, 21, 23]}
_FEW = 64  # the file's own value up to which a parameter counts as a batch, heads or channels …
_FEW_SIZES = (3, 2, 5)  # … and gets these
_FIXED = (
    4  # the file's own value up to which a parameter is kept: it may be built into the kernel (channels of an image)
)


def add_default_sizes(problem: problem_pb2.Problem, values: Mapping[str, int]) -> None:
    """Fill in the sizes of a problem.

    Args:
        problem: its parameters are set.
        values: the file's value of each parameter; those that are missing leave the time size without them.
    """
    count = len(problem.parameters)
    if not count:
        for sizes in (problem.smoke, problem.check, problem.time):
            sizes.add()
        return
    many = min(count, 4)
    for sizes, pattern in (
        (problem.smoke, _SMOKE[many][0]),
        (problem.smoke, _SMOKE[many][1]),
        (problem.check, _CHECK[many]),
    ):
        _fill(sizes.add(), problem, pattern, values, len(problem.smoke))
    size = problem.time.add()
    for parameter in problem.parameters:
        if parameter.name in values:
            size.parameters[parameter.name] = values[parameter.name]


def _fill(
    size: problem_pb2.Size, problem: problem_pb2.Problem, pattern: list[int], values: Mapping[str, int], turn: int
) -> None:
    few = 0
    for index, parameter in enumerate(problem.parameters):
        value = values.get(parameter.name, 1 << 62)
        wanted = pattern[index] if index < len(pattern) else 3 + 2 * (index % 4)
        if value <= _FIXED:
            wanted = value
        elif value <= _FEW and len(problem.parameters) > 1:
            wanted = _FEW_SIZES[(few + turn - 1) % 3]
            few += 1
        size.parameters[parameter.name] = _fitting(min(wanted, value), value, parameter.multiple_of)


def _fitting(wanted: int, value: int, multiple: int) -> int:
    """Return the odd multiple next to `wanted`, but not above `value`, which is one by itself."""
    if multiple <= 1:
        return wanted
    times = -(-wanted // multiple)
    times += times % 2 == 0
    return min(times * multiple, value)
