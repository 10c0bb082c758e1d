"""Handing an optimization in."""

import uuid

from optiml.v1 import optimizer_service_pb2, search_pb2
from optimlctl.following import CALL_SECONDS, Stub
from optimlctl.input import Input
from optimlctl.submissions import remember

__all__ = ["submit"]


async def submit(
    stub: Stub, given: Input, settings: search_pb2.SearchSettings, request_id: str = ""
) -> search_pb2.Optimization:
    """Create an optimization, and remember its source file on this machine.

    Args:
        stub: where to.
        given: the input.
        settings: of the search.
        request_id: a UUID; empty takes a fresh one.

    Raises:
        grpc.aio.AioRpcError: the service refuses the problem, or does not answer.
    """
    request = optimizer_service_pb2.CreateOptimizationRequest(
        request_id=request_id or str(uuid.uuid4()), problem=given.problem, baseline=given.kernel, settings=settings
    )
    response: optimizer_service_pb2.CreateOptimizationResponse = await stub.CreateOptimization(
        request, timeout=CALL_SECONDS
    )
    remember(response.optimization.id, given.submission)
    return response.optimization
