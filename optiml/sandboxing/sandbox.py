"""Runs compilers and workers as children that cannot harm: own session, clean environment, limits, Landlock.

A child sees a private folder that it may write, the folders of its tools that it may read, and nothing else where the
kernel has Landlock. It dies when its time is up, when its evaluation is cancelled, and when the service dies, however
that happens (see `optiml.sandboxing.supervisor`). There is never a shell.
"""

import asyncio
import contextlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Child", "Limits", "Outcome", "Step", "private_folder", "python_folders", "read_output", "run", "start"]

_ROOT = Path(__file__).resolve().parents[2]
_SYSTEM = (
    "/usr",
    "/lib",
    "/lib64",
    "/bin",
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/dev/urandom",
    "/proc/cpuinfo",
)
_LAST_WORDS_SECONDS = 2.0  # between cutting the lifeline and killing the supervisor itself
_SUPERVISOR = "import sys; sys.path.insert(0, {root!r}); from optiml.sandboxing.supervisor import main; main()"


@dataclass(frozen=True, slots=True)
class Limits:
    """What a child may use."""

    seconds: float
    """Wall time, after which the whole process group is killed."""
    cpu_seconds: int
    """Processor time of one process."""
    address_space_bytes: int = 16 << 30
    file_bytes: int = 256 << 20
    """Size of one file that it writes."""
    output_bytes: int = 4 << 20
    """Of standard output and of standard error each; what comes after is dropped."""


@dataclass(frozen=True, slots=True)
class Step:
    """One program to run; steps run in order, the first failure ends them."""

    argv: Sequence[str]
    """Absolute path of the program, then its arguments."""
    stdin: Path | None = None
    stdout: Path | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended."""

    status: int
    """Exit status; 128 + number for a signal."""
    timed_out: bool
    stdout: bytes
    stderr: bytes


@dataclass(slots=True)
class Child:
    """A running child, with pipes to its standard streams."""

    process: asyncio.subprocess.Process
    lifeline: int
    closed: bool = field(default=False)

    async def kill(self) -> None:
        """End the child and all its descendants, and wait until they are gone. Safe to call twice."""
        if self.closed:
            return
        self.closed = True
        with contextlib.suppress(BrokenPipeError):  # it has ended by itself
            os.write(self.lifeline, b"k")
        os.close(self.lifeline)
        try:
            await asyncio.wait_for(self.process.wait(), _LAST_WORDS_SECONDS)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
            await self.process.wait()


@asynccontextmanager
async def private_folder(prefix: str) -> AsyncIterator[Path]:
    """Make a folder that only this user can read, and remove it with all its contents at the end."""
    folder = Path(tempfile.mkdtemp(prefix=f"optiml-{prefix}-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def python_folders() -> list[Path]:
    """Return the folders that a Python child of ours reads: the interpreter, the virtual environment, OptiML."""
    found = {Path(sys.prefix), Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve()}
    return [*sorted(found), _ROOT / "optiml", _ROOT / "services"]


def _environment(folder: Path, extra_path: Sequence[Path]) -> dict[str, str]:
    search = [*map(str, extra_path), "/usr/bin", "/bin"]
    return {"PATH": ":".join(search), "HOME": str(folder), "TMPDIR": str(folder), "LANG": "C.UTF-8"}


def _specification(
    steps: Sequence[Step], folder: Path, limits: Limits, readable: Sequence[Path], writable: Sequence[Path],
    environment: dict[str, str],
) -> str:  # fmt: skip
    def text(path: Path | None) -> str | None:
        return str(path) if path else None

    return json.dumps(
        {
            "steps": [{"argv": list(s.argv), "stdin": text(s.stdin), "stdout": text(s.stdout)} for s in steps],
            "environment": environment,
            "readable": [*_SYSTEM, *map(str, readable)],
            "listable": [str(_ROOT)],  # Python's import looks at the names there
            "writable": [str(folder), "/dev/null", *map(str, writable)],
            "limits": {
                "RLIMIT_CPU": limits.cpu_seconds,
                "RLIMIT_AS": limits.address_space_bytes,
                "RLIMIT_FSIZE": limits.file_bytes,
                "RLIMIT_NOFILE": 1024,
                "RLIMIT_CORE": 0,
            },
        }
    )


async def start(
    steps: Sequence[Step],
    folder: Path,
    limits: Limits,
    *,
    readable: Sequence[Path] = (),
    writable: Sequence[Path] = (),
    path: Sequence[Path] = (),
    environment: dict[str, str] | None = None,
) -> Child:
    """Start a child in `folder` and return at once; whoever starts it must `kill` it.

    Args:
        steps: the programs.
        folder: where it runs and the only place that it may write, `writable` apart.
        limits: `seconds` and `output_bytes` are the caller's to watch.
        readable: what it may read besides the system's programs and libraries.
        writable: what it may write besides `folder`.
        path: folders to search for programs before the system's.
        environment: variables to set besides PATH, HOME, TMPDIR and LANG.
    """
    reading, writing = os.pipe()
    variables = _environment(folder, path) | (environment or {})
    specification = _specification(steps, folder, limits, readable, writable, variables)
    code = _SUPERVISOR.format(root=str(_ROOT))
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", "-c", code, str(reading), specification,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            cwd=folder, env=variables, pass_fds=[reading], start_new_session=True, limit=1 << 20,
        )  # fmt: skip
    except BaseException:
        os.close(writing)
        raise
    finally:
        os.close(reading)
    return Child(process, writing)


async def _drain(stream: asyncio.StreamReader | None, most: int) -> bytes:
    kept = bytearray()
    while stream is not None and (chunk := await stream.read(1 << 16)):
        kept += chunk[: most - len(kept)]
    return bytes(kept)


async def run(
    steps: Sequence[Step],
    folder: Path,
    limits: Limits,
    *,
    readable: Sequence[Path] = (),
    writable: Sequence[Path] = (),
    path: Sequence[Path] = (),
    environment: dict[str, str] | None = None,
) -> Outcome:
    """Run the steps to the end, or until their time is up; when cancelled, kill them first. Arguments as `start`."""
    child = await start(steps, folder, limits, readable=readable, writable=writable, path=path, environment=environment)
    if child.process.stdin is not None:
        child.process.stdin.close()
    outputs = asyncio.gather(
        _drain(child.process.stdout, limits.output_bytes), _drain(child.process.stderr, limits.output_bytes)
    )
    timed_out = False
    try:
        await asyncio.wait_for(child.process.wait(), limits.seconds)
    except TimeoutError:
        timed_out = True
    finally:
        await child.kill()
        stdout, stderr = await outputs
    return Outcome(child.process.returncode or 0, timed_out, stdout, stderr)


def read_output(path: Path, most_bytes: int) -> bytes:
    """Read a file that a child wrote: no link, a plain file, not larger than told.

    Raises:
        OSError: it is missing, a link, no plain file, or too large.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise OSError(f"{path.name} has more than {most_bytes} bytes")
    return content
