"""The object that `--json` prints: the outcome of an optimization for programs.

Keys are stable; new ones may be added. A number that is unknown is null, never a stand-in.
"""

import math
from typing import Any

from optiml.v1 import search_pb2, verdict_pb2
from optimlctl import wording

__all__ = ["finite", "summarize"]


def finite(value: float) -> float | None:
    """Return the number, or None for NaN and infinities, which JSON does not have."""
    return value if math.isfinite(value) else None


def summarize(optimization: search_pb2.Optimization) -> dict[str, Any]:
    """Return id, state, device, times, speedup with provenance, and the chain of kept edits."""
    device = optimization.baseline_evaluation.device
    kind = verdict_pb2.DeviceKind.Name(device.kind).removeprefix("DEVICE_KIND_")
    failed = optimization.HasField("failure")
    return {
        "id": optimization.id,
        "name": optimization.problem.name,
        "status": search_pb2.OptimizationState.Name(optimization.state).removeprefix("OPTIMIZATION_STATE_"),
        "device": {"name": device.name, "kind": "UNKNOWN" if kind == "UNSPECIFIED" else kind},
        **_speed(optimization),
        "rounds": optimization.rounds,
        "evaluations": optimization.evaluations,
        "stop_reason": optimization.stop_reason,
        "failure": {
            "verdict": wording.verdict(optimization.failure.verdict),
            "message": optimization.failure.message,
        }
        if failed
        else None,
        "chain": [_link(link) for link in optimization.chain],
    }


def _speed(optimization: search_pb2.Optimization) -> dict[str, Any]:
    baseline = optimization.baseline_evaluation
    baseline_ms = wording.time_ms(baseline)
    if optimization.chain and optimization.HasField("comparison"):
        comparison = optimization.comparison
        return {
            "provenance": wording.provenance(comparison.provenance),
            "baseline_ms": baseline_ms,
            "best_ms": wording.time_ms(optimization.best_evaluation),
            "speedup": finite(comparison.speedup),
            "speedup_low": finite(comparison.speedup_low),
            "speedup_high": finite(comparison.speedup_high),
        }
    known = 1.0 if baseline_ms is not None else None  # the best kernel is the baseline itself
    provenance = baseline.timings[0].provenance if baseline.timings else verdict_pb2.PROVENANCE_UNSPECIFIED
    return {
        "provenance": wording.provenance(provenance),
        "baseline_ms": baseline_ms,
        "best_ms": baseline_ms,
        "speedup": known,
        "speedup_low": known,
        "speedup_high": known,
    }


def _link(link: search_pb2.ChainLink) -> dict[str, Any]:
    return {
        "edit": link.edit.title,
        "transformation": link.edit.transformation,
        "parameters": dict(sorted(link.edit.parameters.items())),
        "diagnosis": wording.bottleneck(link.diagnosis.bottleneck),
        "diagnosis_summary": link.diagnosis.summary,
        "rationale": link.edit.rationale,
        "claims": [_claim(result) for result in link.judgement.claims],
        "speedup": finite(link.against_baseline.speedup),
        "speedup_over_parent": finite(link.against_parent.speedup),
        "provenance": wording.provenance(link.against_baseline.provenance),
    }


def _claim(result: search_pb2.ClaimResult) -> dict[str, Any]:
    return {
        "metric": result.claim.metric,
        "direction": search_pb2.Direction.Name(result.claim.direction).removeprefix("DIRECTION_"),
        "before": None if result.absent else finite(result.before),
        "after": None if result.absent else finite(result.after),
        "held": None if result.absent else result.held,
    }
