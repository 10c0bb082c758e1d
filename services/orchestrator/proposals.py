"""Which proposals of a generator enter the tree."""

import math
from collections.abc import Iterable

from optiml.identity import kernel_id
from optiml.v1 import search_pb2, verdict_pb2
from services.orchestrator.tree import Node, Tree, path_to

__all__ = ["admissible", "history"]


def admissible(tree: Tree, node: Node, edits: Iterable[search_pb2.Edit]) -> list[search_pb2.Edit]:
    """Return copies of the edits that are worth a round, with kernel ids computed here and priors within [0, 1].

    Left out are edits that change nothing, lead back to a kernel on the way here, repeat a sibling, or make a kernel
    that is known to fail.
    """
    taken = {above.kernel.id for above in path_to(node)}
    kept = []
    for edit in edits:
        copy = search_pb2.Edit()
        copy.CopyFrom(edit)
        copy.kernel.id = kernel_id(copy.kernel)
        copy.prior = min(1.0, max(0.0, copy.prior)) if math.isfinite(copy.prior) else 0.0
        known = tree.node_of_kernel.get(copy.kernel.id)
        fails = known is not None and tree.nodes[known].evaluation.verdict != verdict_pb2.VERDICT_OK
        if copy.kernel.id in taken or fails:
            continue
        taken.add(copy.kernel.id)
        kept.append(copy)
    return kept


def history(node: Node) -> list[str]:
    """Return the transformations on the way from the baseline to a node, oldest first."""
    names = []
    for above in path_to(node):
        if above.made_by is not None and above.parent is not None:
            assert above.parent.edits is not None
            names.append(above.parent.edits[above.made_by.edit].transformation)
    return names[::-1]
