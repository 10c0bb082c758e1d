"""Handing an optimization in."""

import uuid

from optiml.v1 import optimizer_service_pb2, search_pb2
from optimlctl.following import CALL_SECONDS, Stub
from optimlctl.input import Input
from optimlctl.submissions import remember

__all__ = ["submit"]


async def submit(stub: Stub, given: Input, settings: search_pb2.SearchSettings) -> search_pb2.Optimization:
    """Create an optimization under a fresh request id, and remember its source file on this machine.

    Raises:
        grpc.aio.AioRpcError: the service refuses the problem, or does not answer.
    """
    request = optimizer_service_pb2.CreateOptimizationRequest(
        request_id=str(uuid.uuid4()), problem=given.problem, baseline=given.kernel, settings=settings
    )
    response: optimizer_service_pb2.CreateOptimizationResponse = await stub.CreateOptimization(
        request, timeout=CALL_SECONDS
    )
    remember(response.optimization.id, given.submission)
    return response.optimization
