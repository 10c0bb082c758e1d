import os
import resource
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from optimlctl.failures import CommandError
from optimlctl.result_folder import check_writable, write_result

FILES = {"best.cu": "int x;\r\n", "best.patch": "p\n", "trajectory.json": "{}\n", "trajectory.md": "# é\n"}


@contextmanager
def _largest_file(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def _without_root() -> Iterator[None]:
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


def _texts(folder: Path) -> dict[str, str]:
    return {path.name: path.read_bytes().decode() for path in folder.iterdir()}


def test_a_new_folder_holds_every_file_byte_for_byte(tmp_path: Path) -> None:
    write_result(tmp_path / "a" / "b", FILES)
    assert _texts(tmp_path / "a" / "b") == FILES


def test_nothing_else_is_left_beside_it(tmp_path: Path) -> None:
    write_result(tmp_path / "out", FILES)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_an_earlier_result_is_replaced_without_its_leftovers(tmp_path: Path) -> None:
    write_result(tmp_path / "out", FILES)
    fewer = {name: "new\n" for name in FILES if name != "best.patch"}
    write_result(tmp_path / "out", fewer)
    assert _texts(tmp_path / "out") == fewer


def test_other_files_in_the_folder_stay(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    write_result(tmp_path, FILES)
    assert _texts(tmp_path) == {**FILES, "notes.txt": "mine"}


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    write_result(tmp_path / "out", FILES)
    assert _texts(tmp_path / "out") == FILES


def test_the_folder_can_be_read_as_the_umask_allows(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        write_result(tmp_path / "out", FILES)
    finally:
        os.umask(before)
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("exists", [False, True])
def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path, exists: bool) -> None:
    folder = tmp_path / "out"
    if exists:
        write_result(folder, FILES)
    with _largest_file(64), pytest.raises(CommandError, match="ulimit -f"):
        write_result(folder, {**FILES, "trajectory.md": "x" * 1000})
    assert (_texts(folder) if exists else list(tmp_path.iterdir())) == (FILES if exists else [])


def test_two_runs_that_make_the_same_folder_both_succeed(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    texts = [{name: str(number) * 10_000 for name in FILES} for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda files: write_result(folder, files), texts))
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_full_disk_is_found_before_the_search(tmp_path: Path) -> None:
    with _largest_file(1000), pytest.raises(CommandError, match=r"cannot write results to .*/out: "):
        check_writable(tmp_path / "out")


def test_a_folder_that_cannot_be_written_is_found_before_the_search(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    with _without_root(), pytest.raises(CommandError, match="make it writable"):
        check_writable(tmp_path / "a" / "out")


@pytest.mark.parametrize("name", ["file", "file/out"])
def test_a_file_in_the_way_is_found_before_the_search(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CommandError, match="a part of the path is a file"):
        check_writable(tmp_path / name)


def test_the_check_leaves_nothing_behind(tmp_path: Path) -> None:
    check_writable(tmp_path / "a" / "out")
    assert list(tmp_path.iterdir()) == []
