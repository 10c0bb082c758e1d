"""Is a request well formed? Everything about the problem that can be wrong is told at once, field by field.

What is wrong with a candidate is a verdict, not an error: see `services.profiler.plan`.
"""

import math
from collections.abc import Iterator

from optiml.errors import FieldViolation, InvalidArgumentError
from optiml.expressions import ExpressionError, evaluate, evaluate_integer
from optiml.v1 import problem_pb2, profiler_service_pb2
from services.profiler.data_types import kind_of

__all__ = ["check_request"]

_MOST_AGAINST = 4
_MOST_ARGUMENTS = 64
_MOST_SIZES = 16
_MOST_BYTES = 32 << 30  # of all buffers at one time size
_MOST_CHECK_BYTES = 1 << 30  # of all buffers at one smoke or check size
_BUFFERS = {problem_pb2.ROLE_IN, problem_pb2.ROLE_OUT, problem_pb2.ROLE_INOUT}


def _names(problem: problem_pb2.Problem) -> Iterator[FieldViolation]:
    seen: set[str] = set()
    entries = [(f"problem.parameters[{i}].name", p.name) for i, p in enumerate(problem.parameters)]
    entries += [(f"problem.arguments[{i}].name", a.name) for i, a in enumerate(problem.arguments)]
    for field, name in entries:
        if not (name.isascii() and name.isidentifier()):
            yield FieldViolation(field, f"{name[:80]!r} is not a C identifier")
        elif name in seen:
            yield FieldViolation(field, f"{name!r} is used twice")
        seen.add(name)


def _arguments(problem: problem_pb2.Problem) -> Iterator[FieldViolation]:
    if not 0 < len(problem.arguments) <= _MOST_ARGUMENTS:
        yield FieldViolation(
            "problem.arguments", f"{len(problem.arguments)} arguments; 1 to {_MOST_ARGUMENTS} are needed"
        )
    for i, argument in enumerate(problem.arguments):
        field = f"problem.arguments[{i}]"
        try:
            kind_of(argument.data_type)
        except KeyError:
            yield FieldViolation(f"{field}.data_type", "is not set")
        if argument.role in _BUFFERS and not argument.shape:
            yield FieldViolation(f"{field}.shape", "a buffer needs its extents, as in ['M', 'N']")
        if argument.role == problem_pb2.ROLE_SCALAR and argument.shape:
            yield FieldViolation(f"{field}.shape", "a scalar has no extents")
        if argument.role not in _BUFFERS | {problem_pb2.ROLE_SCALAR}:
            yield FieldViolation(f"{field}.role", "is not set")
    if not any(a.role in {problem_pb2.ROLE_OUT, problem_pb2.ROLE_INOUT} for a in problem.arguments):
        yield FieldViolation("problem.arguments", "none is OUT or INOUT: nothing could be checked")


def _argument_bytes(argument: problem_pb2.Argument, values: dict[str, int]) -> int:
    count = 1
    for text in argument.shape:
        extent = evaluate_integer(text, values)
        if extent < 1:
            raise ExpressionError(f"{text!r} is {extent}; an extent is at least 1")
        count *= extent
    return count * kind_of(argument.data_type).storage.itemsize


def _draws(argument: problem_pb2.Argument, values: dict[str, int]) -> str | None:
    """Return what is wrong with how the values are drawn at this size."""
    draw = argument.draw
    match draw.WhichOneof("distribution"):
        case "integers":
            low, high = evaluate_integer(draw.integers.low, values), evaluate_integer(draw.integers.high, values)
            return None if low < high else f"integers over [{low}, {high}): there are none"
        case "uniform":
            fine = math.isfinite(draw.uniform.low) and math.isfinite(draw.uniform.high)
            return None if fine and draw.uniform.low <= draw.uniform.high else "uniform needs finite low <= high"
        case "normal":
            deviation = draw.normal.standard_deviation
            fine = math.isfinite(draw.normal.mean) and math.isfinite(deviation) and deviation > 0
            return None if fine else "normal needs a finite mean and a positive standard deviation"
        case "constant":
            try:
                float(draw.constant)
            except ValueError:
                evaluate(draw.constant, values)
    return None


def _size(problem: problem_pb2.Problem, field: str, size: problem_pb2.Size, most: int) -> Iterator[FieldViolation]:
    values = dict(size.parameters)
    wanted = {parameter.name for parameter in problem.parameters}
    if set(values) != wanted:
        difference = ", ".join(sorted(wanted ^ set(values)))
        yield FieldViolation(field, f"needs a value for each parameter and no other; look at: {difference}")
        return
    for parameter in problem.parameters:
        if parameter.multiple_of > 1 and values[parameter.name] % parameter.multiple_of:
            yield FieldViolation(field, f"{parameter.name} must be a multiple of {parameter.multiple_of}")
    total = 0
    for argument in problem.arguments:
        try:
            total += _argument_bytes(argument, values)
            wrong = _draws(argument, values)
        except ExpressionError as error:
            wrong = str(error)
        except KeyError:
            continue  # the data type is told above
        if wrong:
            yield FieldViolation(field, f"argument {argument.name}: {wrong}")
    if total > most:
        yield FieldViolation(field, f"the buffers take {total} bytes; at most {most} are allowed here")


def _sizes(problem: problem_pb2.Problem) -> Iterator[FieldViolation]:
    for name, sizes, most, needed in (
        ("smoke", problem.smoke, _MOST_CHECK_BYTES, 1),
        ("check", problem.check, _MOST_CHECK_BYTES, 0),
        ("time", problem.time, _MOST_BYTES, 1),
    ):
        if not needed <= len(sizes) <= _MOST_SIZES:
            yield FieldViolation(f"problem.{name}", f"{len(sizes)} sizes; {needed} to {_MOST_SIZES} are needed")
        for i, size in enumerate(sizes[:_MOST_SIZES]):
            yield from _size(problem, f"problem.{name}[{i}]", size, most)


def _rest(request: profiler_service_pb2.EvaluateRequest) -> Iterator[FieldViolation]:
    problem = request.problem
    if problem.reference.WhichOneof("source") is None:
        yield FieldViolation("problem.reference", "is not set: give NumPy statements or a kernel")
    tolerance = problem.tolerance
    if not all(math.isfinite(part) and part >= 0 for part in (tolerance.absolute, tolerance.relative)):
        yield FieldViolation("problem.tolerance", "both parts must be finite and not negative")
    if not request.kernel.source.strip():
        yield FieldViolation("kernel.source", "is empty")
    if not request.kernel.launches:
        yield FieldViolation("kernel.launches", "is empty: nothing would run")
    if len(request.against) > _MOST_AGAINST:
        yield FieldViolation("against", f"{len(request.against)} kernels; at most {_MOST_AGAINST} are allowed")


def check_request(request: profiler_service_pb2.EvaluateRequest) -> None:
    """Accept a request, or tell all that is wrong with it.

    Raises:
        InvalidArgumentError: with a violation for each wrong field.
    """
    violations = [*_names(request.problem), *_arguments(request.problem), *_rest(request)]
    if not violations:
        violations = [*_sizes(request.problem)]
    if violations:
        more = f" (and {len(violations) - 1} more)" if len(violations) > 1 else ""
        raise InvalidArgumentError(f"{violations[0]}{more}", violations)
