"""Is a request well formed? What is wrong with the problem is told at once, field by field.

What is wrong with a candidate is a verdict, not an error: see `services.profiler.plan`.
"""

from collections.abc import Iterator

from optiml.errors import FieldViolation
from optiml.problem import buffer_elements, parameters_of, require_valid, validate_problem
from optiml.v1 import problem_pb2, profiler_service_pb2
from services.profiler.storage import kind_of

__all__ = ["check_request"]

_MOST_AGAINST = 4
_MOST_CHECK_BYTES = 1 << 30  # of all buffers at one smoke or check size: they cross a pipe


def _buffer_bytes(problem: problem_pb2.Problem, size: problem_pb2.Size) -> int:
    return sum(
        buffer_elements(argument, parameters_of(size)) * kind_of(argument.data_type).storage.itemsize
        for argument in problem.arguments
        if argument.role != problem_pb2.ROLE_SCALAR
    )


def _too_large(problem: problem_pb2.Problem) -> Iterator[FieldViolation]:
    for name, sizes in (("smoke", problem.smoke), ("check", problem.check)):
        for i, size in enumerate(sizes):
            total = _buffer_bytes(problem, size)
            if total > _MOST_CHECK_BYTES:
                what = f"its buffers take {total} bytes; at most {_MOST_CHECK_BYTES} are allowed: take a smaller size"
                yield FieldViolation(f"problem.sizes.{name}[{i}]", what)


def _rest(request: profiler_service_pb2.EvaluateRequest) -> Iterator[FieldViolation]:
    kernels = [("kernel", request.kernel), *((f"against[{i}]", kernel) for i, kernel in enumerate(request.against))]
    for field, kernel in kernels:
        if not kernel.source.strip():
            yield FieldViolation(f"{field}.source", "is empty")
        if not kernel.launches:
            yield FieldViolation(f"{field}.launches", "is empty: nothing would run")
    if len(request.against) > _MOST_AGAINST:
        yield FieldViolation("against", f"has {len(request.against)} kernels; at most {_MOST_AGAINST} are allowed")


def check_request(request: profiler_service_pb2.EvaluateRequest) -> None:
    """Accept a request, or tell all that is wrong with it.

    Raises:
        InvalidArgumentError: with a violation for each wrong field.
    """
    wrong = validate_problem(request.problem)
    require_valid([*(FieldViolation(f"problem.{v.field}", v.description) for v in wrong), *_rest(request)])
    require_valid([*_too_large(request.problem)])
