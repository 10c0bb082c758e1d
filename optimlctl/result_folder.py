"""The folder of a result: written whole or not at all.

A new folder appears by one rename. Into a folder that exists, each file is moved by a rename of its own, so that what
else lies there stays, and no file is ever seen half-written.
"""

import errno
import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from optimlctl.failures import write_error

__all__ = ["RESULT_FILES", "check_writable", "write_file", "write_result"]

RESULT_FILES = ("best.cu", "best.patch", "trajectory.json", "trajectory.md")
_PROBE_BYTES = 1 << 20  # a result takes tens to hundreds of kilobytes


def check_writable(folder: Path) -> None:
    """Write and delete a file of the size of a result where `folder` is or will be.

    Raises:
        CommandError: it cannot be written: a missing permission, a full disk, a file in the way.
    """
    place = folder.absolute()
    try:
        while not place.exists() and place != place.parent:
            place = place.parent
        if not place.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        with tempfile.TemporaryFile(dir=place) as probe:
            probe.write(bytes(_PROBE_BYTES))
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as error:
        raise write_error(error, "results", folder) from error


def write_result(folder: Path, files: Mapping[str, str]) -> None:
    """Write the files into `folder`, made if it is missing; result files of an earlier run that are not in `files` go.

    Args:
        folder: where to.
        files: text by name; names are of `RESULT_FILES`.

    Raises:
        CommandError: something could not be written; what was there before is unchanged.
    """
    folder = folder.absolute()
    try:
        existed = folder.is_dir()
        if not existed:
            folder.parent.mkdir(parents=True, exist_ok=True)
        staged = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder if existed else folder.parent))
        try:
            for name, text in files.items():
                _write_durably(staged / name, text)
            _publish(staged, folder, existed=existed)
        finally:
            shutil.rmtree(staged, ignore_errors=True)
    except OSError as error:
        raise write_error(error, "results", folder) from error


def write_file(path: Path, text: str) -> None:
    """Write one file whole, over one that exists.

    Raises:
        OSError: it could not be written; what was there before is unchanged.
    """
    with tempfile.TemporaryDirectory(prefix=f".{path.name}-", dir=path.absolute().parent) as folder:
        _write_durably(Path(folder) / path.name, text)
        (Path(folder) / path.name).replace(path)


def _publish(staged: Path, folder: Path, *, existed: bool) -> None:
    if not existed:
        staged.chmod(0o777 & ~_umask())
        try:
            staged.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another run has made it in the meantime
                raise
        else:
            return
    _move_into(staged, folder)


def _write_durably(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _move_into(staged: Path, folder: Path) -> None:
    for name in RESULT_FILES:
        if (staged / name).exists():
            (staged / name).replace(folder / name)
        else:
            with suppress(FileNotFoundError):
                (folder / name).unlink()


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
