"""Numbers and enum values in words, the same in every view. A number never appears without its provenance."""

import math

from optiml.metrics import METRICS
from optiml.v1 import evaluation_pb2, search_pb2, verdict_pb2

__all__ = [
    "bottleneck",
    "device",
    "duration",
    "edit_name",
    "metric_value",
    "milliseconds",
    "provenance",
    "speedup",
    "time_ms",
    "verdict",
]


def provenance(value: verdict_pb2.Provenance.ValueType) -> str:
    """Return `MEASURED`, `SIMULATED`, `ESTIMATED`, or `UNKNOWN` if it is not set."""
    name = verdict_pb2.Provenance.Name(value).removeprefix("PROVENANCE_")
    return "UNKNOWN" if name == "UNSPECIFIED" else name


def verdict(value: verdict_pb2.Verdict.ValueType) -> str:
    """Return the verdict's name without prefix, as in `WRONG_RESULT`."""
    return verdict_pb2.Verdict.Name(value).removeprefix("VERDICT_")


def bottleneck(value: verdict_pb2.Bottleneck.ValueType) -> str:
    """Return the bottleneck in words, as in `uncoalesced access`."""
    return verdict_pb2.Bottleneck.Name(value).removeprefix("BOTTLENECK_").replace("_", " ").lower()


def device(value: evaluation_pb2.Device) -> str:
    """Return the device for a person, as in `NVIDIA H200 (sm_90)` or `CPU executor, modelled as H200 (sm_90)`."""
    architecture = f" ({value.architecture})" if value.architecture else ""
    if value.kind == verdict_pb2.DEVICE_KIND_CPU:
        return f"CPU executor, modelled as {value.name or 'an unnamed device'}{architecture}"
    return f"{value.name or 'unknown device'}{architecture}"


def time_ms(evaluation: evaluation_pb2.Evaluation) -> float | None:
    """Return the geometric mean of the median times over the sizes; None if it has no times."""
    medians = [timing.median_ms for timing in evaluation.timings]
    if not medians or not all(0 < median < math.inf for median in medians):
        return None
    return math.exp(math.fsum(math.log(median) for median in medians) / len(medians))


def milliseconds(value: float | None) -> str:
    """Return a time with four digits that count, as in `0.2006 ms`."""
    return "no time" if value is None else f"{value:.4g} ms"


def speedup(comparison: evaluation_pb2.Comparison) -> str:
    """Return a speedup with its interval and provenance, as in `1.54x (1.51 to 1.57, MEASURED)`."""
    interval = f"{comparison.speedup_low:.2f} to {comparison.speedup_high:.2f}"
    return f"{comparison.speedup:.2f}x ({interval}, {provenance(comparison.provenance)})"


def duration(seconds: float) -> str:
    """Return a duration, as in `42 s` or `3 min 20 s`."""
    whole = max(0, round(seconds))
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60:02d} s"


def edit_name(edit: search_pb2.Edit) -> str:
    """Return transformation and parameters, as in `tile_shared_memory tile=16`."""
    parameters = [f"{name}={value}" for name, value in sorted(edit.parameters.items())]
    return " ".join([edit.transformation or "unknown edit", *parameters])


def metric_value(name: str, value: float) -> str:
    """Return a metric's value with its unit, as in `1,073,741,824 sectors` or `63.8 %`."""
    known = METRICS.get(name)
    number = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    if known is None or not known.unit:
        return number
    plural = "" if known.unit in {"%", "ns", "ms", "s"} or value == 1 else "s"
    return f"{number} {known.unit}{plural}"
