import re
import subprocess
from pathlib import Path

import numpy as np

from optiml.metrics import METRICS
from services.profiler.cpu.counters import MEMORY_NAMES, name_counters

_ROOT = Path(__file__).resolve().parents[2]
_NAME = re.compile(r"\b(?:dram|gpu|l1tex|launch|lts|optiml|smsp?)__[a-z0-9_]+(?:\.[a-z_]+)*(?![\w{}])")


def _tracked_text() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=_ROOT, capture_output=True, check=True, text=True)
    suffixes = {".py", ".md", ".cc", ".h", ".proto", ".json", ".yaml"}
    return [_ROOT / name for name in listed.stdout.split("\0") if Path(name).suffix in suffixes]


def test_every_metric_name_in_the_repository_is_in_the_table() -> None:
    unknown = {
        f"{path.relative_to(_ROOT)}: {name}"
        for path in _tracked_text()
        if path.exists()
        for name in _NAME.findall(path.read_text())
        if name not in METRICS
    }
    assert not unknown


def test_every_counter_of_the_cpu_executor_is_in_the_table() -> None:
    counted = name_counters(np.zeros(len(MEMORY_NAMES), np.uint64), *[np.zeros(0, np.uint64)] * 2, [])
    assert set(counted) <= set(METRICS)
