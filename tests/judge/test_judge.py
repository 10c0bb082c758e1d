from pathlib import Path
from typing import Any

import grpc
import pytest

from optiml.errors import InvalidArgumentError
from optiml.rpc.channel import open_channel
from optiml.rpc.server import serving
from optiml.rpc.status import from_rpc_error
from optiml.v1 import evaluation_pb2, judge_service_pb2, judge_service_pb2_grpc, search_pb2, verdict_pb2
from services.judge.judge import judge
from services.judge.server import service
from tests.judge.recordings import recorded, with_metrics

SECTORS_PER_REQUEST = "optiml__sectors_per_request_st"
LD_SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
UNCOALESCED = verdict_pb2.BOTTLENECK_UNCOALESCED_ACCESS


def request(
    after: dict[str, float] | None = None,
    claims: tuple[tuple[str, Any], ...] = ((SECTORS_PER_REQUEST, search_pb2.DIRECTION_DECREASE),),
    targets: tuple[Any, ...] = (UNCOALESCED,),
    speedup: tuple[float, float, float] = (2.9, 3.0, 3.1),
) -> judge_service_pb2.JudgeRequest:
    """An edit of the recorded transpose, whose counters then are as `after` says."""
    problem, before = recorded("transpose")
    edit = search_pb2.Edit(transformation="tile_transpose", targets=targets)
    for metric, direction in claims:
        edit.claims.add(metric=metric, direction=direction)
    low, central, high = speedup
    return judge_service_pb2.JudgeRequest(
        problem=problem,
        edit=edit,
        diagnosis=search_pb2.Diagnosis(bottleneck=UNCOALESCED, also=[verdict_pb2.BOTTLENECK_DRAM_BANDWIDTH]),
        before=before,
        after=with_metrics(before, {SECTORS_PER_REQUEST: 4.0} if after is None else after),
        comparison=evaluation_pb2.Comparison(
            speedup=central, speedup_low=low, speedup_high=high, provenance=verdict_pb2.PROVENANCE_MEASURED
        ),
    )


def test_an_edit_that_did_what_it_promised_is_told_with_numbers() -> None:
    opinion = judge(request())
    assert (opinion.plausibility, opinion.support, opinion.veto) == (1.0, 1.0, False)
    assert opinion.words == (
        "Aimed at uncoalesced global accesses, which limited its parent. 1 of 1 claims held: "
        "sectors a global store request; 4 is ideal for 32-bit 32 → 4, -88%. "
        "3 times its parent's speed [2.9, 3.1], measured."
    )


@pytest.mark.parametrize(
    ("targets", "plausibility"),
    [
        ((verdict_pb2.BOTTLENECK_LATENCY, UNCOALESCED), 1.0),
        ((verdict_pb2.BOTTLENECK_DRAM_BANDWIDTH,), 0.6),
        ((), 0.3),
        ((verdict_pb2.BOTTLENECK_COMPUTE_THROUGHPUT,), 0.2),
    ],
)
def test_plausibility_says_how_well_the_edit_was_aimed(targets: tuple[Any, ...], plausibility: float) -> None:
    assert judge(request(targets=targets)).plausibility == plausibility


@pytest.mark.parametrize(
    ("after", "held"), [(4.0, True), (31.6, True), (31.7, False), (32.0, False), (32.4, False), (64.0, False)]
)
def test_a_change_under_one_percent_is_none(after: float, *, held: bool) -> None:
    (result,) = judge(request({SECTORS_PER_REQUEST: after})).claims
    assert result.held is held


def test_a_promised_rise_must_rise() -> None:
    rising = ((SECTORS_PER_REQUEST, search_pb2.DIRECTION_INCREASE),)
    assert judge(request({SECTORS_PER_REQUEST: 40.0}, rising)).claims[0].held
    assert not judge(request({SECTORS_PER_REQUEST: 4.0}, rising)).claims[0].held


def test_what_is_absent_is_no_evidence_either_way() -> None:
    claims = (
        (SECTORS_PER_REQUEST, search_pb2.DIRECTION_DECREASE),
        ("lts__t_sector_hit_rate.pct", search_pb2.DIRECTION_INCREASE),
    )
    opinion = judge(request(claims=claims))
    assert opinion.support == 1.0
    assert [claim.absent for claim in opinion.claims] == [False, True]
    unknown = judge(request(claims=claims[1:]))
    assert unknown.support == 0.5


def test_support_is_the_share_of_claims_that_held() -> None:
    claims = tuple((name, search_pb2.DIRECTION_DECREASE) for name in (SECTORS_PER_REQUEST, LD_SECTORS))
    assert judge(request(claims=claims)).support == 0.5


def _spilling(speedup: tuple[float, float, float]) -> judge_service_pb2.JudgeRequest:
    made = request(speedup=speedup)
    made.after.resources[0].spill_store_bytes += 16
    return made


def test_spills_without_surely_better_time_are_vetoed() -> None:
    assert judge(_spilling((0.98, 1.05, 1.1))).veto
    assert not judge(_spilling((1.02, 1.05, 1.1))).veto


def test_failed_claims_within_noise_are_vetoed() -> None:
    unmoved = {SECTORS_PER_REQUEST: 32.0}
    assert judge(request(unmoved, speedup=(0.97, 1.01, 1.05))).veto
    assert not judge(request(unmoved, speedup=(1.5, 1.6, 1.7))).veto
    assert not judge(request(speedup=(0.97, 1.01, 1.05))).veto


@pytest.mark.parametrize(("before", "after", "veto"), [(0.1, 0.95, True), (0.1, 0.5, False), (0.9, 0.95, False)])
def test_an_edit_that_uses_the_tolerance_up_is_vetoed(before: float, after: float, *, veto: bool) -> None:
    made = request()
    for evaluation, error in ((made.before, before), (made.after, after)):
        for check in evaluation.checks:
            check.max_error_over_tolerance = error
    assert judge(made).veto is veto


def _timed(roofline_ms: float, median_ms: float) -> judge_service_pb2.JudgeRequest:
    made = request()
    timing = made.after.timings[0]
    timing.provenance = verdict_pb2.PROVENANCE_MEASURED
    timing.roofline_ms, timing.median_ms = roofline_ms, median_ms
    return made


def test_a_time_below_the_physical_bound_is_vetoed_unless_the_cache_may_explain_it() -> None:
    assert judge(_timed(1.0, 0.5)).veto
    assert not judge(_timed(1.0, 0.99)).veto
    assert not judge(_timed(0.01, 0.005)).veto, "so little data fits in L2"


@pytest.mark.parametrize("field", ["before", "after"])
def test_only_correct_kernels_are_judged(field: str) -> None:
    made = request()
    made.ClearField(field)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError) as caught:
        judge(made)
    assert [violation.field for violation in caught.value.violations] == [f"{field}.verdict"]


def test_absurd_counters_raise_nothing() -> None:
    for value in (float("nan"), float("inf"), 0.0, -1.0):
        judge(request({SECTORS_PER_REQUEST: value}))


async def test_the_service_answers_over_a_socket(tmp_path: Path) -> None:
    problem, evaluation = recorded("relu")
    async with serving([service()], f"unix:{tmp_path}/j", grace_seconds=0) as address, open_channel(address) as channel:
        stub: Any = judge_service_pb2_grpc.JudgeServiceStub(channel)
        asked = judge_service_pb2.DiagnoseRequest(problem=problem, evaluation=evaluation)
        diagnosis = (await stub.Diagnose(asked, timeout=10)).diagnosis
        judgement = (await stub.Judge(request(), timeout=10)).judgement
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Diagnose(judge_service_pb2.DiagnoseRequest(), timeout=10)
    assert diagnosis.bottleneck == verdict_pb2.BOTTLENECK_DRAM_BANDWIDTH
    assert judgement.support == 1.0
    assert isinstance(from_rpc_error(caught.value), InvalidArgumentError)
