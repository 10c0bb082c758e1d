"""A child that answers frames: started when needed, killed when it hangs, crashes or lies.

Calls wait for each other: a child does one thing at a time.
"""

import asyncio
import contextlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from optiml.sandboxing import sandbox
from optiml.sandboxing.frames import Frame, ProtocolError, receive, send

__all__ = ["WorkerDiedError", "WorkerProcess", "WorkerTimeoutError", "python_step"]

_LOG_BYTES = 16 << 10


class WorkerDiedError(Exception):
    """The worker crashed, was killed, or answered nonsense. `status` is its exit status, 128 + number for a signal."""

    def __init__(self, status: int, log: str) -> None:
        super().__init__(f"the worker ended with status {status}")
        self.status = status
        self.log = log


class WorkerTimeoutError(Exception):
    """The worker did not answer in time and was killed."""


def python_step(module: str, *arguments: str) -> sandbox.Step:
    """Return the step that runs a module of ours with the site's packages, isolated from the user's environment."""
    root = str(Path(__file__).resolve().parents[2])
    code = f"import sys; sys.path.insert(0, {root!r}); import runpy; runpy.run_module({module!r}, run_name='__main__')"
    return sandbox.Step([sys.executable, "-I", "-c", code, *arguments])


class WorkerProcess:
    """One child at a time; the next call after an end starts another.

    Args:
        step: what to run.
        limits: of each child; `seconds` does not count, since each call has its own limit.
        readable: folders that it may read.
        writable: places that it may write besides its private folder.
        environment: extra variables.
        on_log: gets each line that it writes to standard error.
    """

    def __init__(
        self,
        step: sandbox.Step,
        limits: sandbox.Limits,
        *,
        readable: Sequence[Path] = (),
        writable: Sequence[Path] = (),
        environment: dict[str, str] | None = None,
        on_log: Callable[[str], None] | None = None,
    ) -> None:
        self._step, self._limits = step, limits
        self._readable, self._writable, self._environment = readable, writable, environment
        self._on_log = on_log
        self._stack = contextlib.AsyncExitStack()
        self._child: sandbox.Child | None = None
        self._log = bytearray()
        self._logging: asyncio.Task[None] | None = None
        self._turn, self._starting = asyncio.Lock(), asyncio.Lock()

    async def __aenter__(self) -> Self:
        """Start nothing yet."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the child."""
        await self.stop()

    @property
    def running(self) -> bool:
        """Whether a child is there now."""
        return self._child is not None

    @property
    def process_id(self) -> int:
        """The supervisor's process id, 0 when nothing runs."""
        return self._child.process.pid if self._child else 0

    async def _collect_log(self, stream: asyncio.StreamReader) -> None:
        while chunk := await stream.read(4096):
            self._log += chunk
            del self._log[:-_LOG_BYTES]
            if self._on_log is not None:
                self._on_log(chunk.decode(errors="replace"))

    async def start(self) -> sandbox.Child:
        """Start the child if none runs."""
        async with self._starting:
            if self._child is None:
                self._child = await self._start()
            return self._child

    async def _start(self) -> sandbox.Child:
        folder = await self._stack.enter_async_context(sandbox.private_folder("worker"))
        self._log.clear()
        child = await sandbox.start(
            [self._step],
            folder,
            self._limits,
            readable=[*sandbox.python_folders(), *self._readable],
            writable=self._writable,
            environment=self._environment,
        )
        assert child.process.stderr is not None
        self._logging = asyncio.create_task(self._collect_log(child.process.stderr))
        return child

    async def stop(self) -> int:
        """Kill the child, if there is one, and return its exit status."""
        child, self._child = self._child, None
        try:
            if child is None:
                return 0
            await child.kill()
            if self._logging is not None:
                await self._logging
            return child.process.returncode or 0
        finally:
            await self._stack.aclose()

    async def _died(self) -> WorkerDiedError:
        child = self._child
        if child is not None:  # its own end tells more than our kill: give it a moment
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(child.process.wait(), 1.0)
        status = await self.stop()
        return WorkerDiedError(status, self._log.decode(errors="replace"))

    async def call(
        self, frame: Frame, seconds: float, most_blob_bytes: int, *, fit: Callable[[Frame], bool] | None = None
    ) -> Frame:
        """Send a frame and return the answer. When anything goes wrong or the caller is cancelled, the child is killed.

        Args:
            frame: what is asked.
            seconds: limit of this call, waiting for earlier ones not counted.
            most_blob_bytes: that the answer may hold.
            fit: told the answer, says whether the child may serve the next call; if not, it is killed before that.

        Raises:
            WorkerTimeoutError: no answer in time.
            WorkerDiedError: the child ended, or its answer was no frame or too large.
        """
        async with self._turn:
            answer = await self._call(frame, seconds, most_blob_bytes)
            if fit is not None and not fit(answer):
                await self.stop()
            return answer

    async def _call(self, frame: Frame, seconds: float, most_blob_bytes: int) -> Frame:
        child = await self.start()
        stdin, stdout = child.process.stdin, child.process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            async with asyncio.timeout(seconds):
                await send(stdin, frame)
                return await receive(stdout, most_blob_bytes)
        except TimeoutError as error:
            await self.stop()
            raise WorkerTimeoutError(f"no answer in {seconds:g} s") from error
        except (ProtocolError, ConnectionError) as error:
            raise await self._died() from error
        except asyncio.CancelledError:
            await self.stop()
            raise
