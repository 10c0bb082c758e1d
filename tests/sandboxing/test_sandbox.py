"""Children are confined, limited, and never outlive whoever started them."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from optiml.sandboxing import landlock, sandbox
from optiml.sandboxing.sandbox import Limits, Step, private_folder, read_output, run

LIMITS = Limits(seconds=10, cpu_seconds=10)
SHELL = "/bin/sh"
needs_landlock = pytest.mark.skipif(landlock.abi_version() == 0, reason="this kernel has no Landlock")


async def _shell(command: str, limits: Limits = LIMITS) -> sandbox.Outcome:
    async with private_folder("test") as folder:
        return await run([Step([SHELL, "-c", command])], folder, limits)


def _alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):  # it may end between open and read
        return False
    return state != "Z"


def _first_number(file: Path) -> int:
    while not file.exists() or not file.read_text():
        time.sleep(0.01)
    return int(file.read_text())


async def test_status_and_output_come_back() -> None:
    outcome = await _shell("echo out; echo err >&2; exit 3")
    assert (outcome.status, outcome.stdout, outcome.stderr) == (3, b"out\n", b"err\n")


async def test_steps_end_with_the_first_failure() -> None:
    async with private_folder("test") as folder:
        steps = [Step([SHELL, "-c", "echo 1"]), Step(["/bin/false"]), Step([SHELL, "-c", "echo 2"])]
        outcome = await run(steps, folder, LIMITS)
    assert (outcome.status, outcome.stdout) == (1, b"1\n")


async def test_a_program_that_is_missing_is_told() -> None:
    async with private_folder("test") as folder:
        outcome = await run([Step(["/nowhere/nvcc"])], folder, LIMITS)
    assert outcome.status == 127
    assert b"/nowhere/nvcc" in outcome.stderr


async def test_a_child_that_hangs_is_killed_with_its_children() -> None:
    started = time.monotonic()
    outcome = await _shell("sleep 60 & echo $!; sleep 60", Limits(seconds=0.5, cpu_seconds=10))
    assert outcome.timed_out
    assert time.monotonic() - started < 5
    assert not _alive(int(outcome.stdout))


async def test_a_grandchild_that_left_the_session_dies_too() -> None:
    outcome = await _shell("setsid sh -c 'echo $$; sleep 60' & sleep 0.2; echo done")
    assert outcome.stdout.endswith(b"done\n")
    assert not _alive(int(outcome.stdout.split()[0]))


async def test_output_is_capped() -> None:
    outcome = await _shell("yes | head -c 100000", Limits(seconds=10, cpu_seconds=10, output_bytes=1000))
    assert len(outcome.stdout) == 1000


async def test_files_are_capped() -> None:
    outcome = await _shell("yes | head -c 2000000 > big", Limits(seconds=10, cpu_seconds=10, file_bytes=1000000))
    assert outcome.status != 0


async def test_the_environment_is_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    outcome = await _shell("env")
    assert b"secret" not in outcome.stdout


def test_the_private_folder_is_removed() -> None:
    outcome = asyncio.run(_shell("touch left; pwd"))
    assert not Path(outcome.stdout.decode().strip()).exists()


@needs_landlock
@pytest.mark.parametrize("path", ["/etc/passwd", "/proc/1/environ", f"{Path.home()}/.bashrc", __file__])
async def test_files_outside_cannot_be_read(path: str) -> None:
    outcome = await _shell(f"cat {path}")
    assert outcome.status != 0
    assert not outcome.stdout


@needs_landlock
async def test_files_outside_cannot_be_written(tmp_path: Path) -> None:
    outcome = await _shell(f"echo x > {tmp_path}/written")
    assert outcome.status != 0
    assert not (tmp_path / "written").exists()


@needs_landlock
async def test_processes_outside_cannot_be_signalled() -> None:
    bystander = await asyncio.create_subprocess_exec("/bin/sleep", "20")
    await _shell(f"kill -9 {bystander.pid}")
    assert bystander.returncode is None
    bystander.kill()
    await bystander.wait()


async def test_cancelling_kills_the_child(tmp_path: Path) -> None:
    async with private_folder("test") as folder:
        running = asyncio.create_task(run([Step([SHELL, "-c", "echo $$ > pid; sleep 60"])], folder, LIMITS))
        process = await asyncio.to_thread(_first_number, folder / "pid")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert not _alive(process)


def test_nothing_outlives_a_service_that_was_killed(tmp_path: Path) -> None:
    root, folder = Path(sandbox.__file__).parents[2], tmp_path / "private"
    folder.mkdir()
    code = f"""
import asyncio
from pathlib import Path
from optiml.sandboxing.sandbox import *
step = Step(["/bin/sh", "-c", "mkdir -p a/b; sleep 77 & echo $! > pid; setsid sleep 78 & echo $! >> pid; sleep 79"])
asyncio.run(run([step], Path({str(folder)!r}), Limits(60, 60)))
"""
    service = subprocess.Popen([sys.executable, "-c", code], cwd=root)
    pids = folder / "pid"
    while not pids.exists() or len(pids.read_text().split()) < 2:
        time.sleep(0.01)
    orphans = [int(line) for line in pids.read_text().split()]
    service.send_signal(signal.SIGKILL)
    service.wait()
    deadline = time.monotonic() + 5
    while (any(map(_alive, orphans)) or folder.exists()) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(map(_alive, orphans))
    assert not folder.exists()


def test_a_link_is_not_read_as_output(tmp_path: Path) -> None:
    (tmp_path / "kernel.cubin").symlink_to("/etc/passwd")
    with pytest.raises(OSError, match="symbolic link"):
        read_output(tmp_path / "kernel.cubin", 1 << 20)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert read_output(tmp_path / "pipe", 1 << 20) == b""


def test_an_output_that_is_too_large_is_refused(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * 11)
    with pytest.raises(OSError, match="more than 10 bytes"):
        read_output(tmp_path / "large", 10)
