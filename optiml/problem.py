"""What makes a problem, and a kernel for it, worth evaluating: checks before any compiler or search is paid for.

Services call these on every request; nothing here trusts its input. Limits are generous for people and small for
attackers.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from optiml import data_types
from optiml.errors import FieldViolation, InvalidArgumentError
from optiml.expressions import ExpressionError, evaluate, evaluate_integer
from optiml.v1 import kernel_pb2, problem_pb2

__all__ = [
    "buffer_elements",
    "parameters_of",
    "require_valid",
    "scalar_names",
    "validate_kernel",
    "validate_problem",
]

MAX_SOURCE_BYTES = 1 << 20
MAX_REFERENCE_BYTES = 64 << 10
MAX_ITEMS = 64
MAX_SIZES = 16
MAX_BUFFER_BYTES = 1 << 37  # 128 GiB: more than any one GPU has today
_IDENTIFIER = re.compile(r"[A-Za-z_]\w{0,63}\Z")
_NAME = re.compile(r"[\w .:+-]{1,128}\Z")
_KERNEL_NAME = re.compile(r"[A-Za-z_][\w:]*(<[\w\s,:<>*&().+-]*>)?\Z")
_GRID_LIMITS = (
    2**31 - 1,
    65535,
    65535,
)  # CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"
_BLOCK_LIMITS = (1024, 1024, 64)
_RESERVED = {"np", "ceil_div", "min", "max"}

Violations = Iterator[FieldViolation]


def parameters_of(size: problem_pb2.Size) -> dict[str, int]:
    """Return the size's parameters as a plain mapping."""
    return dict(size.parameters)


def scalar_names(problem: problem_pb2.Problem) -> frozenset[str]:
    """Return the names of the problem's scalar arguments."""
    return frozenset(a.name for a in problem.arguments if a.role == problem_pb2.ROLE_SCALAR)


def buffer_elements(argument: problem_pb2.Argument, parameters: Mapping[str, int]) -> int:
    """Return how many elements a buffer has at a size.

    Raises:
        ExpressionError: an extent has no value there.
    """
    elements = 1
    for extent in argument.shape:
        elements *= evaluate_integer(extent, parameters)
    return elements


def validate_problem(problem: problem_pb2.Problem) -> list[FieldViolation]:
    """Return everything that is wrong with a problem; empty if nothing is."""
    found = list(_names(problem))
    if found:
        return found  # what follows would repeat the same faults
    found += _arguments(problem)
    found += _sizes(problem)
    reference = problem.reference
    if reference.WhichOneof("source") is None:
        found.append(FieldViolation("reference", "is missing; give NumPy statements or the input kernel"))
    if len(reference.numpy) > MAX_REFERENCE_BYTES:
        found.append(FieldViolation("reference", f"has more than {MAX_REFERENCE_BYTES} characters"))
    if reference.HasField("kernel"):
        found += [
            FieldViolation(f"reference.{v.field}", v.description) for v in validate_kernel(reference.kernel, problem)
        ]
    for part in ("absolute", "relative"):
        if not 0 <= getattr(problem.tolerance, part) < 1e30:
            found.append(FieldViolation(f"tolerance.{part}", "must be 0 or a positive number"))
    return found


def validate_kernel(kernel: kernel_pb2.Kernel, problem: problem_pb2.Problem) -> list[FieldViolation]:
    """Return everything that is wrong with a kernel's launch plan under a valid problem; its source is not read."""
    if not kernel.source.strip():
        return [FieldViolation("kernel.source", "is empty")]
    if len(kernel.source.encode()) > MAX_SOURCE_BYTES:
        return [FieldViolation("kernel.source", f"has more than {MAX_SOURCE_BYTES} bytes")]
    if not 1 <= len(kernel.launches) <= MAX_ITEMS:
        return [FieldViolation("kernel.launches", f"needs 1 to {MAX_ITEMS} launches, has {len(kernel.launches)}")]
    buffers = {a.name for a in problem.arguments if a.role != problem_pb2.ROLE_SCALAR}
    found = list(_scratch(kernel, problem, buffers))
    buffers |= {scratch.name for scratch in kernel.scratch}
    for index, launch in enumerate(kernel.launches):
        found += _launch(launch, f"kernel.launches[{index}]", problem, buffers)
    return found


def require_valid(violations: Sequence[FieldViolation]) -> None:
    """Raise InvalidArgumentError with all violations, if there are any."""
    if violations:
        raise InvalidArgumentError(str(violations[0]), violations)


def _names(problem: problem_pb2.Problem) -> Violations:
    if not _NAME.match(problem.name):
        yield FieldViolation("name", f"{problem.name[:40]!r} is not a name: 1 to 128 letters, digits, spaces, . : + -")
    for kind in ("parameters", "arguments"):
        if len(getattr(problem, kind)) > MAX_ITEMS:
            yield FieldViolation(kind, f"has {len(getattr(problem, kind))} entries; at most {MAX_ITEMS} are allowed")
    seen: set[str] = set()
    for kind in ("parameters", "arguments"):
        for item in getattr(problem, kind):
            path = f"{kind}.{item.name[:64]}"
            if not _IDENTIFIER.match(item.name):
                yield FieldViolation(path, f"{item.name[:40]!r} is not a C identifier")
            elif item.name in _RESERVED:
                yield FieldViolation(path, f"{item.name!r} means something else in expressions; choose another name")
            elif item.name in seen:
                yield FieldViolation(path, "the name is used twice")
            seen.add(item.name)


def _arguments(problem: problem_pb2.Problem) -> Violations:
    if not any(a.role in {problem_pb2.ROLE_OUT, problem_pb2.ROLE_INOUT} for a in problem.arguments):
        yield FieldViolation("arguments", "none has the role out or inout, so there is nothing to check")
    for argument in problem.arguments:
        path = f"arguments.{argument.name}"
        if argument.data_type not in data_types.SHORT_NAMES:
            yield FieldViolation(f"{path}.dtype", f"is missing or unknown; one of {', '.join(data_types.NAMES)}")
        if argument.role not in problem_pb2.Role.values() or argument.role == problem_pb2.ROLE_UNSPECIFIED:
            yield FieldViolation(f"{path}.role", "is missing or unknown; one of in, out, inout, scalar")
        scalar = argument.role == problem_pb2.ROLE_SCALAR
        if scalar and argument.shape:
            yield FieldViolation(f"{path}.shape", "a scalar has no shape")
        if not scalar and not 1 <= len(argument.shape) <= 8:
            yield FieldViolation(f"{path}.shape", "a buffer needs 1 to 8 extents, as in [M, K]")
        if argument.role != problem_pb2.ROLE_OUT and argument.draw.WhichOneof("distribution") is None:
            yield FieldViolation(f"{path}.draw", "is missing; say how values are drawn, as in uniform(-1, 1)")
        yield from _draw(argument, path)


def _draw(argument: problem_pb2.Argument, path: str) -> Violations:
    draw = argument.draw
    match draw.WhichOneof("distribution"):
        case "uniform":
            if not -1e30 < draw.uniform.low < draw.uniform.high < 1e30:
                yield FieldViolation(f"{path}.draw", "uniform needs low below high, both finite")
        case "normal":
            if not 0 < draw.normal.standard_deviation < 1e30 or not abs(draw.normal.mean) < 1e30:
                yield FieldViolation(f"{path}.draw", "normal needs a finite mean and a positive standard deviation")
    integer = argument.data_type in data_types.SHORT_NAMES and not data_types.is_float(argument.data_type)
    if integer and draw.WhichOneof("distribution") in {"uniform", "normal"}:
        yield FieldViolation(f"{path}.draw", "integers are drawn by integers(low, high)")


def _sizes(problem: problem_pb2.Problem) -> Violations:
    names = {parameter.name for parameter in problem.parameters}
    for kind in ("smoke", "check", "time"):
        sizes = getattr(problem, kind)
        if not 1 <= len(sizes) <= MAX_SIZES:
            yield FieldViolation(f"sizes.{kind}", f"needs 1 to {MAX_SIZES} sizes, has {len(sizes)}")
        for index, size in enumerate(sizes):
            path = f"sizes.{kind}[{index}]"
            given = set(size.parameters)
            for name in sorted(names - given):
                yield FieldViolation(f"{path}.{name}", "has no value")
            for name in sorted(given - names):
                yield FieldViolation(
                    f"{path}.{name[:64]}", f"is no parameter (known: {', '.join(sorted(names)) or 'none'})"
                )
            if names == given:
                yield from _one_size(problem, parameters_of(size), path)


def _one_size(problem: problem_pb2.Problem, values: dict[str, int], path: str) -> Violations:
    for parameter in problem.parameters:
        value = values[parameter.name]
        if value < 0:
            yield FieldViolation(f"{path}.{parameter.name}", f"is {value}; sizes are not negative")
        elif parameter.multiple_of > 1 and value % parameter.multiple_of:
            yield FieldViolation(f"{path}.{parameter.name}", f"is {value}, not a multiple of {parameter.multiple_of}")
    for argument in problem.arguments:
        where = f"arguments.{argument.name}"
        try:
            elements = buffer_elements(argument, values)
            if argument.role != problem_pb2.ROLE_SCALAR and elements <= 0:
                yield FieldViolation(f"{where}.shape", f"has {elements} elements at {path}")
            elif (
                argument.data_type in data_types.SHORT_NAMES
                and elements * data_types.size_bytes(argument.data_type) > MAX_BUFFER_BYTES
            ):
                yield FieldViolation(f"{where}.shape", f"has {elements} elements at {path}, more than 128 GiB")
            if argument.draw.HasField("integers"):
                low = evaluate_integer(argument.draw.integers.low, values)
                if low >= evaluate_integer(argument.draw.integers.high, values):
                    yield FieldViolation(f"{where}.draw", f"low is not below high at {path}")
            if argument.draw.WhichOneof("distribution") == "constant":
                evaluate(argument.draw.constant, values)
        except ExpressionError as error:
            yield FieldViolation(where, f"{error} (at {path})")


def _scratch(kernel: kernel_pb2.Kernel, problem: problem_pb2.Problem, taken: set[str]) -> Violations:
    if len(kernel.scratch) > MAX_ITEMS:
        yield FieldViolation("kernel.scratch", f"has {len(kernel.scratch)} buffers; at most {MAX_ITEMS} are allowed")
    for index, scratch in enumerate(kernel.scratch):
        path = f"kernel.scratch[{index}]"
        if not _IDENTIFIER.match(scratch.name) or scratch.name in taken:
            yield FieldViolation(f"{path}.name", f"{scratch.name[:40]!r} is no identifier, or an argument's name")
        if scratch.data_type not in data_types.SHORT_NAMES:
            yield FieldViolation(f"{path}.data_type", "is missing or unknown")
        for size in _every_size(problem):
            try:
                if not 0 < evaluate_integer(scratch.elements, parameters_of(size)) * 8 <= MAX_BUFFER_BYTES:
                    yield FieldViolation(f"{path}.elements", f"{scratch.elements!r} is not 1 to 2^34")
                    break
            except ExpressionError as error:
                yield FieldViolation(f"{path}.elements", str(error))
                break


def _every_size(problem: problem_pb2.Problem) -> list[problem_pb2.Size]:
    return [*problem.smoke, *problem.check, *problem.time]


def _launch(launch: kernel_pb2.Launch, path: str, problem: problem_pb2.Problem, buffers: set[str]) -> Violations:
    if len(launch.kernel) > 512 or not _KERNEL_NAME.match(launch.kernel):
        yield FieldViolation(f"{path}.kernel", f"{launch.kernel[:60]!r} does not name a kernel")
    if len(launch.arguments) > MAX_ITEMS:
        yield FieldViolation(
            f"{path}.arguments", f"has {len(launch.arguments)} entries; at most {MAX_ITEMS} are allowed"
        )
    for kind in ("grid", "block"):
        if not 1 <= len(getattr(launch, kind)) <= 3:
            yield FieldViolation(f"{path}.{kind}", "needs one to three extents")
    yield from _extents(launch, path, problem)
    scalars = dict.fromkeys(scalar_names(problem), 1)
    for index, argument in enumerate(launch.arguments):
        where = f"{path}.arguments[{index}]"
        match argument.WhichOneof("value"):
            case "buffer":
                if argument.buffer not in buffers:
                    known = ", ".join(sorted(buffers))
                    yield FieldViolation(where, f"no buffer is called {argument.buffer[:60]!r} (known: {known})")
            case "scalar":
                if argument.scalar.data_type not in data_types.SHORT_NAMES:
                    yield FieldViolation(where, "the scalar has no dtype")
                try:
                    for size in _every_size(problem):
                        evaluate(argument.scalar.expression, parameters_of(size) | scalars)
                except ExpressionError as error:
                    yield FieldViolation(where, str(error))
            case _:
                yield FieldViolation(where, "is neither a buffer nor a scalar")


def _extents(launch: kernel_pb2.Launch, path: str, problem: problem_pb2.Problem) -> Violations:
    for size in _every_size(problem):
        values = parameters_of(size)
        threads = 1
        for kind, limits in (("grid", _GRID_LIMITS), ("block", _BLOCK_LIMITS)):
            for axis, (text, limit) in enumerate(zip(getattr(launch, kind), limits, strict=False)):
                try:
                    extent = evaluate_integer(text, values)
                except ExpressionError as error:
                    yield FieldViolation(f"{path}.{kind}[{axis}]", str(error))
                    return
                if not 1 <= extent <= limit:
                    yield FieldViolation(
                        f"{path}.{kind}[{axis}]", f"{text!r} is {extent} at {values}; 1 to {limit} fit"
                    )
                    return
                threads *= extent if kind == "block" else 1
        if threads > 1024:
            yield FieldViolation(f"{path}.block", f"has {threads} threads; at most 1024 fit")
            return
        try:
            if launch.dynamic_shared_memory_bytes:
                shared = evaluate_integer(launch.dynamic_shared_memory_bytes, values)
                if not 0 <= shared <= 232448:
                    yield FieldViolation(f"{path}.dynamic_shared_memory_bytes", f"is {shared}; at most 232448 fit")
                    return
        except ExpressionError as error:
            yield FieldViolation(f"{path}.dynamic_shared_memory_bytes", str(error))
            return
