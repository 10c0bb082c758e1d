"""The search tree: a fold of the event log. `apply` is the only thing that changes it, so equal logs give equal trees.

A node is a kernel with its evaluation; its proposals are an open set, ordered by prior. A kernel that turns up twice (a
transposition) stays one node: the second edge leads to it, but selection only walks the edges that made nodes, which
form a tree. Per-node aggregates are kept up to date along the path that an event touches; nothing rescans the tree.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from optiml.v1 import evaluation_pb2, kernel_pb2, search_pb2, verdict_pb2
from services.orchestrator.uct import Selection, choose, rate

__all__ = ["Edge", "Node", "Tree", "apply", "hold", "path_to", "release", "replay"]


@dataclass(slots=True, eq=False)
class Edge:
    """An evaluated edit: from the node that was expanded to the node that it made or met again."""

    parent: int
    edit: int
    """Index among the parent's proposals."""
    node: int
    event: search_pb2.EditEvaluated


@dataclass(slots=True, eq=False)
class Node:
    """A kernel with its evaluation, and what the search knows about it."""

    index: int
    kernel: kernel_pb2.Kernel
    evaluation: evaluation_pb2.Evaluation
    parent: "Node | None"
    made_by: Edge | None
    """The edge that made it; None for the baseline."""
    diagnosis: search_pb2.Diagnosis | None = None
    edits: list[search_pb2.Edit] | None = None
    """Proposals in the proposer's order; None until they were asked for."""
    untried: list[int] = field(default_factory=list)
    """Indices of proposals that were not evaluated yet, the next one last."""
    edges: list[Edge] = field(default_factory=list)
    """In the order of evaluation, transpositions included."""
    children: "dict[int, Node]" = field(default_factory=dict)
    """Nodes that an edge from here made and that still have something to try, by index."""
    visits: int = 0
    value: float = 0.0
    """Sum of the rewards that were backpropagated through it."""
    best: float = -1.0
    """Largest reward that was backpropagated through it."""
    held: int = 0
    """Leaves below that are being evaluated now: each counts as a visit without reward (virtual loss)."""
    quality: float = 0.0
    """Q of UCT, and below 1 / sqrt(n): kept so that a parent compares its children in one multiplication each."""
    spread: float = 1.0
    kept_by: Edge | None = None
    """Last edge of a chain of kept edits from the baseline to here; None if there is none, and for the baseline."""
    choice: "Node | None" = None
    """Where selection goes from here: to a child, to the node itself (expand it), or None (nothing left below)."""


@dataclass(slots=True)
class Tree:
    """The tree and the aggregates of its log."""

    baseline: kernel_pb2.Kernel
    selection: Selection
    nodes: list[Node] = field(default_factory=list)
    node_of_kernel: dict[str, int] = field(default_factory=dict)
    """Kernels whose facts are known: not those whose evaluation failed by the profiler's own fault."""
    rounds: int = 0
    best: int = 0
    """Index of the node at the end of the best chain of kept edits."""
    sequence: int = 0
    """Sequence number of the newest event."""
    seconds: float = 0.0
    """Time that orchestrators spent on it: down time between two of them does not count."""
    newest_time: float = 0.0
    finished: search_pb2.Event | None = None
    """The event that ended it."""

    @property
    def root(self) -> Node:
        """Node 0, the baseline."""
        return self.nodes[0]


def replay(tree: Tree, events: Iterable[search_pb2.Event]) -> Tree:
    """Apply the events to the tree and return it."""
    for event in events:
        apply(tree, event)
    return tree


def apply(tree: Tree, event: search_pb2.Event) -> None:
    """Fold one event into the tree. Events come in the order of their sequence numbers.

    Raises:
        ValueError: the event does not follow the newest one, or names a node that does not exist.
    """
    kind = event.WhichOneof("kind")
    if kind == "progress":
        return
    if event.sequence != tree.sequence + 1:
        raise ValueError(f"event {event.sequence} does not follow event {tree.sequence}")
    _count_time(tree, event, kind)
    match kind:
        case "baseline_evaluated":
            _add_node(tree, tree.baseline, event.baseline_evaluated.evaluation, None)
            tree.root.visits = 1
            _refresh(tree, tree.root)
        case "node_diagnosed":
            _node(tree, event.node_diagnosed.node).diagnosis = event.node_diagnosed.diagnosis
        case "edits_proposed":
            _propose(tree, event.edits_proposed)
        case "edit_evaluated":
            _evaluate(tree, event.edit_evaluated)
        case "finished":
            tree.finished = event
    tree.sequence = event.sequence


def hold(tree: Tree, node: Node, edit: int) -> None:
    """Take an edit in hand: it is not selected again, and the path to it looks worse (virtual loss)."""
    _take_untried(node, edit)
    for above in path_to(node):
        above.held += 1
    _refresh(tree, node)


def release(tree: Tree, node: Node, edit: int) -> None:
    """Undo `hold`."""
    _insert_untried(node, edit)
    for above in path_to(node):
        above.held -= 1
    _refresh(tree, node)


def path_to(node: Node) -> Iterator[Node]:
    """Yield the node, its parent, and so on up to the baseline."""
    above: Node | None = node
    while above is not None:
        yield above
        above = above.parent


def _count_time(tree: Tree, event: search_pb2.Event, kind: str | None) -> None:
    time = event.time.seconds + event.time.nanos / 1e9
    if kind != "started":
        tree.seconds += max(0.0, time - tree.newest_time)
    tree.newest_time = time


def _node(tree: Tree, index: int) -> Node:
    if not 0 <= index < len(tree.nodes):
        raise ValueError(f"no node {index} in a tree of {len(tree.nodes)}")
    return tree.nodes[index]


def _add_node(
    tree: Tree, kernel: kernel_pb2.Kernel, evaluation: evaluation_pb2.Evaluation, made_by: Edge | None
) -> Node:
    parent = tree.nodes[made_by.parent] if made_by else None
    node = Node(len(tree.nodes), kernel, evaluation, parent, made_by)
    tree.nodes.append(node)
    if evaluation.verdict != verdict_pb2.VERDICT_INTERNAL:
        tree.node_of_kernel.setdefault(kernel.id, node.index)
    return node


def _propose(tree: Tree, proposed: search_pb2.EditsProposed) -> None:
    node = _node(tree, proposed.node)
    node.edits = list(proposed.edits)
    node.untried = sorted(range(len(node.edits)), key=lambda i: _next_last(node, i))
    _refresh(tree, node)


def _next_last(node: Node, edit: int) -> tuple[float, int]:
    assert node.edits is not None
    return node.edits[edit].prior, -edit


def _take_untried(node: Node, edit: int) -> bool:
    """Take a proposal out of those that are open; False if it is not."""
    if node.untried and node.untried[-1] == edit:  # the usual case, in constant time
        node.untried.pop()
    elif edit in node.untried:
        node.untried.remove(edit)
    else:
        return False
    return True


def _insert_untried(node: Node, edit: int) -> None:
    node.untried.append(edit)
    node.untried.sort(key=lambda i: _next_last(node, i))


def _evaluate(tree: Tree, evaluated: search_pb2.EditEvaluated) -> None:
    parent = _node(tree, evaluated.parent)
    if parent.edits is None or not _take_untried(parent, evaluated.edit):
        raise ValueError(f"edit {evaluated.edit} of node {evaluated.parent} is not open")
    edge = Edge(evaluated.parent, evaluated.edit, evaluated.node, evaluated)
    parent.edges.append(edge)
    tree.rounds = evaluated.round
    if evaluated.node == len(tree.nodes):
        child = _add_node(tree, parent.edits[evaluated.edit].kernel, evaluated.evaluation, edge)
        child.visits, child.value, child.best = 1, evaluated.reward.total, evaluated.reward.total
        _refresh_one(tree, child)
    reward = evaluated.reward.total
    for above in path_to(parent):
        above.visits += 1
        above.value += reward
        above.best = max(above.best, reward)
        _refresh_one(tree, above)
    _extend_kept(tree, edge)


def _refresh(tree: Tree, node: Node) -> None:
    """Choose again at the node and above it: nowhere else did anything change."""
    for above in path_to(node):
        _refresh_one(tree, above)


def _refresh_one(tree: Tree, node: Node) -> None:
    rate(node, tree.selection)
    had_choice, node.choice = node.choice is not None, choose(node, tree.selection)
    if node.parent is None or had_choice == (node.choice is not None):
        return
    if node.choice is None:
        del node.parent.children[node.index]
    else:
        node.parent.children[node.index] = node


def _extend_kept(tree: Tree, edge: Edge) -> None:
    """Carry chains of kept edits over a new edge, and on over the kept edges of what it reaches first."""
    open_edges = [edge]
    while open_edges:
        current = open_edges.pop()
        parent, node = tree.nodes[current.parent], tree.nodes[current.node]
        reached = parent.index == 0 or parent.kept_by is not None
        if not current.event.kept or not reached or node.index == 0 or node.kept_by is not None:
            continue
        node.kept_by = current
        if _speedup(tree, node.index) > _speedup(tree, tree.best):
            tree.best = node.index
        open_edges.extend(node.edges)


def _speedup(tree: Tree, index: int) -> float:
    made_by = tree.nodes[index].made_by
    return 1.0 if made_by is None else made_by.event.against_baseline.speedup
