"""The real command, as a person runs it: another process, its own state folder, nobody's environment."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"


def environment(home: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return an environment in which state and caches are under `home`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OPTIML_", "XDG_"))}
    own = {
        "HOME": str(home),
        "PYTHONPATH": str(ROOT),
        "OPTIML_STATE_FOLDER": str(home / "state"),
        "NO_COLOR": "1",
        "COLUMNS": "200",
    }
    return {**kept, **own, **(extra or {})}


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "optimlctl", *map(str, arguments)]


def optimlctl(
    home: Path,
    *arguments: str | Path,
    cwd: Path | None = None,
    extra: Mapping[str, str] | None = None,
    seconds: float = 100,
) -> subprocess.CompletedProcess[str]:
    """Run the command to its end, in `cwd` or `home`."""
    return subprocess.run(
        command(*arguments),
        capture_output=True, text=True, check=False, timeout=seconds, cwd=cwd or home, env=environment(home, extra),
    )  # fmt: skip


def error_of(done: subprocess.CompletedProcess[str]) -> str:
    """Return the one line of an error, and hold it to the rules: no traceback, nothing else on standard error."""
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("error: "), done.stderr
    return lines[0]
