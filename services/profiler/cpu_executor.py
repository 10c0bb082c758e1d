"""The CPU as an executor: one process builds, another runs and counts; times are estimated for the target device."""

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from optiml.devices import device_model
from optiml.errors import PreconditionError
from optiml.sandboxing import sandbox
from optiml.sandboxing.frames import Frame, ProtocolError
from optiml.sandboxing.worker_pool import WorkerPool
from optiml.sandboxing.worker_process import WorkerDiedError, WorkerProcess, WorkerTimeoutError, python_step
from optiml.settings import settings
from optiml.v1 import evaluation_pb2, verdict_pb2
from services.profiler import cpu
from services.profiler.cache_limit import touch
from services.profiler.compile import Compiled
from services.profiler.cpu.counters import TRAFFIC_NAMES
from services.profiler.derived import as_metrics, roofline_ms
from services.profiler.estimate import Estimate, estimate
from services.profiler.executor import Measured, Program, Ran, Subject
from services.profiler.failure import CandidateError
from services.profiler.inputs import Case, draw
from services.profiler.jobs import answer_buffers, is_lie, job_frame
from services.profiler.plan import Plan
from services.profiler.sampling import strata
from services.profiler.simulated import LaunchCounts, counters_of, lines_of_a_warp, work_of
from services.profiler.storage import Array, kind_of
from services.profiler.traffic import BufferTraffic

__all__ = ["CpuExecutor"]

_GRACE_SECONDS = 5.0  # the worker ends launches itself; one that does not answer even so is killed
_FIRST_BUILD_SECONDS = 120.0  # the runtime is compiled once
_SEED = 1
_MOST_DRAWN_BYTES = 64 << 20  # larger inputs stay zero when only counted
_MOST_SIMULATIONS = 512
_ADDRESS_SPACE_BYTES = 1 << 46  # arenas are reserved, not used
_LIFETIME_CPU_SECONDS = 1_000_000


@cache
def _version() -> str:
    """Return a name for what the translator and its runtime are now: what another version built is not used."""
    folder = Path(cpu.__file__).parent
    digest = hashlib.sha256()
    for file in sorted([*folder.glob("*.py"), *folder.glob("runtime/*")]):
        digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()[:16]


class CpuExecutor:
    """Runs kernels on the CPU.

    Args:
        at_once: how many it builds, and how many it runs, at the same time.
    """

    orders: tuple[str, ...] = ("forward", "reverse")

    def __init__(self, at_once: int = 1) -> None:
        self.at_once = at_once
        try:
            self.model = device_model(settings().target_device)
        except KeyError as error:
            raise PreconditionError(f"OPTIML_TARGET_DEVICE: {error.args[0]}") from error
        self.device = evaluation_pb2.Device(
            kind=verdict_pb2.DEVICE_KIND_CPU, name=self.model.name, architecture=self.model.architecture
        )
        self.name = "cpu-executor"
        self._folder = settings().cache_folder / "cpu" / _version()
        self._folder.mkdir(parents=True, exist_ok=True)
        limits = sandbox.Limits(0, _LIFETIME_CPU_SECONDS, _ADDRESS_SPACE_BYTES)
        step = python_step("services.profiler.cpu_child")
        builders = [WorkerProcess(step, limits, writable=[self._folder]) for _ in range(at_once)]
        runners = [WorkerProcess(step, limits, readable=[self._folder]) for _ in range(at_once)]
        self._builders, self._runners = WorkerPool(builders), WorkerPool(runners)
        self._known: OrderedDict[tuple[str, str, bytes], tuple[Estimate, dict[str, float]]] = OrderedDict()

    @property
    def runner_process_ids(self) -> list[int]:
        """The processes that run kernels (their supervisors)."""
        return self._runners.process_ids

    async def stop(self) -> None:
        """End all workers."""
        await self._builders.stop()
        await self._runners.stop()

    async def prepare(self, compiled: Compiled) -> Program:
        """Build the shared object, or find it in the cache.

        Raises:
            CandidateError: NOT_CHECKABLE_HERE: the kernel uses what the executor cannot run.
        """
        await self._runners.start()  # it gets ready meanwhile
        file = self._folder / f"{compiled.key}.so"
        if not file.exists():
            header = {"op": "build", "out": str(file), "cache": str(self._folder)}
            try:
                answer = await self._builders.call(Frame(header, [compiled.ptx.encode()]), _FIRST_BUILD_SECONDS, 0)
            except (WorkerDiedError, WorkerTimeoutError) as error:
                reason = f"building for the CPU failed: {error}"
                raise CandidateError(verdict_pb2.VERDICT_NOT_CHECKABLE_HERE, reason) from error
            if answer.header.get("status") != "ok":
                checkable = answer.header.get("status") != "not-checkable"
                verdict = verdict_pb2.VERDICT_INTERNAL if checkable else verdict_pb2.VERDICT_NOT_CHECKABLE_HERE
                log = str(answer.header.get("log", ""))
                raise CandidateError(verdict, str(answer.header.get("reason"))[:500], log)
        touch(file)
        return Program(compiled, file)

    async def _call(
        self, frame: Frame, seconds: float, most_bytes: int, fit: Callable[[Frame], bool] | None = None
    ) -> Frame:
        try:
            return await self._runners.call(frame, seconds + _GRACE_SECONDS, most_bytes, fit=fit)
        except WorkerTimeoutError as error:
            reason = f"it did not finish within {seconds:.3g} s"
            raise CandidateError(verdict_pb2.VERDICT_TIMED_OUT, reason) from error
        except WorkerDiedError as error:
            reason = f"the worker ended with status {error.status} while it ran this kernel"
            raise CandidateError(verdict_pb2.VERDICT_INTERNAL, reason, error.log) from error

    async def run(
        self, program: Program, plan: Plan, inputs: dict[str, Array], *,
        poison: int, check: bool, order: str, seconds: float,
    ) -> Ran:  # fmt: skip
        """Run all launches once; out-of-bounds accesses are found with and without `check`.

        Raises:
            CandidateError: TIMED_OUT, or INTERNAL when the worker died.
        """
        frame = job_frame(program.file, plan, inputs, poison, op="run", check=check, order=order, seconds=seconds)
        most_bytes = sum(buffer.size_bytes for buffer in plan.buffers)
        answer = await self._call(frame, seconds, most_bytes, lambda answer: not is_lie(plan, answer))
        match answer.header.get("status"):
            case "ok":
                pass
            case "found":
                return Ran({}, _findings(answer.header["findings"], program.compiled))
            case "timed-out":
                reason = f"it did not finish within {seconds:.3g} s"
                raise CandidateError(verdict_pb2.VERDICT_TIMED_OUT, reason)
            case _:
                raise CandidateError(verdict_pb2.VERDICT_INTERNAL, str(answer.header.get("reason"))[:500])
        try:
            return Ran(answer_buffers(plan, answer))
        except ProtocolError as error:
            raise CandidateError(verdict_pb2.VERDICT_INTERNAL, str(error)) from error

    async def time(self, subject: Subject, against: list[Subject], *, seconds: float) -> Measured:
        """Estimate times from simulated counters; ranges of a comparison are those where the model errs alike."""
        ours, values = await self._simulated(subject, seconds)
        timing = evaluation_pb2.Timing(
            size=subject.size,
            provenance=verdict_pb2.PROVENANCE_ESTIMATED,
            median_ms=ours.central_ms,
            low_ms=ours.low_ms,
            high_ms=ours.high_ms,
            roofline_ms=roofline_ms(subject.problem, subject.plan, values, self.model),
        )
        speedups = []
        for other in against:
            theirs, _ = await self._simulated(other, seconds)
            ratios = (
                theirs.central_ms / ours.central_ms,
                theirs.low_ms / ours.low_ms,
                theirs.high_ms / ours.high_ms,
            )
            speedups.append((ratios[0], min(ratios), max(ratios)))
        return Measured(timing, speedups)

    async def count(self, subject: Subject, *, seconds: float) -> tuple[list[evaluation_pb2.Metric], str]:
        """Return the counters that the estimate rests on."""
        _, values = await self._simulated(subject, seconds)
        return [*as_metrics(iter(values.items()), verdict_pb2.PROVENANCE_SIMULATED)], "cpu-executor"

    async def _simulated(self, subject: Subject, seconds: float) -> tuple[Estimate, dict[str, float]]:
        key = (subject.problem.id, subject.kernel_id, subject.size.SerializeToString(deterministic=True))
        if key not in self._known:
            self._known[key] = await self._simulate(subject, seconds)
            if len(self._known) > _MOST_SIMULATIONS:
                self._known.popitem(last=False)
        return self._known[key]

    async def _simulate(self, subject: Subject, seconds: float) -> tuple[Estimate, dict[str, float]]:
        plan, compiled = subject.plan, subject.program.compiled
        resources = [compiled.resources[launch.kernel] for launch in plan.launches]
        counting = [
            {
                "strata": [(one.population, one.blocks) for one in strata(launch.grid)],
                "l1_lines": lines_of_a_warp(launch, needed, self.model),
                "seconds": seconds,
            }
            for launch, needed in zip(plan.launches, resources, strict=True)
        ]
        inputs = _small_inputs(subject)
        frame = job_frame(subject.program.file, plan, inputs, 0, op="count", counting=counting)
        answer = await self._call(frame, seconds * len(counting), 0)
        if answer.header.get("status") != "ok":
            reason = f"its counters could not be simulated at {dict(subject.size.parameters)}: {answer.header}"
            raise CandidateError(verdict_pb2.VERDICT_NOT_CHECKABLE_HERE, reason[:500])
        counts = [_launch_counts(launch, plan) for launch in answer.header["launches"]]
        work = [
            work_of(count, launch, needed, self.model)
            for count, launch, needed in zip(counts, plan.launches, resources, strict=True)
        ]
        values = counters_of(plan, zip(counts, resources, strict=True), self.model)
        return estimate(work, self.model), values


def _small_inputs(subject: Subject) -> dict[str, Array]:
    """Draw what may steer a kernel: integers, and floats where that is cheap. The rest counts as zeros."""
    wanted = {
        buffer.name
        for buffer in subject.plan.buffers
        if buffer.role in {"in", "inout"}
        and buffer.size_bytes <= (_MOST_DRAWN_BYTES >> (4 if kind_of(buffer.data_type).is_float else 0))
    }
    return draw(subject.problem, Case.of(subject.size, _SEED), only=wanted).buffers


def _findings(described: Any, compiled: Compiled) -> tuple[evaluation_pb2.Finding, ...]:
    names = {entry.symbol: name for name, entry in compiled.entries.items()}
    return tuple(
        evaluation_pb2.Finding(**{**found, "kernel": names.get(found["kernel"], found["kernel"])})
        for found in described
    )


def _launch_counts(answer: dict[str, Any], plan: Plan) -> LaunchCounts:
    totals: dict[str, float] = answer["totals"]
    sizes = {buffer.name: buffer.size_bytes for buffer in plan.buffers}
    traffic = []
    lines = 0.0
    for name, values in answer["traffic"].items():
        row = dict(zip(TRAFFIC_NAMES, values, strict=True))
        lines += row.pop("load_lines") + row.pop("store_lines")
        traffic.append(BufferTraffic(size_bytes=sizes[name], **row))
    in_flight = totals["loads"] / totals["loading_blocks"] if totals.get("loading_blocks") else 1.0
    return LaunchCounts(totals, in_flight, lines, tuple(traffic))
