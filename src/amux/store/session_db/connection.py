"""One SQLite file that several processes write to: its connection, transactions and retries.

A write begins with BEGIN IMMEDIATE, so that another writer is noticed before anything is done.
SQLite itself waits for one second at most; then the write is tried again after a random pause.
Writers that all wait for the same fixed times would keep meeting each other.
"""

from __future__ import annotations

import logging
import os
import random
import sqlite3
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, RLock
from typing import Final, TypeVar

from amux.durable import hold_while_forking
from amux.errors import StoreBusyError, StoreError, ValidationError
from amux.host import Host

T = TypeVar("T")

BUSY_TIMEOUT_S: Final = 1.0
WRITE_TRIES: Final = 15
RETRY_MIN_S: Final = 0.020
RETRY_MAX_S: Final = 0.150
CHECKPOINT_EVERY: Final = 50
"""A passive checkpoint follows every so many writes."""

_PRIVATE_FILE: Final = 0o600
_PRIVATE_FOLDER: Final = 0o700
_JOURNAL_FORMAT: Final = slice(18, 20)  # of the header: 1 is a rollback journal, 2 is WAL
_WAL_FORMAT: Final = b"\x02\x02"
_BUSY: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_DAMAGES: Final = (
    *("malformed", "vtable constructor failed", "invalid fts5 file format"),
    *("no such table: messages_fts", "no such table: main.messages_fts"),
)
_NO_WAL: Final = ("locking protocol", "disk I/O error")


def is_busy(error: sqlite3.Error) -> bool:
    """Return whether an error says that another connection holds a lock."""
    return _primary_code(error) in _BUSY


def is_corrupt(error: sqlite3.Error) -> bool:
    """Return whether an error says that the file or a full-text table is damaged.

    A constraint without a name is one of the tables inside a full-text table.
    """
    text = str(error)
    return (
        _primary_code(error) == sqlite3.SQLITE_CORRUPT
        or text == "constraint failed"
        or text.startswith(_DAMAGES)
    )


def is_damage(error: StoreError) -> bool:
    """Return whether an error of the store was raised because of damage."""
    return isinstance(error.__cause__, sqlite3.Error) and is_corrupt(error.__cause__)


class DatabaseFile:
    """A connection that threads share: one of them uses it at a time.

    `writes` is the number of write transactions of this connection. `functions` are the functions
    that SQL statements can call, with the number of their arguments.
    """

    def __init__(
        self,
        path: Path,
        host: Host,
        *,
        read_only: bool = False,
        functions: Mapping[str, tuple[int, Callable[..., str]]] | None = None,
    ) -> None:
        self.path = path
        self.read_only = read_only
        self.writes = 0
        self._functions = functions or {}
        self._host = host
        self._lock = RLock()
        self._is_grouping = False
        self._pause = Event()  # never set: its wait is the pause between two tries
        self._connection: sqlite3.Connection | None = None
        self._is_inherited = False  # the connection was the parent's; the next use opens another
        self._abandoned: list[sqlite3.Connection] = []  # the parent's: not to be closed here
        hold_while_forking(self)
        with self._lock:
            self._connection = self._connect()

    def hold(self, timeout: float) -> bool:
        """Wait until no thread uses SQLite, whose state a forked process could not mend."""
        return self._lock.acquire(timeout=timeout)

    def let_go(self) -> None:
        """Let other threads go on."""
        self._lock.release()

    def abandon(self) -> None:
        """Leave the connection to the process that this one was forked from.

        SQLite counts the locks of a file per process. Unless the copy of the connection is closed,
        which no transaction may disturb, a new one would take its locks for held.
        """
        self._lock = RLock()
        self._is_grouping = False
        if self._connection is None:
            return
        if self._connection.in_transaction:
            self._abandoned.append(self._connection)
        else:
            self._disconnect()
        self._connection, self._is_inherited = None, True

    def read(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """Run a query that sees one state of the database; return its result."""
        with self._lock, self._errors():
            connection = self._open()
            if self._is_grouping:
                return query(connection)
            return self._retry(lambda: self._in_snapshot(connection, query))

    def write(self, change: Callable[[sqlite3.Connection], T]) -> T:
        """Apply a change in a transaction of its own; return its result.

        Inside `transaction()` the change joins that transaction: if it fails, only the change is
        undone.
        """
        with self._lock, self._errors():
            connection = self._open()
            if self._is_grouping:
                return self._in_savepoint(connection, change)
            with self._transaction(connection):
                return change(connection)

    @contextmanager
    def transaction(self) -> Generator[None]:
        """Group all writes of the block into one transaction; other threads wait for its end."""
        with self._lock, self._errors():
            connection = self._open()
            if self._is_grouping:
                yield
                return
            with self._transaction(connection):
                self._is_grouping = True
                try:
                    yield
                finally:
                    self._is_grouping = False

    @property
    def is_grouping(self) -> bool:
        """Whether `transaction()` is in progress."""
        return self._is_grouping

    def outside(self, command: Callable[[sqlite3.Connection], T]) -> T:
        """Run a command that SQLite allows outside of transactions only, such as VACUUM."""
        with self._lock, self._errors():
            connection = self._open()
            if self._is_grouping:
                raise StoreError("this is not possible inside a transaction")
            return self._retry(lambda: command(connection))

    def use_wal(self) -> None:
        """Switch the database to write-ahead logging, or to a rollback journal where it fails.

        Some network file systems support no shared memory. A database that already is in WAL mode
        is not switched back: another machine may be using it.
        """
        with self._lock, self._errors():
            connection = self._open()
            try:
                self._retry(lambda: connection.execute("PRAGMA journal_mode = WAL").fetchone())
            except sqlite3.OperationalError as error:
                if not str(error).startswith(_NO_WAL):
                    raise
                if self._is_in_wal_mode():
                    raise StoreError(
                        f"`{self.path}` uses write-ahead logging, which its file system refuses",
                        hint="use the database from the file system on which it was created",
                    ) from error
                connection.execute("PRAGMA journal_mode = DELETE")
                logging.getLogger("amux").warning(
                    "%s: the file system refuses write-ahead logging; readers and writers will "
                    "wait for each other",
                    self.path,
                )
            connection.execute("PRAGMA synchronous = NORMAL")

    def reopen(self, repair: Callable[[], None]) -> None:
        """Close the connection, run a repair of the file, and connect again."""
        with self._lock:
            self._disconnect()
            repair()
            self._connection = self._connect()

    def close(self) -> None:
        """Write the log back into the database and close it. A closed file stays closed."""
        with self._lock:
            connection = self._connection
            if connection is None:
                self._is_inherited = False
                return
            with suppress(sqlite3.Error):
                if not self.read_only:
                    connection.execute("PRAGMA busy_timeout = 0")  # other readers may go on
                    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            self._disconnect()

    def _disconnect(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
        self._connection = None

    def _connect(self) -> sqlite3.Connection:
        mode = "ro" if self.read_only else "rwc"
        try:
            if not self.read_only:
                _create_private(self.path)
            connection = sqlite3.connect(
                f"{self.path.absolute().as_uri()}?mode={mode}",
                uri=True,
                timeout=BUSY_TIMEOUT_S,
                isolation_level=None,
                check_same_thread=False,
            )
            connection.execute("PRAGMA foreign_keys = ON")
            for name, (arguments, function) in self._functions.items():
                connection.create_function(name, arguments, function, deterministic=True)
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"`{self.path}` cannot be opened: {error}") from error
        connection.row_factory = sqlite3.Row
        return connection

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            if not self._is_inherited:
                raise StoreError(f"`{self.path}` is closed")
            self._connection, self._is_inherited = self._connect(), False
        return self._connection

    def _is_in_wal_mode(self) -> bool:
        with self.path.open("rb") as file:
            return file.read(_JOURNAL_FORMAT.stop)[_JOURNAL_FORMAT] == _WAL_FORMAT

    @contextmanager
    def _errors(self) -> Generator[None]:
        """Raise the errors of SQLite as errors of the store."""
        try:
            yield
        except UnicodeEncodeError as error:
            raise ValidationError(f"an id or a key is not valid Unicode: {error}") from error
        except OverflowError as error:
            raise ValidationError(f"a number is too large: {error}") from error
        except sqlite3.Error as error:
            if is_busy(error):
                raise StoreBusyError(
                    f"`{self.path}` is in use by another process", hint="try again"
                ) from error
            raise StoreError(f"`{self.path}` cannot be used: {error}") from error

    def _retry(self, attempt: Callable[[], T]) -> T:
        for _ in range(WRITE_TRIES - 1):
            try:
                return attempt()
            except sqlite3.Error as error:
                if not is_busy(error):
                    raise
            pause = random.uniform(RETRY_MIN_S, RETRY_MAX_S)  # noqa: S311 - not a secret
            self._host.clock.wait(self._pause, pause)
        return attempt()

    @contextmanager
    def _transaction(self, connection: sqlite3.Connection) -> Generator[None]:
        self._retry(lambda: connection.execute("BEGIN IMMEDIATE"))
        try:
            yield
            self._retry(lambda: connection.execute("COMMIT"))
        except BaseException:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise
        self.writes += 1
        if self.writes % CHECKPOINT_EVERY == 0:
            with suppress(sqlite3.Error):  # the next one does the work
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def _in_snapshot(
        self, connection: sqlite3.Connection, query: Callable[[sqlite3.Connection], T]
    ) -> T:
        connection.execute("BEGIN")
        try:
            return query(connection)
        finally:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")

    def _in_savepoint(
        self, connection: sqlite3.Connection, change: Callable[[sqlite3.Connection], T]
    ) -> T:
        if not connection.in_transaction:
            raise StoreError("the transaction was undone after an error")
        connection.execute("SAVEPOINT change")
        try:
            result = change(connection)
        except BaseException:
            with suppress(sqlite3.Error):  # some errors undo the whole transaction at once
                connection.execute("ROLLBACK TO change")
                connection.execute("RELEASE change")
            raise
        connection.execute("RELEASE change")
        return result


def _primary_code(error: sqlite3.Error) -> int:
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return 0 if code is None else code & 0xFF


def _create_private(path: Path) -> None:
    """Create an empty file that only its owner can read. SQLite gives its companions its mode."""
    path.parent.mkdir(mode=_PRIVATE_FOLDER, parents=True, exist_ok=True)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, _PRIVATE_FILE))
