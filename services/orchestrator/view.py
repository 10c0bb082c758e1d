"""Optimization messages, derived by folding the log: nothing of them is stored twice."""

from optiml.v1 import search_pb2
from services.orchestrator.chain import best_chain
from services.orchestrator.settings import SearchTuning
from services.orchestrator.tree import Edge, Tree
from services.orchestrator.uct import Selection

__all__ = ["brief", "empty_tree", "view"]


def empty_tree(created: search_pb2.Optimization, tuning: SearchTuning) -> Tree:
    """Return the tree of an optimization before its first event."""
    selection = Selection(
        created.settings.exploration, tuning.best_weight, tuning.widening_factor, tuning.widening_exponent
    )
    return Tree(created.baseline, selection)


def view(created: search_pb2.Optimization, tree: Tree) -> search_pb2.Optimization:
    """Return an optimization as it is after the events that the tree has seen.

    Args:
        created: as it was stored: id, request id, problem, baseline, settings and time of creation.
        tree: the fold of its log.
    """
    seen = search_pb2.Optimization()
    seen.CopyFrom(created)
    seen.state = search_pb2.OPTIMIZATION_STATE_RUNNING if tree.sequence else search_pb2.OPTIMIZATION_STATE_PENDING
    seen.rounds, seen.evaluations, seen.last_sequence = tree.rounds, len(tree.nodes), tree.sequence
    if tree.finished is not None:
        finished = tree.finished.finished
        seen.state, seen.stop_reason = finished.state, finished.stop_reason
        seen.finished_at.CopyFrom(tree.finished.time)
        if finished.HasField("failure"):
            seen.failure.CopyFrom(finished.failure)
    if not tree.nodes:
        seen.best.CopyFrom(created.baseline)
        return seen
    best = tree.nodes[tree.best]
    seen.chain.extend(_link(tree, edge) for edge in best_chain(tree))
    seen.best.CopyFrom(best.kernel)
    seen.baseline_evaluation.CopyFrom(tree.root.evaluation)
    seen.best_evaluation.CopyFrom(best.evaluation)
    if best.made_by is not None:
        seen.comparison.CopyFrom(best.made_by.event.against_baseline)
    return seen


def brief(seen: search_pb2.Optimization) -> search_pb2.Optimization:
    """Return an optimization for a list: without kernels and evaluations."""
    short = search_pb2.Optimization()
    short.CopyFrom(seen)
    for name in ("baseline", "best", "baseline_evaluation", "best_evaluation"):
        short.ClearField(name)
    short.problem.ClearField("reference")
    for link in short.chain:
        link.edit.ClearField("kernel")
        link.ClearField("metrics_before")
        link.ClearField("metrics_after")
    return short


def _link(tree: Tree, edge: Edge) -> search_pb2.ChainLink:
    parent, event = tree.nodes[edge.parent], edge.event
    assert parent.edits is not None
    return search_pb2.ChainLink(
        node=edge.node,
        edit=parent.edits[edge.edit],
        diagnosis=parent.diagnosis,
        judgement=event.judgement if event.HasField("judgement") else None,
        against_parent=event.against_parent,
        against_baseline=event.against_baseline,
        metrics_before=parent.evaluation.metrics,
        metrics_after=event.evaluation.metrics,
    )
