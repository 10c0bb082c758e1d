"""A worker that must not serve again is replaced before the next call, even when that one is waiting already."""

import asyncio
import sys
from pathlib import Path

from optiml.sandboxing.frames import Frame
from optiml.sandboxing.sandbox import Limits, Step
from optiml.sandboxing.worker_process import WorkerProcess

_ROOT = str(Path(__file__).parents[2])
_CHILD = f"""
import os, sys
sys.path.insert(0, {_ROOT!r})
from optiml.sandboxing.frames import Frame, read_frame, write_frame
while (request := read_frame(sys.stdin.buffer)) is not None:
    write_frame(sys.stdout.buffer, Frame({{"process": os.getpid(), **request.header}}))
"""


def _is_well(answer: Frame) -> bool:
    return not answer.header.get("poisoned")


async def test_a_waiting_call_meets_a_fresh_child() -> None:
    step = Step([sys.executable, "-I", "-c", _CHILD])
    async with WorkerProcess(step, Limits(seconds=0, cpu_seconds=60)) as worker:
        calls = [worker.call(Frame({"poisoned": poisoned}), 20, 0, fit=_is_well) for poisoned in (False, True, False)]
        well, poisoned, after = [answer.header["process"] for answer in await asyncio.gather(*calls)]
    assert well == poisoned
    assert after != poisoned
