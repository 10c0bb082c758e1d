"""The servicer of GeneratorService: it translates and delegates."""

import asyncio

import grpc

from optiml.rpc.server import Service
from optiml.v1 import generator_service_pb2, generator_service_pb2_grpc
from services.generator.registry import propose

__all__ = ["GeneratorServicer", "service"]


class GeneratorServicer(generator_service_pb2_grpc.GeneratorServiceServicer):
    """Proposes edits; one request is worked on at a time, since the parser is not safe for threads."""

    def __init__(self) -> None:
        self._parser = asyncio.Lock()

    async def Propose(
        self,
        request: generator_service_pb2.ProposeRequest,
        context: grpc.aio.ServicerContext[generator_service_pb2.ProposeRequest, generator_service_pb2.ProposeResponse],
    ) -> generator_service_pb2.ProposeResponse:
        """See `GeneratorService.Propose` in the proto."""
        async with self._parser:
            return await asyncio.to_thread(propose, request)


def service() -> Service:
    """Return the service, ready to be added to a server."""
    servicer = GeneratorServicer()

    def add(server: grpc.aio.Server) -> None:
        generator_service_pb2_grpc.add_GeneratorServiceServicer_to_server(servicer, server)

    return Service(generator_service_pb2.DESCRIPTOR.services_by_name["GeneratorService"].full_name, add)
