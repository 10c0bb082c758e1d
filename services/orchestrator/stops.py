"""When a search ends, and what is said of a baseline that cannot be searched."""

from optiml.v1 import search_pb2, verdict_pb2
from services.orchestrator.chain import near_roofline
from services.orchestrator.tree import Tree

__all__ = ["baseline_failure", "remaining_seconds", "stop_reason"]

_LOG_CHARACTERS = 16 << 10

_WHAT: dict[verdict_pb2.Verdict.ValueType, str] = {
    verdict_pb2.VERDICT_REJECTED_SOURCE: "is not an acceptable candidate",
    verdict_pb2.VERDICT_NOT_CHECKABLE_HERE: "cannot be checked on this executor",
    verdict_pb2.VERDICT_COMPILE_FAILED: "does not compile here",
    verdict_pb2.VERDICT_LAUNCH_FAILED: "cannot be launched",
    verdict_pb2.VERDICT_WRONG_RESULT: "does not compute what the problem says",
    verdict_pb2.VERDICT_MEMORY_FAULT: "accesses memory that is not its own",
    verdict_pb2.VERDICT_RACE: "has a data race",
    verdict_pb2.VERDICT_TIMED_OUT: "does not finish within the limit",
    verdict_pb2.VERDICT_RESOURCE_EXCEEDED: "needs more than the device has",
    verdict_pb2.VERDICT_UNSTABLE: "gives different results or times from run to run",
    verdict_pb2.VERDICT_IMPLAUSIBLE: "leaves work out at the time size, or was not measured truly",
    verdict_pb2.VERDICT_INTERNAL: "could not be evaluated, by a fault of the profiler",
}


def baseline_failure(tree: Tree) -> search_pb2.Failure | None:
    """Return why no search is worth paying for, or None if the baseline is in order."""
    evaluation = tree.root.evaluation
    if evaluation.verdict == verdict_pb2.VERDICT_OK:
        return None
    what = _WHAT.get(evaluation.verdict, "could not be evaluated")
    because = f", because {evaluation.reason}" if evaluation.reason else ""
    return search_pb2.Failure(
        verdict=evaluation.verdict or verdict_pb2.VERDICT_INTERNAL,
        message=f"your baseline {what}{because}",
        log=evaluation.log[:_LOG_CHARACTERS],
    )


def remaining_seconds(tree: Tree, settings: search_pb2.SearchSettings) -> float | None:
    """Return how much wall time the budget leaves; None if it sets no limit."""
    return settings.budget.wall_seconds - tree.seconds if settings.budget.wall_seconds else None


def stop_reason(tree: Tree, settings: search_pb2.SearchSettings) -> str:
    """Return why the search ends now, as in Optimization.stop_reason; empty if it goes on."""
    remaining = remaining_seconds(tree, settings)
    if near_roofline(tree):
        return "roofline"
    if tree.root.choice is None:
        return "exhausted"
    if (settings.budget.rounds and tree.rounds >= settings.budget.rounds) or (remaining is not None and remaining <= 0):
        return "budget"
    return ""
