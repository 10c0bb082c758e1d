"""What the search itself costs: selection and backpropagation on trees of 10,000 nodes, and a whole round.

Usage: python benchmarks/search_overhead.py [--nodes N] [--rounds N]
The first table grows trees of several shapes by folding events, and times one selection and one fold of an evaluated
edit (which adds its reward along its path). The second drives a search over gRPC on a Unix socket with SQLite on disk;
generator, judge and profiler answer at once, so that what remains is the orchestrator's own time.
"""

import argparse
import asyncio
import logging
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import structlog

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from optiml.v1 import search_pb2, verdict_pb2
from services.orchestrator.search import select, stamped
from services.orchestrator.tree import Node, Tree, apply
from tests.orchestrator.landscape import Landscape
from tests.orchestrator.searching import new_tree
from tests.orchestrator.stack import create, get, orchestrating, watch

BRANCHING = 10
SAMPLES = 100


def _event(**kind: object) -> search_pb2.Event:
    return search_pb2.Event(**kind)  # type: ignore[arg-type]


def _propose(tree: Tree, node: Node, edits: int, draw: random.Random) -> None:
    proposed = search_pb2.EditsProposed(node=node.index)
    for edit in range(edits):
        kernel_id = f"k{node.index}_{edit}"
        proposed.edits.add(transformation="move", prior=draw.random()).kernel.id = kernel_id
    apply(tree, stamped(_event(edits_proposed=proposed), tree))


def _evaluate(tree: Tree, node: Node, reward: float) -> search_pb2.Event:
    edge = search_pb2.EditEvaluated(
        round=tree.rounds + 1, parent=node.index, edit=node.untried[-1], node=len(tree.nodes)
    )
    edge.evaluation.verdict = verdict_pb2.VERDICT_OK
    edge.reward.total = reward
    return stamped(_event(edit_evaluated=edge), tree)


def grow(nodes: int, edits: int, where: Callable[[Tree], Node]) -> tuple[Tree, list[float], list[float]]:
    """Grow a tree; return it with the seconds of the last selections and of the last folds."""
    draw, tree = random.Random(0), new_tree()
    baseline = search_pb2.BaselineEvaluated()
    baseline.evaluation.verdict = verdict_pb2.VERDICT_OK
    apply(tree, stamped(_event(baseline_evaluated=baseline), tree))
    selects: list[float] = []
    folds: list[float] = []
    while len(tree.nodes) < nodes:
        node = where(tree)
        if node.edits is None:
            _propose(tree, node, edits, draw)
        event = _evaluate(tree, node, draw.uniform(-1, 1))
        if len(tree.nodes) < nodes - SAMPLES:
            apply(tree, event)
            continue
        started = time.perf_counter()
        select(tree)
        selected = time.perf_counter()
        apply(tree, event)
        selects.append(selected - started)
        folds.append(time.perf_counter() - selected)
    return tree, selects, folds


def depth(tree: Tree) -> int:
    """Return the length of the longest path."""
    depths = [0] * len(tree.nodes)
    for node in tree.nodes[1:]:
        assert node.parent is not None
        depths[node.index] = depths[node.parent.index] + 1
    return max(depths)


def _by_uct(tree: Tree) -> Node:
    node = select(tree)
    return node if node.edits is None or node.untried else tree.root


SHAPES: dict[str, tuple[int, Callable[[Tree], Node]]] = {
    "as UCT grows it": (BRANCHING, _by_uct),
    f"balanced, {BRANCHING} children": (BRANCHING, lambda tree: tree.nodes[(len(tree.nodes) - 1) // BRANCHING]),
    "wide: all under the baseline": (20_000, lambda tree: tree.root),
    "deep: one chain": (1, lambda tree: tree.nodes[-1]),
}


def table_of_trees(nodes: int) -> None:
    """Print selection and fold times by shape."""
    print(f"| tree of {nodes} nodes | depth | select, median us | select, max us | fold, median us | fold, max us |")
    print("|---|---|---|---|---|---|")
    for name, (edits, where) in SHAPES.items():
        tree, selects, folds = grow(nodes, edits, where)
        figures = [f"{f(seconds) * 1e6:.0f}" for seconds in (selects, folds) for f in (statistics.median, max)]
        print(f"| {name} | {depth(tree)} | {' | '.join(figures)} |")


async def table_of_rounds(rounds: int) -> None:
    """Print the time of a round whose evaluations cost nothing."""
    landscape = Landscape(moves=12, gains={0: 1.5, 1: 1.2}, length=8)
    with tempfile.TemporaryDirectory() as folder:
        async with orchestrating(Path(folder), landscape) as stack:
            started = time.perf_counter()
            created = await create(stack, rounds)
            events = await watch(stack, created.id)
            seconds = time.perf_counter() - started
            ended = await get(stack, created.id)
            started = time.perf_counter()
            await get(stack, created.id)
            get_ms = (time.perf_counter() - started) * 1e3
    stored = [event for event in events if event.sequence]
    print(f"\n| {ended.rounds} rounds over gRPC and SQLite | |\n|---|---|")
    print(f"| a round, evaluations at no cost | {seconds / ended.rounds * 1e3:.2f} ms |")
    print(f"| events stored | {len(stored)} |")
    print(f"| GetOptimization afterwards | {get_ms:.2f} ms |")


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=300)
    arguments = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    table_of_trees(arguments.nodes)
    asyncio.run(table_of_rounds(arguments.rounds))


if __name__ == "__main__":
    main()
