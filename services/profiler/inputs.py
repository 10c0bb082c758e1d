"""Draws a problem's inputs: the same (problem, size, seed, inputs) gives the same bits on every machine.

Each argument has its own stream, seeded by the seed and the argument's name (NumPy's PCG64), so that adding an argument
does not change the others.
"""

import hashlib
import math
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from optiml.expressions import evaluate, evaluate_integer
from optiml.v1 import problem_pb2
from services.profiler.storage import Array, Kind, from_float64, kind_of, to_wide

__all__ = ["Case", "Inputs", "case_text", "draw", "extents", "scalars"]

_LARGE, _TINY = 2.0**10, 2.0**-20  # powers of two: rounding errors scale with the values, exactly


@dataclass(frozen=True, slots=True)
class Case:
    """What identifies one drawing of all inputs."""

    parameters: tuple[tuple[str, int], ...]
    """The size, sorted by name."""
    seed: int
    inputs: str = "drawn"
    """"drawn"; or, for float IN arguments: "zeros", "large" (times 1024), "tiny" (times 2^-20)."""

    @property
    def size(self) -> dict[str, int]:
        """The parameters' values by name."""
        return dict(self.parameters)

    @classmethod
    def of(cls, size: problem_pb2.Size, seed: int, inputs: str = "drawn") -> "Case":
        """Make a case from a problem's size."""
        return cls(tuple(sorted(size.parameters.items())), seed, inputs)


@dataclass(frozen=True, slots=True)
class Inputs:
    """Everything that a run starts from."""

    buffers: dict[str, Array]
    """IN and INOUT arguments in storage types, shaped."""
    scalars: dict[str, int | float]
    """SCALAR arguments, rounded to their types."""


def case_text(problem: problem_pb2.Problem, case: Case) -> str:
    """Return the case for a person, in the problem's order, as in "M=37, N=29, seed 1"."""
    kind = [] if case.inputs == "drawn" else [f"{case.inputs} inputs"]
    values = [f"{parameter.name}={case.size[parameter.name]}" for parameter in problem.parameters]
    return ", ".join([*values, f"seed {case.seed}", *kind])


def _generator(seed: int, name: str) -> np.random.Generator:
    digest = hashlib.sha256(name.encode()).digest()
    return np.random.Generator(np.random.PCG64([seed, int.from_bytes(digest[:8], "little")]))


def extents(argument: problem_pb2.Argument, size: dict[str, int]) -> tuple[int, ...]:
    """Return an argument's shape at a size.

    Raises:
        ExpressionError: an extent has no value.
    """
    return tuple(evaluate_integer(text, size) for text in argument.shape)


def _constant(text: str, size: dict[str, int]) -> float:
    try:
        return float(text)  # decimal numbers include exponents and infinities, which expressions have not
    except ValueError:
        return float(evaluate(text, size))


def _drawn(argument: problem_pb2.Argument, size: dict[str, int], seed: int, shape: tuple[int, ...]) -> Array:
    """Draw in float64 (float32 for a float32 argument: half the time) or int64."""
    kind, draw, generator = kind_of(argument.data_type), argument.draw, _generator(seed, argument.name)
    precision = np.float32 if kind.storage == np.float32 else np.float64
    match draw.WhichOneof("distribution"):
        case "uniform":
            low, high = draw.uniform.low, draw.uniform.high
            unit = generator.random(shape, dtype=precision)
            return unit * precision(high - low) + precision(low)
        case "integers":
            low, high = (evaluate_integer(text, size) for text in (draw.integers.low, draw.integers.high))
            return generator.integers(low, high, shape, dtype=np.int64)
        case "constant":
            return np.full(shape, _constant(draw.constant, size))
        case "normal":
            mean, deviation = draw.normal.mean, draw.normal.standard_deviation
            return generator.standard_normal(shape, dtype=precision) * precision(deviation) + precision(mean)
    if kind.is_float:
        return generator.standard_normal(shape, dtype=precision)
    return generator.integers(0, 2, shape, dtype=np.int64)


def _stored(values: Array, kind: Kind) -> Array:
    if kind.is_float:
        return from_float64(values, kind)
    return np.rint(values).astype(kind.storage) if values.dtype.kind == "f" else values.astype(kind.storage)


def _scaled(values: Array, kind: Kind, inputs: str) -> Array:
    factor = {"zeros": 0.0, "large": _LARGE, "tiny": _TINY}[inputs]
    if factor > 1:  # a half has little room above
        room = math.sqrt(kind.largest) / max(1.0, float(np.max(np.abs(values), initial=0.0)))
        factor = min(factor, 2.0 ** max(0, math.floor(math.log2(room))))
    scaled: Array = values * values.dtype.type(factor)
    return scaled


def draw(problem: problem_pb2.Problem, case: Case, *, only: Collection[str] | None = None) -> Inputs:
    """Return all inputs of a case, or only those buffers that are named.

    Raises:
        ExpressionError: an extent or bound has no value at this size.
    """
    buffers: dict[str, Array] = {}
    for argument in problem.arguments:
        if argument.role not in {problem_pb2.ROLE_IN, problem_pb2.ROLE_INOUT}:
            continue
        if only is not None and argument.name not in only:
            continue
        kind = kind_of(argument.data_type)
        values = _drawn(argument, case.size, case.seed, extents(argument, case.size))
        if case.inputs != "drawn" and kind.is_float and argument.role == problem_pb2.ROLE_IN:
            values = _scaled(values, kind, case.inputs)
        buffers[argument.name] = _stored(values, kind)
    return Inputs(buffers, scalars(problem, case))


def scalars(problem: problem_pb2.Problem, case: Case) -> dict[str, int | float]:
    """Return the scalar arguments of a case, rounded to their types."""
    found: dict[str, int | float] = {}
    for argument in problem.arguments:
        if argument.role == problem_pb2.ROLE_SCALAR:
            kind = kind_of(argument.data_type)
            stored = _stored(_drawn(argument, case.size, case.seed, ()), kind)
            wide = to_wide(np.asarray(stored), kind)
            found[argument.name] = float(wide) if kind.is_float else int(wide)
    return found
