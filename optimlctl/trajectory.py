"""The story of a search, for programs (JSON) and for people (Markdown): pure functions of its messages.

Every number carries its provenance; every claim is shown against the counters, also those that did not hold.
"""

import json
import shlex
from collections.abc import Sequence
from typing import Any

from google.protobuf.json_format import MessageToJson

from optiml.v1 import search_pb2, verdict_pb2
from optimlctl import wording
from optimlctl.rounds import Round, outcome, read_rounds
from optimlctl.summary import finite, summarize

__all__ = ["as_json", "as_markdown"]


def as_json(optimization: search_pb2.Optimization, events: Sequence[search_pb2.Event]) -> str:
    """Return a JSON document: the summary, each round with its outcome, and the whole Optimization message."""
    document = {
        "format": "optiml-trajectory/1",
        "summary": summarize(optimization),
        "rounds": [_round(ended) for ended in read_rounds(events)],
        # Sorted, since maps of a message have no order: the same search gives the same bytes.
        "optimization": json.loads(MessageToJson(optimization, preserving_proto_field_name=True, sort_keys=True)),
    }
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _round(ended: Round) -> dict[str, Any]:
    evaluated = ended.evaluated
    compared = evaluated.HasField("against_parent")
    return {
        "round": evaluated.round,
        "parent": evaluated.parent,
        "node": evaluated.node,
        "transformation": ended.edit.transformation,
        "parameters": dict(sorted(ended.edit.parameters.items())),
        "title": ended.edit.title,
        "kernel_id": evaluated.evaluation.kernel_id,
        "verdict": wording.verdict(evaluated.evaluation.verdict),
        "kept": evaluated.kept,
        "outcome": outcome(ended),
        "speedup_over_parent": finite(evaluated.against_parent.speedup) if compared else None,
        "speedup": finite(evaluated.against_baseline.speedup) if evaluated.HasField("against_baseline") else None,
        "provenance": wording.provenance(evaluated.against_parent.provenance),
        "reward": finite(evaluated.reward.total),
    }


def as_markdown(
    optimization: search_pb2.Optimization, events: Sequence[search_pb2.Event], *, file: str, problem_file: str | None
) -> str:
    """Return the reading for a person.

    Args:
        optimization: the optimization, ended or as far as it got.
        events: its log.
        file: the input file as the person named it, for the command that reproduces the search.
        problem_file: the problem file likewise; None if the problem was inferred.
    """
    rounds = read_rounds(events)
    parts = [
        f"# {optimization.problem.name or 'kernel'}: {_headline(optimization)}",
        _facts(optimization),
        *(_link(number, link) for number, link in enumerate(optimization.chain, start=1)),
        _tried(optimization, rounds),
        _reproduce(optimization, file, problem_file),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _headline(optimization: search_pb2.Optimization) -> str:
    if optimization.HasField("failure"):
        return f"failed, {wording.verdict(optimization.failure.verdict)}"
    if optimization.chain:
        return wording.speedup(optimization.comparison)
    return "nothing faster found, the input stands"


def _facts(optimization: search_pb2.Optimization) -> str:
    baseline, best = optimization.baseline_evaluation, optimization.best_evaluation
    state = search_pb2.OptimizationState.Name(optimization.state).removeprefix("OPTIMIZATION_STATE_").lower()
    rows = [
        ("Optimization", f"`{optimization.id}`, {state}" + _because(optimization.stop_reason)),
        ("Device", wording.device(baseline.device)),
        ("Driver", baseline.device.driver),
        ("Compiler", baseline.toolchain),
        ("Counters", baseline.counter_source),
        ("Baseline", _times(baseline)),
        ("Best", _times(best) if optimization.chain else "the baseline"),
        ("Search", f"{optimization.rounds} rounds, {optimization.evaluations} kernels evaluated"),
        ("Failure", optimization.failure.message),
    ]
    table = "\n".join(f"| {name} | {_cell(value)} |" for name, value in rows if value)
    return f"| | |\n|---|---|\n{table}\n\n{_provenance_note(baseline.device.kind)}".rstrip()


def _because(stop_reason: str) -> str:
    return f" ({stop_reason})" if stop_reason else ""


def _times(evaluation: Any) -> str:
    told = []
    for timing in evaluation.timings:
        size = ", ".join(f"{name}={value}" for name, value in sorted(timing.size.parameters.items()))
        bound = f", physical limit {wording.milliseconds(timing.roofline_ms)}" if timing.roofline_ms > 0 else ""
        interval = f"{timing.low_ms:.4g} to {timing.high_ms:.4g}"
        where = f" at {size}" if size else ""
        source = wording.provenance(timing.provenance)
        told.append(f"{wording.milliseconds(timing.median_ms)} ({interval}, {source}){where}{bound}")
    return "; ".join(told)


def _provenance_note(kind: verdict_pb2.DeviceKind.ValueType) -> str:
    if kind != verdict_pb2.DEVICE_KIND_CPU:
        return ""
    return (
        "No GPU was used: kernels were compiled and checked for correctness on the CPU executor, counters are "
        "SIMULATED, and times are ESTIMATED by a model of the device. Measure on the real device before you rely on a "
        "speedup."
    )


def _link(number: int, link: search_pb2.ChainLink) -> str:
    edit, diagnosis = link.edit, link.diagnosis
    lines = [
        f"## {number}. {edit.title or wording.edit_name(edit)}",
        _won(link),
        f"**Diagnosis: {wording.bottleneck(diagnosis.bottleneck)}.** {diagnosis.summary}",
        "\n".join(_evidence(evidence) for evidence in diagnosis.evidence),
        f"**Why this edit.** {edit.rationale}" if edit.rationale else "",
        f"**What had to hold.** {edit.precondition}" if edit.precondition else "",
        _claims(link),
        f"**Judge.** {link.judgement.words}" if link.judgement.words else "",
    ]
    return "\n\n".join(line.rstrip() for line in lines if line)


def _won(link: search_pb2.ChainLink) -> str:
    over_parent, over_baseline = wording.speedup(link.against_parent), wording.speedup(link.against_baseline)
    return f"`{wording.edit_name(link.edit)}`: **{over_parent} over its parent**, {over_baseline} over the baseline."


def _evidence(evidence: search_pb2.Evidence) -> str:
    value = wording.metric_value(evidence.metric, evidence.value)
    source = wording.provenance(evidence.provenance)
    meaning = f": {evidence.meaning}" if evidence.meaning else ""
    return f"- `{evidence.metric}` = {value} ({source}){meaning}"


def _claims(link: search_pb2.ChainLink) -> str:
    if not link.judgement.claims:
        return ""
    sources = {metric.name: metric.provenance for metric in link.metrics_after}
    rows = [_claim(result, sources.get(result.claim.metric)) for result in link.judgement.claims]
    return "\n".join(["| | promised | before → after | |", "|---|---|---|---|", *rows])


def _claim(result: search_pb2.ClaimResult, source: verdict_pb2.Provenance.ValueType | None) -> str:
    name = result.claim.metric
    falls = result.claim.direction == search_pb2.DIRECTION_DECREASE
    promised = f"`{name}` {'falls' if falls else 'rises'}"
    if result.absent:
        return f"| - | {promised} | not counted here | |"
    change = f" ({_change(result.after / result.before)})" if result.before else ""
    moved = f"{wording.metric_value(name, result.before)} → {wording.metric_value(name, result.after)}{change}"
    origin = wording.provenance(source or verdict_pb2.PROVENANCE_UNSPECIFIED)
    return f"| {'✓' if result.held else '✗'} | {promised} | {moved} | {origin} |"


def _change(ratio: float) -> str:
    return f"{ratio:.3g}x" if ratio >= 2 else f"{(ratio - 1) * 100:+.1f} %"


def _tried(optimization: search_pb2.Optimization, rounds: Sequence[Round]) -> str:
    on_chain = {link.node for link in optimization.chain}
    others = [ended for ended in rounds if not (ended.evaluated.kept and ended.evaluated.node in on_chain)]
    if not others:
        return ""
    rows = []
    for ended in others:
        beside = ", but another chain was faster" if ended.evaluated.kept else ""
        told = _cell(f"{outcome(ended)}{beside}")
        rows.append(
            f"| {ended.evaluated.round} | `{wording.edit_name(ended.edit)}` | {ended.evaluated.parent} | {told} |"
        )
    return "\n".join(["## What else was tried", "", "| round | edit | of node | outcome |", "|---|---|---|---|", *rows])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _reproduce(optimization: search_pb2.Optimization, file: str, problem_file: str | None) -> str:
    settings = optimization.settings
    command = ["optimlctl", "optimize", file]
    if problem_file:
        command += ["--problem", problem_file]
    if settings.device != verdict_pb2.DEVICE_KIND_UNSPECIFIED:
        command += ["--device", verdict_pb2.DeviceKind.Name(settings.device).removeprefix("DEVICE_KIND_").lower()]
    if settings.budget.rounds:
        command += ["--rounds", str(settings.budget.rounds)]
    if settings.budget.wall_seconds:
        command += ["--time-limit", f"{settings.budget.wall_seconds:g}"]
    command += ["--seed", str(settings.seed)]
    return (
        f"## Reproduce\n\n```sh\n{shlex.join(command)}\n```\n\n"
        f"Problem `{optimization.problem.id}`, baseline kernel `{optimization.baseline.id}`, "
        f"best kernel `{optimization.best.id}`."
    )
