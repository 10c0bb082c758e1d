"""`make demo`: optimizes the examples with the real command, and prints one table of what came out.

Each example is one `optimlctl optimize`; its results are in OUT/NAME. Ends with 1 if an example failed.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

_ROOT = Path(__file__).resolve().parent.parent
_INSTALLED = Path(sys.executable).with_name("optimlctl")
_COMMAND = [str(_INSTALLED)] if _INSTALLED.exists() else [sys.executable, "-m", "optimlctl"]  # a bare checkout
_ROUNDS = 6
_SECONDS_EACH = 30  # ten examples in three to four minutes on two cores without a GPU
_LIMIT_SECONDS = 180  # far above the time limit: a search that hangs must not hang the demo


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("demo-out"), help="folder of the results")
    parser.add_argument("--rounds", type=int, default=_ROUNDS, help="edits to evaluate for each example")
    parser.add_argument("--time-limit", type=float, default=_SECONDS_EACH, help="seconds of search for each example")
    parser.add_argument("names", nargs="*", help="examples to run; all if none is named")
    return parser.parse_args()


def _optimize(source: Path, out: Path, rounds: int, time_limit: float) -> dict[str, Any]:
    command = [*_COMMAND, "optimize", str(source.relative_to(_ROOT)), "--out", str(out.absolute()), "--json"]
    command += ["--rounds", str(rounds), "--time-limit", str(time_limit)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_SECONDS, check=False, cwd=_ROOT)
    except subprocess.TimeoutExpired:
        return {"error": f"no end after {_LIMIT_SECONDS} s"}
    if done.returncode != 0:
        return {"error": (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]}
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def _row(name: str, result: dict[str, Any]) -> tuple[str, ...]:
    if "error" in result:
        return (name, "", "", "", "FAILED", result["error"])
    interval = f"{result['speedup']:.2f}x ({result['speedup_low']:.2f} to {result['speedup_high']:.2f})"
    edits = ", ".join(link["transformation"] for link in result["chain"]) or "none: nothing faster found"
    times = (f"{result['baseline_ms']:.4g}", f"{result['best_ms']:.4g}")
    return (name, *times, interval, result["provenance"], edits)


def main() -> int:
    """Run the examples one after another: two at once would disturb each other's times."""
    arguments = _arguments()
    sources = sorted((_ROOT / "examples").glob("**/*.cu"))
    sources = [source for source in sources if not arguments.names or source.stem in arguments.names]
    if not sources:
        sys.stderr.write("error: no such example; see the folder examples/\n")
        return 2
    table = Table("kernel", "baseline ms", "best ms", "speedup", "provenance", "edits kept", box=None, pad_edge=False)
    results: dict[str, dict[str, Any]] = {}
    for number, source in enumerate(sources, start=1):
        started = time.monotonic()
        print(f"[{number}/{len(sources)}] {source.stem} ...", end="", flush=True)
        results[source.stem] = _optimize(source, arguments.out / source.stem, arguments.rounds, arguments.time_limit)
        print(f" {time.monotonic() - started:.0f} s", flush=True)
        table.add_row(*_row(source.stem, results[source.stem]))
    console = Console(highlight=False)
    console.width = max(console.width, 140)
    console.print()
    console.print(table)
    _point_out(console, arguments.out, results)
    return int(any("error" in result for result in results.values()))


def _point_out(console: Console, out: Path, results: dict[str, dict[str, Any]]) -> None:
    good = {name: result for name, result in results.items() if result.get("speedup")}
    if not good:
        return
    best = max(good, key=lambda name: float(good[name]["speedup"]))
    device = good[best]["device"]
    where = f"the CPU executor, modelled as {device['name']}" if device["kind"] == "CPU" else device["name"]
    console.print(f"\nEvaluated on {where}.", markup=False)
    if any(result["provenance"] != "MEASURED" for result in good.values()):
        console.print("Speedups that are not MEASURED come from a model: run on a machine with a GPU to measure them.")
    console.print(f"Open {out / best / 'trajectory.md'} to see why {best} became faster; best.cu is beside it.")


if __name__ == "__main__":
    sys.exit(main())
