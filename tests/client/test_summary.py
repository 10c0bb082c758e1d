import pytest

from optiml.v1 import verdict_pb2
from optimlctl.delivering import exit_code
from optimlctl.exit_codes import ExitCode
from optimlctl.summary import summarize
from tests.client import messages

KEYS = {
    "id", "status", "device", "provenance", "baseline_ms", "best_ms", "speedup", "speedup_low", "speedup_high",
    "rounds", "evaluations", "stop_reason", "chain",
}  # fmt: skip
LINK_KEYS = {"edit", "transformation", "diagnosis", "rationale", "claims", "speedup"}


def test_the_promised_keys_are_there() -> None:
    told = summarize(messages.optimization())
    assert set(told) >= KEYS
    assert set(told["chain"][0]) >= LINK_KEYS
    assert set(told["chain"][0]["claims"][0]) == {"metric", "direction", "before", "after", "held"}


def test_speedup_and_its_provenance_are_those_of_the_comparison() -> None:
    told = summarize(messages.optimization())
    assert (told["speedup"], told["provenance"]) == (1.54, "MEASURED")


def test_nothing_faster_is_a_speedup_of_one_with_the_provenance_of_the_baselines_time() -> None:
    told = summarize(messages.nothing_faster())
    assert (told["speedup"], told["speedup_low"], told["provenance"]) == (1.0, 1.0, "ESTIMATED")
    assert told["best_ms"] == told["baseline_ms"] == pytest.approx(0.2006)


def test_without_a_baseline_no_number_is_made_up() -> None:
    told = summarize(messages.failed_baseline())
    assert (told["speedup"], told["baseline_ms"], told["provenance"]) == (None, None, "UNKNOWN")
    assert told["failure"]["verdict"] == "COMPILE_FAILED"


def test_a_claim_that_could_not_be_checked_is_neither_held_nor_broken() -> None:
    claim = summarize(messages.optimization())["chain"][0]["claims"][1]
    assert (claim["held"], claim["before"], claim["after"]) == (None, None, None)


def test_several_sizes_are_told_as_their_geometric_mean() -> None:
    optimization = messages.nothing_faster()
    second = optimization.baseline_evaluation.timings.add()
    second.CopyFrom(optimization.baseline_evaluation.timings[0])
    second.median_ms *= 4
    assert summarize(optimization)["baseline_ms"] == pytest.approx(0.2006 * 2)


@pytest.mark.parametrize(
    ("verdict", "code"),
    [
        (verdict_pb2.VERDICT_COMPILE_FAILED, ExitCode.BASELINE_FAILED),
        (verdict_pb2.VERDICT_WRONG_RESULT, ExitCode.BASELINE_FAILED),
        (verdict_pb2.VERDICT_REJECTED_SOURCE, ExitCode.INVALID_INPUT),
        (verdict_pb2.VERDICT_NOT_CHECKABLE_HERE, ExitCode.FAILED),
        (verdict_pb2.VERDICT_INTERNAL, ExitCode.FAILED),
    ],
)
def test_the_exit_code_tells_why_the_baseline_failed(verdict: verdict_pb2.Verdict.ValueType, code: ExitCode) -> None:
    optimization = messages.failed_baseline()
    optimization.failure.verdict = verdict
    assert exit_code(optimization) == code


def test_an_input_that_is_best_already_is_a_success() -> None:
    assert exit_code(messages.nothing_faster()) == ExitCode.DONE
