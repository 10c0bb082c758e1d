"""Watching an optimization in a view, to its end or to an interrupt."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import structlog

from optiml.v1 import optimizer_service_pb2, search_pb2
from optimlctl.following import CALL_SECONDS, ENDED, Stub, follow, get
from optimlctl.views import View

__all__ = ["cancel", "watch_to_end"]

_log = structlog.get_logger(__name__)
_CANCEL_SECONDS = 20.0  # running work is killed, not waited for


async def watch_to_end(
    stub: Stub, optimization: search_pb2.Optimization, view: View, interrupted: asyncio.Event, *, after: int = 0
) -> search_pb2.Optimization:
    """Show the events of an optimization until it ends or the person interrupts.

    Returns:
        The optimization as it is then; an interrupted one still runs.

    Raises:
        grpc.aio.AioRpcError: the service stayed away.
    """
    if optimization.state not in ENDED or after < optimization.last_sequence:
        with view:
            await _until_interrupt(_show(stub, optimization.id, view, after), interrupted)
    return await get(stub, optimization.id)


async def cancel(stub: Stub, optimization_id: str) -> search_pb2.Optimization:
    """Cancel an optimization and wait until it has ended.

    Raises:
        grpc.aio.AioRpcError: NOT_FOUND, or the service does not answer.
    """
    request = optimizer_service_pb2.CancelOptimizationRequest(id=optimization_id)
    response: optimizer_service_pb2.CancelOptimizationResponse = await stub.CancelOptimization(
        request, timeout=CALL_SECONDS
    )
    optimization = response.optimization
    if optimization.state not in ENDED:
        try:
            async with asyncio.timeout(_CANCEL_SECONDS):
                async for _ in follow(stub, optimization_id, after=optimization.last_sequence):
                    pass
        except TimeoutError:
            _log.warning("not ended after the cancel", optimization=optimization_id, seconds=_CANCEL_SECONDS)
        optimization = await get(stub, optimization_id)
    return optimization


async def _show(stub: Stub, optimization_id: str, view: View, after: int) -> None:
    async for event in follow(stub, optimization_id, after=after):
        view.show(event)


async def _until_interrupt(work: Coroutine[Any, Any, None], interrupted: asyncio.Event) -> None:
    tasks = [asyncio.create_task(work), asyncio.create_task(interrupted.wait())]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()  # raises what the work raised
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
