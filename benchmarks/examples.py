"""Optimize every example and print one table: baseline, best, speedup with interval, kept edits.

Usage: python benchmarks/examples.py [--device auto|cpu|cuda] [--rounds N] [--out FOLDER] [NAME ...]
FOLDER gets the raw JSON of each run, the result folders, and table.md.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
NAMES = (
    "matmul", "maxpool3d", "attention", "relu", "cross_entropy", "softmax", "layer_norm", "transpose", "row_sum",
    "stencil",
)  # fmt: skip


def optimize(name: str, device: str, rounds: int, out: Path) -> dict[str, Any]:
    """Run the client on one example and return its JSON object, or what went wrong."""
    command = [
        sys.executable, "-m", "optimlctl.main", "optimize", f"examples/{name}.cu",
        "--device", device, "--rounds", str(rounds), "--out", str(out / name), "--json",
    ]  # fmt: skip
    started = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    (out / f"{name}.log").write_text(done.stderr)
    if done.returncode != 0:
        return {"status": f"exit {done.returncode}: {done.stderr.strip().splitlines()[-1:]}"}
    (out / f"{name}.json").write_text(done.stdout)
    result: dict[str, Any] = json.loads(done.stdout)
    result["seconds"] = time.monotonic() - started
    return result


def row(name: str, result: dict[str, Any]) -> str:
    """Return the table's row for one result."""
    if "speedup" not in result:
        return f"| {name} | {result['status']} | | | | | | |"
    interval = f"{result['speedup']:.2f} [{result['speedup_low']:.2f}, {result['speedup_high']:.2f}]"
    edits = " → ".join(link["transformation"] for link in result["chain"]) or "none"
    return (
        f"| {name} | {result['baseline_ms']:.4g} | {result['best_ms']:.4g} | {interval} | {result['provenance']} "
        f"| {result['evaluations']} | {result['seconds']:.0f} | {edits} |"
    )


def main() -> int:
    """Run the benchmark; the exit status counts the examples that failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "examples")
    parser.add_argument("names", nargs="*", default=[])
    arguments = parser.parse_args()
    arguments.out = arguments.out.resolve()
    arguments.out.mkdir(parents=True, exist_ok=True)
    lines = [
        "| example | baseline ms | best ms | speedup [95 %] | provenance | evaluations | seconds | kept edits |",
        "|---|---|---|---|---|---|---|---|",
    ]
    print("\n".join(lines), flush=True)
    failed = 0
    for name in arguments.names or NAMES:
        result = optimize(name, arguments.device, arguments.rounds, arguments.out)
        failed += "speedup" not in result
        lines.append(row(name, result))
        print(lines[-1], flush=True)
    (arguments.out / "table.md").write_text("\n".join(lines) + "\n")
    return failed


if __name__ == "__main__":
    sys.exit(main())
