"""Reads another program's SQLite database without leaving a trace.

SQLite's own read-only mode is not enough: on a cleanly closed WAL database it leaves new `-wal` and
`-shm` files behind, and beside a `-wal` whose writer is gone it rewrites the `-shm`. So the files
beside the database decide how it is opened:

    `-journal` not empty                 copy (it may hold the only good version of some pages)
    the database itself is empty         copy (SQLite would delete a `-wal` beside it)
    `-wal` missing or empty              immutable; the result is used only if nothing changed
    `-wal` not empty, `-shm` exists      read-only shared memory: all committed rows, also while
                                         the writer is running, and nothing is written
    `-wal` not empty, no `-shm`          copy (a crash, or a writer in exclusive locking mode)
    the first SELECT fails               copy

A copy is the database, its `-wal` and its `-journal` (never the `-shm`) in a private temporary
directory, where SQLite may recover and roll back freely. Immutable is never used beside a
non-empty `-wal` or `-journal`: it would miss committed rows or show uncommitted ones.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from amux.adapters._base import Item
from amux.adapters._kit.jsonl import unreadable
from amux.errors import ParseError
from amux.model.problems import Problem

T = TypeVar("T")
_FileState = tuple[int, int, int] | None
_FileStates = tuple[_FileState, ...]

_ATTEMPTS = 3
_COPY_ATTEMPTS = 10
_LOCK_WAIT_S = 0.25  # if a lock lasts longer than this, a copy is read
_COPIED = ("", "-wal", "-journal")
_DAMAGED = (sqlite3.DatabaseError, UnicodeDecodeError)
"""SQLite's message may quote bytes of a damaged schema, which Python then fails to decode."""
_IMMUTABLE = "mode=ro&immutable=1"
_SHARED_MEMORY = "mode=ro&readonly_shm=1"


class SourceChangedError(ParseError):
    """The database was written to while it was read, so the result must be discarded."""

    recoverable = True


def read_foreign(path: Path, query: Callable[[sqlite3.Connection], T]) -> T:
    """Run a query on a foreign database and repeat it if the database changed meanwhile.

    The query sees one state of the database and must return plain values, not cursors: it may be
    called several times, and the connection is closed afterwards. Raise ParseError if the file is
    not a usable database, OSError if the operating system denies access.
    """
    for _ in range(_ATTEMPTS):
        try:
            with open_foreign(path) as connection:
                return query(connection)
        except SourceChangedError:
            continue  # a busy writer; after some attempts a copy is read, which does not change
    with _translated(path), _open_copy(path.resolve()) as connection:
        return query(connection)


def read_items(path: Path, query: Callable[[sqlite3.Connection], Iterable[Item]]) -> Iterator[Item]:
    """Yield the items of a foreign database; a problem if it cannot be read."""
    try:
        yield from read_foreign(path, lambda connection: list(query(connection)))
    except ParseError as error:
        yield Problem(code="unknown-format", message=str(error), path=str(path))
    except OSError as error:
        yield unreadable(path, error)


@contextmanager
def open_foreign(path: Path) -> Generator[sqlite3.Connection]:
    """Open a foreign database; the connection sees one state of it.

    Raise SourceChangedError on exit if the database changed; `read_foreign` retries.
    """
    real = path.resolve()  # SQLite looks for the sidecars beside the file a link points to
    before = _file_states(real)
    options = _choose_options(real, before)
    with _translated(path):
        connection = None if options is None else _connect_in_place(real, options, before)
        if connection is None:
            with _open_copy(real) as copy:
                yield copy
            return
        is_shared = options == _SHARED_MEMORY
        with closing(connection), nullcontext() if is_shared else _unchanged(real, before):
            yield connection


def _choose_options(database: Path, states: _FileStates) -> str | None:
    """Return the URI options for opening in place; None if only a copy is safe."""
    main, wal, journal = states
    if _has_bytes(journal) or not _has_bytes(main):
        return None
    if not _has_bytes(wal):
        return _IMMUTABLE
    return _SHARED_MEMORY if _sidecar(database, "-shm").exists() else None


def _connect_in_place(
    database: Path, options: str, before: _FileStates
) -> sqlite3.Connection | None:
    """Connect and verify the connection with a SELECT; None if it cannot be opened in place."""
    try:
        connection = sqlite3.connect(
            f"{database.as_uri()}?{options}", uri=True, timeout=_LOCK_WAIT_S, isolation_level=None
        )
    except sqlite3.OperationalError:
        return None
    try:
        _begin(connection)
    except _DAMAGED as error:
        connection.close()
        if isinstance(error, sqlite3.OperationalError):
            return None
        _require_unchanged(database, before)
        raise
    return connection


def _begin(connection: sqlite3.Connection) -> None:
    """Start the transaction that fixes the state to read; the SELECT opens the file."""
    connection.text_factory = partial(str, encoding="utf-8", errors="replace")
    connection.execute("PRAGMA trusted_schema = OFF")  # the schema was written by someone else
    connection.execute("BEGIN")
    connection.execute("SELECT count(*) FROM sqlite_master").fetchone()


@contextmanager
def _open_copy(database: Path) -> Generator[sqlite3.Connection]:
    with TemporaryDirectory(prefix="amux-") as folder:
        copy = Path(folder) / "copy.db"
        _copy_at_rest(database, copy)
        with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
            _begin(connection)
            yield connection


def _copy_at_rest(database: Path, copy: Path) -> None:
    """Copy the database and its sidecars; repeat until none changed during the copy."""
    for _ in range(_COPY_ATTEMPTS):
        before = _file_states(database)
        for suffix in _COPIED:
            target = _sidecar(copy, suffix)
            target.unlink(missing_ok=True)
            try:
                shutil.copyfile(_sidecar(database, suffix), target)
            except FileNotFoundError:
                if not suffix:
                    raise
        if _file_states(database) == before:
            return
    raise _changed_error(database)


@contextmanager
def _unchanged(database: Path, before: _FileStates) -> Generator[None]:
    """Raise SourceChangedError on exit, also in place of an error, if the files have changed."""
    try:
        yield
    except _DAMAGED:
        _require_unchanged(database, before)
        raise
    _require_unchanged(database, before)


def _require_unchanged(database: Path, before: _FileStates) -> None:
    if _file_states(database) != before:
        raise _changed_error(database)


def _changed_error(database: Path) -> SourceChangedError:
    return SourceChangedError(
        f"`{database}` changes while it is read", hint="try again when the agent is idle"
    )


@contextmanager
def _translated(path: Path) -> Generator[None]:
    try:
        yield
    except sqlite3.ProgrammingError:
        raise  # a bug in amux, not a damaged file
    except _DAMAGED as error:
        raise ParseError(f"`{path}` is not a database amux can read ({error})") from error


def _file_states(database: Path) -> _FileStates:
    return tuple(_file_state(_sidecar(database, suffix)) for suffix in _COPIED)


def _file_state(path: Path) -> _FileState:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ino


def _has_bytes(state: _FileState) -> bool:
    return state is not None and state[0] > 0


def _sidecar(database: Path, suffix: str) -> Path:
    return database.with_name(database.name + suffix)
