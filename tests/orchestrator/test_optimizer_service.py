import asyncio
import time
from pathlib import Path
from typing import Any

import grpc
import pytest

from optiml import errors
from optiml.rpc.status import from_rpc_error
from optiml.v1 import optimizer_service_pb2, search_pb2, verdict_pb2
from tests.orchestrator.landscape import Landscape, label_of
from tests.orchestrator.stack import Stack, create, create_request, get, orchestrating, watch


def planted(**more: Any) -> Landscape:
    return Landscape(moves=6, gains={0: 1.5, 1: 1.2, 2: 0.9}, unlocks={(0, 2): 3.3}, **more)


async def _error(call: Any) -> errors.Error:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return from_rpc_error(caught.value)


async def test_an_optimization_is_searched_to_its_end(tmp_path: Path) -> None:
    async with orchestrating(tmp_path, planted()) as stack:
        created = await create(stack, 40)
        events = await watch(stack, created.id)
        ended = await get(stack, created.id)
    assert events[-1].finished.stop_reason == ended.stop_reason == "budget"
    assert ended.state == search_pb2.OPTIMIZATION_STATE_SUCCEEDED
    assert label_of(ended.best) == {0, 1, 2}
    assert ended.comparison.speedup == pytest.approx(1.5 * 1.2 * 0.9 * 3.3)
    assert ended.chain[-1].edit.kernel == ended.best
    assert (ended.rounds, ended.last_sequence) == (40, events[-1].sequence)
    assert ended.best_evaluation.kernel_id == ended.best.id


async def test_stored_events_are_numbered_without_gaps_and_progress_is_live_only(tmp_path: Path) -> None:
    async with orchestrating(tmp_path, planted(delay_seconds=0.01)) as stack:
        created = await create(stack, 5)
        live = await watch(stack, created.id)
        later = await watch(stack, created.id)
    assert [event.sequence for event in later] == list(range(1, len(later) + 1))
    assert [event for event in live if not event.HasField("progress")] == later
    assert any(event.progress.stage == "compile" for event in live)


async def test_watching_goes_on_from_a_sequence_number(tmp_path: Path) -> None:
    async with orchestrating(tmp_path, planted()) as stack:
        created = await create(stack, 5)
        events = [e for e in await watch(stack, created.id) if e.sequence]
        assert await watch(stack, created.id, after=4) == events[4:]
        assert await watch(stack, created.id, after=events[-1].sequence) == []


async def test_settings_come_back_with_defaults_filled_in(tmp_path: Path) -> None:
    async with orchestrating(tmp_path, planted(), drive=False) as stack:
        settings = (await create(stack, rounds=0)).settings
    assert settings.budget.rounds == 24
    assert min(settings.exploration, settings.weight_time, settings.weight_proxy, settings.weight_judge) > 0


async def test_a_wall_time_alone_leaves_rounds_without_limit(tmp_path: Path) -> None:
    request = create_request()
    request.settings.budget.CopyFrom(search_pb2.Budget(wall_seconds=0.6))
    async with orchestrating(tmp_path, planted(delay_seconds=0.05)) as stack:
        created = (await stack.stub.CreateOptimization(request, timeout=10)).optimization
        assert created.settings.budget.rounds == 0
        started = time.monotonic()
        events = await watch(stack, created.id)
    assert events[-1].finished.stop_reason == "budget"
    assert time.monotonic() - started < 1.6


async def test_the_same_request_again_joins_the_optimization(tmp_path: Path) -> None:
    request = create_request()
    async with orchestrating(tmp_path, planted(), drive=False) as stack:
        both = await asyncio.gather(*(stack.stub.CreateOptimization(request, timeout=10) for _ in range(2)))
    assert both[0] == both[1]


async def test_a_request_id_with_another_body_is_refused(tmp_path: Path) -> None:
    request = create_request()
    async with orchestrating(tmp_path, planted(), drive=False) as stack:
        await stack.stub.CreateOptimization(request, timeout=10)
        request.settings.seed = 9
        error = await _error(stack.stub.CreateOptimization(request, timeout=10))
    assert isinstance(error, errors.RequestIdReusedError)


@pytest.mark.parametrize(
    ("mangle", "field"),
    [
        (lambda r: setattr(r, "request_id", "seven"), "request_id"),
        (lambda r: setattr(r, "request_id", "123e4567e89b42d3a456426614174000"), "request_id"),
        (lambda r: r.problem.ClearField("arguments"), "problem.arguments"),
        (lambda r: r.baseline.ClearField("source"), "baseline.source"),
        (lambda r: r.baseline.ClearField("launches"), "baseline.launches"),
        (lambda r: setattr(r.settings.budget, "rounds", -1), "settings.budget.rounds"),
        (lambda r: setattr(r.settings.budget, "wall_seconds", float("nan")), "settings.budget.wall_seconds"),
        (lambda r: setattr(r.settings, "weight_time", float("inf")), "settings.weight_time"),
        (lambda r: setattr(r.settings, "device", 77), "settings.device"),
    ],
)
async def test_a_wrong_field_is_named(tmp_path: Path, mangle: Any, field: str) -> None:
    request = create_request()
    mangle(request)
    async with orchestrating(tmp_path, planted(), drive=False) as stack:
        error = await _error(stack.stub.CreateOptimization(request, timeout=10))
    assert isinstance(error, errors.InvalidArgumentError)
    assert [violation.field for violation in error.violations] == [field]


async def test_an_unknown_id_is_not_found(tmp_path: Path) -> None:
    wanted = {"id": "o1"}
    async with orchestrating(tmp_path, planted(), drive=False) as stack:
        calls = [
            stack.stub.GetOptimization(optimizer_service_pb2.GetOptimizationRequest(**wanted), timeout=10),
            stack.stub.CancelOptimization(optimizer_service_pb2.CancelOptimizationRequest(**wanted), timeout=10),
            stack.stub.GetEvaluation(optimizer_service_pb2.GetEvaluationRequest(**wanted), timeout=10),
            watch(stack, "o1"),
        ]
        found = [await _error(call) for call in calls]
    assert {type(error) for error in found} == {errors.NotFoundError}


async def test_pages_are_newest_first_and_hold_no_kernels(tmp_path: Path) -> None:
    async with orchestrating(tmp_path, planted(), drive=False) as stack:
        created = [(await create(stack)).id for _ in range(5)]
        listed: list[search_pb2.Optimization] = []
        token = ""
        for _ in range(3):
            request = optimizer_service_pb2.ListOptimizationsRequest(page_size=2, page_token=token)
            page = await stack.stub.ListOptimizations(request, timeout=10)
            listed += page.optimizations
            token = page.next_page_token
    assert [each.id for each in listed] == created[::-1]
    assert token == ""
    assert not any(each.HasField("baseline") or each.HasField("best") for each in listed)
    assert all(each.problem.name == "landscape" for each in listed)


@pytest.mark.parametrize("token", ["x", "AAAA", "bm8=", "LTE6bw==", "é"])
async def test_a_forged_page_token_is_refused(tmp_path: Path, token: str) -> None:
    async with orchestrating(tmp_path, planted(), drive=False) as stack:
        request = optimizer_service_pb2.ListOptimizationsRequest(page_token=token)
        error = await _error(stack.stub.ListOptimizations(request, timeout=10))
    assert isinstance(error, errors.InvalidArgumentError)


async def _first_round(stack: Stack, identity: str) -> None:
    request = optimizer_service_pb2.WatchOptimizationRequest(id=identity)
    async for response in stack.stub.WatchOptimization(request, timeout=30):
        if response.event.HasField("edit_evaluated"):
            return


async def test_cancelling_stops_running_work_within_a_second_and_keeps_what_was_found(tmp_path: Path) -> None:
    landscape = planted(priors={0: 1.0})
    async with orchestrating(tmp_path, landscape) as stack:
        created = await create(stack, 10_000, seed=1)
        await _first_round(stack, created.id)
        landscape.delay_seconds = 3600.0
        await asyncio.sleep(0.1)
        started = time.monotonic()
        request = optimizer_service_pb2.CancelOptimizationRequest(id=created.id)
        cancelled = (await stack.stub.CancelOptimization(request, timeout=10)).optimization
        seconds = time.monotonic() - started
        again = (await stack.stub.CancelOptimization(request, timeout=10)).optimization
        events = await watch(stack, created.id)
    assert seconds < 1.0
    assert cancelled.state == search_pb2.OPTIMIZATION_STATE_CANCELLED
    assert cancelled.stop_reason == events[-1].finished.stop_reason == "cancelled"
    assert cancelled.rounds >= 1
    assert cancelled.chain
    assert again == cancelled


async def test_a_pending_optimization_is_cancelled_without_being_started(tmp_path: Path) -> None:
    async with orchestrating(tmp_path, planted(), drive=False) as stack:
        created = await create(stack)
        request = optimizer_service_pb2.CancelOptimizationRequest(id=created.id)
        cancelled = (await stack.stub.CancelOptimization(request, timeout=10)).optimization
    assert cancelled.state == search_pb2.OPTIMIZATION_STATE_CANCELLED
    assert stack.landscape.evaluated == []


async def test_no_more_than_two_are_driven_at_a_time(tmp_path: Path) -> None:
    async with orchestrating(tmp_path, planted(delay_seconds=0.3)) as stack:
        created = [await create(stack, 50) for _ in range(4)]
        await asyncio.sleep(0.5)
        states = [(await get(stack, each.id)).state for each in created]
    assert states.count(search_pb2.OPTIMIZATION_STATE_RUNNING) == 2
    assert states.count(search_pb2.OPTIMIZATION_STATE_PENDING) == 2


async def test_a_stored_evaluation_is_returned_by_its_id(tmp_path: Path) -> None:
    async with orchestrating(tmp_path, planted()) as stack:
        created = await create(stack, 2)
        await watch(stack, created.id)
        evaluation = (await get(stack, created.id)).baseline_evaluation
        request = optimizer_service_pb2.GetEvaluationRequest(id=evaluation.id)
        assert (await stack.stub.GetEvaluation(request, timeout=10)).evaluation == evaluation


async def test_a_baseline_that_fails_ends_the_optimization_with_the_reason(tmp_path: Path) -> None:
    async with orchestrating(tmp_path, planted(baseline_verdict=verdict_pb2.VERDICT_COMPILE_FAILED)) as stack:
        created = await create(stack)
        await watch(stack, created.id)
        ended = await get(stack, created.id)
    assert ended.state == search_pb2.OPTIMIZATION_STATE_FAILED
    assert ended.failure.verdict == verdict_pb2.VERDICT_COMPILE_FAILED
    assert ended.failure.message.startswith("your baseline does not compile here, because ")


async def test_a_second_optimization_checks_nothing_again_but_its_baseline(tmp_path: Path) -> None:
    async with orchestrating(tmp_path, planted()) as stack:
        await watch(stack, (await create(stack, 15, seed=1)).id)
        first = list(stack.landscape.evaluated)
        stack.landscape.evaluated.clear()
        await watch(stack, (await create(stack, 15, seed=1)).id)
    assert first
    assert stack.landscape.evaluated == [frozenset()]
