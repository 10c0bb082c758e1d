"""Compares one output with what it should be, in the service's process: a candidate's process is never believed."""

from dataclasses import dataclass

import numpy as np

from services.profiler.storage import Array, Kind, to_wide
from services.profiler.tolerance import Allowed

__all__ = ["POISON", "SECOND_POISON", "Difference", "compare"]

POISON, SECOND_POISON = 0xFF, 0xA5  # 0xFF… is a NaN in every float type; two runs with two poisons expose integers


@dataclass(frozen=True, slots=True)
class Difference:
    """How far an output is from its expected values."""

    max_absolute: float
    """Over the finite elements."""
    max_over_allowed: float
    """Above 1 fails; infinity where a NaN or infinity disagrees or an element was not written."""
    reason: str
    """Empty when all elements pass; else the first one that does not: "C[3, 17] is 0, expected 1.25"."""


def _number(value: float) -> str:
    return f"{value:.6g}"


def _index(flat: int, shape: tuple[int, ...]) -> str:
    return ", ".join(str(int(i)) for i in np.unravel_index(flat, shape))


def _poisoned(stored: Array, poison: int) -> Array:
    """Return where all bytes of an element are still poison."""
    octets = np.ascontiguousarray(stored).reshape(-1).view(np.uint8).reshape(stored.size, -1)
    is_poisoned: Array = np.all(octets == poison, axis=1)
    return is_poisoned


def _errors(got: Array, expected: Array) -> Array:
    errors: Array
    if got.dtype.kind == "f":
        with np.errstate(invalid="ignore", over="ignore"):
            errors = np.abs(got - expected)
        return errors
    larger = np.maximum(got, expected).astype(np.float64)
    errors = larger - np.minimum(got, expected).astype(np.float64)
    return np.where(got == expected, 0.0, np.maximum(errors, 1.0))  # float64 loses digits of 64-bit integers


def compare(
    name: str, stored: Array, expected: Array, kind: Kind, allowed: Allowed, *,
    poison: int | None = POISON, may_be_unwritten: bool = False,
) -> Difference:  # fmt: skip
    """Compare an output, element by element.

    Args:
        name: of the output, for the reason.
        stored: what the candidate left, in storage type, shaped.
        expected: float64 for floats (NaN where the reference leaves an element unwritten), else integers; same shape.
        kind: the element type.
        allowed: the allowed error.
        poison: the byte that filled the output before the run; None for an output that was given (INOUT).
        may_be_unwritten: elements that are NaN in `expected` are not compared.
    """
    shape = stored.shape
    got, wanted = to_wide(stored, kind).reshape(-1), expected.reshape(-1)
    unwritten = np.zeros(got.size, bool) if poison is None else _poisoned(stored, poison)
    if kind.is_float:
        with np.errstate(invalid="ignore", over="ignore"):
            errors = _errors(got, wanted)
            over = errors / np.maximum(allowed.absolute + allowed.relative * np.abs(wanted), np.finfo(np.float64).tiny)
            # An expected value beyond the type's range is an infinity of its sign in it.
            limit = kind.largest * (1 + kind.unit_roundoff)
            wanted_stored = np.where(np.abs(wanted) > limit, np.copysign(np.inf, wanted), wanted)
            special = ~np.isfinite(got) | ~np.isfinite(wanted_stored)
            agrees = (np.isnan(got) & np.isnan(wanted_stored)) | (got == wanted_stored)
        over = np.where(special, np.where(agrees, 0.0, np.inf), over)
        errors = np.where(special, 0.0, errors)
        over = np.where(unwritten, np.inf, over)
        if may_be_unwritten:
            over = np.where(np.isnan(wanted), 0.0, over)
    else:
        errors = _errors(got, wanted)
        over = np.where(errors > allowed.absolute + allowed.relative * np.abs(wanted.astype(np.float64)), np.inf, 0.0)
        if may_be_unwritten:  # a kernel as reference leaves the first poison
            over = np.where(unwritten & _poisoned(wanted.astype(kind.storage), POISON), 0.0, over)
    worst = float(np.max(over, initial=0.0))
    largest = float(np.max(errors, initial=0.0))
    if worst <= 1.0:
        return Difference(largest, worst, "")
    first = int(np.argmax(over > 1.0))
    wrong = int(np.count_nonzero(over > 1.0))
    count = f"; {wrong} of {got.size} elements are wrong" if wrong > 1 else ""
    where = f"{name}[{_index(first, shape)}]"
    if unwritten[first]:
        return Difference(largest, worst, f"{where} was never written, expected {_number(wanted[first])}{count}")
    return Difference(largest, worst, f"{where} is {_number(got[first])}, expected {_number(wanted[first])}{count}")
