"""A run, as it is told to a worker: which program, which launches, which buffers with what in them. And its answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optiml.sandboxing.frames import Bytes, Frame, ProtocolError
from services.profiler.plan import Plan
from services.profiler.storage import Array

__all__ = ["Job", "JobBuffer", "JobLaunch", "answer_buffers", "is_lie", "job_frame", "job_of", "launches_header"]


@dataclass(frozen=True, slots=True)
class JobLaunch:
    """One launch, as a worker sees it."""

    symbol: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_shared_bytes: int
    cooperative: bool
    arguments: tuple[str | bytes, ...]
    """A buffer's name, or a scalar's bytes."""


@dataclass(frozen=True, slots=True)
class JobBuffer:
    """One buffer, as a worker sees it."""

    name: str
    size_bytes: int
    role: str
    content: Bytes | None
    """What it holds before the run; None fills it with the poison byte."""


@dataclass(frozen=True, slots=True)
class Job:
    """One run of all launches."""

    file: Path
    launches: tuple[JobLaunch, ...]
    buffers: tuple[JobBuffer, ...]
    poison: int
    options: dict[str, Any]


def launches_header(plan: Plan) -> list[dict[str, Any]]:
    """Return a plan's launches in JSON's types; scalars are `{"bytes": hex}`."""
    return [
        {
            "symbol": launch.symbol,
            "grid": launch.grid,
            "block": launch.block,
            "shared": launch.dynamic_shared_bytes,
            "cooperative": launch.cooperative,
            "arguments": [a if isinstance(a, str) else {"bytes": a.hex()} for a in launch.arguments],
        }
        for launch in plan.launches
    ]


def job_frame(file: Path, plan: Plan, inputs: Mapping[str, Array], poison: int, **options: object) -> Frame:
    """Return the frame that asks for a run; the inputs' contents are its blobs."""
    header = {
        **options,
        "file": str(file),
        "launches": launches_header(plan),
        "buffers": [
            {"name": b.name, "bytes": b.size_bytes, "role": b.role, "given": b.name in inputs} for b in plan.buffers
        ],
        "poison": poison,
    }
    given = [inputs[b.name].tobytes() for b in plan.buffers if b.name in inputs]
    return Frame(header, given)


def job_launches(header: Sequence[Mapping[str, Any]]) -> tuple[JobLaunch, ...]:
    """Read launches back."""
    return tuple(
        JobLaunch(
            symbol=launch["symbol"],
            grid=tuple(launch["grid"]),
            block=tuple(launch["block"]),
            dynamic_shared_bytes=launch["shared"],
            cooperative=launch["cooperative"],
            arguments=tuple(a if isinstance(a, str) else bytes.fromhex(a["bytes"]) for a in launch["arguments"]),
        )
        for launch in header
    )


def job_of(frame: Frame) -> Job:
    """Read a job in the worker."""
    blobs = iter(frame.blobs)
    header = frame.header
    buffers = tuple(
        JobBuffer(b["name"], b["bytes"], b["role"], next(blobs) if b["given"] else None) for b in header["buffers"]
    )
    return Job(Path(header["file"]), job_launches(header["launches"]), buffers, header["poison"], header)


def is_lie(plan: Plan, answer: Frame) -> bool:
    """Return whether a worker claims success with buffers that are not the plan's: it must not serve again."""
    wanted = [buffer.size_bytes for buffer in plan.buffers if buffer.role != "scratch"]
    return answer.header.get("status") == "ok" and wanted != [len(blob) for blob in answer.blobs]


def answer_buffers(plan: Plan, answer: Frame) -> dict[str, bytes]:
    """Read what a worker returned: all buffers but scratch, in the plan's order.

    Raises:
        ProtocolError: the sizes are not the plan's.
    """
    if is_lie(plan, answer):
        raise ProtocolError("the worker returned buffers of other sizes than it was given")
    wanted = [buffer for buffer in plan.buffers if buffer.role != "scratch"]
    return {buffer.name: bytes(blob) for buffer, blob in zip(wanted, answer.blobs, strict=True)}
