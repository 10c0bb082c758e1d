"""A search problem with a known answer: kernels are sets of moves, and a formula gives each set's speedup.

It implements the search's ports, so that properties of the search (finds the optimum, leaves dead branches, measures
nothing twice) can be tested on landscapes of any shape in milliseconds. Moves commute, so there are transpositions.
"""

import asyncio
import math
import random
from dataclasses import dataclass, field

from optiml.identity import evaluation_id, kernel_id, problem_id
from optiml.v1 import (
    evaluation_pb2,
    generator_service_pb2,
    judge_service_pb2,
    kernel_pb2,
    problem_pb2,
    profiler_service_pb2,
    search_pb2,
    verdict_pb2,
)
from services.orchestrator.ports import OnStage

TOOLCHAIN = "landscape 1"


def label_of(kernel: kernel_pb2.Kernel) -> frozenset[int]:
    """Read the set of moves back from a kernel's name."""
    digits = kernel.launches[0].kernel.removeprefix("k").split("_")[1:]
    return frozenset(int(digit) for digit in digits)


def kernel_of(moves: frozenset[int]) -> kernel_pb2.Kernel:
    name = "_".join(["k", *(str(move) for move in sorted(moves))])
    kernel = kernel_pb2.Kernel(source=f"__global__ void {name}(const float* x, float* y, int n) {{ y[0] = x[0]; }}")
    launch = kernel.launches.add(kernel=name, grid=["ceil_div(N, 256)"], block=["256"])
    launch.arguments.add(buffer="x")
    launch.arguments.add(buffer="y")
    launch.arguments.add(scalar=kernel_pb2.Scalar(data_type=kernel_pb2.DATA_TYPE_I32, expression="N"))
    kernel.id = kernel_id(kernel)
    return kernel


def problem() -> problem_pb2.Problem:
    made = problem_pb2.Problem(name="landscape", parameters=[problem_pb2.Parameter(name="N")])
    draw = problem_pb2.Draw(uniform=problem_pb2.Uniform(low=-1, high=1))
    float32 = kernel_pb2.DATA_TYPE_F32
    made.arguments.add(name="x", data_type=float32, shape=["N"], role=problem_pb2.ROLE_IN, draw=draw)
    made.arguments.add(name="y", data_type=float32, shape=["N"], role=problem_pb2.ROLE_OUT)
    made.reference.numpy = "y = x"
    for sizes, n in ((made.smoke, 37), (made.check, 1000), (made.time, 1 << 20)):
        sizes.add(parameters={"N": n})
    made.id = problem_id(made)
    return made


@dataclass
class Landscape:
    """The ports over a formula."""

    moves: int = 8
    gains: dict[int, float] = field(default_factory=dict)
    """Factor of a move's speedup; 0.97 if it is not here."""
    unlocks: dict[tuple[int, int], float] = field(default_factory=dict)
    """Further factor of two moves together."""
    wrong: frozenset[int] = frozenset()
    """Moves that make the kernel wrong."""
    length: int = 4
    """No more moves than this in one kernel."""
    priors: dict[int, float] = field(default_factory=dict)
    seed: int = 0
    provenance: verdict_pb2.Provenance.ValueType = verdict_pb2.PROVENANCE_MEASURED
    roofline_ms: float = 0.001
    delay_seconds: float = 0.0
    baseline_verdict: verdict_pb2.Verdict.ValueType = verdict_pb2.VERDICT_OK
    evaluated: list[frozenset[int]] = field(default_factory=list)
    """Every kernel that was checked, in order; `known` ones were only compared."""
    compared: list[frozenset[int]] = field(default_factory=list)

    def speedup(self, moves: frozenset[int]) -> float:
        factor = math.prod(self.gains.get(move, 0.97) for move in moves)
        return factor * math.prod(gain for pair, gain in self.unlocks.items() if set(pair) <= moves)

    def verdict(self, moves: frozenset[int]) -> verdict_pb2.Verdict.ValueType:
        if not moves:
            return self.baseline_verdict
        return verdict_pb2.VERDICT_WRONG_RESULT if moves & self.wrong else verdict_pb2.VERDICT_OK

    def evaluation(self, kernel: kernel_pb2.Kernel, problem_of: problem_pb2.Problem) -> evaluation_pb2.Evaluation:
        moves = label_of(kernel)
        measured = self.provenance == verdict_pb2.PROVENANCE_MEASURED
        kind = verdict_pb2.DEVICE_KIND_CUDA if measured else verdict_pb2.DEVICE_KIND_CPU
        device = evaluation_pb2.Device(kind=kind, name="H200", architecture="sm_90")
        found = evaluation_pb2.Evaluation(
            id=evaluation_id(problem_of.id, kernel.id, device, TOOLCHAIN),
            problem_id=problem_of.id,
            kernel_id=kernel.id,
            device=device,
            toolchain=TOOLCHAIN,
            verdict=self.verdict(moves),
        )
        if found.verdict != verdict_pb2.VERDICT_OK:
            found.reason = "y[3]: got 1, expected 2"
            return found
        ms = 1.0 / self.speedup(moves)
        found.timings.add(
            provenance=self.provenance, median_ms=ms, low_ms=ms * 0.99, high_ms=ms * 1.01, roofline_ms=self.roofline_ms
        )
        found.metrics.add(name="dram__bytes_read.sum", value=1e6 * ms, provenance=self.provenance)
        return found

    async def evaluate(
        self, request: profiler_service_pb2.EvaluateRequest, on_stage: OnStage
    ) -> profiler_service_pb2.EvaluationResult:
        on_stage("compile")
        await asyncio.sleep(self.delay_seconds)
        moves = label_of(request.kernel)
        (self.compared if request.HasField("known") else self.evaluated).append(moves)
        result = profiler_service_pb2.EvaluationResult(evaluation=self.evaluation(request.kernel, request.problem))
        if result.evaluation.verdict == verdict_pb2.VERDICT_OK:
            for other in request.against:
                ratio = self.speedup(moves) / self.speedup(label_of(other))
                result.comparisons.add(
                    against_kernel_id=other.id,
                    speedup=ratio,
                    speedup_low=ratio * 0.99,
                    speedup_high=ratio * 1.01,
                    provenance=self.provenance,
                )
        return result

    async def propose(self, request: generator_service_pb2.ProposeRequest) -> generator_service_pb2.ProposeResponse:
        moves = label_of(request.kernel)
        response = generator_service_pb2.ProposeResponse()
        if len(moves) >= self.length:
            return response
        order = [move for move in range(self.moves) if move not in moves]
        random.Random(self.seed * 1_000_003 + request.seed).shuffle(order)
        for move in order:
            response.edits.add(
                transformation=f"move_{move}",
                title=f"Move {move}",
                kernel=kernel_of(moves | {move}),
                prior=self.priors.get(move, 0.5),
            )
        return response

    async def diagnose(self, _request: judge_service_pb2.DiagnoseRequest) -> judge_service_pb2.DiagnoseResponse:
        diagnosis = search_pb2.Diagnosis(bottleneck=verdict_pb2.BOTTLENECK_DRAM_BANDWIDTH, severity=0.8)
        return judge_service_pb2.DiagnoseResponse(diagnosis=diagnosis)

    async def judge(self, _request: judge_service_pb2.JudgeRequest) -> judge_service_pb2.JudgeResponse:
        return judge_service_pb2.JudgeResponse(judgement=search_pb2.Judgement(plausibility=0.5, support=0.5))
