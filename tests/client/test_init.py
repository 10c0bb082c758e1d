import resource
from pathlib import Path

import pytest

from optiml.problem_file import load_problem
from optimlctl.application import run
from tests.command_line import EXAMPLES, error_of, optimlctl


def test_the_draft_is_beside_the_source_and_can_be_read_again(tmp_path: Path) -> None:
    source = tmp_path / "relu.cu"
    source.write_text((EXAMPLES / "relu.cu").read_text())
    assert run(["init", str(source)]) == 0
    drafted = load_problem((tmp_path / "relu.yaml").read_text(), "relu.yaml")
    assert [argument.name for argument in drafted.problem.arguments] == ["x", "y"]


def test_an_existing_file_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.yaml").write_text("mine")
    assert run(["init", str(EXAMPLES / "relu.cu"), "-o", str(tmp_path / "mine.yaml")]) == 1
    assert "--force" in capsys.readouterr().err
    assert (tmp_path / "mine.yaml").read_text() == "mine"


def test_force_overwrites(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("mine")
    assert run(["init", str(EXAMPLES / "relu.cu"), "-o", str(tmp_path / "mine.yaml"), "--force"]) == 0
    assert "parameters:" in (tmp_path / "mine.yaml").read_text()


def test_a_full_disk_leaves_no_half_written_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, hard))
    try:
        assert run(["init", str(EXAMPLES / "relu.cu"), "-o", str(tmp_path / "new.yaml")]) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "cannot write the problem file" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_missing_is_told_with_the_option_of_this_command(tmp_path: Path) -> None:
    done = optimlctl(tmp_path, "init", EXAMPLES / "relu.cu", "-o", "missing/relu.yaml")
    assert done.returncode == 1
    assert error_of(done).endswith("make its folder first, or choose another place with -o")
