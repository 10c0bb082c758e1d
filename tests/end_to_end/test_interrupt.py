"""Ctrl-C and kill -9 in the middle of a search: nothing that was found is lost."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.command_line import EXAMPLES, command, environment, optimlctl

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@contextmanager
def _searching(home: Path, *more: str) -> Iterator[subprocess.Popen[str]]:
    """Start a long search in a process group of its own; no process of the group outlives the context."""
    arguments = ["optimize", str(EXAMPLES / "matmul.cu"), "--device", "cpu", "--rounds", "200", "--out", "out", *more]
    process = subprocess.Popen(
        command(*arguments),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=home, env=environment(home),
        start_new_session=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def _read_until_round(process: subprocess.Popen[str]) -> str:
    """Read plain lines until a round has ended; return the optimization's id."""
    assert process.stdout is not None
    first = process.stdout.readline()
    for line in process.stdout:
        if line.startswith("round "):
            return first.partition(":")[0]
    raise AssertionError(f"the search ended early: {process.stderr.read() if process.stderr else ''}")


def test_ctrl_c_writes_what_was_found_and_exits_with_130(tmp_path: Path) -> None:
    with _searching(tmp_path) as process:
        _read_until_round(process)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == 130
    summary = json.loads((tmp_path / "out" / "trajectory.json").read_text())["summary"]
    assert summary["status"] == "CANCELLED"
    assert summary["rounds"] >= 1


def test_a_second_ctrl_c_leaves_at_once(tmp_path: Path) -> None:
    with _searching(tmp_path) as process:
        _read_until_round(process)
        process.send_signal(signal.SIGINT)
        time.sleep(0.05)
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == 130
        assert time.monotonic() - sent < 2


def test_a_killed_search_goes_on_with_watch(tmp_path: Path) -> None:
    with _searching(tmp_path, "--time-limit", "40") as process:
        optimization_id = _read_until_round(process)
        process.kill()
    done = optimlctl(tmp_path, "watch", optimization_id, "--out", "out", "--json", seconds=200)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["id"], result["status"]) == (optimization_id, "SUCCEEDED")
    rounds = json.loads((tmp_path / "out" / "trajectory.json").read_text())["rounds"]
    assert [told["round"] for told in rounds] == list(range(1, len(rounds) + 1))


def test_a_search_that_was_killed_at_once_leaves_no_result_folder(tmp_path: Path) -> None:
    with _searching(tmp_path) as process:
        _read_until_round(process)
        process.kill()
    assert not (tmp_path / "out").exists()
