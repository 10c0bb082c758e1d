import json
from pathlib import Path

from optiml.v1 import search_pb2
from optimlctl.trajectory import as_json, as_markdown
from tests.client import messages

SNAPSHOTS = Path(__file__).parent / "snapshots"


def _markdown(optimization: search_pb2.Optimization | None = None) -> str:
    return as_markdown(optimization or messages.optimization(), messages.EVENTS, file="relu.cu", problem_file=None)


def test_the_whole_reading_is_as_in_the_snapshot() -> None:
    assert _markdown() == (SNAPSHOTS / "trajectory.md").read_text()


def test_a_claim_that_did_not_hold_is_shown_as_broken() -> None:
    assert "| ✗ | `launch__grid_size` rises | 262,144 blocks → 65,536 blocks (-75.0 %) |" in _markdown()


def test_a_metric_that_grew_many_times_is_told_as_a_factor() -> None:
    optimization = messages.optimization()
    optimization.chain[0].judgement.claims[2].after = 262144 * 256
    assert "262,144 blocks → 67,108,864 blocks (256x)" in _markdown(optimization)


def test_an_edit_that_failed_is_told_with_its_reason_and_cannot_break_the_table() -> None:
    assert r"| 1 | `drop_guard` | 0 | WRONG_RESULT: Y[36] is 1.5 \| expected 0 |" in _markdown()


def test_estimates_are_never_told_as_measurements() -> None:
    told = _markdown(messages.nothing_faster())
    assert "MEASURED)" not in told.split("## What else was tried")[0]
    assert "times are ESTIMATED" in told


def test_nothing_faster_is_said_in_the_title() -> None:
    assert _markdown(messages.nothing_faster()).startswith("# relu: nothing faster found, the input stands\n")


def test_a_failed_baseline_still_has_a_reading() -> None:
    assert "| Failure | line 3: expected a ';' |" in _markdown(messages.failed_baseline())


def test_names_with_spaces_are_quoted_in_the_command_that_reproduces() -> None:
    told = as_markdown(messages.optimization(), [], file="my kernel.cu", problem_file="my problem.yaml")
    assert "optimlctl optimize 'my kernel.cu' --problem 'my problem.yaml' --device cuda --rounds 3 --seed 7" in told


def test_json_joins_each_round_with_its_edit() -> None:
    rounds = json.loads(as_json(messages.optimization(), messages.EVENTS))["rounds"]
    assert [(r["transformation"], r["verdict"], r["kept"]) for r in rounds] == [
        ("drop_guard", "WRONG_RESULT", False),
        ("vectorise", "OK", True),
        ("unroll", "OK", False),
    ]


def test_json_has_the_kernels_of_the_chain() -> None:
    document = json.loads(as_json(messages.optimization(), messages.EVENTS))
    assert document["optimization"]["chain"][0]["edit"]["kernel"]["source"] == "__global__ void relu4() {}\n"


def test_a_log_read_from_the_middle_is_told_without_its_edits() -> None:
    rounds = json.loads(as_json(messages.optimization(), messages.EVENTS[4:]))["rounds"]
    assert [r["transformation"] for r in rounds] == ["", "", ""]


def test_json_is_valid_even_with_a_number_that_json_lacks() -> None:
    optimization = messages.optimization()
    optimization.comparison.speedup = float("nan")
    assert json.loads(as_json(optimization, []))["summary"]["speedup"] is None
