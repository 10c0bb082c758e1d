import asyncio
import sqlite3
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable

from optiml.v1 import evaluation_pb2, search_pb2, verdict_pb2
from services.orchestrator import schema
from services.orchestrator.store import StaleLeaseError, Store
from tests.orchestrator.landscape import Landscape, kernel_of, problem


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    opened = Store(f"sqlite:///{path}")
    yield opened
    opened.close()


async def _create(store: Store) -> str:
    made = search_pb2.Optimization(id=f"o{uuid.uuid4().hex}", request_id=str(uuid.uuid4()))
    made.created_at.GetCurrentTime()
    return await store.create(made, "digest")


def _started(sequence: int) -> search_pb2.Event:
    return search_pb2.Event(sequence=sequence, started=search_pb2.Started(orchestrator="me"))


def _baseline(sequence: int, evaluation: evaluation_pb2.Evaluation) -> search_pb2.Event:
    return search_pb2.Event(sequence=sequence, baseline_evaluated=search_pb2.BaselineEvaluated(evaluation=evaluation))


async def test_an_optimization_is_held_by_one_only(store: Store) -> None:
    identity = await _create(store)
    leases = await asyncio.gather(*(store.take(f"owner {n}", 60) for n in range(8)))
    assert [lease.optimization_id for lease in leases if lease is not None] == [identity]


async def test_an_expired_lease_is_taken_over_with_a_larger_token(store: Store) -> None:
    await _create(store)
    first = await store.take("first", -1.0)
    second = await store.take("second", 60)
    assert first is not None
    assert second is not None
    assert second.token > first.token


async def test_a_stale_token_writes_nothing(store: Store) -> None:
    identity = await _create(store)
    stale = await store.take("first", -1.0)
    fresh = await store.take("second", 60)
    assert stale is not None
    assert fresh is not None
    evaluation = Landscape().evaluation(kernel_of(frozenset()), problem())
    with pytest.raises(StaleLeaseError):
        await store.append(stale, _baseline(1, evaluation))
    with pytest.raises(StaleLeaseError):
        await store.renew(stale, 60)
    await store.give_back(stale)
    assert await store.events(identity) == []
    assert await store.known_evaluation(evaluation.kernel_id, evaluation) is None
    assert await store.take("third", 60) is None, "the stale owner gave back what was not his"
    await store.append(fresh, _started(1))


async def test_an_event_that_does_not_follow_the_log_writes_nothing(store: Store) -> None:
    identity = await _create(store)
    lease = await store.take("me", 60)
    assert lease is not None
    await store.append(lease, _started(1))
    for wrong in (1, 3):
        with pytest.raises(StaleLeaseError):
            await store.append(lease, _started(wrong))
    assert [event.sequence for event in await store.events(identity)] == [1]


async def test_a_finished_optimization_is_never_taken_again(store: Store) -> None:
    await _create(store)
    lease = await store.take("me", 60)
    assert lease is not None
    finished = search_pb2.Finished(state=search_pb2.OPTIMIZATION_STATE_SUCCEEDED)
    await store.append(lease, search_pb2.Event(sequence=1, finished=finished))
    assert await store.take("other", 60) is None


async def test_what_was_given_back_is_taken_at_once(store: Store) -> None:
    await _create(store)
    lease = await store.take("me", 60)
    assert lease is not None
    await store.give_back(lease)
    assert await store.take("other", 60) is not None


async def test_the_holder_hears_of_a_cancel_when_it_renews(store: Store) -> None:
    identity = await _create(store)
    lease = await store.take("me", 60)
    assert lease is not None
    assert await store.renew(lease, 60) is False
    await store.request_cancel(identity)
    assert await store.renew(lease, 60) is True


async def _stored(store: Store, evaluation: evaluation_pb2.Evaluation) -> None:
    await _create(store)
    lease = await store.take("me", 60)
    assert lease is not None
    await store.append(lease, _baseline(1, evaluation))


async def test_an_evaluation_is_known_on_the_same_device_and_toolchain_only(store: Store) -> None:
    evaluation = Landscape().evaluation(kernel_of(frozenset()), problem())
    await _stored(store, evaluation)
    assert await store.known_evaluation(evaluation.kernel_id, evaluation) == evaluation
    for change in ({"toolchain": "other"}, {"device": evaluation_pb2.Device(kind=evaluation.device.kind, name="A100")}):
        other = evaluation_pb2.Evaluation.FromString(evaluation.SerializeToString())
        other.MergeFrom(evaluation_pb2.Evaluation(**change))
        assert await store.known_evaluation(evaluation.kernel_id, other) is None


@pytest.mark.parametrize("verdict", [verdict_pb2.VERDICT_INTERNAL, verdict_pb2.VERDICT_TIMED_OUT])
async def test_a_passing_fault_is_no_fact_and_makes_way_for_one(store: Store, verdict: int) -> None:
    fact = Landscape().evaluation(kernel_of(frozenset()), problem())
    passing = evaluation_pb2.Evaluation.FromString(fact.SerializeToString())
    passing.verdict = verdict_pb2.Verdict.ValueType(verdict)
    await _stored(store, passing)
    assert await store.known_evaluation(fact.kernel_id, fact) is None
    await _stored(store, fact)
    await _stored(store, passing)
    assert await store.evaluation(fact.id) == fact


async def test_appending_takes_under_two_milliseconds(store: Store) -> None:
    await _create(store)
    lease = await store.take("me", 60)
    assert lease is not None
    evaluation = Landscape().evaluation(kernel_of(frozenset()), problem())
    evaluation.log = "x" * (16 << 10)
    seconds = []
    for sequence in range(1, 101):
        evaluation.id = f"e{sequence}"
        started = time.perf_counter()
        await store.append(lease, _baseline(sequence, evaluation))
        seconds.append(time.perf_counter() - started)
    assert sorted(seconds)[50] < 2e-3


def test_a_reader_does_not_wait_for_a_writer(store: Store, path: Path) -> None:
    asyncio.run(_create(store))
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    try:
        assert len(asyncio.run(store.page(10, None))) == 1
    finally:
        writer.close()


def test_several_processes_may_migrate_at_once(tmp_path: Path) -> None:
    async def open_all(path: Path) -> list[Store]:
        return await asyncio.gather(*(asyncio.to_thread(Store, f"sqlite:///{path}") for _ in range(6)))

    for attempt in range(4):
        for opened in asyncio.run(open_all(tmp_path / f"{attempt}.db")):
            opened.close()


def test_many_connections_may_turn_a_new_file_into_a_write_ahead_log_at_once(tmp_path: Path) -> None:
    def connect(path: Path, together: threading.Barrier) -> str:
        engine = schema.open_engine(f"sqlite:///{path}")
        together.wait()
        try:
            with engine.connect() as connection:
                return str(connection.exec_driver_sql("PRAGMA journal_mode").scalar())
        finally:
            engine.dispose()

    with ThreadPoolExecutor(8) as pool:
        for attempt in range(50):
            together = threading.Barrier(8)
            modes = pool.map(connect, [tmp_path / f"{attempt}.db"] * 8, [together] * 8)
            assert set(modes) == {"wal"}


def test_the_migrations_make_the_tables_that_the_code_uses(store: Store, path: Path) -> None:
    fresh = sa.create_engine("sqlite://")
    schema.metadata.create_all(fresh)
    migrated = sa.create_engine(f"sqlite:///{path}")
    for name in schema.metadata.tables:
        ours, theirs = (sa.inspect(engine) for engine in (migrated, fresh))
        columns = [
            [(c["name"], str(c["type"]), c["nullable"]) for c in each.get_columns(name)] for each in (ours, theirs)
        ]
        assert columns[0] == columns[1]
        indexes = [sorted((i["name"], i["column_names"]) for i in each.get_indexes(name)) for each in (ours, theirs)]
        assert indexes[0] == indexes[1]
    migrated.dispose()


def test_the_tables_can_be_made_by_postgresql() -> None:
    for table in schema.metadata.sorted_tables:
        assert "BYTEA" in str(CreateTable(table).compile(dialect=postgresql.dialect()))
