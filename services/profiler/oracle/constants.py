"""A problem whose outputs may all be a constant checks nothing: any kernel that writes it would pass.

For each size there must be no value that lies within the tolerance of every expected element, over all seeds and
adversarial inputs of that size: a kernel knows the size, but not the seed.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from optiml.errors import FieldViolation, InvalidArgumentError
from optiml.v1 import problem_pb2
from services.profiler.cases import Cases, Given
from services.profiler.checks import ADVERSARIAL, SEEDS, allowed_error
from services.profiler.inputs import Case
from services.profiler.reference import output_arguments
from services.profiler.storage import kind_of

__all__ = ["constant_of", "passing_constants", "refuse_constant_outputs"]

_PREFERRED = (0.0, 1.0)  # how a person would say it


def constant_of(problem: problem_pb2.Problem, argument: problem_pb2.Argument, cases: Sequence[Given]) -> float | None:
    """Return a value that passes as every element of an output in all of these cases; None if there is none.

    NaN stands for "nothing is compared": every element may be left unwritten.
    """
    special: set[float] = set()
    low, high, compared = -np.inf, np.inf, False
    for given in cases:
        expected = given.expected[argument.name]
        within = allowed_error(problem, argument, given)
        wanted = expected.astype(np.float64).reshape(-1)
        if argument.may_be_unwritten:
            wanted = wanted[~np.isnan(wanted)]
        if not wanted.size:
            continue
        compared = True
        finite = wanted[np.isfinite(wanted)]
        special.update(float(value) for value in np.unique(wanted[~np.isfinite(wanted)]))
        room = within.absolute + within.relative * np.abs(finite)
        low = max(low, float(np.max(finite - room, initial=-np.inf)))
        high = min(high, float(np.min(finite + room, initial=np.inf)))
    if not compared:
        return float("nan")
    bounded = low > -np.inf or high < np.inf
    if special:  # only the same infinity everywhere is a constant; unlike NaNs of a set are one value here
        values = {"nan" if np.isnan(value) else value for value in special}
        return None if bounded or len(values) > 1 else special.pop()
    if not kind_of(argument.data_type).is_float:
        low, high = np.ceil(low), np.floor(high)
    if low > high:
        return None
    return next((value for value in _PREFERRED if low <= value <= high), (low + high) / 2)


async def passing_constants(
    problem: problem_pb2.Problem, cases: Cases, sizes: Sequence[problem_pb2.Size]
) -> Mapping[str, float | None]:
    """Return for each output a constant that passes at every one of these sizes; None where there is none.

    The constant of the first size stands for all: a kernel may compute another for each.
    """
    found: dict[str, float | None] = {}
    for number, size in enumerate(sizes):
        adversarial = ADVERSARIAL if size == problem.smoke[0] else ()
        asked = [Case.of(size, seed) for seed in SEEDS] + [Case.of(size, SEEDS[0], inputs) for inputs in adversarial]
        given = [one for case in asked if (one := await cases.given(problem, case)) is not None]
        for argument in output_arguments(problem):
            if number and found[argument.name] is None:
                continue
            constant = constant_of(problem, argument, given)
            found[argument.name] = constant if number == 0 or constant is None else found[argument.name]
        if all(constant is None for constant in found.values()):
            break
    return found


async def refuse_constant_outputs(problem: problem_pb2.Problem, cases: Cases) -> None:
    """Refuse a problem on which constants pass as all outputs. Cheap: the smoke sizes decide nearly always.

    Raises:
        InvalidArgumentError: constants pass; the message names one and how to mend the problem.
        ReferenceFailedError: the reference kernel fails.
    """
    sizes = list(problem.smoke)
    found = await passing_constants(problem, cases, sizes)
    if None in found.values():
        return
    found = await passing_constants(problem, cases, [*sizes, *problem.check])
    if None in found.values():
        return
    name, constant = next((name, constant) for name, constant in found.items() if constant is not None)
    what = (
        f"nothing of {name} is compared, since every element may be left unwritten"
        if np.isnan(constant)
        else f"a kernel that writes {constant:.6g} to every element of {name} passes every check"
    )
    message = f"problem: {what}; draw inputs for which the outputs vary, or set a smaller tolerance"
    raise InvalidArgumentError(message, [FieldViolation("problem", what)])
