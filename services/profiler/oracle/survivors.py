"""Broken kernels that passed: do they compute the same after all, and if not, what would have shown them?"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from optiml.errors import InvalidArgumentError
from optiml.v1 import profiler_service_pb2
from services.profiler.cases import Given
from services.profiler.checks import Budget, Candidate, allowed_error, checked
from services.profiler.failure import CandidateError
from services.profiler.inputs import Case
from services.profiler.oracle.probes import Probe, probes
from services.profiler.reference import output_arguments
from services.profiler.storage import kind_of

__all__ = ["Survivor", "examine"]

_BEYOND_ROUNDING = 2.0  # times the error of the unbroken kernel: what another order of summation does not reach
_NO_ERROR = 1e-3  # of the tolerance
_SECONDS = 2.0  # of one run


@dataclass(frozen=True, slots=True)
class Survivor:
    """A broken kernel that passed every check."""

    told: profiler_service_pb2.Mutant
    candidate: Candidate
    error_ratio: float
    """Largest error over what is tolerated."""


async def examine(whole: Candidate, error_ratio: float, survivors: Sequence[Survivor], deadline: float) -> None:
    """Settle the fate of each survivor, with a suggestion where one was found.

    Args:
        whole: the unbroken kernel.
        error_ratio: its largest error over what is tolerated.
        survivors: whose messages are completed.
        deadline: of `time.monotonic`; no probe begins after it.
    """
    open_ones = list(survivors)
    for survivor in survivors:
        if survivor.error_ratio > max(_BEYOND_ROUNDING * error_ratio, _NO_ERROR):
            survivor.told.suggestion = await _tighter(whole, error_ratio, survivor.error_ratio)
            open_ones.remove(survivor)
    for probe in probes(whole.problem):
        if not open_ones or time.monotonic() > deadline:
            break
        given = await _usable(whole, probe)
        if given is None:
            continue
        for survivor in list(open_ones):
            if time.monotonic() > deadline:
                break
            if not await _passes(survivor.candidate, probe, given):
                survivor.told.suggestion = probe.suggestion
                open_ones.remove(survivor)
    for survivor in open_ones:
        survivor.told.fate = profiler_service_pb2.MUTANT_FATE_MAY_BE_EQUIVALENT


async def _tighter(whole: Candidate, error_ratio: float, broken_ratio: float) -> str:
    """Return a tolerance between the error of the kernel and that of the broken one."""
    given = await whole.cases.given(whole.problem, Case.of(whole.problem.smoke[0], seed=1))
    assert given is not None  # drawn inputs are never passed over
    floats = [a for a in output_arguments(whole.problem) if kind_of(a.data_type).is_float]
    if not floats:
        return ""
    relative = max(allowed_error(whole.problem, argument, given).relative for argument in floats)
    ratio = max(np.sqrt(error_ratio * broken_ratio), broken_ratio / 4)
    return f"set a tolerance of about {relative * ratio:.1g} relative"


async def _usable(whole: Candidate, probe: Probe) -> Given | None:
    """Return the probe's case; None where the reference or the unbroken kernel cannot take it."""
    try:
        given = await whole.cases.given(probe.problem, Case.of(probe.problem.smoke[0], seed=1))
    except InvalidArgumentError:
        return None
    finite = given is not None and any(np.isfinite(values).any() for values in given.expected.values())
    return given if given is not None and finite and await _passes(whole, probe, given) else None


async def _passes(candidate: Candidate, probe: Probe, given: Given) -> bool:
    probed = replace(candidate, problem=probe.problem, budget=Budget(3 * _SECONDS))
    try:
        return (await checked(probed, given)).passed
    except CandidateError:
        return False
