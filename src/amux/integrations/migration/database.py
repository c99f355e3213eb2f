"""Opens foreign databases, which are only read: copies of SQLite files, and PostgreSQL.

A SQLite file is copied with what its write-ahead log holds, because a connection to the file itself
would create files beside it, or wait for locks.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from amux.errors import AmuxError

if TYPE_CHECKING:
    import psycopg

Tables = Mapping[str, frozenset[str]]
"""The names of the columns of each table."""


class Rows(Protocol):
    """The rows of a database, whichever it is. Statements have `?` for their parameters."""

    row_number: str | None
    """The column that numbers rows in the order in which they were added; None if none does."""

    def fetch(self, query: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return the rows that a statement selects."""
        ...


class SqliteRows:
    """The rows of a SQLite database."""

    row_number: str | None = "rowid"

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def fetch(self, query: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return the rows that a statement selects."""
        return self._connection.execute(query, parameters).fetchall()


class PostgresRows:
    """The rows of a database in PostgreSQL."""

    row_number: str | None = None

    def __init__(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        self._connection = connection

    def fetch(self, query: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return the rows that a statement selects."""
        return self._connection.execute(query.replace("?", "%s").encode(), parameters).fetchall()

    def columns(self) -> Tables:
        """Return the tables that the URL gives access to without a schema, with their columns."""
        found: dict[str, set[str]] = {}
        query = (
            "SELECT table_name, column_name FROM information_schema.columns "
            "WHERE table_schema = ANY(current_schemas(false))"
        )
        for table, column in self.fetch(query):
            found.setdefault(table, set()).add(column)
        return {table: frozenset(columns) for table, columns in found.items()}


@contextmanager
def open_postgres(url: str) -> Generator[PostgresRows]:
    """Open a database in PostgreSQL for reading."""
    try:
        import psycopg
    except ImportError as error:
        raise AmuxError(
            f"a database in PostgreSQL needs the package `{error.name}`",
            hint='pip install "agent-mux[postgres]"',
        ) from error
    try:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("SET default_transaction_read_only = on")
            yield PostgresRows(connection)
    except psycopg.Error as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise AmuxError(
            f"cannot read the database: {reason}",
            hint="give the URL of a database that a framework wrote",
        ) from error


_TRIES: Final = 20
_LOGS: Final = ("-wal", "-journal")


@contextmanager
def open_copy(path: Path) -> Generator[sqlite3.Connection]:
    """Open a copy of a database in a private directory, which is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="amux-import-") as folder:
        copy = Path(folder) / "copy.db"
        try:
            _copy(path, copy)
            with closing(sqlite3.connect(copy)) as connection:
                connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
                yield connection
        except OSError as error:
            raise AmuxError(f"cannot read `{path}`: {error.strerror}") from error
        except sqlite3.DatabaseError as error:
            raise AmuxError(f"`{path}` is not a usable SQLite database: {error}") from error


def _copy(path: Path, copy: Path) -> None:
    """Copy a database and its log; again if a writer changed one of them meanwhile."""
    for _ in range(_TRIES):
        before = _state(path)
        shutil.copyfile(path, copy)
        for suffix in _LOGS:
            log, target = Path(f"{path}{suffix}"), Path(f"{copy}{suffix}")
            target.unlink(missing_ok=True)
            if log.exists():
                shutil.copyfile(log, target)
        if _state(path) == before:
            return
    raise AmuxError(
        f"`{path}` changes while it is copied", hint="stop the program that writes to it"
    )


def _state(path: Path) -> list[tuple[int, int] | None]:
    found: list[tuple[int, int] | None] = []
    for each in (path, *(Path(f"{path}{suffix}") for suffix in _LOGS)):
        try:
            state = each.stat()
        except FileNotFoundError:
            found.append(None)
        else:
            found.append((state.st_size, state.st_mtime_ns))
    return found


def columns_of(connection: sqlite3.Connection) -> Tables:
    """Return the tables of a database with their columns."""
    names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return {
        name: frozenset(
            row[0] for row in connection.execute("SELECT name FROM pragma_table_info(?)", (name,))
        )
        for (name,) in names
    }


def quoted(name: str) -> str:
    """Return the name of a table for a statement."""
    return '"' + name.replace('"', '""') + '"'


def moment_of(value: object) -> datetime | None:
    """Return a time from a column: seconds since 1970, or a text in UTC; None if it is neither."""
    try:
        if isinstance(value, int | float):
            return datetime.fromtimestamp(value, tz=UTC)
        found = datetime.fromisoformat(str(value))
    except (ValueError, OverflowError, OSError):
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
