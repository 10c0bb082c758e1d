import math
from typing import Any

import pytest

from optiml.metrics import METRICS
from optiml.v1 import evaluation_pb2, search_pb2, verdict_pb2
from services.orchestrator.chain import is_kept
from services.orchestrator.reward import PENALTIES, SIGNALS, SPILL_PENALTY, reward_of
from services.orchestrator.settings import SearchTuning, with_defaults

MEASURED, ESTIMATED = verdict_pb2.PROVENANCE_MEASURED, verdict_pb2.PROVENANCE_ESTIMATED
SETTINGS = search_pb2.SearchSettings(weight_time=1.0, weight_proxy=0.25, weight_judge=0.25)
LD_SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
UNCOALESCED = search_pb2.Diagnosis(bottleneck=verdict_pb2.BOTTLENECK_UNCOALESCED_ACCESS)


def evaluation(spilled: int = 0, **metrics: float) -> evaluation_pb2.Evaluation:
    made = evaluation_pb2.Evaluation(verdict=verdict_pb2.VERDICT_OK)
    made.resources.add(spill_store_bytes=spilled)
    for name, value in metrics.items():
        made.metrics.add(name=name, value=value)
    return made


def edge(after: evaluation_pb2.Evaluation, speedup: float = 0.0, opinion: float | None = None) -> Any:
    made = search_pb2.EditEvaluated(evaluation=after)
    if speedup:
        made.against_baseline.speedup = speedup
    if opinion is not None:
        made.judgement.CopyFrom(search_pb2.Judgement(plausibility=opinion, support=opinion))
    return made


def test_every_verdict_but_ok_has_its_penalty() -> None:
    named = set(verdict_pb2.Verdict.values()) - {verdict_pb2.VERDICT_OK, verdict_pb2.VERDICT_UNSPECIFIED}
    assert named == set(PENALTIES)


def test_every_bottleneck_but_none_has_signals_that_exist() -> None:
    named = set(verdict_pb2.Bottleneck.values()) - {
        verdict_pb2.BOTTLENECK_NONE,
        verdict_pb2.BOTTLENECK_UNSPECIFIED,
    }
    assert named == set(SIGNALS)
    assert {metric for signals in SIGNALS.values() for metric in signals} <= set(METRICS)


@pytest.mark.parametrize("verdict", PENALTIES)
def test_a_failed_evaluation_gives_its_penalty_alone(verdict: Any) -> None:
    failed = edge(evaluation_pb2.Evaluation(verdict=verdict), speedup=9.0, opinion=1.0)
    reward = reward_of(failed, evaluation(), UNCOALESCED, SETTINGS)
    assert reward.total == reward.penalty == PENALTIES[verdict]


def test_with_times_alone_the_reward_is_the_time_term() -> None:
    reward = reward_of(edge(evaluation(), speedup=2.0), evaluation(), UNCOALESCED, SETTINGS)
    assert reward.total == pytest.approx(math.tanh(math.log(2.0)))


def test_a_slowdown_costs_what_the_same_speedup_gains() -> None:
    up, down = (reward_of(edge(evaluation(), speedup=s), evaluation(), UNCOALESCED, SETTINGS).total for s in (4, 0.25))
    assert up == pytest.approx(-down)


def test_the_total_is_the_weighted_mean_of_all_terms() -> None:
    before, after = evaluation(**{LD_SECTORS: 800.0}), evaluation(**{LD_SECTORS: 200.0})
    reward = reward_of(edge(after, speedup=2.0, opinion=0.9), before, UNCOALESCED, SETTINGS)
    assert (reward.proxy, reward.judge) == (pytest.approx(0.75), pytest.approx(0.8))
    assert reward.total == pytest.approx((math.tanh(math.log(2.0)) + 0.25 * 0.75 + 0.25 * 0.8) / 1.5)


@pytest.mark.parametrize(("before", "after", "proxy"), [(100, 100, 0), (100, 0, 1), (0, 100, -1), (0, 0, 0)])
def test_the_proxy_is_the_movement_over_the_larger_value(before: float, after: float, proxy: float) -> None:
    pair = (evaluation(**{LD_SECTORS: float(value)}) for value in (before, after))
    old, new = pair
    assert reward_of(edge(new), old, UNCOALESCED, SETTINGS).proxy == pytest.approx(proxy)


def test_a_counter_that_is_irrelevant_to_the_bottleneck_does_not_count() -> None:
    before, after = evaluation(**{LD_SECTORS: 800.0}), evaluation(**{LD_SECTORS: 200.0})
    compute = search_pb2.Diagnosis(bottleneck=verdict_pb2.BOTTLENECK_COMPUTE_THROUGHPUT)
    assert reward_of(edge(after, speedup=2.0), before, compute, SETTINGS).proxy == 0


def test_more_spills_than_the_parent_are_penalised() -> None:
    calm = reward_of(edge(evaluation(64), speedup=2.0), evaluation(64), UNCOALESCED, SETTINGS)
    spilling = reward_of(edge(evaluation(65), speedup=2.0), evaluation(64), UNCOALESCED, SETTINGS)
    assert spilling.total == pytest.approx(calm.total + SPILL_PENALTY)


def test_defaults_leave_what_a_client_chose() -> None:
    chosen = search_pb2.SearchSettings(exploration=0.7, weight_proxy=2.0, seed=5)
    filled = with_defaults(chosen, SearchTuning())
    assert (filled.exploration, filled.weight_proxy, filled.seed) == (0.7, 2.0, 5)
    assert filled.weight_time == SearchTuning().weight_time


def compared(
    provenance: Any, low: float, central: float, high: float, *, support: float = 1.0, veto: bool = False
) -> Any:
    made = edge(evaluation())
    made.against_parent.CopyFrom(
        evaluation_pb2.Comparison(speedup=central, speedup_low=low, speedup_high=high, provenance=provenance)
    )
    made.judgement.CopyFrom(search_pb2.Judgement(support=support, veto=veto))
    return made


@pytest.mark.parametrize(
    ("candidate", "kept"),
    [
        (compared(MEASURED, 1.01, 1.05, 1.1), True),
        (compared(MEASURED, 0.99, 1.05, 1.1), False),
        (compared(MEASURED, 1.01, 1.05, 1.1, support=0.0), True),
        (compared(MEASURED, 1.01, 1.05, 1.1, veto=True), False),
        (compared(ESTIMATED, 0.5, 1.3, 2.5), True),
        (compared(ESTIMATED, 1.005, 1.01, 1.02), False),
        (compared(ESTIMATED, 0.5, 1.3, 2.5, support=0.4), False),
        (compared(ESTIMATED, 0.5, 1.3, 2.5, veto=True), False),
        (edge(evaluation()), False),
    ],
)
def test_an_edit_is_kept_if_it_is_faster_beyond_noise_and_not_vetoed(candidate: Any, *, kept: bool) -> None:
    assert is_kept(candidate) is kept


def test_a_wrong_kernel_is_not_kept_however_fast() -> None:
    wrong = compared(MEASURED, 2, 3, 4)
    wrong.evaluation.verdict = verdict_pb2.VERDICT_WRONG_RESULT
    assert not is_kept(wrong)
