"""Following an optimization over gRPC: its events in order, across lost connections, to its end."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeAlias

import grpc

from optiml.v1 import optimizer_service_pb2, optimizer_service_pb2_grpc, search_pb2

__all__ = ["ENDED", "Stub", "follow", "get", "read_log"]

Stub: TypeAlias = "optimizer_service_pb2_grpc.OptimizerServiceAsyncStub"  # exists for type checkers only

ENDED = frozenset(
    {
        search_pb2.OPTIMIZATION_STATE_SUCCEEDED,
        search_pb2.OPTIMIZATION_STATE_FAILED,
        search_pb2.OPTIMIZATION_STATE_CANCELLED,
    }
)

CALL_SECONDS = 30.0
_PATIENCE_SECONDS = 60.0  # a rolling update of the orchestrator takes less
_FIRST_DELAY_SECONDS, _LONGEST_DELAY_SECONDS = 0.2, 5.0


async def get(stub: Stub, optimization_id: str) -> search_pb2.Optimization:
    """Return the optimization as it is now.

    Raises:
        grpc.aio.AioRpcError: NOT_FOUND, or the service does not answer.
    """
    request = optimizer_service_pb2.GetOptimizationRequest(id=optimization_id)
    response: optimizer_service_pb2.GetOptimizationResponse = await stub.GetOptimization(request, timeout=CALL_SECONDS)
    return response.optimization


async def follow(stub: Stub, optimization_id: str, *, after: int = 0) -> AsyncGenerator[search_pb2.Event, None]:
    """Yield the events after sequence number `after`, until the optimization has ended.

    A lost connection is taken up again from the last event seen, for a minute without any.

    Raises:
        grpc.aio.AioRpcError: NOT_FOUND, or the service stayed away.
    """
    loop = asyncio.get_running_loop()
    last_seen, delay = loop.time(), _FIRST_DELAY_SECONDS
    while True:
        try:
            request = optimizer_service_pb2.WatchOptimizationRequest(id=optimization_id, after_sequence=after)
            async for response in stub.WatchOptimization(request):
                event = response.event
                after = max(after, event.sequence)
                last_seen, delay = loop.time(), _FIRST_DELAY_SECONDS
                yield event
                if event.HasField("finished"):
                    return
            if (await get(stub, optimization_id)).state in ENDED:
                return  # everything up to the end had been seen before
        except grpc.aio.AioRpcError as error:
            gone = error.code() == grpc.StatusCode.UNAVAILABLE
            if not gone or loop.time() - last_seen > _PATIENCE_SECONDS:
                raise
        await asyncio.sleep(delay)
        delay = min(2 * delay, _LONGEST_DELAY_SECONDS)


async def read_log(stub: Stub, optimization: search_pb2.Optimization) -> list[search_pb2.Event]:
    """Return the stored events of an optimization, ended or not, up to its `last_sequence`.

    Raises:
        grpc.aio.AioRpcError: the service does not answer.
    """
    events: list[search_pb2.Event] = []
    if not optimization.last_sequence:
        return events
    async with aclosing(follow(stub, optimization.id)) as log:
        async for event in log:
            if event.HasField("progress"):
                continue
            events.append(event)
            if event.sequence >= optimization.last_sequence:
                break
    return events
