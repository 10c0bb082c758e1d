"""Changes of a problem that may show what its own check missed, as a person could make them: other draws, other sizes.

What shows a survivor is what to suggest.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass

from optiml.identity import problem_id
from optiml.problem import validate_problem
from optiml.v1 import problem_pb2
from services.profiler.storage import kind_of

__all__ = ["Probe", "probes"]

_RANGES = ((-1.0, 1.0), (0.5, 1.5), (-100.0, 100.0), (-300.0, -200.0), (200.0, 300.0))
_DRAWN = {problem_pb2.ROLE_IN, problem_pb2.ROLE_INOUT, problem_pb2.ROLE_SCALAR}
_MOST_GROWN_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Probe:
    """A changed problem; its first smoke size is the one to run."""

    problem: problem_pb2.Problem
    suggestion: str
    """The change, for a person."""


def probes(problem: problem_pb2.Problem) -> Iterator[Probe]:
    """Yield changes of the problem, the smallest first; each is a valid problem."""
    floats = [a.name for a in problem.arguments if a.role in _DRAWN and kind_of(a.data_type).is_float]
    for name in floats:
        yield from _redrawn(problem, [name])
    if len(floats) > 1:
        yield from _redrawn(problem, floats)
    for factor in (2, 9):
        yield from _resized(problem, factor)


def _redrawn(problem: problem_pb2.Problem, names: list[str]) -> Iterator[Probe]:
    for low, high in _RANGES:
        changed = copy.deepcopy(problem)
        for argument in changed.arguments:
            if argument.name in names:
                argument.draw.uniform.low, argument.draw.uniform.high = low, high
        if changed != problem:
            yield _probe(changed, f"draw {' and '.join(names)} from uniform({low:g}, {high:g})")


def _resized(problem: problem_pb2.Problem, factor: int) -> Iterator[Probe]:
    """Grow every parameter to a number that no block divides."""
    changed = copy.deepcopy(problem)
    size = changed.smoke[0].parameters
    for parameter in problem.parameters:
        multiple = max(1, parameter.multiple_of)
        size[parameter.name] = (size[parameter.name] * factor // multiple + 1) * multiple
    told = ", ".join(f"{parameter.name}: {size[parameter.name]}" for parameter in problem.parameters)
    if problem.parameters and not validate_problem(changed):
        yield _probe(changed, f"add {{{told}}} to the smoke sizes")


def _probe(changed: problem_pb2.Problem, suggestion: str) -> Probe:
    changed.id = problem_id(changed)
    return Probe(changed, suggestion)
