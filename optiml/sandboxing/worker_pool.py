"""Several workers of one kind: each call goes to one that is free, the warmest first."""

import asyncio
from collections.abc import Callable, Sequence

from optiml.sandboxing.frames import Frame
from optiml.sandboxing.worker_process import WorkerProcess

__all__ = ["WorkerPool"]


class WorkerPool:
    """Shares calls among workers; they start when first needed."""

    def __init__(self, workers: Sequence[WorkerProcess]) -> None:
        self._workers = tuple(workers)
        self._free: asyncio.LifoQueue[WorkerProcess] = asyncio.LifoQueue()
        for worker in reversed(self._workers):
            self._free.put_nowait(worker)

    @property
    def process_ids(self) -> list[int]:
        """Of the supervisors of those that run."""
        return [worker.process_id for worker in self._workers if worker.running]

    async def start(self) -> None:
        """Start the first worker ahead of its first call."""
        await self._workers[0].start()

    async def stop(self) -> None:
        """End all of them."""
        await asyncio.gather(*(worker.stop() for worker in self._workers))

    async def call(
        self, frame: Frame, seconds: float, most_blob_bytes: int, *, fit: Callable[[Frame], bool] | None = None
    ) -> Frame:
        """Call a free worker; waits for one. Arguments and errors as `WorkerProcess.call`."""
        worker = await self._free.get()
        try:
            return await worker.call(frame, seconds, most_blob_bytes, fit=fit)
        finally:
            self._free.put_nowait(worker)
