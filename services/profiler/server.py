"""ProfilerService: takes requests, queues them, and hands them to the pipeline of the device that they want."""

from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, contextmanager
from typing import Any

import grpc

from optiml.errors import BusyError
from optiml.rpc.server import Service
from optiml.settings import settings
from optiml.v1 import profiler_service_pb2, profiler_service_pb2_grpc
from services.profiler.devices import Devices
from services.profiler.oracle.check import check_problem
from services.profiler.request import check_request

__all__ = ["ProfilerServicer", "service"]

_NAME = "optiml.v1.ProfilerService"
_TYPICAL_SECONDS = 1.5  # of one evaluation: how soon a place in a full queue may be free


class ProfilerServicer(profiler_service_pb2_grpc.ProfilerServiceServicer):
    """Translates between gRPC and `services.profiler.evaluate`."""

    def __init__(self) -> None:
        self._devices = Devices()
        self._waiting = 0

    async def Evaluate(
        self,
        request: profiler_service_pb2.EvaluateRequest,
        context: "grpc.aio.ServicerContext[Any, Any]",
    ) -> AsyncIterator[profiler_service_pb2.EvaluateResponse]:
        """See profiler_service.proto. Cancelling the call, or its deadline, ends the work itself."""
        del context
        check_request(request)
        with self._waiting_place():
            pipeline = await self._devices.pipeline(request.device)
            async with aclosing(pipeline.evaluate(request)) as responses:
                async for response in responses:
                    yield response

    async def CheckProblem(
        self,
        request: profiler_service_pb2.CheckProblemRequest,
        context: "grpc.aio.ServicerContext[Any, Any]",
    ) -> AsyncIterator[profiler_service_pb2.CheckProblemResponse]:
        """See profiler_service.proto. Cancelling the call, or its deadline, ends the work itself."""
        del context
        check_request(profiler_service_pb2.EvaluateRequest(problem=request.problem, kernel=request.kernel))
        with self._waiting_place():
            pipeline = await self._devices.pipeline(request.device)
            async with aclosing(check_problem(pipeline, request)) as responses:
                async for response in responses:
                    yield response

    @contextmanager
    def _waiting_place(self) -> Iterator[None]:
        """Count a call among those that wait or run.

        Raises:
            BusyError: there are too many.
        """
        if self._waiting >= settings().evaluation_queue:
            raise BusyError(f"{self._waiting} evaluations wait here already", _TYPICAL_SECONDS)
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1

    async def GetCapabilities(
        self,
        request: profiler_service_pb2.GetCapabilitiesRequest,
        context: "grpc.aio.ServicerContext[Any, Any]",
    ) -> profiler_service_pb2.GetCapabilitiesResponse:
        """See profiler_service.proto."""
        del request, context
        return await self._devices.capabilities()

    async def stop(self) -> None:
        """End every worker."""
        await self._devices.stop()


def service() -> Service:
    """Return the profiler, ready to be served."""
    servicer = ProfilerServicer()

    def add(server: grpc.aio.Server) -> None:
        profiler_service_pb2_grpc.add_ProfilerServiceServicer_to_server(servicer, server)

    return Service(_NAME, add, servicer.stop)
