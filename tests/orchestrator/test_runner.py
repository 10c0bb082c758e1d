import asyncio
import signal
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest

from optiml.errors import BusyError
from optiml.rpc.channel import open_channel
from optiml.rpc.server import serving
from optiml.v1 import evaluation_pb2, profiler_service_pb2, search_pb2, verdict_pb2
from services.orchestrator import clients
from services.orchestrator.clients import GeneratorClient, JudgeClient, ProfilerClient
from services.orchestrator.notices import Notices
from services.orchestrator.ports import Ports
from services.orchestrator.runner import Runner
from services.orchestrator.settings import SearchTuning, with_defaults
from services.orchestrator.store import Store
from services.orchestrator.tree import replay
from services.orchestrator.view import empty_tree
from tests.orchestrator.landscape import Landscape, kernel_of, problem
from tests.orchestrator.stack import LandscapeServicer, landscape_services
from tests.orchestrator.test_tree import snapshot

ROOT = Path(__file__).resolve().parent.parent.parent


def planted(**more: Any) -> Landscape:
    return Landscape(moves=6, gains={0: 1.5, 1: 1.2, 2: 0.9}, unlocks={(0, 2): 3.3}, **more)


async def store_one(store: Store, rounds: int = 20, wall_seconds: float = 0.0) -> search_pb2.Optimization:
    budget = search_pb2.Budget(rounds=rounds, wall_seconds=wall_seconds)
    made = search_pb2.Optimization(
        id=f"o{uuid.uuid4().hex[:24]}",
        request_id=str(uuid.uuid4()),
        problem=problem(),
        baseline=kernel_of(frozenset()),
        settings=with_defaults(search_pb2.SearchSettings(budget=budget, seed=4), SearchTuning()),
    )
    made.created_at.GetCurrentTime()
    await store.create(made, "digest")
    return made


async def until_finished(store: Store, identity: str, seconds: float = 30.0) -> list[search_pb2.Event]:
    async with asyncio.timeout(seconds):
        while not (await store.position(identity)).ended:  # noqa: ASYNC110 - another process may write
            await asyncio.sleep(0.02)
    return await store.events(identity)


async def until_sequence(store: Store, identity: str, sequence: int) -> None:
    async with asyncio.timeout(30):
        while (await store.position(identity)).last_sequence < sequence:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.005)


def facts(events: list[search_pb2.Event]) -> list[search_pb2.Event]:
    """Return the events without what may differ between runs: who began when."""
    plain = []
    for event in events:
        if not event.HasField("started"):
            copy = search_pb2.Event.FromString(event.SerializeToString())
            copy.ClearField("time")
            copy.ClearField("sequence")
            plain.append(copy)
    return plain


@dataclass
class Setting:
    """A store and the ports of a landscape behind sockets."""

    store: Store
    ports: Ports
    address: str

    def runner(self, **tuning: Any) -> Runner:
        return Runner(self.store, self.ports, Notices(), SearchTuning(**tuning))


@asynccontextmanager
async def setting(folder: Path, landscape: Landscape) -> AsyncIterator[Setting]:
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(
            serving(landscape_services(landscape), f"unix:{folder}/l.sock", grace_seconds=0)
        )
        channel: grpc.aio.Channel = await stack.enter_async_context(open_channel(address))
        store = Store(f"sqlite:///{folder / 'store.db'}")
        stack.callback(store.close)
        ports = Ports(GeneratorClient(channel), JudgeClient(channel), ProfilerClient(channel), store)
        yield Setting(store, ports, address)


async def undisturbed(folder: Path, rounds: int = 20) -> list[search_pb2.Event]:
    folder.mkdir()  # noqa: ASYNC240 - one system call
    async with setting(folder, planted()) as own:
        made = await store_one(own.store, rounds)
        runner = own.runner()
        runner.start()
        events = await until_finished(own.store, made.id)
        await runner.stop()
        return events


async def _spawn(own: Setting, folder: Path) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.orchestrator.driving",
        f"sqlite:///{folder / 'store.db'}",
        own.address,
        cwd=ROOT,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )


@pytest.mark.slow
async def test_killed_orchestrators_lose_nothing_and_measure_nothing_twice(tmp_path: Path) -> None:
    """Only a real process can be killed without a chance to tidy up."""
    expected = await undisturbed(tmp_path / "calm")
    landscape = planted(delay_seconds=0.05)
    async with setting(tmp_path, landscape) as own:
        made = await store_one(own.store)
        for sequence in (5, 11):
            process = await _spawn(own, tmp_path)
            await until_sequence(own.store, made.id, sequence)
            process.send_signal(signal.SIGKILL)
            await process.wait()
        last = await _spawn(own, tmp_path)
        events = await until_finished(own.store, made.id)
        last.kill()
        await last.wait()
    assert facts(events) == facts(expected)
    assert len({event.started.orchestrator for event in events if event.HasField("started")}) == 3
    trees = [snapshot(replay(empty_tree(made, SearchTuning()), each)) for each in (events, expected)]
    assert trees[0] == trees[1]
    # At most what each killed process had in hand is repeated.
    assert len(landscape.evaluated) <= len(set(landscape.evaluated)) + 2


async def test_a_runner_that_stops_hands_over_at_once(tmp_path: Path) -> None:
    expected = await undisturbed(tmp_path / "calm")
    async with setting(tmp_path, planted(delay_seconds=0.01)) as own:
        made = await store_one(own.store)
        first = own.runner()
        first.start()
        await until_sequence(own.store, made.id, 8)
        await first.stop()
        second = own.runner()
        second.start()
        events = await until_finished(own.store, made.id, seconds=5)
        await second.stop()
    assert facts(events) == facts(expected)


async def test_two_runners_never_drive_one_optimization(tmp_path: Path) -> None:
    async with setting(tmp_path, planted(delay_seconds=0.005)) as own:
        made = [await store_one(own.store, 8) for _ in range(3)]
        runners = [own.runner(concurrent=3) for _ in range(2)]
        for runner in runners:
            runner.start()
        logs = [await until_finished(own.store, each.id) for each in made]
        for runner in runners:
            await runner.stop()
    for events in logs:
        assert sum(event.HasField("started") for event in events) == 1
        assert [event.sequence for event in events] == list(range(1, len(events) + 1))


async def test_a_runner_that_lost_its_lease_writes_nothing_more(tmp_path: Path) -> None:
    landscape = planted(delay_seconds=0.05)
    async with setting(tmp_path, landscape) as own:
        made = await store_one(own.store, 1000)
        runner = own.runner(lease_seconds=0.0001)  # expires before the heartbeat can prolong it
        runner.start()
        await until_sequence(own.store, made.id, 3)
        thief = None
        while thief is None:
            thief = await own.store.take("thief", 60)
        at_theft = await own.store.position(made.id)
        await asyncio.sleep(0.4)
        assert await own.store.position(made.id) == at_theft
        await runner.stop()


async def test_a_runner_that_takes_its_own_expired_lease_anew_still_finishes_once(tmp_path: Path) -> None:
    async with setting(tmp_path, planted(delay_seconds=0.01)) as own:
        made = await store_one(own.store, 4)
        runner = own.runner(lease_seconds=0.02, concurrent=4)
        runner.start()
        events = await until_finished(own.store, made.id)
        await runner.stop()
    assert sum(event.HasField("finished") for event in events) == 1
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))


async def test_a_profiler_that_restarts_does_not_fail_an_optimization(tmp_path: Path) -> None:
    expected = await undisturbed(tmp_path / "calm", rounds=10)
    landscape = planted(delay_seconds=0.02)
    path = f"unix:{tmp_path}/p.sock"
    async with AsyncExitStack() as stack:
        channel = await stack.enter_async_context(open_channel(path))
        store = Store(f"sqlite:///{tmp_path / 'store.db'}")
        stack.callback(store.close)
        ports = Ports(GeneratorClient(channel), JudgeClient(channel), ProfilerClient(channel), store)
        runner = Runner(store, ports, Notices(), SearchTuning())
        made = await store_one(store, 10)
        async with serving(landscape_services(landscape), path, grace_seconds=0):
            runner.start()
            await until_sequence(store, made.id, 6)
        await asyncio.sleep(0.3)
        async with serving(landscape_services(landscape), path, grace_seconds=0):
            events = await until_finished(store, made.id)
            await runner.stop()
    assert facts(events) == facts(expected)


async def test_a_service_that_stays_away_fails_the_optimization_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "_PATIENCE_SECONDS", 0.2)
    async with AsyncExitStack() as stack:
        channel = await stack.enter_async_context(open_channel(f"unix:{tmp_path}/nobody.sock"))
        store = Store(f"sqlite:///{tmp_path / 'store.db'}")
        stack.callback(store.close)
        ports = Ports(GeneratorClient(channel), JudgeClient(channel), ProfilerClient(channel), store)
        made = await store_one(store)
        runner = Runner(store, ports, Notices(), SearchTuning())
        runner.start()
        events = await until_finished(store, made.id)
        await runner.stop()
    finished = events[-1].finished
    assert finished.state == search_pb2.OPTIMIZATION_STATE_FAILED
    assert finished.failure.message.startswith("the profiler does not answer")


class Flaky(LandscapeServicer):
    """A profiler that is full once, and fails by its own fault on every kernel's first try."""

    def __init__(self, landscape: Landscape) -> None:
        super().__init__(landscape)
        self.full = True
        self.seen: set[str] = set()

    async def Evaluate(self, request: Any, context: Any) -> AsyncIterator[profiler_service_pb2.EvaluateResponse]:
        if self.full:
            self.full = False
            raise BusyError("64 evaluations wait", retry_seconds=0.05)
        if request.kernel.id not in self.seen:
            self.seen.add(request.kernel.id)
            evaluation = evaluation_pb2.Evaluation(verdict=verdict_pb2.VERDICT_INTERNAL, reason="worker died")
            yield profiler_service_pb2.EvaluateResponse(
                result=profiler_service_pb2.EvaluationResult(evaluation=evaluation)
            )
            return
        async for response in super().Evaluate(request, context):
            yield response


async def test_a_full_queue_and_a_fault_of_the_profiler_are_tried_again(tmp_path: Path) -> None:
    expected = await undisturbed(tmp_path / "calm", rounds=5)
    path = f"unix:{tmp_path}/f.sock"
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(serving(landscape_services(planted(), Flaky), path, grace_seconds=0))
        channel = await stack.enter_async_context(open_channel(path))
        store = Store(f"sqlite:///{tmp_path / 'store.db'}")
        stack.callback(store.close)
        ports = Ports(GeneratorClient(channel), JudgeClient(channel), ProfilerClient(channel), store)
        made = await store_one(store, 5)
        runner = Runner(store, ports, Notices(), SearchTuning())
        runner.start()
        events = await until_finished(store, made.id)
        await runner.stop()
    assert facts(events) == facts(expected)


async def test_wall_time_spent_before_a_takeover_counts(tmp_path: Path) -> None:
    async with setting(tmp_path, planted(delay_seconds=0.1)) as own:
        made = await store_one(own.store, rounds=0, wall_seconds=1.0)
        first = own.runner()
        first.start()
        await until_sequence(own.store, made.id, 9)
        await first.stop()
        await asyncio.sleep(0.5)
        second = own.runner()
        second.start()
        events = await until_finished(own.store, made.id)
        await second.stop()
    driven = replay(empty_tree(made, SearchTuning()), events).seconds
    assert 0.9 < driven < 1.5
    assert events[-1].finished.stop_reason == "budget"


async def test_a_wall_time_too_short_for_the_baseline_says_so(tmp_path: Path) -> None:
    async with setting(tmp_path, planted(delay_seconds=30)) as own:
        made = await store_one(own.store, rounds=0, wall_seconds=0.2)
        runner = own.runner()
        runner.start()
        events = await until_finished(own.store, made.id, seconds=5)
        await runner.stop()
    assert events[-1].finished.state == search_pb2.OPTIMIZATION_STATE_FAILED
    assert "wall time of 0.2 s" in events[-1].finished.failure.message
