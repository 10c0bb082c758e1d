import re
import subprocess
import sys
from pathlib import Path

import pytest

from optimlctl.application import run
from tests.command_line import environment, error_of, optimlctl

COMMANDS = ("optimize", "evaluate", "init", "submit", "watch", "get", "list", "cancel", "up", "doctor")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_short_help_with_examples(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([name, "--help"]) == 0
    told = capsys.readouterr().out
    assert re.search(rf"Examples:\n    optimlctl {name}\b", told)
    assert len(told.splitlines()) < 50


def test_the_help_tells_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    run(["--help"])
    assert "130 interrupted" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ["optimise", "x.cu"],
        ["optimize"],
        ["optimize", "x.cu", "--device", "tpu"],
        ["optimize", "x.cu", "--rounds", "many"],
        ["optimize", "x.cu", "--rounds", "-1"],
        ["optimize", "x.cu", "--seed", str(2**64)],
        ["optimize", "x.cu", "--colour"],
        ["get"],
        [],
    ],
)
def test_a_wrong_command_line_exits_with_2(arguments: list[str]) -> None:
    assert run(arguments) == 2


def test_a_bad_device_is_told_in_one_line_with_those_that_exist(tmp_path: Path) -> None:
    done = optimlctl(tmp_path, "optimize", "x.cu", "--device", "tpu")
    assert done.returncode == 2
    assert "'auto', 'cpu', 'cuda'" in error_of(done)


def test_the_version_is_printed(tmp_path: Path) -> None:
    assert optimlctl(tmp_path, "--version").stdout.startswith("optimlctl ")


@pytest.mark.parametrize("command", [["list"], ["get", "o1"], ["cancel", "o1"], ["watch", "o1"], ["doctor"]])
def test_an_unreachable_server_exits_with_5_and_a_cure(
    command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("optimlctl.connection.CONNECT_SECONDS", 0.2)
    assert run([*command, "--server", "127.0.0.1:1"]) == 5
    assert re.fullmatch(r"error: nothing answers at 127\.0\.0\.1:1; .*`optimlctl up`.*\n", capsys.readouterr().err)


def test_the_server_is_also_taken_from_the_environment(tmp_path: Path) -> None:
    done = optimlctl(tmp_path, "list", extra={"OPTIML_SERVER": "127.0.0.1:1"})
    assert done.returncode == 5
    assert "127.0.0.1:1" in error_of(done)


def test_a_bug_is_told_in_one_line_and_its_traceback_is_in_the_log(tmp_path: Path) -> None:
    # No input is known that finds a bug, so one is made: the failure's way to the person is what is tested.
    program = "import optimlctl.commands.list_ as c; c._list = lambda *a: 1 / 0; import optimlctl.main as m; m.main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "list"],
        capture_output=True, text=True, check=False, env=environment(tmp_path), cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 1
    assert "this is a bug in OptiML: ZeroDivisionError" in error_of(done)
    assert "Traceback" in (tmp_path / "state" / "optimlctl.log").read_text()


def test_a_state_folder_that_cannot_be_made_is_told_with_the_setting(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = optimlctl(tmp_path, "list", extra={"OPTIML_STATE_FOLDER": str(tmp_path / "file" / "state")})
    assert done.returncode == 1
    assert "set OPTIML_STATE_FOLDER" in error_of(done)


def test_a_setting_that_is_wrong_is_told_in_one_line(tmp_path: Path) -> None:
    done = optimlctl(tmp_path, "list", extra={"OPTIML_CHECK_SECONDS": "soon"})
    assert done.returncode == 2
    assert "OPTIML_CHECK_SECONDS" in error_of(done)


@pytest.mark.parametrize("address", ["0.0.0.0:7400", "example.org:7400", "7400", "127.0.0.1"])
def test_up_refuses_an_address_that_others_can_reach(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["up", "--listen", address]) == 2
    assert "127.0.0.1:PORT" in capsys.readouterr().err


def test_a_terminal_without_unicode_is_no_failure(tmp_path: Path) -> None:
    done = optimlctl(tmp_path, "list", "--server", "127.0.0.1:1é", extra={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 5
    assert "127.0.0.1:1?" in error_of(done)


def test_ctrl_c_while_the_program_is_still_loading_is_no_traceback(tmp_path: Path) -> None:
    program = """
import sys
from optimlctl.main import main
class CtrlC:
    def find_spec(self, name, *_):
        if name == "optiml.settings":
            raise KeyboardInterrupt
sys.meta_path.insert(0, CtrlC())
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", program, "list"],
        capture_output=True, text=True, check=False, env=environment(tmp_path), cwd=tmp_path,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (130, "error: interrupted\n")
