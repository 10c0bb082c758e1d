import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from optiml import errors
from optiml.rpc.channel import open_channel
from optiml.rpc.server import Service, serving
from optiml.rpc.status import from_rpc_error
from optiml.v1 import judge_service_pb2, judge_service_pb2_grpc, profiler_service_pb2, profiler_service_pb2_grpc


class Failing(judge_service_pb2_grpc.JudgeServiceServicer, profiler_service_pb2_grpc.ProfilerServiceServicer):
    """Raises what it is given, from a unary and from a streaming method."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def Diagnose(self, request: Any, context: Any) -> Any:
        raise self.error

    async def Evaluate(self, request: Any, context: Any) -> AsyncIterator[Any]:
        yield profiler_service_pb2.EvaluateResponse(stage="compile")
        raise self.error


@asynccontextmanager
async def _failing(address: str, error: Exception) -> AsyncIterator[grpc.aio.Channel]:
    servicer = Failing(error)
    services = [
        Service(
            "optiml.v1.JudgeService", lambda s: judge_service_pb2_grpc.add_JudgeServiceServicer_to_server(servicer, s)
        ),
        Service(
            "optiml.v1.ProfilerService",
            lambda s: profiler_service_pb2_grpc.add_ProfilerServiceServicer_to_server(servicer, s),
        ),
    ]
    async with serving(services, address, grace_seconds=0) as bound, open_channel(bound) as channel:
        yield channel


async def _unary_error(channel: grpc.aio.Channel) -> errors.Error:
    stub = judge_service_pb2_grpc.JudgeServiceStub(channel)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.Diagnose(judge_service_pb2.DiagnoseRequest(), timeout=10)
    return from_rpc_error(caught.value)


ERRORS = [
    errors.InvalidArgumentError(
        "k.yaml:3: unknown dtype", [errors.FieldViolation("arguments[0].data_type", "unknown")]
    ),
    errors.RequestIdReusedError("request id 7 was used"),
    errors.NotFoundError("no optimization o1"),
    errors.PreconditionError("no nvcc; pip install optiml[nvcc]"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
async def test_a_domain_error_arrives_as_itself(error: errors.Error) -> None:
    async with _failing("127.0.0.1:0", error) as channel:
        arrived = await _unary_error(channel)
    assert type(arrived) is type(error)
    assert str(arrived) == str(error)


async def test_field_violations_arrive() -> None:
    async with _failing("127.0.0.1:0", ERRORS[0]) as channel:
        arrived = await _unary_error(channel)
    assert isinstance(arrived, errors.InvalidArgumentError)
    assert [v.field for v in arrived.violations] == ["arguments[0].data_type"]


async def test_a_full_queue_says_when_to_come_again() -> None:
    async with _failing("127.0.0.1:0", errors.BusyError("queue is full", 2.5)) as channel:
        arrived = await _unary_error(channel)
    assert isinstance(arrived, errors.BusyError)
    assert arrived.retry_seconds == 2.5


async def test_a_fault_of_the_service_tells_no_internals() -> None:
    async with _failing("127.0.0.1:0", ZeroDivisionError("secret detail")) as channel:
        stub = judge_service_pb2_grpc.JudgeServiceStub(channel)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Diagnose(judge_service_pb2.DiagnoseRequest(), timeout=10)
    assert caught.value.code() == grpc.StatusCode.INTERNAL
    assert "secret" not in str(caught.value.details())


async def test_a_stream_that_fails_gives_what_it_had_and_then_the_error() -> None:
    async with _failing("127.0.0.1:0", errors.NotFoundError("gone")) as channel:
        call = profiler_service_pb2_grpc.ProfilerServiceStub(channel).Evaluate(
            profiler_service_pb2.EvaluateRequest(), timeout=10
        )
        stages: list[str] = []
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            async for response in call:
                stages.append(response.stage)
    assert stages == ["compile"]
    assert isinstance(from_rpc_error(caught.value), errors.NotFoundError)


async def test_an_unreachable_service_is_told_as_such() -> None:
    async with open_channel("127.0.0.1:1") as channel:
        assert isinstance(await _unary_error(channel), errors.UpstreamUnavailableError)


async def test_a_unix_socket_serves_too_and_health_names_each_service(tmp_path: Path) -> None:
    async with _failing(f"unix:{tmp_path}/s", errors.NotFoundError("x")) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        for name in ("", "liveness", "readiness", "optiml.v1.JudgeService", "optiml.v1.ProfilerService"):
            answer = await stub.Check(health_pb2.HealthCheckRequest(service=name), timeout=10)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING


async def test_a_taken_port_is_refused() -> None:
    async with serving([], "127.0.0.1:0") as bound:
        with pytest.raises(OSError, match="cannot listen"):
            async with serving([], bound):
                await asyncio.sleep(0)
