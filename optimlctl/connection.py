"""Where the client's calls go: to the server that was named, else to services in this process. One code path after."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import grpc

from optiml.rpc.channel import open_channel
from optiml.v1 import optimizer_service_pb2_grpc, profiler_service_pb2_grpc
from optimlctl.exit_codes import ExitCode
from optimlctl.failures import CommandError
from optimlctl.following import Stub
from optimlctl.local_stack import Part, local_stack

__all__ = ["optimizer", "profiler"]

CONNECT_SECONDS = 5.0


@asynccontextmanager
async def optimizer(server: str, *, part: Part = Part.ALL) -> AsyncIterator[Stub]:
    """Connect to an OptimizerService within the context.

    Args:
        server: its address; empty starts the services in this process.
        part: what to start of them.

    Raises:
        CommandError: nothing answers there, or the services cannot be started.
    """
    async with _connected(server, part) as channel:
        yield optimizer_service_pb2_grpc.OptimizerServiceStub(channel)


@asynccontextmanager
async def profiler(server: str) -> AsyncIterator["profiler_service_pb2_grpc.ProfilerServiceAsyncStub"]:
    """Connect to a ProfilerService within the context; empty starts one in this process.

    Raises:
        CommandError: nothing answers there, or it cannot be started.
    """
    async with _connected(server, Part.PROFILER) as channel:
        yield profiler_service_pb2_grpc.ProfilerServiceStub(channel)


@asynccontextmanager
async def _connected(server: str, part: Part) -> AsyncIterator[grpc.aio.Channel]:
    async with AsyncExitStack() as stack:
        address = server or await stack.enter_async_context(local_stack(part))
        channel = await stack.enter_async_context(open_channel(address))
        await _wait_ready(channel, address)
        yield channel


async def _wait_ready(channel: grpc.aio.Channel, address: str) -> None:
    try:
        await asyncio.wait_for(channel.channel_ready(), CONNECT_SECONDS)
    except TimeoutError:
        raise CommandError(
            f"nothing answers at {address}; is the service running and the address right? "
            "`optimlctl up` starts one here, and without --server none is needed",
            ExitCode.UNREACHABLE,
        ) from None
