"""The main job, on the examples, through the real command and with real compilers; on the CPU where there is no GPU."""

import json
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.client.test_summary import KEYS, LINK_KEYS
from tests.command_line import EXAMPLES, error_of, optimlctl

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@dataclass(frozen=True)
class Outcome:
    home: Path
    source: Path
    done: subprocess.CompletedProcess[str]
    result: Mapping[str, Any]

    @property
    def folder(self) -> Path:
        return self.home / "out"


@pytest.fixture(scope="module", params=["relu", "matmul"])
def outcome(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    home = tmp_path_factory.mktemp(request.param)
    source = home / f"{request.param}.cu"
    for path in EXAMPLES.glob(f"{request.param}.*"):
        shutil.copy(path, home)
    done = optimlctl(
        home, "optimize", source.name, "--device", "cpu", "--rounds", "6", "--seed", "1", "--out", "out", "--json",
        seconds=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return Outcome(home, source, done, json.loads(done.stdout))


def test_standard_output_is_one_object_with_the_promised_keys(outcome: Outcome) -> None:
    assert set(outcome.result) >= KEYS
    assert all(set(link) >= LINK_KEYS for link in outcome.result["chain"])


def test_something_faster_was_found_and_is_labelled_as_an_estimate(outcome: Outcome) -> None:
    assert outcome.result["speedup"] > 1.05
    assert outcome.result["provenance"] == "ESTIMATED"
    assert outcome.result["device"]["kind"] == "CPU"


def test_the_result_folder_is_whole(outcome: Outcome) -> None:
    assert {path.name for path in outcome.folder.iterdir()} == {
        "best.cu", "best.patch", "trajectory.json", "trajectory.md",
    }  # fmt: skip


@pytest.mark.skipif(not (shutil.which("nvcc")), reason="needs nvcc on the path")
def test_the_best_version_compiles(outcome: Outcome, tmp_path: Path) -> None:
    done = subprocess.run(
        ["nvcc", "-std=c++17", "-c", str(outcome.folder / "best.cu"), "-o", str(tmp_path / "best.o")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not shutil.which("patch"), reason="needs patch")
def test_the_patch_turns_the_input_into_the_best_version(outcome: Outcome, tmp_path: Path) -> None:
    shutil.copy(outcome.source, tmp_path)
    with (outcome.folder / "best.patch").open() as patch:
        done = subprocess.run(["patch", "-p1"], stdin=patch, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert (tmp_path / outcome.source.name).read_text() == (outcome.folder / "best.cu").read_text()


def test_the_reading_tells_why_each_edit_was_made(outcome: Outcome) -> None:
    told = (outcome.folder / "trajectory.md").read_text()
    assert all(link["rationale"] in told for link in outcome.result["chain"])
    assert told.count("**Diagnosis: ") == len(outcome.result["chain"])


def test_the_trajectory_tells_every_round(outcome: Outcome) -> None:
    rounds = json.loads((outcome.folder / "trajectory.json").read_text())["rounds"]
    assert [told["round"] for told in rounds] == list(range(1, outcome.result["rounds"] + 1))
    assert all(told["transformation"] for told in rounds)


def test_the_finished_search_can_be_asked_for_again(outcome: Outcome) -> None:
    done = optimlctl(outcome.home, "get", outcome.result["id"], "--json", "--out", "again")
    assert json.loads(done.stdout) == outcome.result
    for path in outcome.folder.iterdir():
        assert (outcome.home / "again" / path.name).read_bytes() == path.read_bytes()


def test_the_search_is_listed(outcome: Outcome) -> None:
    rows = json.loads(optimlctl(outcome.home, "list", "--json").stdout)["optimizations"]
    assert [(row["id"], row["status"]) for row in rows] == [(outcome.result["id"], "SUCCEEDED")]


def test_an_unknown_id_is_told_in_one_line(outcome: Outcome) -> None:
    done = optimlctl(outcome.home, "get", "o0123456789abcdef01234567")
    assert done.returncode == 1
    assert "o0123456789abcdef01234567" in error_of(done)


def test_the_same_seed_gives_the_same_chain(outcome: Outcome, tmp_path: Path) -> None:
    if outcome.source.stem != "relu":
        pytest.skip("one example is enough")
    done = optimlctl(
        tmp_path,
        "optimize",
        outcome.source,
        "--device",
        "cpu",
        "--rounds",
        "6",
        "--seed",
        "1",
        "--out",
        "out",
        "--json",
    )
    chains = [[link["edit"] for link in result["chain"]] for result in (json.loads(done.stdout), outcome.result)]
    assert chains[0] == chains[1]
