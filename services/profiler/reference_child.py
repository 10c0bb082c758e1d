"""Computes expected outputs from a problem's NumPy statements; runs in the sandbox, one problem a process.

The statements are hostile text. Restricting Python from inside is hopeless, so nothing is restricted but the process:
by the time they run it can start no program, write no file, reach no network and signal nobody (where the kernel has
Landlock), and its time is limited from outside. What it answers is only ever compared with numbers.
"""

import math
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from optiml.sandboxing import landlock
from optiml.sandboxing.frames import Frame, read_frame, write_frame

__all__ = ["main"]


def _where(error: BaseException) -> str:
    """Return the error with the line of the statements that it came from."""
    line, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "reference":
            line = trace.tb_lineno
        trace = trace.tb_next
    if isinstance(error, SyntaxError):
        line = error.lineno or 0
    text = f"{type(error).__name__}: {error}".splitlines()[0][:400]
    return f"line {line}: {text}" if line else text


def _inputs(request: Frame) -> dict[str, Any]:
    described = zip(request.header["arrays"], request.blobs, strict=True)
    return {
        array["name"]: np.frombuffer(bytearray(blob), array["dtype"]).reshape(array["shape"])
        for array, blob in described
    }


def _output(name: str, names: dict[str, Any], shape: list[int], dtype: str) -> bytes:
    if name not in names:
        raise NameError(f"no value was assigned to the output {name!r}")
    value = np.asarray(names[name])
    if value.shape != tuple(shape):
        value = np.broadcast_to(value, shape)
    return np.ascontiguousarray(value, dtype=dtype).tobytes()


def _answer(request: Frame) -> Frame:
    names: dict[str, Any] = {"np": np, "numpy": np, "math": math, **request.header["numbers"], **_inputs(request)}
    wanted = request.header["outputs"]
    try:
        with np.errstate(all="ignore"):
            exec(compile(request.header["statements"], "reference", "exec"), names)  # noqa: S102 - that is the job
            blobs = [_output(w["name"], names, w["shape"], w["dtype"]) for w in wanted]
    except BaseException as error:  # noqa: BLE001 - SystemExit and the like are the text's doing too
        return Frame({"error": _where(error)})
    return Frame({"error": ""}, blobs)


def main() -> None:
    """Answer requests from standard input until it ends."""
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the statements print goes to the log, not into the answers
    readable = [Path(sys.prefix), Path(sys.base_prefix), Path("/usr/lib"), Path("/lib")]
    landlock.restrict(readable, [Path("/dev/null")], execute=False)
    while (request := read_frame(requests)) is not None:
        write_frame(answers, _answer(request))


if __name__ == "__main__":
    main()
