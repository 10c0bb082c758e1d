"""Times and counts that cannot be are not believed."""

import math

import pytest

from optiml.devices import device_model
from optiml.v1 import evaluation_pb2, problem_pb2, verdict_pb2
from services.profiler.gates import implausible
from services.profiler.inputs import extents
from services.profiler.plan import Buffer, ConcreteLaunch, Plan
from tests.judge.recordings import recorded
from tests.profiler.kernels import F32, relu_problem

N = 1 << 22
MEASURED, SIMULATED = verdict_pb2.PROVENANCE_MEASURED, verdict_pb2.PROVENANCE_SIMULATED
TRUE = {
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum": N / 8,
    "dram__bytes.sum": 6.5 * N,
    "smsp__inst_executed.sum": N / 32 * 14,
}
STORE, ATOMIC = "st.global.f32 [%rd1], %f1;", "red.global.add.f32 [%rd1], %f1;"


def _gate(
    *, ms: float = 0.013, ptx: str = STORE, provenance: verdict_pb2.Provenance.ValueType = MEASURED, **counted: float
) -> str:
    launch = ConcreteLaunch("relu", "relu", (N // 256, 1, 1), (256, 1, 1), 0, (), cooperative=False)
    plan = Plan((Buffer("x", F32, N, "in"), Buffer("y", F32, N, "out")), (launch,))
    names = {
        "instructions": "smsp__inst_executed.sum",
        "atomics": "l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum",
        "fma": "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
        "stores": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    }
    values = TRUE | {names[name]: value for name, value in counted.items()}
    timing = evaluation_pb2.Timing(median_ms=ms, provenance=MEASURED)
    metrics = [evaluation_pb2.Metric(name=name, value=value, provenance=provenance) for name, value in values.items()]
    return implausible(relu_problem(), plan, timing, metrics, device_model("H200"), ptx)


def test_a_true_measurement_passes() -> None:
    assert _gate() == ""


@pytest.mark.parametrize(
    ("ms", "words"), [(0.0003, "launching alone"), (0.004, "bytes from and to DRAM"), (0.0045, "H200 has")]
)
def test_a_time_below_what_the_device_can_do_is_told(ms: float, words: str) -> None:
    assert words in _gate(ms=ms)


def test_more_operations_than_the_device_can_do_are_told() -> None:
    assert "fp32 operations" in _gate(fma=1e9)


def test_more_instructions_than_the_device_can_issue_are_told() -> None:
    assert "warp instructions" in _gate(instructions=1e9)


def test_outputs_that_were_not_stored_are_told() -> None:
    assert "stores" in _gate(stores=N / 8 * 0.9)


def test_a_sample_of_blocks_proves_only_a_gross_lack_of_stores() -> None:
    assert _gate(stores=N / 8 * 0.9, provenance=SIMULATED) == ""
    assert "stores" in _gate(stores=N / 8 * 0.1, provenance=SIMULATED)


def test_atomics_write_too() -> None:
    assert _gate(stores=0, ptx=ATOMIC) == ""  # and nobody counted them
    assert _gate(stores=0, ptx=ATOMIC, atomics=N / 8) == ""
    assert "stores" in _gate(stores=0, ptx=ATOMIC, atomics=1)


def test_shared_memory_is_not_taken_for_an_atomic() -> None:
    assert "stores" in _gate(stores=0, ptx="ld.shared.f32 %f1, [%r1]; atom.shared.add.u32 %r2, [%r1], 1;")


@pytest.mark.parametrize(
    "name", [f"{name}_h200" for name in ("cross_entropy", "layer_norm", "matmul", "maxpool3d", "relu", "transpose")]
)
def test_what_an_h200_measured_is_believed(name: str) -> None:
    problem, evaluation = recorded(name)
    roles = {problem_pb2.ROLE_IN: "in", problem_pb2.ROLE_OUT: "out", problem_pb2.ROLE_INOUT: "inout"}
    size = dict(problem.time[0].parameters)
    buffers = [
        Buffer(a.name, a.data_type, math.prod(extents(a, size)), roles[a.role])
        for a in problem.arguments
        if a.role in roles
    ]
    plan = Plan(tuple(buffers), (ConcreteLaunch("k", "k", (1, 1, 1), (1, 1, 1), 0, (), cooperative=False),))
    counters = [metric for metric in evaluation.metrics if not metric.name.startswith(("optiml__", "launch__"))]
    assert implausible(problem, plan, evaluation.timings[0], counters, device_model("H200"), STORE) == ""
