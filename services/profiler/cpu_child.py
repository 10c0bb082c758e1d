"""The CPU executor's worker: builds shared objects from PTX, runs and counts launches; one at a time, until it ends.

It only ever loads what the translator made of a candidate's PTX, where every access is checked against the buffers. It
still is a process of its own, since a candidate may hang it, and its answers are compared elsewhere.
"""

import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from optiml.sandboxing.frames import Bytes, Frame, read_frame, write_frame
from services.profiler.cpu.build import BuildFailed, build
from services.profiler.cpu.counters import TRAFFIC_NAMES
from services.profiler.cpu.execute import Buffer, DeviceMemory, LaunchResult, Program, run_launch
from services.profiler.cpu.translate import UnsupportedPtx
from services.profiler.jobs import Job, JobLaunch, job_of

__all__ = ["main"]

_SLACK_BYTES = 64 << 20  # gaps between buffers, module variables
_MOST_INSTRUCTIONS = 2e7  # thread instructions that are counted of one launch: about a third of a second
_THREAD_INSTRUCTIONS = "smsp__thread_inst_executed.sum"


def _build(request: Frame) -> Frame:
    out = Path(request.header["out"])
    try:
        build(bytes(request.blobs[0]).decode(), out, cache=Path(request.header["cache"]))
    except UnsupportedPtx as error:
        return Frame({"status": "not-checkable", "reason": str(error)})
    except BuildFailed as error:
        return Frame({"status": "internal", "reason": str(error)[:500], "log": error.log})
    return Frame({"status": "ok"})


def _placed(job: Job) -> tuple[Program, dict[str, Buffer]]:
    memory = DeviceMemory(sum(buffer.size_bytes + 8192 for buffer in job.buffers) + _SLACK_BYTES)
    program = Program(job.file, memory)
    buffers = {}
    for described in job.buffers:
        counted_as_written = described.content is not None or job.options["op"] == "count"
        buffer = memory.allocate(described.size_bytes, initialised=counted_as_written)
        if described.content is not None:
            buffer.view[:] = np.frombuffer(described.content, np.uint8)
        elif job.options["op"] == "run":
            buffer.view[:] = job.poison
        buffers[described.name] = buffer
    return program, buffers


def _launched(program: Program, launch: JobLaunch, buffers: Mapping[str, Buffer], **options: Any) -> LaunchResult:
    arguments = [buffers[a] if isinstance(a, str) else a for a in launch.arguments]
    return run_launch(
        program, launch.symbol, launch.grid, launch.block, launch.dynamic_shared_bytes, arguments,
        cooperative=launch.cooperative, **options,
    )  # fmt: skip


def _findings(result: LaunchResult) -> list[dict[str, Any]]:
    return [
        {
            "kind": found.kind,
            "message": found.message,
            "kernel": found.kernel,
            "line": found.line,
            "other_line": found.other_line,
            "block": list(found.block),
            "thread": list(found.thread),
        }
        for found in result.findings
    ]


def _end(launch: JobLaunch, result: LaunchResult) -> dict[str, Any]:
    """Return how a launch ended, as a finding, for the ends that no single access tells."""
    reason, _, line = result.reason.rpartition(" at line ")
    return {"kind": result.status, "message": reason or result.status, "kernel": launch.symbol, "line": int(line or 0)}


def _run(job: Job) -> Frame:
    program, buffers = _placed(job)
    deadline = time.monotonic() + job.options["seconds"]
    for launch in job.launches:
        result = _launched(
            program,
            launch,
            buffers,
            check=job.options["check"],
            count=False,
            order=job.options["order"],
            time_limit_s=max(0.01, deadline - time.monotonic()),
        )
        if result.status == "timed_out":
            return Frame({"status": "timed-out", "reason": f"{launch.symbol} did not finish", "findings": []})
        if result.findings or result.status != "ok":
            findings = _findings(result) or [_end(launch, result)]
            return Frame({"status": "found", "reason": result.status, "findings": findings})
    blobs: list[Bytes] = [buffers[b.name].view.tobytes() for b in job.buffers if b.role != "scratch"]
    return Frame({"status": "ok", "findings": []}, blobs)


def _weighted(
    totals: defaultdict[str, float], traffic: "np.ndarray[Any, np.dtype[np.float64]]", result: LaunchResult,
    program: Program, weight: float,
) -> None:  # fmt: skip
    """Add what one sampled block did, times the blocks that it stands for."""
    for name, value in result.counters.items():
        totals[name] += weight * value
    for entered, mix in zip(result.warp_blocks, program.block_mixes, strict=True):
        loads = mix.get("load", 0)
        totals["loads"] += weight * float(entered) * loads
        totals["loading_blocks"] += weight * float(entered) * (loads > 0)
        totals["barriers"] += weight * float(entered) * mix.get("barrier", 0)
    traffic += weight * result.traffic.astype(np.float64)


def _counted(
    program: Program, launch: JobLaunch, buffers: Mapping[str, Buffer], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Count a sample of one launch's blocks and scale each stratum to its population."""
    totals: defaultdict[str, float] = defaultdict(float)
    rows = [allocation.base for allocation in program.memory.allocations()]
    traffic = np.zeros((len(rows), len(TRAFFIC_NAMES)))
    executed = 0.0
    for population, blocks in options["strata"]:
        results = []
        for block in blocks:
            result = _launched(
                program,
                launch,
                buffers,
                check=False,
                count=True,
                blocks=[block],
                time_limit_s=options["seconds"],
                l1_lines_of_a_warp=options["l1_lines"],
            )
            if result.status != "ok":
                return {"status": result.status}
            results.append(result)
            executed += result.counters[_THREAD_INSTRUCTIONS]
            if executed > _MOST_INSTRUCTIONS:
                break
        for result in results:
            _weighted(totals, traffic, result, program, population / len(results))
    by_buffer = {name: traffic[rows.index(buffer.address)].tolist() for name, buffer in buffers.items()}
    return {"status": "ok", "totals": totals, "traffic": by_buffer}


def _count(job: Job) -> Frame:
    program, buffers = _placed(job)
    counted = []
    for launch, options in zip(job.launches, job.options["counting"], strict=True):
        counted.append(_counted(program, launch, buffers, options))
        if counted[-1]["status"] != "ok":
            return Frame({"status": counted[-1]["status"]})
    return Frame({"status": "ok", "launches": counted})


_OPERATIONS: dict[str, Callable[[Frame], Frame]] = {
    "build": _build,
    "run": lambda request: _run(job_of(request)),
    "count": lambda request: _count(job_of(request)),
}


def main() -> None:
    """Answer requests until standard input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # device printf must not mix with answers
    while (request := read_frame(sys.stdin.buffer)) is not None:
        try:
            answer = _OPERATIONS[request.header["op"]](request)
        except (ValueError, OSError, MemoryError) as error:
            answer = Frame({"status": "internal", "reason": f"{type(error).__name__}: {error}"[:500], "findings": []})
        write_frame(answers, answer)


if __name__ == "__main__":
    main()
