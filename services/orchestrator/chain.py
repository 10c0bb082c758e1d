"""KEEP, the best chain of kept edits, and the roofline.

KEEP is: correct, faster than its parent beyond noise, not vetoed.

- MEASURED: the whole 95 % interval of the speedup over the parent is above 1.
- ESTIMATED: the central estimate is above 1.02 and the counters do not speak against it (the judge found support of at
  least one half). The model's range is no noise: parent and child share its errors, so asking for the whole range above
  1 would keep nothing. Counters of the CPU executor are exact, so a promise that they do not bear out is decisive.
"""

from optiml.v1 import search_pb2, verdict_pb2
from services.orchestrator.tree import Edge, Tree

__all__ = ["best_chain", "is_kept", "near_roofline"]

_LEAST_ESTIMATED_SPEEDUP = 1.02
_LEAST_SUPPORT = 0.5
_ROOFLINE_MARGIN = 1.05


def is_kept(edge: search_pb2.EditEvaluated) -> bool:
    """Return whether an evaluated and judged edit is kept."""
    if edge.evaluation.verdict != verdict_pb2.VERDICT_OK or edge.judgement.veto:
        return False
    comparison = edge.against_parent
    if comparison.provenance == verdict_pb2.PROVENANCE_MEASURED:
        return comparison.speedup_low > 1
    supported = not edge.HasField("judgement") or edge.judgement.support >= _LEAST_SUPPORT
    return supported and comparison.speedup > _LEAST_ESTIMATED_SPEEDUP


def best_chain(tree: Tree) -> list[Edge]:
    """Return the kept edits from the baseline to the best node, first edit first; empty if nothing was kept."""
    chain: list[Edge] = []
    index = tree.best
    while index != 0:
        edge = tree.nodes[index].kept_by
        assert edge is not None, "the best node ends a chain of kept edits"
        chain.append(edge)
        index = edge.parent
    return chain[::-1]


def near_roofline(tree: Tree) -> bool:
    """Return whether the best kernel is within 5 % of the physical limit at every time size, by measurement.

    An estimate never stops a search: its roofline and its time come from the same model.
    """
    timings = tree.nodes[tree.best].evaluation.timings
    return bool(timings) and all(
        timing.provenance == verdict_pb2.PROVENANCE_MEASURED
        and 0 < timing.median_ms <= _ROOFLINE_MARGIN * timing.roofline_ms
        for timing in timings
    )
