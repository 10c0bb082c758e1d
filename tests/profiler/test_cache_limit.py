"""The compile cache stays under its limit and drops what was longest not used."""

import os
import time
from pathlib import Path

from services.profiler.cache_limit import prune, touch

_OLD_SECONDS = 3600


def _kernel(cache: Path, key: str, size_bytes: int, seconds_ago: float) -> Path:
    folder = cache / "compiled" / key[:2] / key
    folder.mkdir(parents=True)
    (folder / "kernel.cubin").write_bytes(bytes(size_bytes))
    used_at = time.time() - seconds_ago
    os.utime(folder, (used_at, used_at))
    return folder


def test_the_longest_unused_goes_first(tmp_path: Path) -> None:
    kept = _kernel(tmp_path, "aa1", 600, _OLD_SECONDS)
    dropped = _kernel(tmp_path, "bb2", 600, 2 * _OLD_SECONDS)
    assert prune(tmp_path, 1000) == 600
    assert kept.exists()
    assert not dropped.exists()


def test_under_the_limit_nothing_goes(tmp_path: Path) -> None:
    kept = _kernel(tmp_path, "aa1", 600, _OLD_SECONDS)
    assert prune(tmp_path, 1000) == 0
    assert kept.exists()


def test_what_was_just_used_stays(tmp_path: Path) -> None:
    kept = _kernel(tmp_path, "aa1", 600, _OLD_SECONDS)
    touch(kept)
    assert prune(tmp_path, 0) == 0
    assert kept.exists()


def test_shared_objects_count_too(tmp_path: Path) -> None:
    built = tmp_path / "cpu" / "version" / "aa1.so"
    built.parent.mkdir(parents=True)
    built.write_bytes(bytes(600))
    os.utime(built, (0, 0))
    assert prune(tmp_path, 0) == 600
    assert not built.exists()
