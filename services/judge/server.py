"""JudgeService: delegates to `diagnose` and `judge`, which are pure."""

from typing import Any, TypeAlias

import grpc

from optiml.rpc.server import Service
from optiml.v1 import judge_service_pb2, judge_service_pb2_grpc
from services.judge.diagnose import diagnose
from services.judge.judge import judge

__all__ = ["NAME", "JudgeServicer", "service"]

NAME = "optiml.v1.JudgeService"
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class JudgeServicer(judge_service_pb2_grpc.JudgeServiceServicer):
    """Answers from the request alone."""

    async def Diagnose(
        self, request: judge_service_pb2.DiagnoseRequest, _context: Context
    ) -> judge_service_pb2.DiagnoseResponse:
        """Name what limits a kernel."""
        return judge_service_pb2.DiagnoseResponse(diagnosis=diagnose(request.problem, request.evaluation))

    async def Judge(
        self, request: judge_service_pb2.JudgeRequest, _context: Context
    ) -> judge_service_pb2.JudgeResponse:
        """Score an evaluated edit."""
        return judge_service_pb2.JudgeResponse(judgement=judge(request))


def service() -> Service:
    """Return the service, ready to be added to a server."""
    servicer = JudgeServicer()
    return Service(NAME, lambda server: judge_service_pb2_grpc.add_JudgeServiceServicer_to_server(servicer, server))
