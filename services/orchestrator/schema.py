"""Tables of the store, the engine, and migrations at start.

Messages are kept as serialised protos, beside the columns that are queried. The same SQL runs on SQLite (embedded) and
on PostgreSQL (cluster).
"""

import sqlite3
import time
from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config

__all__ = ["evaluations", "events", "migrate", "open_engine", "optimizations"]

_BUSY_SECONDS = 10
_MIGRATION_LOCK = 7401  # any number that nothing else in the database locks

metadata = sa.MetaData()

optimizations = sa.Table(
    "optimizations",
    metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("request_id", sa.String(36), nullable=False, unique=True),
    sa.Column("request_digest", sa.String(64), nullable=False),
    sa.Column("created_us", sa.BigInteger, nullable=False),
    sa.Column("state", sa.Integer, nullable=False),
    sa.Column("last_sequence", sa.BigInteger, nullable=False),
    sa.Column("cancel_requested", sa.Boolean, nullable=False),
    sa.Column("lease_owner", sa.String(255), nullable=False),
    sa.Column("lease_token", sa.BigInteger, nullable=False),
    sa.Column("lease_expires", sa.Float(53), nullable=False),
    sa.Column("optimization", sa.LargeBinary, nullable=False),
    sa.Index("optimizations_by_age", "created_us", "id"),
    sa.Index("optimizations_to_take", "state", "lease_expires"),
)
"""One row each. `optimization` holds what the client sent; all else follows from the events."""

events = sa.Table(
    "events",
    metadata,
    sa.Column("optimization_id", sa.String(64), sa.ForeignKey("optimizations.id"), primary_key=True),
    sa.Column("sequence", sa.BigInteger, primary_key=True),
    sa.Column("event", sa.LargeBinary, nullable=False),
)
"""The append-only logs."""

evaluations = sa.Table(
    "evaluations",
    metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("problem_id", sa.String(64), nullable=False),
    sa.Column("kernel_id", sa.String(64), nullable=False),
    sa.Column("device_kind", sa.Integer, nullable=False),
    sa.Column("verdict", sa.Integer, nullable=False),
    sa.Column("evaluation", sa.LargeBinary, nullable=False),
    sa.Index("evaluations_by_kernel", "problem_id", "kernel_id", "device_kind"),
)
"""Facts, stored once: the id is the content address of (problem, kernel, device, toolchain)."""


def open_engine(url: str) -> sa.Engine:
    """Return an engine; SQLite gets a write-ahead log, a busy timeout and transactions that lock when they begin."""
    engine = sa.create_engine(url, pool_pre_ping=not url.startswith("sqlite"))
    if engine.dialect.name == "sqlite":
        sa.event.listen(engine, "connect", _configure_sqlite)
        sa.event.listen(engine, "begin", _begin_immediate)
    return engine


def migrate(engine: sa.Engine) -> None:
    """Bring the tables up to date; of several processes that start at once, one does it and the others wait."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_MIGRATION_LOCK)))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def _configure_sqlite(connection: sa.engine.interfaces.DBAPIConnection, _record: object) -> None:
    # The driver must not begin transactions by itself (SQLAlchemy, "Enabling non-legacy SQLite transactional modes").
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {_BUSY_SECONDS * 1000}")
    _use_write_ahead_log(cursor)
    # NORMAL loses the newest commits at a power cut, never at a kill, and never the order: a lost round is repeated.
    cursor.execute("PRAGMA synchronous = NORMAL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def _use_write_ahead_log(cursor: sa.engine.interfaces.DBAPICursor) -> None:
    # Changing the mode upgrades a read lock, which SQLite refuses at once when another connection does the same: the
    # busy timeout covers only locks that can be waited for without a deadlock. The mode stays in the file.
    deadline = time.monotonic() + _BUSY_SECONDS
    while not _turned_to_write_ahead_log(cursor, last_try=time.monotonic() > deadline):
        time.sleep(0.01)


def _turned_to_write_ahead_log(cursor: sa.engine.interfaces.DBAPICursor, *, last_try: bool) -> bool:
    try:
        cursor.execute("PRAGMA journal_mode = WAL")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or last_try:
            raise
        return False
    return True


def _begin_immediate(connection: sa.Connection) -> None:
    # Taking the write lock at once waits for the busy timeout; upgrading a read lock would fail without waiting.
    read_only = connection.get_execution_options().get("read_only", False)
    connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")
