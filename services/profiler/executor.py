"""What the pipeline asks of an executor, be it the CPU or a GPU."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from optiml.devices import DeviceModel
from optiml.v1 import evaluation_pb2, problem_pb2
from services.profiler.compile import Compiled
from services.profiler.plan import Plan
from services.profiler.storage import Array

__all__ = ["Executor", "Measured", "Program", "Ran", "Subject"]


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled kernel that an executor can run."""

    compiled: Compiled
    file: Path
    """What the worker loads: a cubin or a shared object."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What one run left."""

    buffers: dict[str, bytes]
    """Every argument's bytes after the run, inputs included."""
    findings: tuple[evaluation_pb2.Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class Subject:
    """A kernel at one time size."""

    kernel_id: str
    program: Program
    plan: Plan
    problem: problem_pb2.Problem
    size: problem_pb2.Size


@dataclass(frozen=True, slots=True)
class Measured:
    """Times of the subject and of those it is compared against, at one size."""

    timing: evaluation_pb2.Timing
    """The subject's."""
    speedups: list[tuple[float, float, float]] = field(default_factory=list)
    """For each kernel that it was compared against: other's time over ours, lower and upper end."""


class Executor(Protocol):
    """Runs, times and counts kernels on one device. Methods raise CandidateError for verdicts."""

    device: evaluation_pb2.Device
    model: DeviceModel
    name: str
    """Of the worker, for Evaluation.worker."""
    orders: tuple[str, ...]
    """Orders in which it can run a grid's blocks; the first is the usual one."""
    at_once: int
    """How many calls it works on at the same time; more of them wait."""

    async def prepare(self, compiled: Compiled) -> Program:
        """Make a program that the worker can load."""
        ...

    async def run(
        self, program: Program, plan: Plan, inputs: dict[str, Array], *,
        poison: int, check: bool, order: str, seconds: float,
    ) -> Ran:  # fmt: skip
        """Run all launches once, on fresh buffers: outputs and scratch hold the poison byte."""
        ...

    async def time(self, subject: Subject, against: list[Subject], *, seconds: float) -> Measured:
        """Time the subject at its size, together with the others."""
        ...

    async def count(self, subject: Subject, *, seconds: float) -> tuple[list[evaluation_pb2.Metric], str]:
        """Return counters of one run and how they were obtained."""
        ...

    async def stop(self) -> None:
        """End the worker; the next call starts another."""
        ...
