"""Many evaluations, one in five of them harmful: is every verdict right, and is nothing left behind?

Usage: python benchmarks/fault_soak.py [--evaluations N] [--concurrent N] [--out FILE]

Runs the profiler's pipeline on the CPU executor. Every fifth candidate is one of the tests' faulty kernels, the others
are right or plainly wrong, each a text of its own so that nothing is answered from memory. Counts wrong verdicts, and
compares processes, open files, temporary files and memory after a fifth of the run with those at its end.
"""

import argparse
import asyncio
import itertools
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.profiler.evaluating import cpu_pipeline, evaluation_of, limits, named
from tests.profiler.faulty_kernels import FAULTY
from tests.profiler.kernels import RELU_SOURCE, relu_kernel, relu_problem

ONE_IN = 5
RIGHT, WRONG = RELU_SOURCE, RELU_SOURCE.replace(": 0.0f", ": 0.25f")


def candidates(count: int) -> Iterator[tuple[str, str, set[str]]]:
    """Yield name, source and the verdicts that are right; no two texts are the same."""
    faults = itertools.cycle(FAULTY.items())
    for number in range(count):
        mark = f"// {number}\n"
        if number % ONE_IN == 0:
            name, (source, verdicts, _) = next(faults)
            yield name, mark + source, verdicts
        elif number % 3 == 0:
            yield "wrong", mark + WRONG, {"WRONG_RESULT"}
        else:
            yield "right", mark + RIGHT, {"OK"}


def processes_below(ancestor: int) -> list[int]:
    """Return all descendants."""
    found = []
    for listed in Path(f"/proc/{ancestor}/task").glob("*/children"):
        for child in map(int, listed.read_text().split()):
            found += [child, *processes_below(child)]
    return found


def resident_bytes(process: int) -> int:
    """Return a process's resident memory."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def state(temporary: Path) -> dict[str, int]:
    """Return what a leak would make grow."""
    below = processes_below(os.getpid())
    return {
        "processes": len(below),
        "open_files": len(list(Path("/proc/self/fd").iterdir())),
        "temporary_files": sum(1 for _ in temporary.rglob("*")),
        "resident_bytes": resident_bytes(os.getpid()),
        "workers_resident_bytes": sum(map(resident_bytes, below)),
    }


async def soak(evaluations: int, concurrent: int, temporary: Path) -> dict[str, object]:
    """Evaluate all candidates, `concurrent` at a time."""
    surprises, verdicts = [], Counter[str]()
    work = candidates(evaluations)
    early: dict[str, int] = {}
    started, done = time.monotonic(), 0
    async with cpu_pipeline() as pipeline:

        async def worker() -> None:
            nonlocal done, early
            for name, source, right in work:
                evaluation = await evaluation_of(pipeline, relu_problem(), relu_kernel(source))
                verdicts[named(evaluation)] += 1
                done += 1
                if named(evaluation) not in right:
                    surprises.append([name, named(evaluation), evaluation.reason])
                if done == evaluations // ONE_IN:
                    early = state(temporary)

        await asyncio.gather(*(worker() for _ in range(concurrent)))
        late = state(temporary)
    after = state(temporary)
    return {
        "evaluations": evaluations,
        "seconds": round(time.monotonic() - started, 1),
        "wrong_verdicts": surprises,
        "verdicts": dict(verdicts),
        "after_a_fifth": early,
        "at_the_end": late,
        "after_stop": after,
    }


def main() -> None:
    """Run the soak and print what it found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--evaluations", type=int, default=500)
    parser.add_argument("--concurrent", type=int, default=4)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryDirectory() as temporary:
        os.environ["OPTIML_CACHE_FOLDER"], tempfile.tempdir = cache, temporary
        with limits(check_seconds=3.0, compile_seconds=10.0):
            report = asyncio.run(soak(arguments.evaluations, arguments.concurrent, Path(temporary)))
    text = json.dumps(report, indent=1)
    print(text)
    if arguments.out:
        arguments.out.write_text(text + "\n")
    sys.exit(bool(report["wrong_verdicts"]))


if __name__ == "__main__":
    main()
