import random
import statistics

import pytest
from google.protobuf import text_format

from optiml.v1 import search_pb2, verdict_pb2
from services.orchestrator.chain import best_chain
from services.orchestrator.tree import replay
from tests.orchestrator.landscape import Landscape, label_of
from tests.orchestrator.searching import Remembered, new_tree, run_search, task_over

# Moves 0 and 1 are good, 2 is bad alone but the best of all after 0: the optimum is {0, 1, 2}, times 5.4.
PLANTED = {
    "moves": 10,
    "gains": {0: 1.5, 1: 1.2, 2: 0.9},
    "unlocks": {(0, 2): 3.3},
}


def _timeless(events: list[search_pb2.Event]) -> list[str]:
    copies = [search_pb2.Event.FromString(event.SerializeToString()) for event in events]
    for copy in copies:
        copy.ClearField("time")
    return [text_format.MessageToString(copy) for copy in copies]


async def _rounds_to_optimum(landscape: Landscape, seed: int) -> int:
    best = 1.5 * 1.2 * 0.9 * 3.3
    _, events = await run_search(
        task_over(landscape, rounds=300, seed=seed),
        until=lambda e: e.edit_evaluated.against_baseline.speedup > best * 0.999,
    )
    return events[-1].edit_evaluated.round


def _random_rounds_to_optimum(seed: int) -> int:
    """Expand a random known kernel by a random move, never the same edge twice."""
    landscape, draw = Landscape(**PLANTED), random.Random(seed)
    known, tried = [frozenset[int]()], set()
    for rounds in range(1, 2000):
        edges = [(k, m) for k in known for m in range(10) if m not in k and len(k) < 4 and (k, m) not in tried]
        kernel, move = draw.choice(edges)
        tried.add((kernel, move))
        made = kernel | {move}
        if landscape.speedup(made) > 5.3:
            return rounds
        if made not in known:
            known.append(made)
    return 2000


async def test_the_planted_optimum_is_found_in_fewer_rounds_than_by_chance() -> None:
    searched = [await _rounds_to_optimum(Landscape(**PLANTED, seed=seed), seed) for seed in range(15)]
    drawn = [_random_rounds_to_optimum(seed) for seed in range(15)]
    assert statistics.median(searched) < 0.6 * statistics.median(drawn)


async def test_the_answer_is_the_best_chain_on_which_every_edit_is_kept() -> None:
    tree, _ = await run_search(task_over(Landscape(**PLANTED), rounds=120))
    chain = best_chain(tree)
    assert label_of(tree.nodes[tree.best].kernel) == {0, 1, 2}
    assert all(edge.event.kept for edge in chain)
    assert [edge.parent for edge in chain] == [0, *(edge.node for edge in chain[:-1])]


async def test_the_same_seed_and_answers_give_the_same_events() -> None:
    runs = [await run_search(task_over(Landscape(**PLANTED), rounds=40, seed=7)) for _ in range(2)]
    assert _timeless(runs[0][1]) == _timeless(runs[1][1])


async def test_no_kernel_is_checked_twice_though_moves_commute() -> None:
    landscape = Landscape(**PLANTED)
    tree, events = await run_search(task_over(landscape, rounds=150))
    assert len(landscape.evaluated) == len(set(landscape.evaluated)) == len(tree.nodes)
    met_again = [e.edit_evaluated for e in events if e.HasField("edit_evaluated")]
    assert len(met_again) > len(tree.nodes) - 1, "no transposition occurred, so this tested nothing"


async def test_a_transposition_by_estimates_is_compared_without_asking_the_profiler() -> None:
    landscape = Landscape(**PLANTED, provenance=verdict_pb2.PROVENANCE_ESTIMATED)
    tree, events = await run_search(task_over(landscape, rounds=150))
    assert landscape.compared == []
    made = {edge.node for node in tree.nodes for edge in node.edges if edge is tree.nodes[edge.node].made_by}
    assert len(made) == len(tree.nodes) - 1
    for event in events:
        edge = event.edit_evaluated
        if event.HasField("edit_evaluated") and edge.HasField("against_parent"):
            ours, parents = (landscape.speedup(label_of(tree.nodes[n].kernel)) for n in (edge.node, edge.parent))
            assert edge.against_parent.speedup == pytest.approx(ours / parents)


async def test_a_wrong_kernel_is_never_expanded() -> None:
    landscape = Landscape(moves=6, gains={1: 1.3}, wrong=frozenset({0, 2}))
    tree, _ = await run_search(task_over(landscape, rounds=500))
    wrong = [n for n in tree.nodes if n.evaluation.verdict == verdict_pb2.VERDICT_WRONG_RESULT]
    assert wrong
    assert all(node.edits is None and not node.edges for node in wrong)


async def test_a_finite_landscape_ends_as_exhausted() -> None:
    landscape = Landscape(moves=3, gains={0: 1.1})
    tree, events = await run_search(task_over(landscape, rounds=1000))
    assert events[-1].finished.stop_reason == "exhausted"
    assert len(tree.nodes) == 2**3


async def test_rounds_end_the_search() -> None:
    tree, events = await run_search(task_over(Landscape(**PLANTED), rounds=5))
    assert events[-1].finished.stop_reason == "budget"
    assert tree.rounds == 5


async def test_a_kernel_near_the_roofline_ends_the_search() -> None:
    landscape = Landscape(moves=8, gains={0: 2.0}, priors={0: 1.0}, roofline_ms=0.49)
    tree, events = await run_search(task_over(landscape, rounds=100))
    assert events[-1].finished.stop_reason == "roofline"
    assert tree.rounds == 1


async def test_an_estimate_near_the_roofline_does_not_end_the_search() -> None:
    landscape = Landscape(
        moves=8, gains={0: 2.0}, priors={0: 1.0}, roofline_ms=0.49, provenance=verdict_pb2.PROVENANCE_ESTIMATED
    )
    _, events = await run_search(task_over(landscape, rounds=10))
    assert events[-1].finished.stop_reason == "budget"


async def test_a_wrong_baseline_fails_before_any_search() -> None:
    landscape = Landscape(baseline_verdict=verdict_pb2.VERDICT_WRONG_RESULT)
    _, events = await run_search(task_over(landscape))
    failure = events[-1].finished.failure
    assert events[-1].finished.state == search_pb2.OPTIMIZATION_STATE_FAILED
    assert failure.message == ("your baseline does not compute what the problem says, because y[3]: got 1, expected 2")
    assert len(landscape.evaluated) == 1


async def test_what_another_optimization_found_is_only_compared() -> None:
    landscape = Landscape(**PLANTED)
    first, _ = await run_search(task_over(landscape, rounds=30))
    checked = set(landscape.evaluated)
    again = Landscape(**PLANTED)
    memory = Remembered(node.evaluation for node in first.nodes)
    await run_search(task_over(again, memory, rounds=30))
    assert set(again.evaluated) & (checked - {frozenset()}) == set()


async def test_a_search_that_is_broken_off_anywhere_ends_in_the_same_tree() -> None:
    whole, events = await run_search(task_over(Landscape(**PLANTED), rounds=25, seed=3))
    for cut in range(0, len(events), 7):
        tree = replay(new_tree(), events[:cut])
        _, rest = await run_search(task_over(Landscape(**PLANTED), rounds=25, seed=3), tree)
        assert _timeless(events[:cut] + rest) == _timeless(events)
        assert len(tree.nodes) == len(whole.nodes)
