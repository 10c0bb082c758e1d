import asyncio
import os
import signal
from pathlib import Path

import grpc
import pytest

from optiml.v1 import search_pb2
from optimlctl.following import follow, read_log
from optimlctl.interrupts import interrupts
from optimlctl.views import QuietView
from optimlctl.watching import watch_to_end
from tests.client import messages
from tests.client.serving_log import log_stub

ID = messages.optimization().id


async def test_events_come_in_order_up_to_the_end(tmp_path: Path) -> None:
    async with log_stub(tmp_path, messages.EVENTS) as (_, stub):
        assert [event async for event in follow(stub, ID)] == messages.EVENTS


async def test_only_events_after_the_given_number_come(tmp_path: Path) -> None:
    async with log_stub(tmp_path, messages.EVENTS) as (_, stub):
        assert [event.sequence async for event in follow(stub, ID, after=5)] == [6, 7, 8]


async def test_a_lost_connection_loses_and_repeats_no_event(tmp_path: Path) -> None:
    async with log_stub(tmp_path, messages.EVENTS, break_after=[2, 6]) as (servicer, stub):
        assert [event async for event in follow(stub, ID)] == messages.EVENTS
    assert servicer.watches == [0, 2, 6]


async def test_work_in_hand_does_not_move_the_place_in_the_log(tmp_path: Path) -> None:
    progress = search_pb2.Event(progress=search_pb2.Progress(what="vectorise", stage="compile"))
    events = [messages.EVENTS[0], progress, *messages.EVENTS[1:]]
    async with log_stub(tmp_path, events, break_after=[2]) as (servicer, stub):
        told = [event async for event in follow(stub, ID)]
    assert [event for event in told if event.sequence] == messages.EVENTS
    assert servicer.watches == [0, 2]


async def test_a_stream_that_ends_early_is_taken_for_the_end_if_the_optimization_has_ended(tmp_path: Path) -> None:
    async with log_stub(tmp_path, messages.EVENTS[:3]) as (_, stub):
        assert len([event async for event in follow(stub, ID)]) == 3


async def test_the_stored_log_is_read_without_work_in_hand(tmp_path: Path) -> None:
    progress = search_pb2.Event(progress=search_pb2.Progress(stage="L0"))
    async with log_stub(tmp_path, [progress, *messages.EVENTS]) as (_, stub):
        assert await read_log(stub, messages.optimization()) == messages.EVENTS


async def test_an_error_of_the_service_is_raised_as_it_is(tmp_path: Path) -> None:
    async with log_stub(tmp_path, []) as (_, stub):
        unknown = search_pb2.Optimization(id="o1")
        with pytest.raises(grpc.aio.AioRpcError, match="no optimization 'o1'"):
            await watch_to_end(stub, unknown, QuietView(), asyncio.Event())


async def test_an_interrupt_ends_the_watching(tmp_path: Path) -> None:
    running = messages.optimization()
    running.state = search_pb2.OPTIMIZATION_STATE_RUNNING
    seen: list[int] = []

    class Interrupting(QuietView):
        def show(self, event: search_pb2.Event) -> None:
            seen.append(event.sequence)
            os.kill(os.getpid(), signal.SIGINT)

    # Six broken streams take six seconds of back-off at least: the interrupt must cut them short.
    async with log_stub(tmp_path, messages.EVENTS, break_after=[1, 2, 3, 4, 5, 6]) as (_, stub):
        with interrupts() as interrupted:
            await watch_to_end(stub, running, Interrupting(), interrupted)
        assert interrupted.is_set()
    assert seen == [1]
