"""OptiML-X: Monte Carlo tree search over kernels.

Six steps make a round: select, diagnose, propose, evaluate, judge, backpropagate. Each step reads
the tree and returns an event, or part of one. Whoever drives the search stores the event and only then asks for the
next; a search that is started again over the stored events goes on where the log ends.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass

import structlog

from optiml.errors import InvalidArgumentError
from optiml.v1 import (
    generator_service_pb2,
    judge_service_pb2,
    problem_pb2,
    profiler_service_pb2,
    search_pb2,
    verdict_pb2,
)
from services.orchestrator.chain import is_kept
from services.orchestrator.comparing import evaluate_candidate, evaluate_transposition
from services.orchestrator.ports import FaultError, Ports
from services.orchestrator.proposals import admissible, history
from services.orchestrator.reward import reward_of
from services.orchestrator.stops import baseline_failure, stop_reason
from services.orchestrator.tree import Node, Tree, apply, hold, release

__all__ = [
    "Task",
    "backpropagate",
    "diagnose",
    "evaluate",
    "finished",
    "judge",
    "propose",
    "search",
    "select",
    "stamped",
]

_log = structlog.get_logger(__name__)

OnProgress = Callable[[str, str], None]
"""Told what is being evaluated and each stage of it."""


@dataclass(frozen=True, slots=True)
class Task:
    """What is searched, and with whom."""

    problem: problem_pb2.Problem
    settings: search_pb2.SearchSettings
    """With defaults filled in."""
    ports: Ports
    on_progress: OnProgress
    proposals: int = 0
    """Most edits to ask for at a node; 0 lets the generator choose."""


async def search(tree: Tree, task: Task) -> AsyncGenerator[search_pb2.Event, None]:
    """Search from where the tree stands until it is finished; each event is applied when the next is asked for.

    Yields:
        Events with sequence number and time, `finished` last. A caller that could not store one closes the iterator.

    Raises:
        optiml.errors.Error: a service refuses the baseline, lacks something, or does not answer for good.
    """
    async with aclosing(_rounds(tree, task)) as events:
        async for event in events:
            yield stamped(event, tree)
            apply(tree, event)


async def _rounds(tree: Tree, task: Task) -> AsyncGenerator[search_pb2.Event, None]:
    if not tree.nodes:
        yield await evaluate_baseline(tree, task)
    if failure := baseline_failure(tree):
        yield finished(search_pb2.OPTIMIZATION_STATE_FAILED, failure=failure)
        return
    while not (reason := stop_reason(tree, task.settings)):
        node = select(tree)
        if node.diagnosis is None:
            yield await diagnose(node, task)
        if node.edits is None:
            yield await propose(tree, node, task)
            continue  # the node may have nothing to offer
        edge = await evaluate(tree, node, task)
        edge = await judge(node, edge, task)
        yield backpropagate(tree, node, edge, task)
    yield finished(search_pb2.OPTIMIZATION_STATE_SUCCEEDED, reason)


async def evaluate_baseline(tree: Tree, task: Task) -> search_pb2.Event:
    """Evaluate what came in: node 0. Its device and toolchain are those of the whole search."""
    request = profiler_service_pb2.EvaluateRequest(
        problem=task.problem, kernel=tree.baseline, device=task.settings.device
    )
    result = await task.ports.profiler.evaluate(request, lambda stage: task.on_progress("baseline", stage))
    return search_pb2.Event(baseline_evaluated=search_pb2.BaselineEvaluated(evaluation=result.evaluation))


def select(tree: Tree) -> Node:
    """Walk down from the baseline by UCT to the node that is to be expanded.

    Raises:
        LookupError: nothing is left to try.
    """
    node = tree.root
    while node.choice is not node:
        if node.choice is None:
            raise LookupError("nothing is left to try")
        node = node.choice
    return node


async def diagnose(node: Node, task: Task) -> search_pb2.Event:
    """Have the node's bottleneck named. A node other than the baseline that the judge refuses stays unnamed."""
    request = judge_service_pb2.DiagnoseRequest(problem=task.problem, kernel=node.kernel, evaluation=node.evaluation)
    diagnosis = search_pb2.Diagnosis()
    try:
        diagnosis = (await task.ports.judge.diagnose(request)).diagnosis
    except (InvalidArgumentError, FaultError) as error:
        if node.index == 0:
            raise
        _log.warning("not diagnosed", node=node.index, reason=str(error))
    return search_pb2.Event(node_diagnosed=search_pb2.NodeDiagnosed(node=node.index, diagnosis=diagnosis))


async def propose(tree: Tree, node: Node, task: Task) -> search_pb2.Event:
    """Have edits of a node proposed. A node other than the baseline that the generator refuses gets none."""
    assert node.diagnosis is not None, "a node is diagnosed before edits are asked for"
    request = generator_service_pb2.ProposeRequest(
        problem=task.problem,
        kernel=node.kernel,
        evaluation=node.evaluation,
        diagnosis=node.diagnosis,
        limit=task.proposals,
        seed=(task.settings.seed + node.index) % 2**64,
        history=history(node),
    )
    edits: list[search_pb2.Edit] = []
    try:
        edits = admissible(tree, node, (await task.ports.generator.propose(request)).edits)
    except (InvalidArgumentError, FaultError) as error:
        if node.index == 0:
            raise
        _log.warning("nothing proposed", node=node.index, reason=str(error))
    return search_pb2.Event(edits_proposed=search_pb2.EditsProposed(node=node.index, edits=edits))


async def evaluate(tree: Tree, node: Node, task: Task) -> search_pb2.EditEvaluated:
    """Find the facts about the node's next edit; a kernel that the tree knows is only compared."""
    assert node.edits is not None, "edits are asked for before one is evaluated"
    index = node.untried[-1]
    edit = node.edits[index]
    request = profiler_service_pb2.EvaluateRequest(
        problem=task.problem, kernel=edit.kernel, device=tree.root.evaluation.device.kind
    )
    met = tree.node_of_kernel.get(edit.kernel.id)

    def on_stage(stage: str) -> None:
        task.on_progress(edit.title or edit.transformation, stage)

    hold(tree, node, index)
    try:
        if met is None:
            edge = await evaluate_candidate(tree, node, request, task.ports, on_stage)
        else:
            edge = await evaluate_transposition(tree.nodes[met], node, request, task.ports, on_stage)
    finally:
        release(tree, node, index)
    edge.round, edge.parent, edge.edit = tree.rounds + 1, node.index, index
    edge.node = len(tree.nodes) if met is None else met
    return edge


async def judge(node: Node, edge: search_pb2.EditEvaluated, task: Task) -> search_pb2.EditEvaluated:
    """Have a correct edit held to its claims; return the event with the judgement."""
    assert node.edits is not None
    if edge.evaluation.verdict != verdict_pb2.VERDICT_OK:
        return edge
    request = judge_service_pb2.JudgeRequest(
        problem=task.problem,
        edit=node.edits[edge.edit],
        diagnosis=node.diagnosis,
        before=node.evaluation,
        after=edge.evaluation,
        comparison=edge.against_parent,
    )
    try:
        edge.judgement.CopyFrom((await task.ports.judge.judge(request)).judgement)
    except (InvalidArgumentError, FaultError) as error:
        _log.warning("not judged", round=edge.round, reason=str(error))
    return edge


def backpropagate(tree: Tree, node: Node, edge: search_pb2.EditEvaluated, task: Task) -> search_pb2.Event:
    """Settle the reward and whether the edit is kept; applying the event adds the reward along the node's path."""
    edge.reward.CopyFrom(reward_of(edge, node.evaluation, node.diagnosis or search_pb2.Diagnosis(), task.settings))
    edge.kept = is_kept(edge)
    _log.info(
        "round",
        round=edge.round,
        parent=edge.parent,
        node=edge.node,
        known=edge.node < len(tree.nodes),
        verdict=verdict_pb2.Verdict.Name(edge.evaluation.verdict),
        speedup=round(edge.against_baseline.speedup, 4),
        reward=round(edge.reward.total, 4),
        kept=edge.kept,
    )
    return search_pb2.Event(edit_evaluated=edge)


def stamped(event: search_pb2.Event, tree: Tree) -> search_pb2.Event:
    """Return the event with the time, and the sequence number that is next."""
    event.sequence = tree.sequence + 1
    event.time.GetCurrentTime()
    return event


def finished(
    state: search_pb2.OptimizationState.ValueType, reason: str = "", failure: search_pb2.Failure | None = None
) -> search_pb2.Event:
    """Return the event that ends a search."""
    return search_pb2.Event(finished=search_pb2.Finished(state=state, stop_reason=reason, failure=failure))
