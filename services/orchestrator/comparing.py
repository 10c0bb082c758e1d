"""Comparisons of a kernel with its parent and the baseline, and evaluations that are known already."""

from optiml.v1 import evaluation_pb2, profiler_service_pb2, search_pb2, verdict_pb2
from services.orchestrator.ports import OnStage, Ports
from services.orchestrator.tree import Node, Tree

__all__ = ["evaluate_candidate", "evaluate_transposition"]


async def evaluate_candidate(
    tree: Tree, parent: Node, request: profiler_service_pb2.EvaluateRequest, ports: Ports, on_stage: OnStage
) -> search_pb2.EditEvaluated:
    """Evaluate a kernel that the tree does not know; what another optimization found out is not measured again.

    Args:
        tree: gives the baseline.
        parent: what it is compared against, with the baseline.
        request: with problem, kernel and device set; the rest is filled in here.
        ports: profiler and memory are asked.
        on_stage: told each stage.

    Returns:
        The event with evaluation and comparisons.
    """
    known = await ports.memory.known_evaluation(request.kernel.id, tree.root.evaluation)
    if known is not None and known.verdict != verdict_pb2.VERDICT_OK:
        return search_pb2.EditEvaluated(evaluation=known)
    request.against.extend([tree.baseline] if parent.index == 0 else [parent.kernel, tree.baseline])
    if known is not None:
        request.known.CopyFrom(known)
    result = await ports.profiler.evaluate(request, on_stage)
    edge = search_pb2.EditEvaluated(evaluation=result.evaluation if known is None else known)
    if edge.evaluation.verdict == verdict_pb2.VERDICT_OK and len(result.comparisons) == len(request.against):
        edge.against_parent.CopyFrom(result.comparisons[0])
        edge.against_baseline.CopyFrom(result.comparisons[-1])
    return edge


async def evaluate_transposition(
    known: Node, parent: Node, request: profiler_service_pb2.EvaluateRequest, ports: Ports, on_stage: OnStage
) -> search_pb2.EditEvaluated:
    """Compare a kernel that the tree knows with another parent.

    Estimates are compared by arithmetic. What was measured is measured against this parent, since a comparison calls
    itself MEASURED only if both kernels ran interleaved.
    """
    edge = search_pb2.EditEvaluated(evaluation=known.evaluation)
    if known.evaluation.verdict != verdict_pb2.VERDICT_OK:
        return edge
    ours, parents = _against_baseline(known), _against_baseline(parent)
    edge.against_baseline.CopyFrom(ours)
    if ours.provenance == verdict_pb2.PROVENANCE_MEASURED:
        request.against.append(parent.kernel)
        request.known.CopyFrom(known.evaluation)
        result = await ports.profiler.evaluate(request, on_stage)
        if len(result.comparisons) == 1:
            edge.against_parent.CopyFrom(result.comparisons[0])
    elif ours.speedup > 0 and parents.speedup > 0:
        edge.against_parent.CopyFrom(_ratio(ours, parents, parent.kernel.id))
    return edge


def _against_baseline(node: Node) -> evaluation_pb2.Comparison:
    """Return a node's speed against the baseline; the baseline's own is 1 by definition."""
    if node.made_by is not None:
        return node.made_by.event.against_baseline
    return evaluation_pb2.Comparison(speedup=1, speedup_low=1, speedup_high=1)


def _ratio(
    ours: evaluation_pb2.Comparison, parents: evaluation_pb2.Comparison, parent_id: str
) -> evaluation_pb2.Comparison:
    """Divide two estimated speedups over the same baseline, each end of the range by the far end of the other."""
    return evaluation_pb2.Comparison(
        against_kernel_id=parent_id,
        speedup=ours.speedup / parents.speedup,
        speedup_low=ours.speedup_low / (parents.speedup_high or parents.speedup),
        speedup_high=ours.speedup_high / (parents.speedup_low or parents.speedup),
        provenance=verdict_pb2.PROVENANCE_ESTIMATED,
    )
