"""`watch` and `get` as processes, against a server in this one."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from optimlctl.result_folder import RESULT_FILES
from tests.client import messages
from tests.client.serving_log import serving_log
from tests.client.test_views import PLAIN
from tests.command_line import command, environment

ID = messages.optimization().id


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[str]:
    async with serving_log(tmp_path, messages.EVENTS, break_after=[4]) as (_, address):
        yield address


async def _run(home: Path, *arguments: str | Path) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        *command(*arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=home,
        env=environment(home),
    )
    out, err = await asyncio.wait_for(process.communicate(), 60)
    return process.returncode or 0, out.decode(), err.decode()


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*")}


async def test_watch_prints_each_event_once_and_the_outcome(tmp_path: Path, server: str) -> None:
    code, out, err = await _run(tmp_path, "watch", ID, "--server", server)
    assert (code, err) == (0, "")
    assert out.startswith(PLAIN)
    assert "relu: 1.54x (1.51 to 1.57, MEASURED), 0.2006 ms → 0.1301 ms, on NVIDIA H200 (sm_90)" in out


async def test_watch_after_a_number_leaves_out_what_came_before(tmp_path: Path, server: str) -> None:
    _, out, _ = await _run(tmp_path, "watch", ID, "--after", "6", "--server", server)
    assert "round 2/3" not in out
    assert "round 3/3" in out


async def test_json_is_alone_on_standard_output(tmp_path: Path, server: str) -> None:
    _, out, err = await _run(tmp_path, "watch", ID, "--json", "--server", server)
    assert json.loads(out)["id"] == ID
    assert "round 2/3" in err


async def test_quiet_prints_nothing(tmp_path: Path, server: str) -> None:
    assert await _run(tmp_path, "watch", ID, "--quiet", "--server", server) == (0, "", "")


async def test_results_are_written_only_when_asked_for(tmp_path: Path, server: str) -> None:
    await _run(tmp_path, "watch", ID, "--server", server)
    assert _names(tmp_path) & set(RESULT_FILES) == set()


async def test_without_the_source_file_results_come_without_a_patch(tmp_path: Path, server: str) -> None:
    code, _, _ = await _run(tmp_path, "get", ID, "--out", "results", "--server", server)
    assert code == 0
    assert _names(tmp_path / "results") == {"best.cu", "trajectory.json", "trajectory.md"}
    assert messages.VECTORISE.kernel.source in (tmp_path / "results" / "best.cu").read_text()


async def test_an_unknown_id_is_one_line_with_a_cure(tmp_path: Path, server: str) -> None:
    code, out, err = await _run(tmp_path, "get", "o1", "--server", server)
    assert (code, out) == (1, "")
    assert err == "error: no optimization 'o1'; `optimlctl list` shows those there are\n"
