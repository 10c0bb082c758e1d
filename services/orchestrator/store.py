"""The store: optimizations, their event logs, and evaluations. An orchestrator holds nothing that is not in here.

Every write to an optimization that is being driven is guarded by its lease's fencing token: if another orchestrator
took it over meanwhile, no row matches, and the result is dropped. SQLAlchemy runs in worker threads; no method awaits
anything within a transaction.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import sqlalchemy as sa
from alembic.util import CommandError
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from optiml.errors import NotFoundError, PreconditionError, RequestIdReusedError
from optiml.v1 import evaluation_pb2, search_pb2
from services.orchestrator.evaluations import find, find_known, keep
from services.orchestrator.schema import events, migrate, open_engine, optimizations

__all__ = ["Lease", "Position", "StaleLeaseError", "Store"]

_Result = TypeVar("_Result")

_OPEN = (search_pb2.OPTIMIZATION_STATE_PENDING, search_pb2.OPTIMIZATION_STATE_RUNNING)


class StaleLeaseError(Exception):
    """Another orchestrator took the optimization over; nothing was written."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to drive an optimization, until it expires and another takes it."""

    optimization_id: str
    owner: str
    token: int
    """Grows with every owner."""


@dataclass(frozen=True, slots=True)
class Position:
    """How far an optimization's log goes."""

    last_sequence: int
    ended: bool


class Store:
    """Facts on disk. All methods may be called from any number of processes at once."""

    def __init__(self, url: str) -> None:
        """Open the store at an SQLAlchemy URL and bring its tables up to date.

        Raises:
            PreconditionError: there is no such store, or it cannot be used.
        """
        try:
            self._engine = open_engine(url)
            migrate(self._engine)
        except (SQLAlchemyError, CommandError, ImportError) as error:  # ImportError: the driver is not installed
            raise PreconditionError(f"{_cause(error)}; mend the store, or OPTIML_STORE_URL") from error
        self._readers = self._engine.execution_options(read_only=True)
        self._insert = sqlite.insert if self._engine.dialect.name == "sqlite" else postgresql.insert

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    async def create(self, optimization: search_pb2.Optimization, digest: str) -> str:
        """Store a new optimization, PENDING, and return its id; an earlier one's id if the request id and body match.

        Args:
            optimization: with id, request id, problem, baseline, settings and time of creation.
            digest: hash of the request's body.

        Raises:
            RequestIdReusedError: the request id came with another body before.
        """
        row = {
            "id": optimization.id,
            "request_id": optimization.request_id,
            "request_digest": digest,
            "created_us": optimization.created_at.ToMicroseconds(),
            "state": search_pb2.OPTIMIZATION_STATE_PENDING,
            "last_sequence": 0,
            "cancel_requested": False,
            "lease_owner": "",
            "lease_token": 0,
            "lease_expires": 0.0,
            "optimization": optimization.SerializeToString(),
        }
        stored = sa.select(optimizations.c.id, optimizations.c.request_digest).where(
            optimizations.c.request_id == optimization.request_id
        )

        def work(connection: sa.Connection) -> tuple[str, str]:
            connection.execute(self._insert(optimizations).values(row).on_conflict_do_nothing())
            known = connection.execute(stored).one()
            return known.id, known.request_digest

        known_id, known_digest = await self._write(work)
        if known_digest != digest:
            raise RequestIdReusedError(
                f"request id {optimization.request_id} was used for {known_id} with another body; use a fresh UUID"
            )
        return known_id

    async def optimization(self, optimization_id: str) -> search_pb2.Optimization:
        """Return what the client sent, with its id and time of creation.

        Raises:
            NotFoundError: no such id.
        """
        query = sa.select(optimizations.c.optimization).where(optimizations.c.id == optimization_id)
        blob = await self._read(lambda connection: connection.execute(query).scalar_one_or_none())
        if blob is None:
            raise _not_found("optimization", optimization_id)
        return search_pb2.Optimization.FromString(blob)

    async def position(self, optimization_id: str) -> Position:
        """Return how far the log goes, and whether that is its end.

        Raises:
            NotFoundError: no such id.
        """
        query = sa.select(optimizations.c.last_sequence, optimizations.c.state).where(
            optimizations.c.id == optimization_id
        )
        row = await self._read(lambda connection: connection.execute(query).one_or_none())
        if row is None:
            raise _not_found("optimization", optimization_id)
        return Position(row.last_sequence, row.state not in _OPEN)

    async def page(self, size: int, before: tuple[int, str] | None) -> list[search_pb2.Optimization]:
        """Return at most `size` optimizations, newest first, older than (created in microseconds, id) if given."""
        query = sa.select(optimizations.c.optimization).limit(size)
        query = query.order_by(optimizations.c.created_us.desc(), optimizations.c.id.desc())
        if before is not None:
            created_us, identity = before
            older = optimizations.c.created_us < created_us
            same = sa.and_(optimizations.c.created_us == created_us, optimizations.c.id < identity)
            query = query.where(sa.or_(older, same))
        blobs = await self._read(lambda connection: connection.execute(query).scalars().all())
        return [search_pb2.Optimization.FromString(blob) for blob in blobs]

    async def events(self, optimization_id: str, after: int = 0) -> list[search_pb2.Event]:
        """Return the events with a larger sequence number than `after`, in order."""
        query = sa.select(events.c.event).order_by(events.c.sequence)
        query = query.where(events.c.optimization_id == optimization_id, events.c.sequence > after)
        blobs = await self._read(lambda connection: connection.execute(query).scalars().all())
        return [search_pb2.Event.FromString(blob) for blob in blobs]

    async def append(self, lease: Lease, event: search_pb2.Event) -> None:
        """Append an event, with its evaluation and the state that it brings, in one transaction.

        Raises:
            StaleLeaseError: the lease is another's by now, or the log went on without us; nothing was written.
        """
        values: dict[str, object] = {"last_sequence": event.sequence}
        if event.HasField("finished"):
            values |= {"state": event.finished.state, "lease_expires": 0.0}
        guarded = self._guarded(lease).where(optimizations.c.last_sequence == event.sequence - 1).values(values)
        row = {
            "optimization_id": lease.optimization_id,
            "sequence": event.sequence,
            "event": event.SerializeToString(),
        }
        found = _evaluation_of(event)

        def work(connection: sa.Connection) -> None:
            if connection.execute(guarded).rowcount == 0:
                raise StaleLeaseError(lease.optimization_id)
            connection.execute(sa.insert(events).values(row))
            if found is not None and found.id:
                keep(connection, self._insert, found)

        await self._write(work)

    async def take(self, owner: str, seconds: float, only: str | None = None) -> Lease | None:
        """Take the oldest open optimization that nobody holds (or only the one with this id); None if there is none."""
        free = [optimizations.c.state.in_(_OPEN), optimizations.c.lease_expires < time.time()]
        if only is not None:
            free.append(optimizations.c.id == only)
        query = sa.select(optimizations.c.id, optimizations.c.lease_token).where(*free)
        query = query.order_by(optimizations.c.created_us).limit(8)
        for row in await self._read(lambda connection: connection.execute(query).all()):
            lease = Lease(row.id, owner, row.lease_token + 1)
            mine = sa.update(optimizations).where(
                optimizations.c.id == row.id, optimizations.c.lease_token == row.lease_token, *free
            )
            mine = mine.values(
                lease_owner=owner,
                lease_token=lease.token,
                lease_expires=time.time() + seconds,
                state=search_pb2.OPTIMIZATION_STATE_RUNNING,
            )
            if await self._changed(mine):
                return lease
        return None

    async def renew(self, lease: Lease, seconds: float) -> bool:
        """Prolong a lease and return whether somebody asked to cancel.

        Raises:
            StaleLeaseError: another took it.
        """
        prolong = self._guarded(lease).values(lease_expires=time.time() + seconds)
        query = sa.select(optimizations.c.cancel_requested).where(optimizations.c.id == lease.optimization_id)

        def work(connection: sa.Connection) -> bool:
            if connection.execute(prolong).rowcount == 0:
                raise StaleLeaseError(lease.optimization_id)
            return bool(connection.execute(query).scalar_one())

        return await self._write(work)

    async def give_back(self, lease: Lease) -> None:
        """Let another take the optimization at once; does nothing if one did."""
        await self._changed(self._guarded(lease).values(lease_expires=0.0))

    async def request_cancel(self, optimization_id: str) -> None:
        """Note that an optimization is to be cancelled; whoever drives it reads that when it renews its lease."""
        await self._changed(
            sa.update(optimizations).where(optimizations.c.id == optimization_id).values(cancel_requested=True)
        )

    async def evaluation(self, evaluation_id: str) -> evaluation_pb2.Evaluation:
        """Return a stored evaluation.

        Raises:
            NotFoundError: no such id.
        """
        found = await self._read(lambda connection: find(connection, evaluation_id))
        if found is None:
            raise _not_found("evaluation", evaluation_id)
        return found

    async def known_evaluation(
        self, kernel_id: str, baseline: evaluation_pb2.Evaluation
    ) -> evaluation_pb2.Evaluation | None:
        """Return the stored evaluation of a kernel on the baseline's problem, device and toolchain, if there is one."""
        return await self._read(lambda connection: find_known(connection, kernel_id, baseline))

    def _guarded(self, lease: Lease) -> sa.Update:
        return sa.update(optimizations).where(
            optimizations.c.id == lease.optimization_id,
            optimizations.c.lease_token == lease.token,
            optimizations.c.lease_owner == lease.owner,
        )

    async def _changed(self, statement: sa.Update) -> bool:
        return await self._write(lambda connection: connection.execute(statement).rowcount > 0)

    async def _write(self, work: Callable[[sa.Connection], _Result]) -> _Result:
        return await _in_thread(self._engine, work)

    async def _read(self, work: Callable[[sa.Connection], _Result]) -> _Result:
        return await _in_thread(self._readers, work)


async def _in_thread(engine: sa.Engine, work: Callable[[sa.Connection], _Result]) -> _Result:
    def run() -> _Result:
        with engine.begin() as connection:
            return work(connection)

    thread = asyncio.ensure_future(asyncio.to_thread(run))
    try:
        return await asyncio.shield(thread)
    except asyncio.CancelledError:
        await asyncio.wait([thread])  # whoever cancelled may read next what this wrote
        raise


def _cause(error: Exception) -> str:
    # SQLAlchemy's own text may quote the URL, and with it a password.
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    return f"the store cannot be opened: {type(cause).__name__}: {str(cause).splitlines()[0]}"


def _not_found(what: str, identity: str) -> NotFoundError:
    return NotFoundError(f"no {what} {identity[:64]!r}")


def _evaluation_of(event: search_pb2.Event) -> evaluation_pb2.Evaluation | None:
    if event.HasField("baseline_evaluated"):
        return event.baseline_evaluated.evaluation
    return event.edit_evaluated.evaluation if event.HasField("edit_evaluated") else None
