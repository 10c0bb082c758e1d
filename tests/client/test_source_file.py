from pathlib import Path

import pytest

from optimlctl.exit_codes import ExitCode
from optimlctl.failures import CommandError
from optimlctl.source_file import read_text
from tests.command_line import error_of, optimlctl


def _error(path: Path) -> str:
    with pytest.raises(CommandError) as caught:
        read_text(path, "CUDA source file")
    assert caught.value.code == ExitCode.INVALID_INPUT
    return str(caught.value)


def test_line_ends_are_kept(tmp_path: Path) -> None:
    (tmp_path / "a.cu").write_bytes(b"int a;\r\nint b;\n")
    assert read_text(tmp_path / "a.cu", "CUDA source file") == "int a;\r\nint b;\n"


def test_a_byte_order_mark_is_dropped(tmp_path: Path) -> None:
    (tmp_path / "a.cu").write_bytes(b"\xef\xbb\xbfint a;\n")
    assert read_text(tmp_path / "a.cu", "CUDA source file") == "int a;\n"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert _error(tmp_path / "a.cu") == f"no such file: {tmp_path}/a.cu"


def test_a_folder_is_told_as_one(tmp_path: Path) -> None:
    assert "is a folder; name the CUDA source file in it" in _error(tmp_path)


@pytest.mark.parametrize("data", [b"\x7fELF\x02\x01\xff\xfe", b"int a;\0\0"])
def test_a_binary_file_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.cu").write_bytes(data)
    assert "name a CUDA source file" in _error(tmp_path / "a.cu")


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.cu").write_text(" \n")
    assert "is empty" in _error(tmp_path / "a.cu")


def test_a_file_that_is_too_large_is_refused_without_reading_it_all(tmp_path: Path) -> None:
    with (tmp_path / "a.cu").open("wb") as file:
        file.truncate(1 << 40)
    assert "larger than 1 MiB" in _error(tmp_path / "a.cu")


def test_a_name_with_a_null_byte_is_refused() -> None:
    assert "cannot read" in _error(Path("a\0.cu"))


def test_the_command_tells_it_in_one_line_and_makes_nothing(tmp_path: Path) -> None:
    done = optimlctl(tmp_path, "optimize", "missing.cu")
    assert done.returncode == 3
    assert error_of(done) == "error: no such file: missing.cu"
    assert not (tmp_path / "optiml-out").exists()
