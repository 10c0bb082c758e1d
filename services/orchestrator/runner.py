"""Drives optimizations: takes open ones from the store, searches, and appends what it finds.

Each has a lease that a heartbeat prolongs. Whoever dies leaves a lease that expires and a log that another goes on
from: what was stored is not measured again, and what was in hand is repeated.
"""

import asyncio
import os
import platform
import uuid
from contextlib import aclosing, suppress

import structlog
from sqlalchemy.exc import SQLAlchemyError

from optiml.errors import Error
from optiml.v1 import errors_pb2, search_pb2, verdict_pb2
from services.orchestrator.notices import Notices
from services.orchestrator.ports import FaultError, Ports
from services.orchestrator.search import Task, finished, search, stamped
from services.orchestrator.settings import SearchTuning
from services.orchestrator.stops import remaining_seconds
from services.orchestrator.store import Lease, StaleLeaseError, Store
from services.orchestrator.tree import Tree, apply, replay
from services.orchestrator.view import empty_tree

__all__ = ["Runner"]

_log = structlog.get_logger(__name__)

_POLL_SECONDS = 0.5  # how soon leases of dead orchestrators and cancels at other replicas are noticed


class Runner:
    """Drives up to `tuning.concurrent` optimizations as asyncio tasks."""

    def __init__(self, store: Store, ports: Ports, notices: Notices, tuning: SearchTuning) -> None:
        self.owner = f"{platform.node()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self._store, self._ports, self._notices, self._tuning = store, ports, notices, tuning
        # By lease, since this runner may take an optimization anew whose lease it failed to prolong in time.
        self._driven: dict[Lease, asyncio.Task[None]] = {}
        self._cancels: dict[Lease, asyncio.Event] = {}
        self._wake = asyncio.Event()
        self._taking: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to take optimizations; call it in the event loop."""
        self._taking = asyncio.create_task(self._take_all())

    async def stop(self) -> None:
        """Stop all work and give the optimizations back, so that another can go on at once."""
        tasks = [task for task in (self._taking, *self._driven.values()) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def wake(self) -> None:
        """Look for open optimizations now."""
        self._wake.set()

    async def cancel(self, optimization_id: str) -> None:
        """Have an optimization cancelled, by whoever drives it; by this runner if nobody does."""
        await self._store.request_cancel(optimization_id)
        own = [event for lease, event in self._cancels.items() if lease.optimization_id == optimization_id]
        if own:
            for event in own:
                event.set()
            return
        lease = await self._store.take(self.owner, self._tuning.lease_seconds, only=optimization_id)
        if lease is not None:
            await self._end(lease, finished(search_pb2.OPTIMIZATION_STATE_CANCELLED, "cancelled"))

    async def _take_all(self) -> None:
        while True:
            try:
                while len(self._driven) < self._tuning.concurrent:
                    lease = await self._store.take(self.owner, self._tuning.lease_seconds)
                    if lease is None:
                        break
                    self._begin(lease)
            except SQLAlchemyError as error:
                _log.warning("store does not answer", error=str(error))
            with suppress(TimeoutError):
                async with asyncio.timeout(_POLL_SECONDS):
                    await self._wake.wait()
            self._wake.clear()

    def _begin(self, lease: Lease) -> None:
        self._cancels[lease] = asyncio.Event()
        task = asyncio.create_task(self._drive(lease))
        self._driven[lease] = task

        def forget(_done: asyncio.Task[None]) -> None:
            del self._driven[lease], self._cancels[lease]
            self.wake()

        task.add_done_callback(forget)

    async def _drive(self, lease: Lease) -> None:
        with structlog.contextvars.bound_contextvars(optimization=lease.optimization_id):
            _log.info("taken", token=lease.token)
            work = asyncio.create_task(self._work(lease))
            heartbeat = asyncio.create_task(self._heartbeat(lease))
            try:
                await asyncio.wait([work, heartbeat], return_when=asyncio.FIRST_COMPLETED)
                cancelled = not work.done()
                await _stop(work)
                await self._conclude(lease, work, heartbeat if cancelled else None)
            except StaleLeaseError:
                _log.warning("taken over by another; dropped")
            except SQLAlchemyError:
                _log.exception("store failed; the lease will expire")
            except asyncio.CancelledError:
                await _stop(work)
                with suppress(SQLAlchemyError):
                    await self._store.give_back(lease)
                raise
            finally:
                await _stop(heartbeat)

    async def _conclude(self, lease: Lease, work: asyncio.Task[None], heartbeat: asyncio.Task[None] | None) -> None:
        if heartbeat is not None:
            heartbeat.result()  # raises StaleLeaseError if that is why it ended
            await self._end(lease, finished(search_pb2.OPTIMIZATION_STATE_CANCELLED, "cancelled"))
            return
        error = work.exception()
        if error is None:
            return
        if isinstance(error, StaleLeaseError | SQLAlchemyError):
            raise error
        reason: errors_pb2.ErrorReason.ValueType = errors_pb2.ERROR_REASON_UNSPECIFIED
        if isinstance(error, Error | FaultError):
            _log.warning("failed", reason=str(error))
            message = str(error)
            reason = error.reason if isinstance(error, Error) else reason
        else:
            _log.error("failed by a fault of the orchestrator", exc_info=error)
            message = "the orchestrator failed by a fault of its own; its log has the details"
        failure = search_pb2.Failure(verdict=verdict_pb2.VERDICT_INTERNAL, message=message, reason=reason)
        await self._end(lease, finished(search_pb2.OPTIMIZATION_STATE_FAILED, failure=failure))

    async def _heartbeat(self, lease: Lease) -> None:
        """Prolong the lease until a cancel is asked for.

        Raises:
            StaleLeaseError: another took the optimization over.
        """
        event = self._cancels[lease]
        while True:
            try:
                if await self._store.renew(lease, self._tuning.lease_seconds):
                    return
            except SQLAlchemyError as error:
                _log.warning("lease not renewed", error=str(error))
            with suppress(TimeoutError):
                async with asyncio.timeout(min(_POLL_SECONDS, self._tuning.lease_seconds / 4)):
                    await event.wait()

    async def _work(self, lease: Lease) -> None:
        created, tree = await self._load(lease.optimization_id)
        started = search_pb2.Event(started=search_pb2.Started(orchestrator=self.owner))
        await self._append(lease, stamped(started, tree))
        apply(tree, started)

        def on_progress(what: str, stage: str) -> None:
            event = search_pb2.Event(progress=search_pb2.Progress(what=what, stage=stage))
            event.time.GetCurrentTime()
            self._notices.publish(lease.optimization_id, event)

        task = Task(created.problem, created.settings, self._ports, on_progress, self._tuning.proposals)
        try:
            async with asyncio.timeout(remaining_seconds(tree, created.settings)) as limit:
                async with aclosing(search(tree, task)) as events:
                    async for event in events:
                        await self._append(lease, event)
        except TimeoutError:
            if not limit.expired():
                raise
            await self._end_out_of_time(lease)

    async def _append(self, lease: Lease, event: search_pb2.Event) -> None:
        await self._store.append(lease, event)
        self._notices.publish(lease.optimization_id)

    async def _end_out_of_time(self, lease: Lease) -> None:
        created, tree = await self._load(lease.optimization_id)
        if tree.nodes:
            await self._end(lease, finished(search_pb2.OPTIMIZATION_STATE_SUCCEEDED, "budget"))
            return
        seconds = created.settings.budget.wall_seconds
        message = f"the baseline was not evaluated within the wall time of {seconds:g} s; allow more"
        failure = search_pb2.Failure(verdict=verdict_pb2.VERDICT_TIMED_OUT, message=message)
        await self._end(lease, finished(search_pb2.OPTIMIZATION_STATE_FAILED, failure=failure))

    async def _end(self, lease: Lease, event: search_pb2.Event) -> None:
        """Append the event that ends it, unless the work that was stopped meanwhile had just done so."""
        _, tree = await self._load(lease.optimization_id)
        if tree.finished is None:
            await self._append(lease, stamped(event, tree))

    async def _load(self, optimization_id: str) -> tuple[search_pb2.Optimization, Tree]:
        created = await self._store.optimization(optimization_id)
        events = await self._store.events(optimization_id)
        return created, replay(empty_tree(created, self._tuning), events)


async def _stop(task: asyncio.Task[None]) -> None:
    """Cancel a task and wait until it has ended; its result stays in it."""
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.exception()  # marks it as seen
