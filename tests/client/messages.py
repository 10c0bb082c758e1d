"""One search as its messages tell it: a ReLU that is vectorised, with one wrong edit and one that is not faster."""

from optiml.v1 import evaluation_pb2, kernel_pb2, problem_pb2, search_pb2, verdict_pb2

LOADS = "smsp__inst_executed.sum"
SPILLS = "optiml__spill_bytes"
MEASURED, ESTIMATED = verdict_pb2.PROVENANCE_MEASURED, verdict_pb2.PROVENANCE_ESTIMATED
GPU = evaluation_pb2.Device(
    kind=verdict_pb2.DEVICE_KIND_CUDA, name="NVIDIA H200", architecture="sm_90", driver="580.95"
)
CPU = evaluation_pb2.Device(kind=verdict_pb2.DEVICE_KIND_CPU, name="H200", architecture="sm_90")


def evaluation(kernel_id: str, median_ms: float, device: evaluation_pb2.Device = GPU) -> evaluation_pb2.Evaluation:
    provenance = MEASURED if device is GPU else ESTIMATED
    return evaluation_pb2.Evaluation(
        kernel_id=kernel_id,
        device=device,
        toolchain="nvcc 13.0.88 -O3 sm_90",
        verdict=verdict_pb2.VERDICT_OK,
        counter_source="ncu",
        timings=[
            evaluation_pb2.Timing(
                size=problem_pb2.Size(parameters={"N": 1 << 26}),
                provenance=provenance,
                median_ms=median_ms,
                low_ms=median_ms * 0.99,
                high_ms=median_ms * 1.01,
                roofline_ms=0.1249,
            )
        ],
    )


def failed(kernel_id: str, verdict: verdict_pb2.Verdict.ValueType, reason: str) -> evaluation_pb2.Evaluation:
    return evaluation_pb2.Evaluation(kernel_id=kernel_id, device=GPU, verdict=verdict, reason=reason)


def comparison(speedup: float, provenance: verdict_pb2.Provenance.ValueType = MEASURED) -> evaluation_pb2.Comparison:
    return evaluation_pb2.Comparison(
        speedup=speedup, speedup_low=speedup * 0.98, speedup_high=speedup * 1.02, provenance=provenance
    )


DIAGNOSIS = search_pb2.Diagnosis(
    bottleneck=verdict_pb2.BOTTLENECK_INSTRUCTION_OVERHEAD,
    severity=0.6,
    summary="Two of three issued instructions compute addresses.",
    evidence=[
        search_pb2.Evidence(
            metric=LOADS, value=20971520, threshold=6291456, meaning="10 instructions an element", provenance=MEASURED
        )
    ],
)
VECTORISE = search_pb2.Edit(
    transformation="vectorise",
    parameters={"width": "4"},
    title="Load and store four floats at once",
    rationale="One 128-bit access replaces four, so three of four address computations go.",
    precondition="X and Y are contiguous and aligned to 16 bytes",
    claims=[
        search_pb2.Claim(metric=LOADS, direction=search_pb2.DIRECTION_DECREASE),
        search_pb2.Claim(metric=SPILLS, direction=search_pb2.DIRECTION_DECREASE),
        search_pb2.Claim(metric="launch__grid_size", direction=search_pb2.DIRECTION_INCREASE),
    ],
    kernel=kernel_pb2.Kernel(id="k1", source="__global__ void relu4() {}\n"),
)
UNROLL = search_pb2.Edit(transformation="unroll", parameters={"factor": "8"}, title="Unroll eight times")
GUESS = search_pb2.Edit(transformation="drop_guard", title="Drop the guard")
JUDGEMENT = search_pb2.Judgement(
    plausibility=0.9,
    support=0.5,
    words="Aimed at the bottleneck; instructions fell as promised.",
    claims=[
        search_pb2.ClaimResult(claim=VECTORISE.claims[0], before=20971520, after=6815744, held=True),
        search_pb2.ClaimResult(claim=VECTORISE.claims[1], absent=True),
        search_pb2.ClaimResult(claim=VECTORISE.claims[2], before=262144, after=65536, held=False),
    ],
)
EVENTS = [
    search_pb2.Event(sequence=1, started=search_pb2.Started(orchestrator="here")),
    search_pb2.Event(
        sequence=2, baseline_evaluated=search_pb2.BaselineEvaluated(evaluation=evaluation("k0", 0.2006))
    ),
    search_pb2.Event(sequence=3, node_diagnosed=search_pb2.NodeDiagnosed(node=0, diagnosis=DIAGNOSIS)),
    search_pb2.Event(
        sequence=4, edits_proposed=search_pb2.EditsProposed(node=0, edits=[GUESS, VECTORISE, UNROLL])
    ),
    search_pb2.Event(
        sequence=5,
        edit_evaluated=search_pb2.EditEvaluated(
            round=1, parent=0, edit=0, node=1,
            evaluation=failed("k3", verdict_pb2.VERDICT_WRONG_RESULT, "Y[36] is 1.5 | expected 0"),
            reward=search_pb2.Reward(penalty=-1, total=-1),
        ),
    ),
    search_pb2.Event(
        sequence=6,
        edit_evaluated=search_pb2.EditEvaluated(
            round=2, parent=0, edit=1, node=2, evaluation=evaluation("k1", 0.1301), kept=True,
            against_parent=comparison(1.54), against_baseline=comparison(1.54), judgement=JUDGEMENT,
            reward=search_pb2.Reward(time=0.4, total=0.5),
        ),
    ),
    search_pb2.Event(
        sequence=7,
        edit_evaluated=search_pb2.EditEvaluated(
            round=3, parent=0, edit=2, node=3, evaluation=evaluation("k2", 0.1990),
            against_parent=comparison(1.01), against_baseline=comparison(1.01),
        ),
    ),
    search_pb2.Event(
        sequence=8,
        finished=search_pb2.Finished(state=search_pb2.OPTIMIZATION_STATE_SUCCEEDED, stop_reason="budget"),
    ),
]  # fmt: skip


def optimization() -> search_pb2.Optimization:
    return search_pb2.Optimization(
        id="o0123456789abcdef01234567",
        problem=problem_pb2.Problem(id="p0", name="relu"),
        baseline=kernel_pb2.Kernel(id="k0", source="__global__ void relu() {}\n"),
        settings=search_pb2.SearchSettings(
            budget=search_pb2.Budget(rounds=3), seed=7, device=verdict_pb2.DEVICE_KIND_CUDA
        ),
        state=search_pb2.OPTIMIZATION_STATE_SUCCEEDED,
        stop_reason="budget",
        rounds=3,
        evaluations=4,
        chain=[
            search_pb2.ChainLink(
                node=2,
                edit=VECTORISE,
                diagnosis=DIAGNOSIS,
                judgement=JUDGEMENT,
                against_parent=comparison(1.54),
                against_baseline=comparison(1.54),
                metrics_before=[evaluation_pb2.Metric(name=LOADS, value=20971520, provenance=MEASURED)],
                metrics_after=[evaluation_pb2.Metric(name=LOADS, value=6815744, provenance=MEASURED)],
            )
        ],
        best=VECTORISE.kernel,
        baseline_evaluation=evaluation("k0", 0.2006),
        best_evaluation=evaluation("k1", 0.1301),
        comparison=comparison(1.54),
        last_sequence=8,
    )


def nothing_faster() -> search_pb2.Optimization:
    """The same search had it found nothing, on the CPU executor."""
    message = optimization()
    del message.chain[:]
    message.ClearField("comparison")
    message.best.CopyFrom(message.baseline)
    message.baseline_evaluation.CopyFrom(evaluation("k0", 0.2006, CPU))
    message.best_evaluation.CopyFrom(message.baseline_evaluation)
    return message


def failed_baseline() -> search_pb2.Optimization:
    return search_pb2.Optimization(
        id="o0123456789abcdef01234567",
        problem=problem_pb2.Problem(name="relu"),
        state=search_pb2.OPTIMIZATION_STATE_FAILED,
        failure=search_pb2.Failure(
            verdict=verdict_pb2.VERDICT_COMPILE_FAILED, message="line 3: expected a ';'", log="line 3: expected a ';'"
        ),
        last_sequence=2,
    )
