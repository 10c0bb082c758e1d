"""Holds an edit to its claims: was it aimed at the bottleneck, did the counters move as promised, may it be kept.

The judge ranks and vetoes; it never accepts.
"""

from collections.abc import Iterator, Mapping

from optiml.devices import device_model
from optiml.errors import FieldViolation
from optiml.metrics import METRICS
from optiml.problem import require_valid
from optiml.v1 import evaluation_pb2, judge_service_pb2, search_pb2, verdict_pb2
from services.judge.diagnose import NAMES

__all__ = ["judge"]

_MOVED = 0.01  # a metric that changes by less than this has not moved: repeated counter passes differ by as much
_AIMED, _AIMED_BESIDE, _NO_AIM, _AIMED_ELSEWHERE, _UNKNOWN = 1.0, 0.6, 0.3, 0.2, 0.5
_NOTHING_TO_CHECK = 0.5
_TOLERANCE_USED_UP = 0.9
_FASTER_THAN_PHYSICS = 1.1  # times the lower bound; the bound's own error is a few percent


def judge(request: judge_service_pb2.JudgeRequest) -> search_pb2.Judgement:
    """Return the opinion of an evaluated edit.

    Args:
        request: edit, diagnosis of the parent, both evaluations, and their comparison if there is one.

    Raises:
        InvalidArgumentError: an evaluation is missing or not OK.
    """
    _require_ok(request)
    before, after = ({m.name: m.value for m in e.metrics} for e in (request.before, request.after))
    claims = [_check(claim, before, after) for claim in request.edit.claims]
    plausibility, aim = _plausibility(request.edit, request.diagnosis)
    checked = [claim for claim in claims if not claim.absent]
    support = sum(claim.held for claim in checked) / len(checked) if checked else _NOTHING_TO_CHECK
    vetoes = list(_vetoes(request, checked))
    sentences = [f"{aim}.", _told_claims(claims), _told_speed(request.comparison), *(f"Veto: {v}." for v in vetoes)]
    return search_pb2.Judgement(
        plausibility=plausibility,
        support=support,
        claims=claims,
        veto=bool(vetoes),
        words=" ".join(sentence for sentence in sentences if sentence),
    )


def _require_ok(request: judge_service_pb2.JudgeRequest) -> None:
    verdicts = {"before": request.before.verdict, "after": request.after.verdict}
    require_valid(
        [
            FieldViolation(
                f"{name}.verdict", f"is {verdict_pb2.Verdict.Name(verdict)}, only correct kernels are judged"
            )
            for name, verdict in verdicts.items()
            if verdict != verdict_pb2.VERDICT_OK
        ]
    )


def _check(claim: search_pb2.Claim, before: Mapping[str, float], after: Mapping[str, float]) -> search_pb2.ClaimResult:
    result = search_pb2.ClaimResult(claim=claim)
    if claim.metric not in before or claim.metric not in after:
        result.absent = True
        return result
    result.before, result.after = before[claim.metric], after[claim.metric]
    moved = result.after - result.before
    if claim.direction == search_pb2.DIRECTION_DECREASE:
        moved = -moved
    result.held = moved > _MOVED * max(abs(result.before), abs(result.after))
    return result


def _plausibility(edit: search_pb2.Edit, diagnosis: search_pb2.Diagnosis) -> tuple[float, str]:
    """Return how well the edit was aimed, and a sentence (without its full stop) that says so."""
    name = NAMES.get(diagnosis.bottleneck, "")
    if diagnosis.bottleneck in {verdict_pb2.BOTTLENECK_UNSPECIFIED, verdict_pb2.BOTTLENECK_NONE}:
        return _UNKNOWN, "No bottleneck to aim at was known"
    if not edit.targets:
        return _NO_AIM, f"Names no target; its parent was limited by {name}"
    if diagnosis.bottleneck in edit.targets:
        return _AIMED, f"Aimed at {name}, which limited its parent"
    beside = [NAMES.get(target, "") for target in edit.targets if target in diagnosis.also]
    if beside:
        return _AIMED_BESIDE, f"Aimed at {beside[0]}, a lesser limiter of its parent after {name}"
    return _AIMED_ELSEWHERE, f"Aimed at {NAMES.get(edit.targets[0], 'nothing known')}, though {name} limited its parent"


def _vetoes(request: judge_service_pb2.JudgeRequest, checked: list[search_pb2.ClaimResult]) -> Iterator[str]:
    low, high = request.comparison.speedup_low, request.comparison.speedup_high
    spilled_before, spilled = _spill_bytes(request.before), _spill_bytes(request.after)
    if spilled > spilled_before and low <= 1:
        yield f"spills rose from {spilled_before} to {spilled} bytes a thread and it is not surely faster"
    if checked and not any(claim.held for claim in checked) and low <= 1 <= high:
        yield "no claim held and the speedup is within noise"
    error_before, error = _largest_error(request.before), _largest_error(request.after)
    if error > _TOLERANCE_USED_UP and error > 2 * error_before:
        yield f"its error uses {error:.0%} of the tolerance, its parent's {error_before:.0%}"
    bound = _times_faster_than_bound(request.after)
    if bound > _FASTER_THAN_PHYSICS:
        yield f"it was timed {bound:.2f} times faster than the bytes that must move allow"


def _spill_bytes(evaluation: evaluation_pb2.Evaluation) -> int:
    return sum(resources.spill_store_bytes + resources.spill_load_bytes for resources in evaluation.resources)


def _largest_error(evaluation: evaluation_pb2.Evaluation) -> float:
    return max((check.max_error_over_tolerance for check in evaluation.checks if check.passed), default=0.0)


def _times_faster_than_bound(evaluation: evaluation_pb2.Evaluation) -> float:
    """Return roofline over time, if it was measured on a problem far larger than L2; else 0.

    What fits in L2 may well be faster than DRAM: there the bound is none.
    """
    try:
        model = device_model(evaluation.device.name)
    except KeyError:
        return 0.0
    l2_ms = 4 * model.l2_bytes / model.dram_bytes_per_second * 1e3
    return max(
        (
            timing.roofline_ms / timing.median_ms
            for timing in evaluation.timings
            if timing.provenance == verdict_pb2.PROVENANCE_MEASURED
            and timing.median_ms > 0
            and timing.roofline_ms > l2_ms
        ),
        default=0.0,
    )


def _told_claims(claims: list[search_pb2.ClaimResult]) -> str:
    checked = [claim for claim in claims if not claim.absent]
    if not checked:
        return "None of its claims could be checked." if claims else "It claims nothing."
    held = sum(claim.held for claim in checked)
    told = "; ".join(_told_claim(claim) for claim in checked)
    return f"{held} of {len(checked)} claims held: {told}."


def _told_claim(claim: search_pb2.ClaimResult) -> str:
    name = claim.claim.metric
    known = METRICS.get(name)
    what = known.meaning if known else name
    change = f", {claim.after / claim.before - 1:+.0%}" if claim.before else ""
    direction = "" if claim.held else " (not as promised)"
    return f"{what} {claim.before:.4g} → {claim.after:.4g}{change}{direction}"


def _told_speed(comparison: evaluation_pb2.Comparison) -> str:
    if comparison.speedup <= 0:
        return ""
    kind = {verdict_pb2.PROVENANCE_MEASURED: "measured", verdict_pb2.PROVENANCE_SIMULATED: "simulated"}
    how = kind.get(comparison.provenance, "estimated")
    interval = f"[{comparison.speedup_low:.3g}, {comparison.speedup_high:.3g}]"
    return f"{comparison.speedup:.3g} times its parent's speed {interval}, {how}."
