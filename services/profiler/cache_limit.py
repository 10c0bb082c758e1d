"""Keeps the folder of compiled things under its size limit: what was longest not used goes first.

An entry's modification time is when it was last used: whoever takes something from the cache touches it.
"""

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

__all__ = ["prune", "touch"]

_YOUNG_SECONDS = 600.0  # what was used a moment ago may be about to be loaded


def touch(entry: Path) -> None:
    """Note that an entry is used now; that it is gone meanwhile, or not ours, is nothing to fail for."""
    try:
        os.utime(entry)
    except OSError:
        return


def _entries(cache: Path) -> Iterator[Path]:
    """Return what is kept or dropped as a whole: a compiled kernel's folder, a shared object."""
    yield from cache.glob("compiled/??/*")
    yield from cache.glob("cpu/*/*.so")


def _size_bytes(entry: Path) -> int:
    files = entry.iterdir() if entry.is_dir() else [entry]
    return sum(file.lstat().st_size for file in files)


def prune(cache: Path, most_bytes: int) -> int:
    """Drop entries until the rest fits; two at once do no harm.

    Args:
        cache: the cache's folder.
        most_bytes: of all entries together.

    Returns:
        The bytes that were dropped.
    """
    found = []
    for entry in _entries(cache):
        try:
            found.append((entry.stat().st_mtime, _size_bytes(entry), entry))
        except OSError:  # another process dropped it
            continue
    over = sum(size for _, size, _ in found) - most_bytes
    dropped = 0
    oldest_kept = time.time() - _YOUNG_SECONDS
    for used_at, size, entry in sorted(found):
        if dropped >= over or used_at > oldest_kept:
            break
        if entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)
        dropped += size
    return dropped
