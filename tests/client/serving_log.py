"""An OptimizerService over one event log in memory, which can be made to break its connections."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc

from optiml.errors import NotFoundError
from optiml.rpc.channel import open_channel
from optiml.rpc.server import Service, serving
from optiml.v1 import optimizer_service_pb2, optimizer_service_pb2_grpc, search_pb2
from tests.client import messages


class LogServicer(optimizer_service_pb2_grpc.OptimizerServiceServicer):
    """Streams a log as the proto says, and counts how often it was asked."""

    def __init__(self, events: list[search_pb2.Event], break_after: list[int]) -> None:
        self.events = events
        self.break_after = break_after
        """Sequence numbers: each ends one stream with UNAVAILABLE after that event."""
        self.watches: list[int] = []

    async def GetOptimization(self, request: Any, context: Any) -> optimizer_service_pb2.GetOptimizationResponse:
        optimization = messages.optimization()
        if request.id != optimization.id:
            raise NotFoundError(f"no optimization {request.id!r}")
        return optimizer_service_pb2.GetOptimizationResponse(optimization=optimization)

    async def WatchOptimization(
        self, request: Any, context: "grpc.aio.ServicerContext[Any, Any]"
    ) -> AsyncIterator[optimizer_service_pb2.WatchOptimizationResponse]:
        self.watches.append(request.after_sequence)
        for event in self.events:
            if event.sequence <= request.after_sequence:
                continue
            yield optimizer_service_pb2.WatchOptimizationResponse(event=event)
            if self.break_after and event.sequence == self.break_after[0]:
                self.break_after.pop(0)
                await context.abort(grpc.StatusCode.UNAVAILABLE, "draining")


@asynccontextmanager
async def serving_log(
    folder: Path, events: list[search_pb2.Event], *, break_after: list[int] | None = None
) -> AsyncIterator[tuple[LogServicer, str]]:
    """Serve the log on a Unix socket in `folder`; yields the servicer and the address."""
    servicer = LogServicer(events, break_after or [])
    service = Service(
        "optiml.v1.OptimizerService",
        lambda server: optimizer_service_pb2_grpc.add_OptimizerServiceServicer_to_server(servicer, server),
    )
    async with serving([service], f"unix:{folder}/log.sock", grace_seconds=0) as address:
        yield servicer, address


@asynccontextmanager
async def log_stub(
    folder: Path, events: list[search_pb2.Event], *, break_after: list[int] | None = None
) -> AsyncIterator[tuple[LogServicer, Any]]:
    """As `serving_log`, with a stub in place of the address."""
    async with (
        serving_log(folder, events, break_after=break_after) as (servicer, address),
        open_channel(address) as channel,
    ):
        yield servicer, optimizer_service_pb2_grpc.OptimizerServiceStub(channel)
