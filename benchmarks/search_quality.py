"""How near to the optimum a search comes, by its constants: on random landscapes with wrong moves and interactions.

Usage: python benchmarks/search_quality.py [--rounds N] [--landscapes N]
Each landscape has 12 moves that commute, 2 of them wrong, and 8 pairs that help or hinder each other; kernels hold at
most 4. The score is log(speedup found) / log(best speedup there is), averaged; half of the landscapes have priors.
"""

import argparse
import asyncio
import itertools
import logging
import math
import random
import statistics
import sys
from pathlib import Path

import structlog

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from services.orchestrator.uct import Selection
from tests.orchestrator.landscape import Landscape
from tests.orchestrator.searching import new_tree, run_search, task_over

MOVES, LENGTH = 12, 4


def random_landscape(seed: int) -> Landscape:
    """Return a landscape of its own for each seed; every second one has priors that lean towards good moves."""
    draw = random.Random(seed)
    gains = {move: draw.choice([0.8, 0.9, 0.95, 1.0, 1.05, 1.2, 1.5]) for move in range(MOVES)}
    unlocks = {(a, b): draw.choice([1.5, 2.0, 0.5]) for a, b in (draw.sample(range(MOVES), 2) for _ in range(8))}
    priors = {move: (gain - 0.8) / 1.4 + draw.random() / 2 for move, gain in gains.items()} if seed % 2 else {}
    wrong = frozenset(draw.sample(range(MOVES), 2))
    return Landscape(moves=MOVES, gains=gains, unlocks=unlocks, wrong=wrong, priors=priors, length=LENGTH, seed=seed)


async def score(landscape: Landscape, selection: Selection, rounds: int) -> float:
    """Return how much of the best speedup one search finds, on a log scale, 0 to 1."""
    tree = new_tree()
    tree.selection = selection
    await run_search(task_over(landscape, rounds=rounds, seed=landscape.seed), tree)
    right = [move for move in range(MOVES) if move not in landscape.wrong]
    sets = itertools.chain.from_iterable(itertools.combinations(right, n) for n in range(LENGTH + 1))
    best = max(landscape.speedup(frozenset(moves)) for moves in sets)
    made_by = tree.nodes[tree.best].made_by
    return math.log(made_by.event.against_baseline.speedup) / math.log(best) if made_by else 0.0


async def main() -> None:
    """Print one line for each choice of constants."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=24)
    parser.add_argument("--landscapes", type=int, default=40)
    arguments = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    print("| best weight | exploration | k | alpha | score |")
    print("|---|---|---|---|---|")
    for best_weight, exploration, widening in itertools.product(
        (0.0, 0.5, 0.8, 1.0), (0.05, 0.1, 0.2, 0.5), ((1.5, 0.5), (2.0, 0.3), (4.0, 0.5))
    ):
        selection = Selection(exploration, best_weight, *widening)
        scores = [
            await score(random_landscape(seed), selection, arguments.rounds) for seed in range(arguments.landscapes)
        ]
        print(f"| {best_weight} | {exploration} | {widening[0]} | {widening[1]} | {statistics.mean(scores):.3f} |")


if __name__ == "__main__":
    asyncio.run(main())
