"""The service over a real socket."""

import grpc
import kernels
import pytest

from optiml.rpc.server import serving
from optiml.v1 import generator_service_pb2 as generator
from optiml.v1 import generator_service_pb2_grpc as stubs
from services.generator.server import service


async def test_proposals_come_over_a_socket() -> None:
    async with serving([service()], "127.0.0.1:0") as address, grpc.aio.insecure_channel(address) as channel:
        response = await stubs.GeneratorServiceStub(channel).Propose(generator.ProposeRequest(kernel=kernels.RELU))
    assert response.edits[0].transformation == "vectorize"


async def test_malformed_kernel_is_an_invalid_argument() -> None:
    broken = kernels.kernel("__global__ void k(float* x) { x[0] = ; }", "k", "1", "1", "x")
    async with serving([service()], "127.0.0.1:0") as address, grpc.aio.insecure_channel(address) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await stubs.GeneratorServiceStub(channel).Propose(generator.ProposeRequest(kernel=broken))
    assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
