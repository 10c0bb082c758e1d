"""What this machine handed in: the source file of each optimization, to turn its best kernel into a patch of that file.

The service knows only the device code. The record is a convenience: without it (another machine, a deleted state
folder) results are written without the patch.
"""

import json
import os
import re
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import structlog

from optiml.settings import settings

__all__ = ["Submission", "recall", "remember"]

_log = structlog.get_logger(__name__)
_ID = re.compile(r"o[0-9a-f]{1,64}")


@dataclass(frozen=True, slots=True)
class Submission:
    """One source file as it was handed in."""

    file: str
    """Its path as the person named it."""
    folder: str
    """The absolute path of its folder, where its own headers are."""
    text: str
    """Its content at that time."""
    kernel: str
    """The kernel that was picked; empty if the file has only one."""
    problem_file: str | None
    """The problem file's path; None if the problem was inferred."""


def remember(optimization_id: str, submission: Submission) -> None:
    """Keep the submission; a state folder that can't be written is logged and otherwise ignored."""
    path = _path(optimization_id)
    if path is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as file:
            json.dump(asdict(submission), file)
        os.replace(file.name, path)  # noqa: PTH105 - the temporary file's name is a string
    except OSError as error:
        _log.warning("submission not kept", optimization=optimization_id, error=str(error))


def recall(optimization_id: str) -> Submission | None:
    """Return what was handed in under this id, or None if this machine does not know."""
    path = _path(optimization_id)
    try:
        return Submission(**json.loads(path.read_text(encoding="utf-8"))) if path else None
    except (OSError, ValueError, TypeError):
        return None


def _path(optimization_id: str) -> Path | None:
    if not _ID.fullmatch(optimization_id):  # ids come from servers and command lines: never a path
        return None
    return settings().state_folder / "submissions" / f"{optimization_id}.json"
