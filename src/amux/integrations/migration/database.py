"""Opens a copy of a foreign SQLite database, with what its write-ahead log holds.

The file itself is only read: a connection to it would create files beside it, or wait for locks.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from amux.errors import AmuxError

Tables = Mapping[str, frozenset[str]]
"""The names of the columns of each table."""

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
