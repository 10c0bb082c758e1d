"""The service over gRPC: what callers get, and the status codes that they may rely on."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TypeAlias

import grpc
import pytest
import pytest_asyncio

from optiml.errors import BusyError, InvalidArgumentError, PreconditionError
from optiml.rpc.channel import open_channel
from optiml.rpc.server import serving
from optiml.rpc.status import from_rpc_error
from optiml.v1 import profiler_service_pb2, profiler_service_pb2_grpc, verdict_pb2
from services.profiler import server
from tests.profiler.kernels import RELU_SOURCE, relu_kernel, relu_problem

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

Stub: TypeAlias = "profiler_service_pb2_grpc.ProfilerServiceAsyncStub"  # exists in the type stubs only
CPU = verdict_pb2.DEVICE_KIND_CPU


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def profiler(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stub]:
    folder: Path = tmp_path_factory.mktemp("profiler")
    async with serving([server.service()], f"unix:{folder}/socket") as address, open_channel(address) as channel:
        yield profiler_service_pb2_grpc.ProfilerServiceStub(channel)


def _request(source: str = RELU_SOURCE) -> profiler_service_pb2.EvaluateRequest:
    return profiler_service_pb2.EvaluateRequest(problem=relu_problem(), kernel=relu_kernel(source), device=CPU)


async def _events(profiler: Stub, request: profiler_service_pb2.EvaluateRequest, seconds: float = 60) -> list[str]:
    events = []
    async for response in profiler.Evaluate(request, timeout=seconds):
        events.append(response.stage or verdict_pb2.Verdict.Name(response.result.evaluation.verdict))
    return events


async def test_stages_come_in_order_and_the_result_last(profiler: Stub) -> None:
    assert await _events(profiler, _request()) == [
        "queued", "compile", "L0", "L1", "time", "counters", "VERDICT_OK",
    ]  # fmt: skip


async def test_the_first_failure_ends_it(profiler: Stub) -> None:
    assert await _events(profiler, _request("nonsense")) == ["queued", "compile", "VERDICT_COMPILE_FAILED"]


async def test_a_malformed_problem_names_the_field(profiler: Stub) -> None:
    request = _request()
    request.problem.arguments[0].shape[0] = "Q"
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await _events(profiler, request)
    error = from_rpc_error(caught.value)
    assert isinstance(error, InvalidArgumentError)
    assert error.violations[0].field == "problem.arguments.x"


async def test_a_reference_that_fails_is_an_invalid_argument(profiler: Stub) -> None:
    request = _request()
    request.problem.reference.numpy = "y = undefined"
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await _events(profiler, request)
    assert "NameError" in str(from_rpc_error(caught.value))


async def test_too_many_against_are_refused(profiler: Stub) -> None:
    request = _request()
    request.against.extend([relu_kernel()] * 5)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await _events(profiler, request)
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT


async def test_a_gpu_that_is_not_here_is_a_precondition_with_its_cure(profiler: Stub) -> None:
    capabilities = await profiler.GetCapabilities(profiler_service_pb2.GetCapabilitiesRequest())
    gpu = next(capability for capability in capabilities.capabilities if capability.name == "gpu")
    if gpu.available:
        pytest.skip("there is a GPU here")
    request = _request()
    request.device = verdict_pb2.DEVICE_KIND_CUDA
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await _events(profiler, request)
    assert isinstance(from_rpc_error(caught.value), PreconditionError)
    assert gpu.cure


async def test_capabilities_are_told(profiler: Stub) -> None:
    response = await profiler.GetCapabilities(profiler_service_pb2.GetCapabilitiesRequest())
    found = {capability.name: capability for capability in response.capabilities}
    assert list(found) == ["compiler", "gpu", "host-compiler", "counters", "sandbox", "cpu-executor"]
    assert found["compiler"].found.startswith("nvcc ")
    assert all(bool(capability.cure) != capability.available for capability in response.capabilities)
    assert response.devices[-1].kind == CPU


async def test_a_full_queue_asks_to_come_back(profiler: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    full = server.settings().model_copy(update={"evaluation_queue": 0})
    monkeypatch.setattr(server, "settings", lambda: full)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await _events(profiler, _request())
    error = from_rpc_error(caught.value)
    assert isinstance(error, BusyError)
    assert error.retry_seconds > 0


async def test_a_deadline_ends_the_work(profiler: Stub) -> None:
    source = RELU_SOURCE.replace("if (i < n)", "while (x[0] < 5.0f) {} if (i < n)")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await _events(profiler, _request(source), seconds=2)
    assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    await asyncio.sleep(0.2)
    assert (await _events(profiler, _request(), seconds=20))[-1] == "VERDICT_OK"
