"""Outputs that need no work: zeros, ones, a mean, a copy of an input, the answer to another question.

Each takes the place of one output, the others being right, in every case of the problem's check; one that passes all
of them shows a hole.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np

from optiml.v1 import problem_pb2, profiler_service_pb2
from services.profiler.cases import Cases, Given
from services.profiler.checks import allowed_error, check_cases
from services.profiler.compare import compare
from services.profiler.inputs import Case, case_text
from services.profiler.reference import output_arguments
from services.profiler.storage import Array, from_float64, kind_of, to_wide

__all__ = ["trivial_outputs"]

_Output: TypeAlias = Callable[[Given, Given], Array | None]
"""The output in a case, from that case and one of another seed; None where it does not fit."""

_OTHER_SEED = 97


async def trivial_outputs(problem: problem_pb2.Problem, cases: Cases) -> list[profiler_service_pb2.TrivialOutput]:
    """Try every trivial output.

    Raises:
        InvalidArgumentError: the problem's reference fails.
        ReferenceFailedError: the reference kernel does.
    """
    pairs = []
    for case in check_cases(problem):
        given = await cases.given(problem, case)
        other = await cases.given(problem, Case(case.parameters, _OTHER_SEED, "drawn"))
        if given is not None and other is not None:
            pairs.append((given, other))
    return [
        _tried(problem, argument, what, cure, output, pairs)
        for argument in output_arguments(problem)
        for what, cure, output in _candidates(problem, argument)
    ]


def _candidates(problem: problem_pb2.Problem, argument: problem_pb2.Argument) -> Iterator[tuple[str, str, _Output]]:
    name = argument.name
    vary = f"draw inputs for which {name} varies, or set a smaller tolerance"
    yield "zeros", vary, lambda given, _: np.zeros_like(given.expected[name])
    yield "ones", vary, lambda given, _: np.ones_like(given.expected[name])
    yield "the mean of what is expected", vary, lambda given, _: _mean(given.expected[name])
    seeds = f"{name} does not depend on what is drawn: draw more of the inputs"
    yield "what is expected for other inputs", seeds, lambda _, other: other.expected[name]
    for source in problem.arguments:
        if source.role == problem_pb2.ROLE_IN or (source.role == problem_pb2.ROLE_INOUT and source.name == name):
            what = f"a copy of {source.name}" if source.name != name else "what was there before"
            cure = f"unless the kernel is to copy, draw {source.name} so that {name} differs from it: signed, not one"
            yield what, cure, _copy_of(source, name)


def _mean(expected: Array) -> Array | None:
    finite = expected[np.isfinite(expected)].astype(np.float64)
    if expected.size < 2 or not finite.size:
        return None  # of a single element the mean is the answer
    mean = np.mean(finite)
    return np.full_like(expected, mean if expected.dtype.kind == "f" else np.rint(mean))


def _copy_of(source: problem_pb2.Argument, name: str) -> _Output:
    def copied(given: Given, _: Given) -> Array | None:
        expected = given.expected[name]
        values = to_wide(given.inputs.buffers[source.name], kind_of(source.data_type)).reshape(-1)
        if values.size < expected.size:
            return None
        taken: Array = values[: expected.size].reshape(expected.shape).astype(expected.dtype)
        return taken

    return copied


def _tried(
    problem: problem_pb2.Problem, argument: problem_pb2.Argument, what: str, cure: str, output: _Output,
    pairs: Sequence[tuple[Given, Given]],
) -> profiler_service_pb2.TrivialOutput:  # fmt: skip
    told = profiler_service_pb2.TrivialOutput(output=argument.name, what=what)
    kind = kind_of(argument.data_type)
    for given, other in pairs:
        case = case_text(problem, given.case)
        wide = output(given, other)
        if wide is None:
            told.reason = f"does not fit ({case})"
            return told
        stored = from_float64(wide, kind) if kind.is_float else wide.astype(kind.storage)
        within = allowed_error(problem, argument, given)
        difference = compare(
            argument.name, stored, given.expected[argument.name], kind, within,
            poison=None, may_be_unwritten=argument.may_be_unwritten,
        )  # fmt: skip
        if difference.reason:
            told.reason = f"{difference.reason} ({case})"
            return told
    told.passes, told.reason = True, cure
    return told
