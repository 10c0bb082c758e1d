import pytest

from optiml.errors import InvalidArgumentError
from optiml.metrics import METRICS
from optiml.v1 import evaluation_pb2, verdict_pb2
from optiml.v1.verdict_pb2 import (
    BOTTLENECK_CACHE_THROUGHPUT,
    BOTTLENECK_COMPUTE_THROUGHPUT,
    BOTTLENECK_DRAM_BANDWIDTH,
    BOTTLENECK_INSTRUCTION_OVERHEAD,
    BOTTLENECK_LATENCY,
    BOTTLENECK_LOW_PARALLELISM,
    BOTTLENECK_NONE,
    BOTTLENECK_REGISTER_SPILLS,
    BOTTLENECK_SHARED_BANK_CONFLICTS,
    BOTTLENECK_UNCOALESCED_ACCESS,
)
from services.judge.diagnose import NAMES, RULES, diagnose
from tests.judge.recordings import recorded, with_metrics

BASELINES = {
    "attention": BOTTLENECK_LATENCY,
    "cross_entropy": BOTTLENECK_UNCOALESCED_ACCESS,
    "layer_norm": BOTTLENECK_LOW_PARALLELISM,
    "matmul": BOTTLENECK_CACHE_THROUGHPUT,
    "maxpool3d": BOTTLENECK_DRAM_BANDWIDTH,
    "relu": BOTTLENECK_DRAM_BANDWIDTH,
    "row_sum": BOTTLENECK_LOW_PARALLELISM,
    "softmax": BOTTLENECK_LOW_PARALLELISM,
    "stencil": BOTTLENECK_DRAM_BANDWIDTH,
    "transpose": BOTTLENECK_UNCOALESCED_ACCESS,
    "cross_entropy_h200": BOTTLENECK_LOW_PARALLELISM,
    "layer_norm_h200": BOTTLENECK_LOW_PARALLELISM,
    "matmul_h200": BOTTLENECK_CACHE_THROUGHPUT,
    "maxpool3d_h200": BOTTLENECK_DRAM_BANDWIDTH,
    "relu_h200": BOTTLENECK_DRAM_BANDWIDTH,
    "row_sum_h200": BOTTLENECK_LOW_PARALLELISM,
    "softmax_h200": BOTTLENECK_LOW_PARALLELISM,
    "stencil_h200": BOTTLENECK_CACHE_THROUGHPUT,
    "transpose_h200": BOTTLENECK_UNCOALESCED_ACCESS,
}
_CYCLES_OF_RELU = 0.1837e-3 * 1.83e9 * 132  # of all multiprocessors of an H200 while the recorded ReLU runs


@pytest.mark.parametrize("name", BASELINES)
def test_each_example_has_the_bottleneck_that_a_person_would_name(name: str) -> None:
    assert diagnose(*recorded(name)).bottleneck == BASELINES[name]


@pytest.mark.parametrize("name", ["row_sum", "softmax", "row_sum_h200", "softmax_h200", "cross_entropy_h200"])
def test_a_thread_for_each_row_is_also_uncoalesced(name: str) -> None:
    assert BOTTLENECK_UNCOALESCED_ACCESS in diagnose(*recorded(name)).also


@pytest.mark.parametrize("name", BASELINES)
def test_evidence_is_ranked_known_and_labelled(name: str) -> None:
    diagnosis = diagnose(*recorded(name))
    assert 0 < diagnosis.severity <= 1
    assert diagnosis.evidence[0].meaning in diagnosis.summary
    assert diagnosis.bottleneck not in diagnosis.also
    for evidence in diagnosis.evidence:
        assert evidence.metric in METRICS
        assert evidence.provenance != verdict_pb2.PROVENANCE_UNSPECIFIED
        assert evidence.provenance != verdict_pb2.PROVENANCE_MEASURED or name.endswith("_h200")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {
                "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum": 0.9 * _CYCLES_OF_RELU,
                "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": 0.95 * _CYCLES_OF_RELU,
            },
            BOTTLENECK_SHARED_BANK_CONFLICTS,
        ),
        ({"sm__inst_executed_pipe_fma.sum": 4 * 0.9 * _CYCLES_OF_RELU}, BOTTLENECK_COMPUTE_THROUGHPUT),
        ({"sm__inst_executed_pipe_xu.sum": 0.5 * 0.9 * _CYCLES_OF_RELU}, BOTTLENECK_COMPUTE_THROUGHPUT),
        ({"smsp__inst_executed.sum": 4 * 0.9 * _CYCLES_OF_RELU}, BOTTLENECK_INSTRUCTION_OVERHEAD),
        ({"optiml__spill_bytes": 2048}, BOTTLENECK_REGISTER_SPILLS),
        ({"dram__bytes.sum": 2e6}, BOTTLENECK_LATENCY),
        ({"optiml__roofline_fraction": 0.96}, BOTTLENECK_NONE),
    ],
)
def test_a_counter_that_explains_most_of_the_time_names_the_bottleneck(
    changes: dict[str, float], expected: verdict_pb2.Bottleneck.ValueType
) -> None:
    problem, relu = recorded("relu")
    assert diagnose(problem, with_metrics(relu, changes)).bottleneck == expected


@pytest.mark.parametrize("name", BASELINES)
def test_evidence_cites_the_evaluation_word_for_word(name: str) -> None:
    problem, evaluation = recorded(name)
    recorded_metrics = {metric.name: (metric.value, metric.provenance) for metric in evaluation.metrics}
    for evidence in diagnose(problem, evaluation).evidence:
        assert recorded_metrics[evidence.metric] == (evidence.value, evidence.provenance)


@pytest.mark.parametrize(
    ("pipe", "rate"), [("fma", 4 * _CYCLES_OF_RELU), ("xu", 0.5 * _CYCLES_OF_RELU), ("fp64", 2 * _CYCLES_OF_RELU)]
)
def test_evidence_for_arithmetic_names_the_pipe_that_is_busy(pipe: str, rate: float) -> None:
    problem, relu = recorded("relu")
    metric = f"sm__inst_executed_pipe_{pipe}.sum"
    (first, *_) = diagnose(problem, with_metrics(relu, {metric: 0.9 * rate})).evidence
    assert (first.metric, first.value) == (metric, 0.9 * rate)
    assert first.threshold == pytest.approx(rate, rel=0.05), "what the pipe can do in the time"


def test_evidence_for_scattered_accesses_names_the_direction_that_wastes_more() -> None:
    """A thread for each row: the loads are as scattered as the few stores, and waste far more."""
    (first, *_) = diagnose(*recorded("cross_entropy")).evidence
    assert first.metric == "optiml__sectors_per_request_ld"
    problem, transpose = recorded("transpose")
    rare = with_metrics(
        transpose,
        {
            "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": 4e6,
            "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": 31 * 4e6,
            "optiml__sectors_per_request_ld": 31.0,
            "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum": 100.0,
            "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum": 3200.0,
        },
    )
    assert diagnose(problem, rare).evidence[0].metric == "optiml__sectors_per_request_ld"


def test_wide_loads_are_not_taken_for_uncoalesced_ones() -> None:
    """float4: sixteen sectors a request, each of them asked for."""
    problem, relu = recorded("relu")
    requests = {name: metric.value for metric in relu.metrics if "requests" in (name := metric.name)}
    wide = with_metrics(
        relu,
        {name: value / 4 for name, value in requests.items()}
        | {"optiml__sectors_per_request_ld": 16.0, "optiml__sectors_per_request_st": 16.0},
    )
    diagnosis = diagnose(problem, wide)
    assert BOTTLENECK_UNCOALESCED_ACCESS not in {diagnosis.bottleneck, *diagnosis.also}


def test_without_counters_it_says_so_and_names_nothing() -> None:
    problem, relu = recorded("relu")
    relu.ClearField("metrics")
    relu.counter_source = "none: ERR_NVGPUCTRPERM"
    diagnosis = diagnose(problem, relu)
    assert diagnosis.bottleneck == verdict_pb2.BOTTLENECK_UNSPECIFIED
    assert "ERR_NVGPUCTRPERM" in diagnosis.summary


def test_an_unknown_device_is_no_error() -> None:
    problem, relu = recorded("relu")
    relu.device.name = "Abacus 9000"
    diagnose(problem, relu)


@pytest.mark.parametrize("field", ["timings", "verdict"])
def test_what_cannot_be_diagnosed_is_refused_by_field(field: str) -> None:
    problem, relu = recorded("relu")
    relu.ClearField(field)
    with pytest.raises(InvalidArgumentError) as caught:
        diagnose(problem, relu)
    assert [violation.field for violation in caught.value.violations] == [f"evaluation.{field}"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, 0.0, 1e308])
def test_absurd_counters_raise_nothing(value: float) -> None:
    problem, matmul = recorded("matmul")
    broken = with_metrics(matmul, {metric.name: value for metric in matmul.metrics})
    diagnose(problem, broken)
    diagnose(problem, evaluation_pb2.Evaluation(verdict=verdict_pb2.VERDICT_OK, timings=matmul.timings))


def test_every_bottleneck_has_a_rule_and_a_name() -> None:
    every = set(verdict_pb2.Bottleneck.values()) - {verdict_pb2.BOTTLENECK_UNSPECIFIED}
    assert set(NAMES) == every
    assert set(RULES) == every - {BOTTLENECK_NONE}
