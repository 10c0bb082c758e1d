"""Full evaluations a minute: the profiler against a plain loop of nvcc, a new process, and ncu; one run, a ratio.

Usage: python benchmarks/evaluation_throughput.py [--device cuda|cpu] [--candidates N] [--plain N] [--concurrent N]
       [--out FOLDER] [--prepare FILE | --requests FILE]

Candidates are the generator's own edits of the examples, and edits of those edits. Both sides do the same for each:
compile, L0, L1, time against the baseline with an interval, counters. The plain loop handles a sample of them, one
after another, with nothing kept between candidates but inputs and expected outputs; ours takes all of them through the
service on a Unix socket, several at once. FOLDER gets `throughput.json`. Needs a GPU; `--device cpu` runs our side
alone, to try the script. `--prepare` only writes the candidates to FILE, `--requests` takes them from there: proposing
them takes a minute that a GPU need not wait for.
"""

import argparse
import asyncio
import io
import json
import os
import statistics
import sys
import tempfile
import time
from collections import Counter, deque
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf import proto

from optiml.rpc.channel import open_channel
from optiml.rpc.server import serving
from optiml.v1 import (
    generator_service_pb2,
    kernel_pb2,
    problem_pb2,
    profiler_service_pb2,
    profiler_service_pb2_grpc,
    verdict_pb2,
)
from optimlctl.input import read_input
from services.generator.registry import propose
from services.profiler import server
from services.profiler.cuda.executor import CudaExecutor
from services.profiler.evaluate import Pipeline
from services.profiler.reference import References
from services.profiler.source_rules import SourceRules

ROOT = Path(__file__).resolve().parent.parent
NAMES = ("matmul", "softmax", "layer_norm", "relu", "transpose", "row_sum", "stencil", "cross_entropy")
DEVICES = {"cpu": verdict_pb2.DEVICE_KIND_CPU, "cuda": verdict_pb2.DEVICE_KIND_CUDA}
ADDITIVE = (".sum",)


@dataclass(frozen=True, slots=True)
class Task:
    """One candidate to evaluate."""

    name: str
    problem: problem_pb2.Problem
    baseline: kernel_pb2.Kernel
    kernel: kernel_pb2.Kernel

    def request(self, device: verdict_pb2.DeviceKind.ValueType) -> profiler_service_pb2.EvaluateRequest:
        """Return what the profiler is asked."""
        return profiler_service_pb2.EvaluateRequest(
            problem=self.problem, kernel=self.kernel, device=device, against=[self.baseline]
        )


def candidates(name: str, most: int) -> list[Task]:
    """Return the baseline and up to `most` distinct kernels that edits of it give, breadth first."""
    given = read_input(ROOT / "examples" / f"{name}.cu", "", None)
    found: dict[str, kernel_pb2.Kernel] = {given.kernel.id: given.kernel}
    waiting: deque[tuple[kernel_pb2.Kernel, tuple[str, ...]]] = deque([(given.kernel, ())])
    while waiting and len(found) <= most:
        kernel, history = waiting.popleft()
        asked = generator_service_pb2.ProposeRequest(problem=given.problem, kernel=kernel, history=history)
        for edit in propose(asked).edits:
            if edit.kernel.id not in found:
                found[edit.kernel.id] = edit.kernel
                waiting.append((edit.kernel, (*history, edit.transformation)))
    kernels = list(found.values())[: most + 1]
    return [Task(name, given.problem, given.kernel, kernel) for kernel in kernels]


def save(tasks: list[Task], file: Path) -> None:
    """Write the candidates."""
    stream = io.BytesIO()
    for task in tasks:
        message = profiler_service_pb2.EvaluateRequest(
            problem=task.problem, kernel=task.kernel, against=[task.baseline]
        )
        proto.serialize_length_prefixed(message, stream)
    file.write_bytes(stream.getvalue())


def load(file: Path) -> list[Task]:
    """Read what `save` wrote."""
    found = []
    stream = io.BytesIO(file.read_bytes())
    while message := proto.parse_length_prefixed(profiler_service_pb2.EvaluateRequest, stream):
        found.append(Task(message.problem.name, message.problem, message.against[0], message.kernel))
    return found


def spread(tasks: list[Task], count: int) -> list[Task]:
    """Return `count` tasks, evenly spread over all."""
    return [tasks[i * len(tasks) // count] for i in range(min(count, len(tasks)))]


async def plain_loop(tasks: list[Task]) -> dict[str, Any]:
    """Evaluate one after another: a fresh compile, a fresh process, ncu."""
    rules, references = SourceRules(), References()
    results, seconds = {}, []
    for task in tasks:
        started = time.perf_counter()
        executor = await CudaExecutor.open()
        pipeline = Pipeline(executor, rules, references)
        async with aclosing(pipeline.evaluate(task.request(DEVICES["cuda"]))) as responses:
            async for response in responses:
                if response.HasField("result"):
                    results[task.kernel.id] = response.result
        await pipeline.stop()
        seconds.append(time.perf_counter() - started)
        sys.stderr.write(f"plain {task.name}: {seconds[-1]:.2f} s\n")
    await rules.stop()
    await references.stop()
    return {"results": results, "seconds": seconds}


async def through_the_service(
    tasks: list[Task], concurrent: int, device: verdict_pb2.DeviceKind.ValueType
) -> dict[str, Any]:
    """Evaluate all of them, `concurrent` at a time, after the baselines, whose time is told apart."""
    results: dict[str, profiler_service_pb2.EvaluationResult] = {}
    with tempfile.TemporaryDirectory() as folder:
        address = f"unix:{folder}/socket"
        async with serving([server.service()], address) as bound, open_channel(bound) as channel:
            profiler = profiler_service_pb2_grpc.ProfilerServiceStub(channel)
            places = asyncio.Semaphore(concurrent)

            async def evaluate(task: Task) -> None:
                async with places:
                    async for response in profiler.Evaluate(task.request(device), timeout=600):
                        if response.HasField("result"):
                            results[task.kernel.id] = response.result

            baselines = [task for task in tasks if task.kernel.id == task.baseline.id]
            rest = [task for task in tasks if task.kernel.id != task.baseline.id]
            started = time.perf_counter()
            await asyncio.gather(*map(evaluate, baselines))
            warm = time.perf_counter()
            await asyncio.gather(*map(evaluate, rest))
            ended = time.perf_counter()
    return {"results": results, "count": len(rest), "seconds": ended - warm, "baselines_seconds": warm - started}


def verdicts(results: dict[str, profiler_service_pb2.EvaluationResult]) -> dict[str, int]:
    """Count the verdicts."""
    return dict(Counter(verdict_pb2.Verdict.Name(r.evaluation.verdict) for r in results.values()))


def stages(results: dict[str, profiler_service_pb2.EvaluationResult]) -> dict[str, float]:
    """Return the mean seconds of each stage, waiting included."""
    found: dict[str, list[float]] = {}
    for result in results.values():
        for stage, seconds in result.evaluation.stage_seconds.items():
            found.setdefault(stage, []).append(seconds)
    return {stage: round(statistics.mean(seconds), 4) for stage, seconds in sorted(found.items())}


def disagreements(
    plain: dict[str, profiler_service_pb2.EvaluationResult], ours: dict[str, profiler_service_pb2.EvaluationResult]
) -> dict[str, Any]:
    """Compare verdicts, counters and times of what both sides evaluated."""
    different, times = [], []
    counters: dict[str, float] = {}
    for key, one in plain.items():
        a, b = one.evaluation, ours[key].evaluation
        if a.verdict != b.verdict:
            different.append([key, verdict_pb2.Verdict.Name(a.verdict), verdict_pb2.Verdict.Name(b.verdict), b.reason])
            continue
        known = {metric.name: metric.value for metric in a.metrics}
        for metric in b.metrics:
            theirs = known.get(metric.name)
            if theirs and metric.name.endswith(ADDITIVE) and not metric.name.startswith("optiml__"):
                off = abs(metric.value / theirs - 1)
                counters[metric.name] = max(off, counters.get(metric.name, 0.0))
        times += [y.median_ms / x.median_ms for x, y in zip(a.timings, b.timings, strict=True)]
    return {
        "verdicts": different,
        "counters_off_by_at_most": counters,
        "time_ratio": [min(times), statistics.median(times), max(times)] if times else [],
    }


def proposed(most: int) -> list[Task]:
    """Return the baselines and about `most` candidates, evenly from all problems."""
    return [task for name in NAMES for task in candidates(name, -(-most // len(NAMES)))]


async def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run both sides."""
    tasks = load(arguments.requests) if arguments.requests else proposed(arguments.candidates)
    device = DEVICES[arguments.device]
    report: dict[str, Any] = {
        "problems": len({task.name for task in tasks}),
        "cores": len(os.sched_getaffinity(0)),
        "concurrent": arguments.concurrent,
        "candidates": dict(Counter(task.name for task in tasks)),
    }
    with tempfile.TemporaryDirectory() as folder:
        os.environ["OPTIML_CACHE_FOLDER"] = folder  # nothing was compiled before
        ours = await through_the_service(tasks, arguments.concurrent, device)
    report["ours"] = {
        "candidates": ours["count"],
        "seconds": round(ours["seconds"], 2),
        "baselines_seconds": round(ours["baselines_seconds"], 2),
        "a_minute": round(60 * ours["count"] / ours["seconds"], 1),
        "verdicts": verdicts(ours["results"]),
        "stages": stages(ours["results"]),
        "sources": dict(Counter(r.evaluation.counter_source for r in ours["results"].values())),
        "metrics_each": sorted({len(r.evaluation.metrics) for r in ours["results"].values()}),
    }
    report["failures"] = [
        [verdict_pb2.Verdict.Name(r.evaluation.verdict), r.evaluation.reason]
        for r in ours["results"].values()
        if r.evaluation.verdict != verdict_pb2.VERDICT_OK
    ]
    if arguments.device == "cuda" and arguments.plain:
        plain = await plain_loop(spread(tasks, arguments.plain))
        report["plain"] = {
            "candidates": len(plain["seconds"]),
            "seconds": round(sum(plain["seconds"]), 2),
            "a_minute": round(60 * len(plain["seconds"]) / sum(plain["seconds"]), 1),
            "verdicts": verdicts(plain["results"]),
            "stages": stages(plain["results"]),
        }
        report["ratio"] = round(report["ours"]["a_minute"] / report["plain"]["a_minute"], 2)
        report["disagreements"] = disagreements(plain["results"], ours["results"])
    return report


def main() -> None:
    """Measure, print, and keep the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=sorted(DEVICES), default="cuda")
    parser.add_argument("--candidates", type=int, default=200)
    parser.add_argument("--plain", type=int, default=16)
    parser.add_argument("--concurrent", type=int, default=24)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--prepare", type=Path)
    parser.add_argument("--requests", type=Path)
    arguments = parser.parse_args()
    if arguments.prepare:
        save(proposed(arguments.candidates), arguments.prepare)
        return
    report = asyncio.run(measure(arguments))
    text = json.dumps(report, indent=1)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "throughput.json").write_text(text + "\n")
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
