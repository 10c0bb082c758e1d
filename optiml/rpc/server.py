"""Servers: one way to start, to report health, to drain and to stop, for all four services.

Health follows grpc.health.v1: the empty name, each service's name, `liveness` and `readiness`. On SIGTERM or SIGINT
health turns NOT_SERVING, running calls get `grace_seconds`, then the server ends.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import grpc
import structlog
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1._async import HealthServicer  # the package's documented `health.aio`
from grpc_reflection.v1alpha import reflection

from optiml.rpc.channel import MAX_MESSAGE_BYTES
from optiml.rpc.interceptors import ErrorsToStatus

__all__ = ["Service", "serve_until_signal", "serving"]

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Service:
    """A servicer that is ready to be added to a server."""

    name: str
    """Full name, as in `optiml.v1.JudgeService`."""
    add: Callable[[grpc.aio.Server], None]
    """Registers the servicer."""
    stop: Callable[[], Awaitable[None]] | None = None
    """Called after the last call ended: ends workers and background work."""


def _new_server() -> grpc.aio.Server:
    options = [
        ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
        ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
        ("grpc.so_reuseport", 0),  # a second server on a taken port must fail, not share
        ("grpc.max_connection_age_ms", 300_000),  # lets new replicas get traffic
        ("grpc.max_connection_age_grace_ms", 3_600_000),
        ("grpc.http2.min_ping_interval_without_data_ms", 300_000),
    ]
    return grpc.aio.server(interceptors=[ErrorsToStatus()], options=options)


@asynccontextmanager
async def serving(services: Sequence[Service], address: str, *, grace_seconds: float = 5.0) -> AsyncIterator[str]:
    """Serve on `address` (`host:port`, port 0 for any, or `unix:/path`) within the context.

    Yields:
        The address to connect to, with the port that was bound.

    Raises:
        OSError: the address cannot be bound.
    """
    server = _new_server()
    health = HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(health, server)
    for service in services:
        service.add(server)
    names = [service.name for service in services]
    reflection.enable_server_reflection([*names, "grpc.health.v1.Health", reflection.SERVICE_NAME], server)
    try:
        port = server.add_insecure_port(address)
    except RuntimeError as error:
        raise OSError(f"cannot listen on {address}: {error}") from error
    await server.start()
    for name in ["", "liveness", "readiness", *names]:
        await health.set(name, health_pb2.HealthCheckResponse.SERVING)
    bound = address if address.startswith("unix:") else f"{address.rpartition(':')[0]}:{port}"
    _log.info("serving", services=names, address=bound)
    try:
        yield bound
    finally:
        await health.enter_graceful_shutdown()
        await server.stop(grace_seconds)
        for service in services:
            if service.stop is not None:
                await service.stop()
        _log.info("stopped", services=names)


async def serve_until_signal(services: Sequence[Service], address: str, *, grace_seconds: float = 30.0) -> None:
    """Serve until SIGTERM or SIGINT, then drain.

    Raises:
        OSError: the address cannot be bound.
    """
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    async with serving(services, address, grace_seconds=grace_seconds):
        await stopped.wait()
