"""What the search asks of others. The arguments and results are the proto messages; `clients` has the gRPC versions."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from optiml.v1 import evaluation_pb2, generator_service_pb2, judge_service_pb2, profiler_service_pb2

__all__ = ["FaultError", "Generator", "Judge", "Memory", "OnStage", "Ports", "Profiler"]

OnStage = Callable[[str], None]
"""Told each stage of an evaluation as it begins."""


class FaultError(Exception):
    """A service failed on one request by its own fault; another request may well succeed."""


class Generator(Protocol):
    """Writes edits."""

    async def propose(self, request: generator_service_pb2.ProposeRequest) -> generator_service_pb2.ProposeResponse:
        """Propose edits of a kernel; see GeneratorService.Propose."""
        ...


class Judge(Protocol):
    """Names bottlenecks and holds edits to their claims."""

    async def diagnose(self, request: judge_service_pb2.DiagnoseRequest) -> judge_service_pb2.DiagnoseResponse:
        """Name what limits a kernel; see JudgeService.Diagnose."""
        ...

    async def judge(self, request: judge_service_pb2.JudgeRequest) -> judge_service_pb2.JudgeResponse:
        """Score an evaluated edit; see JudgeService.Judge."""
        ...


class Profiler(Protocol):
    """Finds the facts about a kernel."""

    async def evaluate(
        self, request: profiler_service_pb2.EvaluateRequest, on_stage: OnStage
    ) -> profiler_service_pb2.EvaluationResult:
        """Evaluate a kernel; see ProfilerService.Evaluate."""
        ...


class Memory(Protocol):
    """Remembers evaluations of all optimizations."""

    async def known_evaluation(
        self, kernel_id: str, baseline: evaluation_pb2.Evaluation
    ) -> evaluation_pb2.Evaluation | None:
        """Return the stored evaluation of a kernel on the baseline's problem, device and toolchain, if there is one."""
        ...


@dataclass(frozen=True, slots=True)
class Ports:
    """Everybody whom a search asks."""

    generator: Generator
    judge: Judge
    profiler: Profiler
    memory: Memory
