"""The GPU as an executor: one worker process, replaced after every CUDA error, hang or crash."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from optiml.devices import DeviceModel, device_model
from optiml.errors import PreconditionError
from optiml.expressions import evaluate, evaluate_integer
from optiml.sandboxing import sandbox
from optiml.sandboxing.frames import Frame, ProtocolError
from optiml.sandboxing.worker_process import WorkerDiedError, WorkerProcess, WorkerTimeoutError, python_step
from optiml.v1 import evaluation_pb2, problem_pb2, verdict_pb2
from services.profiler.compile import Compiled
from services.profiler.cuda import ncu
from services.profiler.cuda.statistics import median_interval, ratio_interval
from services.profiler.derived import as_metrics, roofline_ms
from services.profiler.executor import Measured, Program, Ran, Subject
from services.profiler.failure import CandidateError
from services.profiler.jobs import answer_buffers, is_lie, job_frame, launches_header
from services.profiler.plan import Plan
from services.profiler.storage import Array, kind_of
from services.profiler.toolchain import find_toolchain

__all__ = ["CudaExecutor"]

_START_SECONDS = 60.0
_SAMPLING_SECONDS = 0.5  # of pure kernel time for all subjects together
_SEED = 1
_VERDICTS = {
    "memory-fault": verdict_pb2.VERDICT_MEMORY_FAULT,
    "launch-failed": verdict_pb2.VERDICT_LAUNCH_FAILED,
    "internal": verdict_pb2.VERDICT_INTERNAL,
}
# The driver opens its devices, maps far more addresses than there is memory, and reads its own configuration. CuPy's
# JIT caches would land in the home folder.
_LIMITS = sandbox.Limits(seconds=0, cpu_seconds=24 * 3600, address_space_bytes=1 << 47, file_bytes=1 << 30)
_READABLE = [Path("/")]
_WRITABLE = [Path("/dev"), Path("/proc")]
_ENVIRONMENT = {"CUDA_MODULE_LOADING": "EAGER", "CUPY_CACHE_IN_MEMORY": "1", "CUDA_CACHE_DISABLE": "1"}


def _constant(text: str, size: dict[str, int]) -> float:
    try:
        return float(text)
    except ValueError:
        return float(evaluate(text, size))


def _draw(argument: problem_pb2.Argument, size: dict[str, int]) -> dict[str, Any]:
    """Return how the worker draws an argument, with numbers only."""
    draw = argument.draw
    match draw.WhichOneof("distribution"):
        case "uniform":
            return {"kind": "uniform", "low": draw.uniform.low, "high": draw.uniform.high}
        case "integers":
            low, high = (evaluate_integer(text, size) for text in (draw.integers.low, draw.integers.high))
            return {"kind": "integers", "low": low, "high": high}
        case "normal":
            return {"kind": "normal", "mean": draw.normal.mean, "deviation": draw.normal.standard_deviation}
    return {"kind": "constant", "value": _constant(draw.constant or "0", size)}


def _timing_header(subjects: list[Subject], seconds: float) -> dict[str, Any]:
    problem, plan = subjects[0].problem, subjects[0].plan
    size = dict(subjects[0].size.parameters)
    draws = {argument.name: _draw(argument, size) for argument in problem.arguments}
    arguments = []
    for buffer in plan.buffers:
        if buffer.role != "scratch":
            kind = kind_of(buffer.data_type)
            dtype = "bf16" if kind.is_bfloat16 else str(kind.storage)
            arguments.append(
                {"name": buffer.name, "bytes": buffer.size_bytes, "role": buffer.role, "dtype": dtype,
                 "draw": draws[buffer.name]}
            )  # fmt: skip
    return {
        "op": "time",
        "arguments": arguments,
        "subjects": [
            {
                "file": str(subject.program.file),
                "launches": launches_header(subject.plan),
                "scratch": [
                    {"name": b.name, "bytes": b.size_bytes, "role": b.role}
                    for b in subject.plan.buffers
                    if b.role == "scratch"
                ],
            }
            for subject in subjects
        ],
        "seconds": seconds,
        "seed": _SEED,
    }


def _is_ok(answer: Frame) -> bool:
    return answer.header.get("status") == "ok"


class CudaExecutor:
    """Runs kernels on GPU 0 of the machine. Make it with `open`."""

    orders: tuple[str, ...] = ("device",)
    at_once = 1

    def __init__(self, worker: WorkerProcess, hello: dict[str, Any], model: DeviceModel) -> None:
        self._worker = worker
        self.model = model
        self.device = evaluation_pb2.Device(
            kind=verdict_pb2.DEVICE_KIND_CUDA,
            name=hello["name"],
            architecture=hello["architecture"],
            driver=hello["driver"],
        )
        self.name = f"cuda:0 {hello['name']}"
        self._without: set[str] = set()  # metrics that this device does not have

    @classmethod
    async def open(cls) -> "CudaExecutor":
        """Start the worker and ask it what GPU it has.

        Raises:
            PreconditionError: there is no usable GPU or no CuPy; the message has the cure.
        """
        worker = WorkerProcess(
            python_step("services.profiler.cuda.child"),
            _LIMITS,
            readable=_READABLE,
            writable=_WRITABLE,
            environment=_ENVIRONMENT,
        )
        try:
            answer = await worker.call(Frame({"op": "hello"}), _START_SECONDS, 0)
        except WorkerDiedError as error:
            missing = "ModuleNotFoundError" in error.log
            cure = "`pip install 'optiml[cuda]'`" if missing else "see `nvidia-smi`; CUDA 13 needs driver 580 or later"
            words = error.log.strip().splitlines()[-1:] or ["no words"]
            raise PreconditionError(f"no usable GPU ({words[0][:200]}): {cure}") from error
        except WorkerTimeoutError as error:
            raise PreconditionError(f"the GPU does not answer in {_START_SECONDS:g} s: see `nvidia-smi`") from error
        hello = answer.header
        if hello.get("status") != "ok":
            await worker.stop()
            raise PreconditionError(f"no usable GPU ({hello.get('reason')}): see `nvidia-smi`")
        try:
            model = device_model(str(hello["name"]))
        except KeyError as error:
            await worker.stop()
            raise PreconditionError(f"{error.args[0]}: add its data sheet to optiml/devices.py") from error
        return cls(worker, hello, model)

    async def stop(self) -> None:
        """End the worker."""
        await self._worker.stop()

    async def prepare(self, compiled: Compiled) -> Program:
        """Return the cubin as it is."""
        return Program(compiled, compiled.cubin)

    async def _call(
        self, frame: Frame, seconds: float, most_bytes: int, fit: Callable[[Frame], bool] = _is_ok
    ) -> Frame:
        try:
            # CUDA errors are sticky: after one, the next call, whoever's it is, meets a fresh process.
            answer = await self._worker.call(frame, seconds, most_bytes, fit=fit)
        except WorkerTimeoutError as error:
            reason = f"it did not finish within {seconds:g} s"
            raise CandidateError(verdict_pb2.VERDICT_TIMED_OUT, reason) from error
        except WorkerDiedError as error:
            reason = f"the GPU's worker ended with status {error.status}"
            raise CandidateError(verdict_pb2.VERDICT_INTERNAL, reason, error.log) from error
        if not _is_ok(answer):
            status = answer.header.get("status")
            verdict = _VERDICTS.get(str(status), verdict_pb2.VERDICT_INTERNAL)
            raise CandidateError(verdict, str(answer.header.get("reason"))[:500])
        return answer

    async def run(
        self, program: Program, plan: Plan, inputs: dict[str, Array], *,
        poison: int, check: bool, order: str, seconds: float,
    ) -> Ran:  # fmt: skip
        """Run all launches once; `check` and `order` mean nothing here: guard bands are always checked."""
        del check, order
        frame = job_frame(program.file, plan, inputs, poison, op="run")
        most_bytes = sum(buffer.size_bytes for buffer in plan.buffers)
        answer = await self._call(
            frame, seconds, most_bytes, lambda answer: _is_ok(answer) and not is_lie(plan, answer)
        )
        try:
            return Ran(answer_buffers(plan, answer))
        except ProtocolError as error:
            raise CandidateError(verdict_pb2.VERDICT_INTERNAL, str(error)) from error

    async def time(self, subject: Subject, against: list[Subject], *, seconds: float) -> Measured:
        """Time all of them interleaved; see `services.profiler.cuda.timing_run`."""
        answer = await self._call(Frame(_timing_header([subject, *against], _SAMPLING_SECONDS)), seconds, 0)
        samples = answer.header["samples_ms"]
        ours = median_interval(samples[0])
        timing = evaluation_pb2.Timing(
            size=subject.size,
            provenance=verdict_pb2.PROVENANCE_MEASURED,
            median_ms=ours.central,
            low_ms=ours.low,
            high_ms=ours.high,
            samples_ms=samples[0],
            roofline_ms=roofline_ms(subject.problem, subject.plan, {}, self.model),
        )
        ratios = [ratio_interval(samples[0], other) for other in samples[1:]]
        return Measured(timing, [(ratio.central, ratio.low, ratio.high) for ratio in ratios])

    async def count(self, subject: Subject, *, seconds: float) -> tuple[list[evaluation_pb2.Metric], str]:
        """Count by ncu in a process of its own; without counters, the list is empty and the source says why."""
        tool = ncu.find_ncu(find_toolchain())
        if tool is None:
            return [], "none: ncu is not installed"
        output = await self._profiled(tool, subject, seconds)
        if unknown := ncu.unknown_metrics(output):
            self._without |= unknown
            output = await self._profiled(tool, subject, seconds)
        answer = ncu.parse(output)
        if answer.trouble:
            return [], f"none: {answer.trouble}"
        return [*as_metrics(iter(answer.values.items()), verdict_pb2.PROVENANCE_MEASURED)], "ncu"

    async def _profiled(self, tool: Path, subject: Subject, seconds: float) -> str:
        """Return what ncu printed."""
        launches = subject.plan.launches
        async with sandbox.private_folder("ncu") as folder:
            job = folder / "job.json"
            job.write_text(json.dumps(_timing_header([subject], 0.0)))
            profiled = python_step("services.profiler.cuda.count_child", str(job))
            symbols = [launch.symbol for launch in launches]
            command = [*ncu.arguments(tool, symbols, len(launches), self._without), *profiled.argv]
            limits = sandbox.Limits(seconds, _LIMITS.cpu_seconds, _LIMITS.address_space_bytes, _LIMITS.file_bytes)
            outcome = await sandbox.run(
                [sandbox.Step(command)],
                folder,
                limits,
                readable=_READABLE,
                writable=_WRITABLE,
                environment=_ENVIRONMENT,
            )
        if outcome.timed_out:
            return f"==ERROR== ncu did not finish within {seconds:g} s"
        return outcome.stdout.decode(errors="replace") + outcome.stderr.decode(errors="replace")
