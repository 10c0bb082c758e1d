"""Names what limits a kernel: a table of rules, each an estimate of the share of the time that one limiter explains.

The limiter with the largest share is the bottleneck. Rules whose counters are missing say nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from optiml.v1 import evaluation_pb2, problem_pb2, search_pb2, verdict_pb2
from services.judge.facts import Facts, read_facts

__all__ = ["NAMES", "RULES", "Finding", "diagnose"]

_NEAR_ROOFLINE = 0.95
_WORTH_NAMING = 0.15  # a limiter that explains less is not worth an edit
_WORTH_EVIDENCE = 0.05
_SPILL_BYTES_OF_HALF = 256  # spills of so many bytes a thread are taken to cost half of the time

NAMES: dict[verdict_pb2.Bottleneck.ValueType, str] = {
    verdict_pb2.BOTTLENECK_DRAM_BANDWIDTH: "DRAM bandwidth",
    verdict_pb2.BOTTLENECK_UNCOALESCED_ACCESS: "uncoalesced global accesses",
    verdict_pb2.BOTTLENECK_CACHE_THROUGHPUT: "cache throughput",
    verdict_pb2.BOTTLENECK_SHARED_BANK_CONFLICTS: "shared-memory bank conflicts",
    verdict_pb2.BOTTLENECK_COMPUTE_THROUGHPUT: "arithmetic throughput",
    verdict_pb2.BOTTLENECK_INSTRUCTION_OVERHEAD: "instruction overhead",
    verdict_pb2.BOTTLENECK_LATENCY: "latency",
    verdict_pb2.BOTTLENECK_LOW_PARALLELISM: "too few blocks",
    verdict_pb2.BOTTLENECK_REGISTER_SPILLS: "register spills",
    verdict_pb2.BOTTLENECK_NONE: "nothing",
}
"""What each bottleneck is called in a sentence."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule found."""

    share: float
    """Of the time that the limiter explains, 0 to 1."""
    metric: str
    value: float
    threshold: float
    meaning: str


Rule: TypeAlias = Callable[[Facts], Finding | None]


def _dram(facts: Facts) -> Finding | None:
    share, total = facts.dram_share, facts.dram_bytes
    if share is None or total is None or facts.model is None:
        return None
    # Bytes beyond the compulsory ones that come from wasted sectors are the fault of the access pattern.
    excess = 1.0 - min(1.0, (facts.compulsory_bytes or total) / total) if total else 0.0
    peak = facts.model.dram_bytes_per_second
    meaning = f"{share:.0%} of the DRAM bandwidth of {peak / 1e12:.2g} TB/s is used"
    return Finding(share * (1 - facts.wasted_sectors * excess), "dram__bytes.sum", total, peak * facts.seconds, meaning)


def _uncoalesced(facts: Facts) -> Finding | None:
    shares = [share for share in (facts.l1_share, facts.l2_share, facts.dram_share) if share is not None]
    kind = max(("ld", "st"), key=facts.wasted_by)
    metric = f"optiml__sectors_per_request_{kind}"
    worst = facts.get(metric)
    if not shares or worst is None or not facts.wasted_sectors:
        return None
    ideal = float(facts.element_bytes)
    meaning = f"{worst:.3g} sectors a global {'load' if kind == 'ld' else 'store'} request where {ideal:g} would do"
    return Finding(facts.wasted_sectors * min(1.0, max(shares)), metric, worst, ideal, meaning)


def _cache(facts: Facts) -> Finding | None:
    shares = [share for share in (facts.l1_share, facts.l2_share) if share is not None]
    ratio = facts.get("optiml__traffic_over_compulsory")
    if not shares or ratio is None or ratio <= 1:
        return None
    meaning = f"each byte that must move is fetched {ratio:.3g} times from L1"
    repeated = 1 - 1 / ratio
    return Finding(
        max(shares) * repeated * (1 - facts.wasted_sectors), "optiml__traffic_over_compulsory", ratio, 1.0, meaning
    )


def _bank_conflicts(facts: Facts) -> Finding | None:
    found = []
    for kind in ("ld", "st"):
        metric = f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{kind}.sum"
        cycles = facts.get(metric)
        wavefronts = facts.get(f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{kind}.sum")
        share = facts.cycle_share(cycles)
        if cycles and share is not None:
            part = f", {cycles / wavefronts:.0%} of all shared-memory cycles" if wavefronts else ""
            found.append(Finding(share, metric, cycles, 0.0, f"{cycles:.3g} extra cycles by bank conflicts{part}"))
    return max(found, key=lambda finding: finding.share, default=None)


def _arithmetic(facts: Facts) -> Finding | None:
    shares = facts.pipe_shares
    if not shares:
        return None
    metric = max(shares, key=lambda name: shares[name])
    share, value = shares[metric], facts.metrics[metric]
    meaning = f"the busiest arithmetic pipe works {share:.0%} of the time"
    return Finding(share, metric, value, value / share if share else 0.0, meaning)


def _instructions(facts: Facts) -> Finding | None:
    share, instructions = facts.issue_share, facts.get("smsp__inst_executed.sum")
    if share is None or not instructions:
        return None
    useful = (facts.total("sm__inst_executed_pipe_fma.sum", "sm__inst_executed_pipe_fp64.sum") or 0.0) / instructions
    meaning = f"{share:.0%} of the issue slots are used, {1 - useful:.0%} of them for no arithmetic on the data"
    overhead = share * max(0.0, 1 - useful)
    return Finding(overhead, "smsp__inst_executed.sum", instructions, instructions * useful, meaning)


def _latency(facts: Facts) -> Finding | None:
    busiest = facts.busiest_share
    if busiest is None:
        return None
    names = ("sm__warps_active.avg.pct_of_peak_sustained_active", "sm__maximum_warps_per_active_cycle_pct")
    metric = next((name for name in names if name in facts.metrics), "optiml__time_ms")
    value = facts.metrics.get(metric, facts.seconds * 1e3)
    occupancy = f" at an occupancy of {value:.0f} %" if metric in names else ""
    meaning = f"no part of the device is busy more than {min(1.0, busiest):.0%} of the time{occupancy}: warps wait"
    return Finding(max(0.0, 1 - busiest) * facts.busy, metric, value, 100.0 if occupancy else 0.0, meaning)


def _parallelism(facts: Facts) -> Finding | None:
    blocks = facts.get("launch__grid_size")
    if not blocks or facts.model is None:
        return None
    most, idle = facts.model.multiprocessors, 1 - facts.busy
    meaning = f"{blocks:.0f} blocks on {most} multiprocessors leave {idle:.0%} of them idle"
    return Finding(idle, "launch__grid_size", blocks, float(most), meaning)


def _spills(facts: Facts) -> Finding | None:
    spilled = facts.get("optiml__spill_bytes")
    if not spilled:
        return None
    meaning = f"{spilled:.0f} bytes a thread are spilled from registers to local memory"
    return Finding(spilled / (spilled + _SPILL_BYTES_OF_HALF), "optiml__spill_bytes", spilled, 0.0, meaning)


RULES: dict[verdict_pb2.Bottleneck.ValueType, Rule] = {
    verdict_pb2.BOTTLENECK_DRAM_BANDWIDTH: _dram,
    verdict_pb2.BOTTLENECK_UNCOALESCED_ACCESS: _uncoalesced,
    verdict_pb2.BOTTLENECK_CACHE_THROUGHPUT: _cache,
    verdict_pb2.BOTTLENECK_SHARED_BANK_CONFLICTS: _bank_conflicts,
    verdict_pb2.BOTTLENECK_COMPUTE_THROUGHPUT: _arithmetic,
    verdict_pb2.BOTTLENECK_INSTRUCTION_OVERHEAD: _instructions,
    verdict_pb2.BOTTLENECK_LATENCY: _latency,
    verdict_pb2.BOTTLENECK_LOW_PARALLELISM: _parallelism,
    verdict_pb2.BOTTLENECK_REGISTER_SPILLS: _spills,
}
"""One rule for each limiter."""


def diagnose(problem: problem_pb2.Problem, evaluation: evaluation_pb2.Evaluation) -> search_pb2.Diagnosis:
    """Return what limits a kernel, with the evidence.

    Args:
        problem: what is computed; element types and sizes are read.
        evaluation: verdict OK, with times.

    Raises:
        InvalidArgumentError: the evaluation is not OK or has no times.
    """
    facts = read_facts(problem, evaluation)
    reached = facts.get("optiml__roofline_fraction")
    if reached is not None and reached >= _NEAR_ROOFLINE:
        meaning = f"the time is {1 / reached:.2f} times the physical lower bound"
        at_roofline = Finding(1.0, "optiml__roofline_fraction", reached, _NEAR_ROOFLINE, meaning)
        none = search_pb2.Diagnosis(bottleneck=verdict_pb2.BOTTLENECK_NONE, summary=f"At the roofline: {meaning}.")
        none.evidence.append(_evidence(facts, at_roofline))
        return none
    found = [(bottleneck, finding) for bottleneck, rule in RULES.items() if (finding := rule(facts)) is not None]
    found.sort(key=lambda pair: -pair[1].share)
    if not found:
        summary = f"No counters ({evaluation.counter_source or 'source unknown'}), so nothing can be named."
        return search_pb2.Diagnosis(summary=summary)
    bottleneck, strongest = found[0]
    severity = min(1.0, strongest.share)
    summary = f"Limited by {NAMES[bottleneck]} ({severity:.0%} of the time): {strongest.meaning}."
    return search_pb2.Diagnosis(
        bottleneck=bottleneck,
        severity=severity,
        evidence=[_evidence(facts, f) for _, f in found if f is strongest or f.share >= _WORTH_EVIDENCE],
        summary=summary,
        also=[other for other, f in found[1:] if f.share >= _WORTH_NAMING],
    )


def _evidence(facts: Facts, finding: Finding) -> search_pb2.Evidence:
    return search_pb2.Evidence(
        metric=finding.metric,
        value=finding.value,
        threshold=finding.threshold,
        meaning=finding.meaning,
        provenance=facts.provenances.get(finding.metric, verdict_pb2.PROVENANCE_UNSPECIFIED),
    )
