"""Where the client's own log goes: a file, so that the terminal belongs to the view."""

import logging
import sys
from pathlib import Path
from typing import TextIO

import structlog

from optiml.settings import settings

__all__ = ["log_path", "log_to_file"]

_LARGEST_BYTES = 8 << 20


def log_path() -> Path:
    """Return where the log of this user's local runs is."""
    return settings().state_folder / "optimlctl.log"


def log_to_file(level: str) -> None:
    """Route structlog and the standard library's logging to the log file; to standard error where it has no place.

    A log that has grown large is moved to `optimlctl.log.1` first.
    """
    numeric = logging.getLevelNamesMapping().get(level.upper(), logging.WARNING)
    try:
        stream = _open(log_path())
    except OSError:
        stream, numeric = sys.stderr, max(numeric, logging.ERROR)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(numeric),
        logger_factory=structlog.WriteLoggerFactory(stream),
    )
    logging.basicConfig(level=max(numeric, logging.WARNING), stream=stream, force=True)


def _open(path: Path) -> TextIO:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if path.exists() and path.stat().st_size > _LARGEST_BYTES:
        path.replace(path.with_suffix(".log.1"))
    return path.open("a", encoding="utf-8", buffering=1)
