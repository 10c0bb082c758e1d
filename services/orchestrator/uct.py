"""Selection: UCT with progressive widening.

UCT (Kocsis and Szepesvari 2006): at a node visited N times, go to the child with the largest Q + c sqrt(ln N / n),
where n are its visits and Q its mean reward. Progressive widening (Couetoux et al. 2011): a new child is tried first as
long as there are fewer than ceil(k N^alpha).
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from optiml.v1 import verdict_pb2

if TYPE_CHECKING:
    from services.orchestrator.tree import Node

__all__ = ["Widening", "choose"]


@dataclass(frozen=True, slots=True)
class Widening:
    """Constants of progressive widening."""

    factor: float
    exponent: float

    def allowed(self, visits: int) -> int:
        """Return how many children a node may have after so many visits."""
        return math.ceil(self.factor * math.pow(max(1, visits), self.exponent))


def choose(node: "Node", exploration: float, widening: Widening) -> "Node | None":
    """Return where selection goes from a node: itself to expand it, a child, or None if nothing is left below.

    Looks at the node and its children only, so it need be asked again only when one of them changes.
    """
    if node.evaluation.verdict != verdict_pb2.VERDICT_OK:
        return None
    if node.edits is None:
        return node
    tried = len(node.edits) - len(node.untried)
    if node.untried and (not node.children or tried < widening.allowed(node.visits + node.held)):
        return node
    return _best_child(node, exploration)


def _best_child(node: "Node", exploration: float) -> "Node | None":
    log_visits = math.log(max(1, node.visits + node.held))
    best, best_score = None, -math.inf
    for child in node.children.values():
        visits = child.visits + child.held
        # Virtual loss (Chaslot et al. 2008): an evaluation in hand counts as a visit with the worst reward, -1.
        score = (child.value - child.held) / visits + exploration * math.sqrt(log_visits / visits)
        if score > best_score or (score == best_score and best is not None and child.index < best.index):
            best, best_score = child, score
    return best
