"""Tells watchers in this process at once that a log grew, and what is in hand. Other replicas' watchers poll."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from optiml.v1 import search_pb2

__all__ = ["Mailbox", "Notices"]

_SLOW_WATCHER = 64  # progress that a watcher did not fetch; older ones are of no interest


class Mailbox:
    """What one watcher has to hear."""

    def __init__(self) -> None:
        self._progress: asyncio.Queue[search_pb2.Event] = asyncio.Queue(_SLOW_WATCHER)
        self._news = asyncio.Event()

    def put(self, progress: search_pb2.Event | None) -> None:
        """Deliver live progress, or None for "the log grew"; never waits."""
        if progress is not None:
            if self._progress.full():
                self._progress.get_nowait()
            self._progress.put_nowait(progress)
        self._news.set()

    async def wait(self, seconds: float) -> list[search_pb2.Event]:
        """Wait for news, or until the time is over; return the progress that came."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()
        self._news.clear()
        return [self._progress.get_nowait() for _ in range(self._progress.qsize())]


class Notices:
    """Mailboxes by optimization."""

    def __init__(self) -> None:
        self._mailboxes: defaultdict[str, set[Mailbox]] = defaultdict(set)

    @contextmanager
    def watching(self, optimization_id: str) -> Iterator[Mailbox]:
        """Receive what is published about an optimization, within the context."""
        mailbox = Mailbox()
        self._mailboxes[optimization_id].add(mailbox)
        try:
            yield mailbox
        finally:
            self._mailboxes[optimization_id].discard(mailbox)
            if not self._mailboxes[optimization_id]:
                del self._mailboxes[optimization_id]

    def publish(self, optimization_id: str, progress: search_pb2.Event | None = None) -> None:
        """Tell the watchers that the log grew, or what is in hand."""
        for mailbox in self._mailboxes.get(optimization_id, ()):
            mailbox.put(progress)
