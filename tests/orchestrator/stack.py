"""An orchestrator on a real socket and a real SQLite file, with a landscape behind real sockets as its services."""

import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from optiml.rpc.channel import open_channel
from optiml.rpc.server import Service, serving
from optiml.settings import Settings
from optiml.v1 import (
    generator_service_pb2_grpc,
    judge_service_pb2_grpc,
    optimizer_service_pb2,
    optimizer_service_pb2_grpc,
    profiler_service_pb2,
    profiler_service_pb2_grpc,
    search_pb2,
)
from services.orchestrator.server import service
from tests.orchestrator.landscape import Landscape, kernel_of, problem


class LandscapeServicer(
    generator_service_pb2_grpc.GeneratorServiceServicer,
    judge_service_pb2_grpc.JudgeServiceServicer,
    profiler_service_pb2_grpc.ProfilerServiceServicer,
):
    """A landscape as generator, judge and profiler."""

    def __init__(self, landscape: Landscape) -> None:
        self.landscape = landscape

    async def Propose(self, request: Any, _context: Any) -> Any:
        return await self.landscape.propose(request)

    async def Diagnose(self, request: Any, _context: Any) -> Any:
        return await self.landscape.diagnose(request)

    async def Judge(self, request: Any, _context: Any) -> Any:
        return await self.landscape.judge(request)

    async def Evaluate(self, request: Any, _context: Any) -> AsyncIterator[profiler_service_pb2.EvaluateResponse]:
        yield profiler_service_pb2.EvaluateResponse(stage="compile")
        result = await self.landscape.evaluate(request, lambda _stage: None)
        yield profiler_service_pb2.EvaluateResponse(result=result)


def landscape_services(landscape: Landscape, kind: type[LandscapeServicer] = LandscapeServicer) -> list[Service]:
    servicer = kind(landscape)
    return [
        Service(
            "optiml.v1.GeneratorService",
            lambda server: generator_service_pb2_grpc.add_GeneratorServiceServicer_to_server(servicer, server),
        ),
        Service(
            "optiml.v1.JudgeService",
            lambda server: judge_service_pb2_grpc.add_JudgeServiceServicer_to_server(servicer, server),
        ),
        Service(
            "optiml.v1.ProfilerService",
            lambda server: profiler_service_pb2_grpc.add_ProfilerServiceServicer_to_server(servicer, server),
        ),
    ]


def settings_at(folder: Path, address: str) -> Settings:
    return Settings(state_folder=folder, generator_address=address, judge_address=address, profiler_address=address)


@dataclass
class Stack:
    """What a test talks to."""

    stub: Any
    settings: Settings
    landscape: Landscape


@asynccontextmanager
async def orchestrating(folder: Path, landscape: Landscape, *, drive: bool = True) -> AsyncIterator[Stack]:
    """Serve the landscape and an orchestrator on Unix sockets in `folder`, whose store lives there too."""
    name = uuid.uuid4().hex[:6]
    async with AsyncExitStack() as stack:
        behind = await stack.enter_async_context(
            serving(landscape_services(landscape), f"unix:{folder}/{name}-l", grace_seconds=0)
        )
        own = settings_at(folder, behind)
        front = await stack.enter_async_context(
            serving([service(own, drive=drive)], f"unix:{folder}/{name}-o", grace_seconds=0)
        )
        channel: grpc.aio.Channel = await stack.enter_async_context(open_channel(front))
        yield Stack(optimizer_service_pb2_grpc.OptimizerServiceStub(channel), own, landscape)


def create_request(rounds: int = 12, **settings: Any) -> optimizer_service_pb2.CreateOptimizationRequest:
    return optimizer_service_pb2.CreateOptimizationRequest(
        request_id=str(uuid.uuid4()),
        problem=problem(),
        baseline=kernel_of(frozenset()),
        settings=search_pb2.SearchSettings(budget=search_pb2.Budget(rounds=rounds), **settings),
    )


async def create(stack: Stack, rounds: int = 12, **settings: Any) -> search_pb2.Optimization:
    response = await stack.stub.CreateOptimization(create_request(rounds, **settings), timeout=10)
    return response.optimization


async def watch(stack: Stack, identity: str, after: int = 0) -> list[search_pb2.Event]:
    """Return all events to the end, live progress included."""
    request = optimizer_service_pb2.WatchOptimizationRequest(id=identity, after_sequence=after)
    return [response.event async for response in stack.stub.WatchOptimization(request, timeout=60)]


async def get(stack: Stack, identity: str) -> search_pb2.Optimization:
    response = await stack.stub.GetOptimization(optimizer_service_pb2.GetOptimizationRequest(id=identity), timeout=10)
    return response.optimization
