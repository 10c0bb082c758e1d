"""The supervisor between the service and what it runs: sets limits, runs the steps, lets nothing outlive the service.

Started as `python -I -S -c … LIFELINE SPECIFICATION`. LIFELINE is the number of a file descriptor whose other end only
the service holds: when the service asks for the end by a byte, or is itself killed and the descriptor closes, every
process of the sandbox dies. SPECIFICATION is JSON, see `optiml.sandboxing.sandbox`. Only the standard library is
imported: this must start in milliseconds.
"""

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import sys
from pathlib import Path
from typing import Any

from optiml.sandboxing import landlock

__all__ = ["main"]

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_NOT_STARTED = 127


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0):
        raise OSError(ctypes.get_errno(), f"prctl({option}) failed")


def _set_limits(limits: dict[str, int]) -> None:
    for name, value in limits.items():
        number = getattr(resource, name)
        _, hard = resource.getrlimit(number)
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(number, (bound, bound))


def _become(step: dict[str, Any], specification: dict[str, Any]) -> None:
    """Turn this fresh child into the step's program; never returns."""
    os.setsid()
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    for name, number, flags in (("stdin", 0, os.O_RDONLY), ("stdout", 1, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)):
        if step.get(name):
            os.dup2(os.open(step[name], flags | os.O_NOFOLLOW, 0o600), number)
    _set_limits(specification["limits"])
    landlock.restrict(
        [Path(path) for path in specification["readable"]],
        [Path(path) for path in specification["writable"]],
        execute=True,
        listable=[Path(path) for path in specification["listable"]],
    )
    os.execve(step["argv"][0], step["argv"], specification["environment"])  # noqa: S606 - no shell is wanted


def _start(step: dict[str, Any], specification: dict[str, Any]) -> int:
    child = os.fork()
    if child:
        return child
    try:
        _become(step, specification)
    except BaseException as error:  # noqa: BLE001 - a forked child must never run its parent's code
        os.write(2, f"cannot start {step['argv'][0]}: {error}\n".encode())
    os._exit(_NOT_STARTED)


def _children() -> list[int]:
    listed = Path(f"/proc/self/task/{os.getpid()}/children")
    return [int(number) for number in listed.read_text().split()] if listed.exists() else []


def _kill_all(group: int) -> None:
    """End the group and every descendant that left it; as the subreaper this process inherits them all."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(group, 0)
    while remaining := _children():
        for process in remaining:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)


def _wait(child: int, lifeline: int) -> int | None:
    """Return the child's exit status, negative for a signal; None when the lifeline was cut first."""
    handle = os.pidfd_open(child)
    try:
        ready, _, _ = select.select([handle, lifeline], [], [])
    finally:
        os.close(handle)
    if lifeline in ready:
        return None
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def _remove(folder: Path) -> None:
    """Remove the sandbox's private folder."""
    for root, folders, files in os.walk(folder, topdown=False):
        for name in files:
            os.unlink(os.path.join(root, name))  # noqa: PTH108, PTH118 - as os.walk gives them
        for name in folders:
            path = Path(root, name)
            path.unlink() if path.is_symlink() else path.rmdir()
    folder.rmdir()


def main() -> None:
    """Run the steps one after another until one fails, then exit with its status (128 + number for a signal)."""
    lifeline = int(sys.argv[1])
    specification = json.loads(sys.argv[2])
    os.set_inheritable(lifeline, False)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    status: int | None = 0
    for step in specification["steps"]:
        child = _start(step, specification)
        status = _wait(child, lifeline)
        _kill_all(child)
        if status != 0:
            break
    if status is None:
        if not os.read(lifeline, 1):  # it was cut without a word: nobody else is left to tidy up
            _remove(Path.cwd())
        os._exit(128 + signal.SIGKILL)
    os._exit(status if status >= 0 else 128 - status)
