"""How near an output must be when the problem does not say.

An element passes if |got - expected| <= absolute + relative * |expected|. The default relative part is

    max(floor, 16 * u * sqrt(L))

where u is the output type's unit roundoff and L the length of the longest reduction that the shapes allow: rounding
errors of a sum of L terms grow like sqrt(L) when they are independent (Higham, "Accuracy and Stability of Numerical
Algorithms", section 2.8), and 16 covers both other summation orders and functions of a few ulp. The absolute part is
the same times the root mean square of the expected output, since cancellation makes errors relative to the terms, not
to the sum. Integers must agree exactly.
"""

import math
from dataclasses import dataclass

import numpy as np

from optiml.v1 import problem_pb2
from services.profiler.storage import Array, Kind

__all__ = ["Allowed", "allowed", "reduction_length"]

_GROWTH = 16.0
_FLOOR = {"f16": 2e-3, "bf16": 1.6e-2, "f32": 1e-5, "f64": 1e-11}
_SENSITIVITY = 4.0  # how many times the reference's own reaction to rounded inputs is forgiven


@dataclass(frozen=True, slots=True)
class Allowed:
    """Allowed error of one output."""

    absolute: float
    relative: float


def reduction_length(inputs: list[int], output: int) -> float:
    """Return the longest reduction that element counts allow.

    A sum over an input reduces its elements over the output's; a product of two inputs (a matrix product) reduces
    sqrt(a * b / output) of them.

    Args:
        inputs: element counts of the inputs.
        output: element count of the output.
    """
    largest = sorted(inputs, reverse=True)[:2]
    single = max((count / output for count in largest), default=1.0)
    paired = math.sqrt(math.prod(largest) / output) if len(largest) == 2 else 1.0
    return max(1.0, single, paired)


def allowed(
    tolerance: problem_pb2.Tolerance, kind: Kind, expected: Array, length: float, sensitivity: float = 0.0
) -> Allowed:
    """Return the allowed error of one output.

    Args:
        tolerance: the problem's; a part of 0 is derived.
        kind: the output's element type.
        expected: what it should be.
        length: see `reduction_length`.
        sensitivity: largest change of the expected values when the inputs are rounded differently, for adversarial
            inputs that may be ill-conditioned.
    """
    if not kind.is_float:
        return Allowed(tolerance.absolute, tolerance.relative)
    derived = max(_FLOOR[kind.name], _GROWTH * kind.unit_roundoff * math.sqrt(length))
    finite = expected[np.isfinite(expected)]
    scale = float(np.sqrt(np.mean(np.square(finite)))) if finite.size else 0.0
    relative = tolerance.relative or derived
    absolute = tolerance.absolute or derived * scale
    return Allowed(absolute + _SENSITIVITY * sensitivity, relative)
