"""Runs searches over landscapes without a store."""

from collections.abc import Callable, Iterable

from optiml.v1 import evaluation_pb2, search_pb2
from services.orchestrator.ports import Ports
from services.orchestrator.search import Task, search
from services.orchestrator.settings import SearchTuning, with_defaults
from services.orchestrator.tree import Tree
from services.orchestrator.view import empty_tree
from tests.orchestrator.landscape import Landscape, kernel_of, problem


class Remembered:
    """A memory of other optimizations' evaluations."""

    def __init__(self, evaluations: Iterable[evaluation_pb2.Evaluation] = ()) -> None:
        self.by_kernel = {evaluation.kernel_id: evaluation for evaluation in evaluations}

    async def known_evaluation(
        self, kernel_id: str, _baseline: evaluation_pb2.Evaluation
    ) -> evaluation_pb2.Evaluation | None:
        return self.by_kernel.get(kernel_id)


def new_tree(settings: search_pb2.SearchSettings | None = None) -> Tree:
    created = search_pb2.Optimization(
        problem=problem(),
        baseline=kernel_of(frozenset()),
        settings=with_defaults(settings or search_pb2.SearchSettings(), SearchTuning()),
    )
    return empty_tree(created, SearchTuning())


def task_over(landscape: Landscape, memory: Remembered | None = None, *, rounds: int = 24, seed: int = 0) -> Task:
    settings = search_pb2.SearchSettings(budget=search_pb2.Budget(rounds=rounds), seed=seed)
    ports = Ports(landscape, landscape, landscape, memory or Remembered())
    return Task(problem(), with_defaults(settings, SearchTuning()), ports, lambda _what, _stage: None)


async def run_search(
    task: Task, tree: Tree | None = None, until: Callable[[search_pb2.Event], bool] = lambda _event: False
) -> tuple[Tree, list[search_pb2.Event]]:
    """Search to the end, or to the first event for which `until` holds (which is the last one applied)."""
    grown = tree or new_tree(task.settings)
    events: list[search_pb2.Event] = []
    stop = False
    async for event in search(grown, task):
        if stop:
            break
        events.append(event)
        stop = until(event)
    return grown, events
