"""An evaluation as a person reads it: verdict, checks, times, resources, counters."""

from collections.abc import Iterator

from optiml.metrics import METRICS
from optiml.v1 import evaluation_pb2, verdict_pb2
from optimlctl import wording

__all__ = ["report"]


def report(evaluation: evaluation_pb2.Evaluation) -> Iterator[str]:
    """Yield the lines, without line breaks."""
    reason = f": {evaluation.reason}" if evaluation.reason else ""
    yield f"verdict   {wording.verdict(evaluation.verdict)}{reason}"
    yield f"device    {wording.device(evaluation.device)}"
    yield f"compiler  {evaluation.toolchain}"
    yield from (f"check     {_check(check)}" for check in evaluation.checks)
    yield from (f"finding   {finding.kind}: {finding.message}" for finding in evaluation.findings)
    yield from (f"time      {_timing(timing)}" for timing in evaluation.timings)
    yield from (f"resources {_resources(resources)}" for resources in evaluation.resources)
    if evaluation.metrics:
        yield f"counters  ({evaluation.counter_source})"
        yield from (f"  {_metric(metric)}" for metric in evaluation.metrics)
    if evaluation.verdict != verdict_pb2.VERDICT_OK:
        yield from evaluation.log.splitlines()


def _size(size: evaluation_pb2.Check | evaluation_pb2.Timing) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(size.size.parameters.items()))


def _check(check: evaluation_pb2.Check) -> str:
    mark = "✓" if check.passed else "✗"
    told = f"{mark} {check.level} {_size(check)} inputs {check.inputs}, seed {check.seed}"
    return told if check.passed else f"{told}: {check.reason}"


def _timing(timing: evaluation_pb2.Timing) -> str:
    limit = f", physical limit {wording.milliseconds(timing.roofline_ms)}" if timing.roofline_ms > 0 else ""
    interval = f"{timing.low_ms:.4g} to {timing.high_ms:.4g}"
    source = wording.provenance(timing.provenance)
    return f"{wording.milliseconds(timing.median_ms)} ({interval}, {source}) at {_size(timing)}{limit}"


def _resources(resources: evaluation_pb2.Resources) -> str:
    spills = resources.spill_store_bytes + resources.spill_load_bytes
    limiter = f", limited by {resources.occupancy_limiter}" if resources.occupancy_limiter else ""
    return (
        f"{resources.kernel}: {resources.registers} registers, {resources.static_shared_memory_bytes} bytes shared, "
        f"{spills} bytes spilled, occupancy {resources.occupancy:.0%}{limiter}"
    )


def _metric(metric: evaluation_pb2.Metric) -> str:
    known = METRICS.get(metric.name)
    meaning = f"  {known.meaning}" if known else ""
    value = wording.metric_value(metric.name, metric.value)
    return f"{metric.name} = {value} ({wording.provenance(metric.provenance)}){meaning}"
