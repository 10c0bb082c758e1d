"""The reward of one round: a weighted mean of what is known, and penalties.

Terms that are absent (no times, no counters, no judgement) give their weight to the others, so that a machine without
counters searches by time alone instead of by a smaller reward.
"""

import math
from collections.abc import Iterable

from optiml.v1 import evaluation_pb2, search_pb2, verdict_pb2
from optiml.v1.verdict_pb2 import Bottleneck

__all__ = ["PENALTIES", "SIGNALS", "SPILL_PENALTY", "reward_of"]

PENALTIES: dict[verdict_pb2.Verdict.ValueType, float] = {
    verdict_pb2.VERDICT_REJECTED_SOURCE: -0.5,
    verdict_pb2.VERDICT_NOT_CHECKABLE_HERE: -0.3,  # perhaps a good kernel, but none that can be proved here
    verdict_pb2.VERDICT_COMPILE_FAILED: -0.5,
    verdict_pb2.VERDICT_LAUNCH_FAILED: -0.5,
    verdict_pb2.VERDICT_WRONG_RESULT: -1.0,
    verdict_pb2.VERDICT_MEMORY_FAULT: -1.0,
    verdict_pb2.VERDICT_RACE: -1.0,
    verdict_pb2.VERDICT_TIMED_OUT: -0.7,
    verdict_pb2.VERDICT_RESOURCE_EXCEEDED: -0.4,  # a smaller tile of the same idea may fit
    verdict_pb2.VERDICT_UNSTABLE: -0.5,
    verdict_pb2.VERDICT_IMPLAUSIBLE: -1.0,
    verdict_pb2.VERDICT_INTERNAL: 0.0,  # says nothing about the candidate
}
"""What a failed evaluation costs, in the unit of the reward (1 is an infinite speedup)."""

SPILL_PENALTY = -0.2
"""A correct kernel that spills more registers than its parent."""

_LD_SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
_ST_SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"
_INSTRUCTIONS = "smsp__inst_executed.sum"
_OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"

SIGNALS: dict[Bottleneck.ValueType, dict[str, int]] = {
    verdict_pb2.BOTTLENECK_DRAM_BANDWIDTH: {"dram__bytes_read.sum": -1, "dram__bytes_write.sum": -1},
    verdict_pb2.BOTTLENECK_UNCOALESCED_ACCESS: {
        "optiml__sectors_per_request_ld": -1,
        "optiml__sectors_per_request_st": -1,
        _LD_SECTORS: -1,
        _ST_SECTORS: -1,
    },
    verdict_pb2.BOTTLENECK_CACHE_THROUGHPUT: {_LD_SECTORS: -1, _ST_SECTORS: -1, "lts__t_sectors_op_read.sum": -1},
    verdict_pb2.BOTTLENECK_SHARED_BANK_CONFLICTS: {
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum": -1,
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum": -1,
    },
    verdict_pb2.BOTTLENECK_COMPUTE_THROUGHPUT: {_INSTRUCTIONS: -1, "sm__inst_executed_pipe_fma.sum": -1},
    verdict_pb2.BOTTLENECK_INSTRUCTION_OVERHEAD: {_INSTRUCTIONS: -1, "sm__inst_executed_pipe_alu.sum": -1},
    verdict_pb2.BOTTLENECK_LATENCY: {
        _OCCUPANCY: 1,
        "sm__maximum_warps_per_active_cycle_pct": 1,
        "smsp__issue_active.avg.pct_of_peak_sustained_active": 1,
        _INSTRUCTIONS: -1,
    },
    verdict_pb2.BOTTLENECK_LOW_PARALLELISM: {"launch__waves_per_multiprocessor": 1, "launch__grid_size": 1},
    verdict_pb2.BOTTLENECK_REGISTER_SPILLS: {"optiml__spill_bytes": -1, "launch__registers_per_thread": -1},
}
"""For each bottleneck the metrics that matter, and which way is good: 1 up, -1 down."""


def reward_of(
    edge: search_pb2.EditEvaluated,
    parent: evaluation_pb2.Evaluation,
    diagnosis: search_pb2.Diagnosis,
    settings: search_pb2.SearchSettings,
) -> search_pb2.Reward:
    """Return the reward of an evaluated edit, term by term.

    Args:
        edge: evaluation, comparisons and judgement are read.
        parent: the parent's evaluation.
        diagnosis: what limited the parent.
        settings: weights, with defaults filled in.
    """
    if edge.evaluation.verdict != verdict_pb2.VERDICT_OK:
        penalty = PENALTIES.get(edge.evaluation.verdict, 0.0)
        return search_pb2.Reward(penalty=penalty, total=penalty)
    time = _time(edge)
    proxy = _proxy(parent.metrics, edge.evaluation.metrics, diagnosis.bottleneck)
    judge = _judge(edge)
    penalty = SPILL_PENALTY if _spill_bytes(edge.evaluation) > _spill_bytes(parent) else 0.0
    weighted = [(time, settings.weight_time), (proxy, settings.weight_proxy), (judge, settings.weight_judge)]
    known = [(term, weight) for term, weight in weighted if term is not None]
    weights = sum(weight for _, weight in known)
    mean = sum(term * weight for term, weight in known) / weights if weights else 0.0
    total = max(-1.0, mean + penalty)
    return search_pb2.Reward(time=time or 0.0, proxy=proxy or 0.0, judge=judge or 0.0, penalty=penalty, total=total)


def _time(edge: search_pb2.EditEvaluated) -> float | None:
    speedup = edge.against_baseline.speedup
    return math.tanh(math.log(speedup)) if speedup > 0 else None


def _proxy(
    before: Iterable[evaluation_pb2.Metric], after: Iterable[evaluation_pb2.Metric], bottleneck: Bottleneck.ValueType
) -> float | None:
    """Mean over the bottleneck's metrics of the movement relative to the larger value: -1 to 1, 1 is all gone."""
    old, new = ({m.name: m.value for m in metrics if math.isfinite(m.value)} for metrics in (before, after))
    moves = [
        good * (new[name] - old[name]) / max(abs(new[name]), abs(old[name]))
        for name, good in SIGNALS.get(bottleneck, {}).items()
        if name in old and name in new and (new[name] or old[name])
    ]
    return max(-1.0, min(1.0, sum(moves) / len(moves))) if moves else None


def _judge(edge: search_pb2.EditEvaluated) -> float | None:
    if not edge.HasField("judgement"):
        return None
    return edge.judgement.plausibility + edge.judgement.support - 1.0


def _spill_bytes(evaluation: evaluation_pb2.Evaluation) -> int:
    return sum(r.spill_store_bytes + r.spill_load_bytes for r in evaluation.resources)
