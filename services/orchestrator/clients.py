"""The ports over gRPC: deadlines, patience with services that restart or are full, and one more try after a fault.

A service that restarts must not fail an optimization, so UNAVAILABLE is retried for minutes; a full queue is retried
when it says so. A fault of a service on one request is told as `FaultError`, or by the profiler as verdict INTERNAL:
the search then leaves that one edit alone.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import grpc
import structlog

from optiml.errors import BusyError, UpstreamUnavailableError
from optiml.identity import evaluation_id
from optiml.rpc.status import from_rpc_error
from optiml.v1 import (
    evaluation_pb2,
    generator_service_pb2,
    generator_service_pb2_grpc,
    judge_service_pb2,
    judge_service_pb2_grpc,
    profiler_service_pb2,
    profiler_service_pb2_grpc,
    verdict_pb2,
)
from services.orchestrator.ports import FaultError, OnStage

__all__ = ["GeneratorClient", "JudgeClient", "ProfilerClient"]

_log = structlog.get_logger(__name__)
_Answer = TypeVar("_Answer")

_GENERATOR_SECONDS = 600.0  # a language model may think for minutes
_JUDGE_SECONDS = 60.0
_PROFILER_SECONDS = 900.0  # the profiler's own limits end an evaluation long before
_PATIENCE_SECONDS = 300.0
_BUSY_SECONDS = 3600.0
_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 3.0


class GeneratorClient:
    """A Generator behind a channel."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = generator_service_pb2_grpc.GeneratorServiceStub(channel)

    async def propose(self, request: generator_service_pb2.ProposeRequest) -> generator_service_pb2.ProposeResponse:
        """Propose edits of a kernel."""
        return await _patiently("generator", lambda: self._stub.Propose(request, timeout=_GENERATOR_SECONDS))


class JudgeClient:
    """A Judge behind a channel."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = judge_service_pb2_grpc.JudgeServiceStub(channel)

    async def diagnose(self, request: judge_service_pb2.DiagnoseRequest) -> judge_service_pb2.DiagnoseResponse:
        """Name what limits a kernel."""
        return await _patiently("judge", lambda: self._stub.Diagnose(request, timeout=_JUDGE_SECONDS))

    async def judge(self, request: judge_service_pb2.JudgeRequest) -> judge_service_pb2.JudgeResponse:
        """Score an evaluated edit."""
        return await _patiently("judge", lambda: self._stub.Judge(request, timeout=_JUDGE_SECONDS))


class ProfilerClient:
    """A Profiler behind a channel."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = profiler_service_pb2_grpc.ProfilerServiceStub(channel)

    async def evaluate(
        self, request: profiler_service_pb2.EvaluateRequest, on_stage: OnStage
    ) -> profiler_service_pb2.EvaluationResult:
        """Evaluate a kernel; a verdict INTERNAL gets a second chance."""
        result = await self._evaluate(request, on_stage)
        if result.evaluation.verdict == verdict_pb2.VERDICT_INTERNAL:
            _log.warning("evaluation failed by the profiler's fault", reason=result.evaluation.reason)
            result = await self._evaluate(request, on_stage)
        return result

    async def _evaluate(
        self, request: profiler_service_pb2.EvaluateRequest, on_stage: OnStage
    ) -> profiler_service_pb2.EvaluationResult:
        try:
            return await _patiently("profiler", lambda: self._read(request, on_stage))
        except FaultError as fault:
            return profiler_service_pb2.EvaluationResult(evaluation=_internal(request, str(fault)))

    async def _read(
        self, request: profiler_service_pb2.EvaluateRequest, on_stage: OnStage
    ) -> profiler_service_pb2.EvaluationResult:
        call = self._stub.Evaluate(request, timeout=_PROFILER_SECONDS)
        async for response in call:
            if response.WhichOneof("event") == "result":
                call.cancel()
                return response.result
            on_stage(response.stage)
        raise FaultError("the profiler ended an evaluation without a result")


def _internal(request: profiler_service_pb2.EvaluateRequest, reason: str) -> evaluation_pb2.Evaluation:
    device = evaluation_pb2.Device(kind=request.device)
    return evaluation_pb2.Evaluation(
        id=evaluation_id(request.problem.id, request.kernel.id, device, ""),
        problem_id=request.problem.id,
        kernel_id=request.kernel.id,
        device=device,
        verdict=verdict_pb2.VERDICT_INTERNAL,
        reason=reason,
    )


async def _patiently(service: str, call: Callable[[], Awaitable[_Answer]]) -> _Answer:
    """Call until there is an answer, or an error that another try does not mend.

    Raises:
        optiml.errors.Error: the service refused, or was not to be reached for minutes.
        FaultError: the service failed by its own fault, or did not answer in time.
    """
    started, pause = time.monotonic(), _FIRST_PAUSE_SECONDS
    while True:
        try:
            return await call()
        except grpc.aio.AioRpcError as error:
            failure = _failure(service, error)
            waited = time.monotonic() - started
            match failure:
                case BusyError() if waited < _BUSY_SECONDS:
                    await asyncio.sleep(max(0.01, failure.retry_seconds))
                case UpstreamUnavailableError() if waited < _PATIENCE_SECONDS:
                    _log.warning("unavailable", service=service, waited_seconds=round(waited, 1))
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
                case _:
                    raise failure from error


def _failure(service: str, error: grpc.aio.AioRpcError) -> Exception:
    if error.code() in {grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAVAILABLE}:
        # A server that stops cancels what it serves; a cancel of ours is asyncio.CancelledError instead.
        return UpstreamUnavailableError(f"the {service} does not answer: {error.details()}")
    try:
        return from_rpc_error(error)
    except grpc.aio.AioRpcError:
        return FaultError(f"the {service} failed on this request: {error.code().name}, {error.details()}")
