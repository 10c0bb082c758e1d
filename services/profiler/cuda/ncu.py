"""Hardware counters by Nsight Compute: `ncu --csv` around a process that runs the launches once.

Counters are often forbidden (ERR_NVGPUCTRPERM), held by another tool, or absent (MIG): that is told once, in
`Evaluation.counter_source` and in the capabilities, and the evaluation goes on without them.
"""

import csv
import io
import re
import shutil
from collections.abc import Collection, Iterable
from functools import cache
from pathlib import Path

from optiml.metrics import METRICS
from services.profiler.toolchain import Toolchain

__all__ = ["COUNTED", "NcuAnswer", "arguments", "find_ncu", "parse", "unknown_metrics"]

COUNTED = tuple(name for name, described in METRICS.items() if described.asked)
_AVERAGED = re.compile(r"\.(avg|pct)\b|\.pct$|_rate\.")
_TIME = "gpu__time_duration.sum"
_TO_NANOSECONDS = {"ns": 1.0, "nsecond": 1.0, "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9}
_SCALES = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


class NcuAnswer:
    """Counters by name, or why there are none."""

    def __init__(self, values: dict[str, float], trouble: str = "") -> None:
        self.values = values
        self.trouble = trouble


@cache
def find_ncu(tools: Toolchain) -> Path | None:
    """Return ncu: beside nvcc, on the PATH, or in the folder of its own package."""
    beside = tools.home / "bin" / "ncu"
    if beside.is_file():
        return beside
    on_path = shutil.which("ncu")
    if on_path:
        return Path(on_path)
    packages = sorted(Path("/opt/nvidia/nsight-compute").glob("*/ncu"), reverse=True)
    return packages[0] if packages else None


def arguments(ncu: Path, symbols: Iterable[str], launches: int, without: Collection[str] = ()) -> list[str]:
    """Return the command line up to the program that is profiled.

    Args:
        ncu: the tool.
        symbols: mangled names of the functions to count; others (fills, copies) run bare.
        launches: how many launches to count.
        without: metrics that this device is known not to have.
    """
    names = "|".join(re.escape(symbol) for symbol in sorted(set(symbols)))
    metrics = ",".join(name for name in COUNTED if name not in without)
    return [
        str(ncu), "--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none",
        "--target-processes", "application-only", "--kernel-name-base", "mangled",
        "--kernel-name", f"regex:^({names})$", "--launch-count", str(launches), "--metrics", metrics,
    ]  # fmt: skip


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def _trouble(output: str) -> str:
    found = re.search(r"ERR_\w+", output)
    if found:
        return found.group()
    error = re.search(r"==ERROR==\s*(.{1,200})", output)
    return error.group(1).strip() if error else ""


def unknown_metrics(output: str) -> set[str]:
    """Return the metrics that ncu says this device does not have; it counts nothing then."""
    return set(re.findall(r"Failed to find metric (?:regex:)?([\w.]+)", output)) & set(COUNTED)


def parse(output: str) -> NcuAnswer:
    """Read ncu's CSV: one row a launch, one column a metric, units in the row after the header.

    Sums are added over the launches; averages and rates are weighted by each launch's time.
    """
    start = output.find('"ID"')
    if start < 0:
        return NcuAnswer({}, _trouble(output) or "ncu printed no table")
    rows = list(csv.DictReader(io.StringIO(output[start:])))
    if len(rows) < 2:
        return NcuAnswer({}, _trouble(output) or "ncu counted no launch")
    units, launches = rows[0], rows[1:]
    values: dict[str, float] = {}
    for name in COUNTED:
        weighted, weights, total, seen = 0.0, 0.0, 0.0, False
        for launch in launches:
            value = _number(launch.get(name) or "")
            if value is None or value != value:  # noqa: PLR0124 - NaN is how shared units of a MIG slice read
                continue
            weight = _number(launch.get(_TIME) or "") or 1.0
            weighted, weights, total, seen = weighted + value * weight, weights + weight, total + value, True
        if seen:
            values[name] = weighted / weights if _AVERAGED.search(name) else total * _scale(units.get(name) or "")
    return NcuAnswer(values, "" if values else _trouble(output) or "ncu gave no value")


def _scale(unit: str) -> float:
    """Return the factor to the metric's unit, for versions of ncu that print scaled units in spite of `base`."""
    if unit in _TO_NANOSECONDS:
        return _TO_NANOSECONDS[unit]
    scaled = re.fullmatch(r"([KMGT])(?:byte|sector|inst)\w*", unit)
    return _SCALES[scaled.group(1)] if scaled else 1.0
