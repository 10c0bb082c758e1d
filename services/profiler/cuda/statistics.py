"""Medians with 95 % intervals, from interleaved samples.

The interval is the percentile bootstrap over rounds: a round holds one sample of each kernel, taken one after another,
so resampling whole rounds keeps what they share (clocks, temperature) together. The generator is seeded: the same
samples give the same interval.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Interval", "interleaved_order", "median_interval", "ratio_interval"]

_RESAMPLES = 1000
_LEVEL = (2.5, 97.5)


@dataclass(frozen=True, slots=True)
class Interval:
    """A central value and its 95 % interval."""

    central: float
    low: float
    high: float


def interleaved_order(kernels: int, rounds: int) -> list[list[int]]:
    """Return who runs when: forward, then backward, so that a drift hits all alike (ABBA)."""
    forward = list(range(kernels))
    return [forward if turn % 2 == 0 else forward[::-1] for turn in range(rounds)]


def _resampled_medians(samples: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return medians of resampled rounds; `samples` is [rounds, kernels], the result [resamples, kernels]."""
    generator = np.random.Generator(np.random.PCG64(0))
    rounds = samples.shape[0]
    chosen = generator.integers(0, rounds, (_RESAMPLES, rounds))
    medians: npt.NDArray[np.float64] = np.median(samples[chosen], axis=1)
    return medians


def median_interval(samples_ms: list[float]) -> Interval:
    """Return the median and its interval, in the samples' unit. At least one sample is needed."""
    samples = np.asarray(samples_ms, dtype=np.float64)[:, None]
    low, high = np.percentile(_resampled_medians(samples)[:, 0], _LEVEL)
    return Interval(float(np.median(samples)), float(low), float(high))


def ratio_interval(ours_ms: list[float], others_ms: list[float]) -> Interval:
    """Return the other's median over ours, with its interval; both lists hold the same rounds."""
    samples = np.stack([np.asarray(ours_ms, np.float64), np.asarray(others_ms, np.float64)], axis=1)
    medians = _resampled_medians(samples)
    low, high = np.percentile(medians[:, 1] / medians[:, 0], _LEVEL)
    central = np.median(samples[:, 1]) / np.median(samples[:, 0])
    return Interval(float(central), float(low), float(high))
