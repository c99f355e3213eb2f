"""Session databases for tests: with a clock that ticks, and as earlier versions created them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator, Iterable
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import Event

from amux import Host, SessionDB
from amux.host import Clock
from amux.store.session_db import schema

OpenDB = Callable[..., SessionDB]

START = 1_750_000_000.0
DAY_S = 86_400.0


class Ticks:
    """A time of day that is one second later at every look, and can be moved."""

    def __init__(self) -> None:
        self.seconds = START

    def __call__(self) -> datetime:
        self.seconds += 1.0
        return datetime.fromtimestamp(self.seconds, UTC)


class NoPauses(Clock):
    """A clock whose pauses take no time and are recorded."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    def wait(self, event: Event, seconds: float) -> None:
        self.pauses.append(seconds)


def ticking_host(home: Path, ticks: Ticks | None = None, clock: Clock | None = None) -> Host:
    return Host(home, now=ticks or Ticks(), clock=clock)


@contextmanager
def raw(path: Path) -> Generator[sqlite3.Connection]:
    """The file as SQLite alone sees it; what is changed is committed at the end."""
    with closing(sqlite3.connect(path)) as connection, connection:
        yield connection


def create_old(path: Path, version: int, rows: Iterable[tuple[str, tuple[object, ...]]]) -> None:
    """Create a database as it was in a version, and insert rows: a statement and its values."""
    with raw(path) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        for statement in (*schema.tables_of(version), *schema.fulltext_of(version)):
            connection.execute(statement)
        if version == schema.VERSION:
            _drop_extensions(connection)
        connection.execute("INSERT INTO schema_version(version) VALUES (?)", (version,))
        for statement, values in rows:
            connection.execute(statement, values)


def _drop_extensions(connection: sqlite3.Connection) -> None:
    """Leave the documented schema alone, as another program writes it."""
    for table, names in {
        "sessions": ("cwd", "rewind_count", "archived"),
        "messages": ("active", "compacted"),
    }.items():
        for name in names:
            connection.execute(f"ALTER TABLE {table} DROP COLUMN {name}")
