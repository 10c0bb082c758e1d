"""Selection: UCT with progressive widening.

UCT (Kocsis and Szepesvari 2006): at a node visited N times, go to the child with the largest Q + c sqrt(ln N / n),
where n are its visits. Q is a mean of its mean and of its best reward: as in single-player search (Schadd et al. 2008,
"Single-Player Monte-Carlo Tree Search"), nobody answers a bad move with a worse one, so the best counts more.
Progressive widening (Couetoux et al. 2011): a new child is tried first as long as there are fewer than ceil(k N^alpha).
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from optiml.v1 import verdict_pb2

if TYPE_CHECKING:
    from services.orchestrator.tree import Node

__all__ = ["Selection", "choose", "rate"]


@dataclass(frozen=True, slots=True)
class Selection:
    """Constants of selection."""

    exploration: float
    """c."""
    best_weight: float
    """How much of Q is the best reward, 0 to 1; the rest is the mean."""
    widening_factor: float
    """k."""
    widening_exponent: float
    """alpha."""

    def allowed(self, visits: int) -> int:
        """Return how many children a node may have after so many visits."""
        return math.ceil(self.widening_factor * math.pow(max(1, visits), self.widening_exponent))


def rate(node: "Node", selection: Selection) -> None:
    """Bring up to date what the node's parent compares: its Q, and 1 / sqrt(n)."""
    visits = node.visits + node.held
    if not visits:
        return
    # Virtual loss (Chaslot et al. 2008): an evaluation in hand counts as a visit with the worst reward, -1.
    mean = (node.value - node.held) / visits
    node.quality = mean + selection.best_weight * (node.best - mean)
    node.spread = 1 / math.sqrt(visits)


def choose(node: "Node", selection: Selection) -> "Node | None":
    """Return where selection goes from a node: itself to expand it, a child, or None if nothing is left below.

    Looks at the node and its children only, so it need be asked again only when one of them changes.
    """
    if node.edits is None:
        return node if node.evaluation.verdict == verdict_pb2.VERDICT_OK else None
    if node.untried:
        tried = len(node.edits) - len(node.untried)
        if not node.children or tried < selection.allowed(node.visits + node.held):
            return node
    if len(node.children) == 1:
        return next(iter(node.children.values()))
    return _best_child(node, selection.exploration)


def _best_child(node: "Node", exploration: float) -> "Node | None":
    width = exploration * math.sqrt(math.log(max(1, node.visits + node.held)))
    chosen, chosen_score = None, -math.inf
    for child in node.children.values():
        score = child.quality + width * child.spread
        if score >= chosen_score and (score > chosen_score or chosen is None or child.index < chosen.index):
            chosen, chosen_score = child, score
    return chosen
