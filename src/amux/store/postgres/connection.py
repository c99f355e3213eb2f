"""Connections to PostgreSQL: a pool, and retries when the server restarts or transactions collide.

Every write is safe to repeat, because its records have their ids before the first attempt. A lost
connection and a collision are reasons to repeat; a statement that the server refuses is not.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import psycopg
from psycopg import Connection, Cursor, errors, sql
from psycopg.pq import TransactionStatus
from psycopg_pool import ConnectionPool, PoolTimeout

from amux.durable import abandon_after_fork
from amux.errors import StoreBusyError, StoreError, ValidationError
from amux.store.postgres.schema import migrate

T = TypeVar("T")

# Lost connections are handled here. psycopg and its pool also log them, which would reach the
# error output of a program that has not configured logging; one that has still gets the notes.
logging.getLogger("psycopg").addHandler(logging.NullHandler())

RETRY_SECONDS: Final = 30.0
"""How long a write waits for a server that is restarting."""

_POOL_SIZE: Final = 8
_CONNECT_SECONDS: Final = 5.0
_FIRST_CONNECT_SECONDS: Final = 3.0  # a restart takes less; a wrong URL is not reported later
_FIRST_PAUSE: Final = 0.02
_LONGEST_PAUSE: Final = 1.0
_RESTARTING: Final = "the database system is"  # ... starting up, shutting down, in recovery
_NOT_LISTENING: Final = (
    "Connection refused", "No such file or directory", "server closed the connection",
)  # fmt: skip
_COLLISIONS: Final = (errors.SerializationFailure, errors.DeadlockDetected, errors.LockNotAvailable)
_LOST_STATES: Final = ("08", "57P", "53300")
"""How the SQLSTATE of a lost connection begins: its failure, a shutdown, too many connections."""


def split_schema(url: str) -> tuple[str, str]:
    """Return the URL for PostgreSQL and the schema, which `?schema=` names ("amux" by default)."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise ValidationError(f"the URL of the store cannot be read: {error}") from error
    query = parse_qsl(parts.query, keep_blank_values=True)
    schema = next((value for name, value in query if name == "schema"), "amux")
    rest = urlencode([(name, value) for name, value in query if name != "schema"], safe="/")
    return urlunsplit(parts._replace(query=rest)), schema


def is_lost(error: BaseException | None) -> bool:
    """Return whether an error leaves open what the server has done, if it was reached at all."""
    if isinstance(error, psycopg.InterfaceError | PoolTimeout):
        return True
    if not isinstance(error, psycopg.OperationalError):
        return False
    return error.sqlstate is None or error.sqlstate.startswith(_LOST_STATES)


class Database:
    """The connections to one schema. The first use connects and creates the tables."""

    def __init__(
        self, url: str, *, synchronous: bool, retry_seconds: float = RETRY_SECONDS
    ) -> None:
        self._url, self.schema = split_schema(url)
        self._synchronous = synchronous
        self._retry_seconds = retry_seconds
        self._lock = threading.Lock()
        self._pool: ConnectionPool[Connection[Any]] | None = None
        self._kept: list[Cursor[Any]] = []  # at most one, with the connection of `execute`
        self._abandoned: list[object] = []  # the parent's: destroying them would end its sessions
        self._is_closed = False
        self._pause = threading.Event()  # never set: its wait is the pause between two tries
        abandon_after_fork(self)

    def abandon(self) -> None:
        """Leave the connections to the process that this one was forked from."""
        self._lock = threading.Lock()
        self._abandoned += [self._pool, *self._kept]
        self._pool, self._kept = None, []

    def run(self, work: Callable[[Connection[Any]], T]) -> T:
        """Run work on a connection; repeat it after a collision or a lost connection."""
        deadline = time.monotonic() + self._retry_seconds
        pause = _FIRST_PAUSE
        while True:
            try:
                with self._open().connection() as connection:
                    return work(connection)
            except _COLLISIONS as error:
                if time.monotonic() > deadline:
                    raise StoreBusyError(
                        f"the store in schema `{self.schema}` is in use: {error}", hint="try again"
                    ) from error
            except psycopg.Error as error:
                if not is_lost(error):
                    raise _refused(error) from error
                if time.monotonic() > deadline:
                    raise StoreError(
                        f"the PostgreSQL server cannot be reached: {_first_line(error)}",
                        hint="check that it is running and that the URL is right",
                        recoverable=True,
                    ) from error
            except UnicodeEncodeError as error:
                raise _not_unicode(error) from error
            self._pause.wait(pause * random.uniform(0.5, 1.0))  # noqa: S311 - not a secret
            pause = min(pause * 2, _LONGEST_PAUSE)

    def execute(self, statement: bytes, values: Sequence[Any]) -> int:
        """Run one statement without repeating it, and return the number of rows it changed.

        Every failure is a `StoreError`; `is_lost` tells whether its cause leaves the outcome open.
        One connection is not given back to the pool, because that takes longer than all the rest.
        """
        try:
            pool = self._open()
            try:
                cursor = self._kept.pop()
            except IndexError:
                cursor = pool.getconn().cursor()
            try:
                return cursor.execute(statement, values).rowcount
            finally:
                self._keep(pool, cursor)
        except psycopg.Error as error:
            raise _refused(error) from error
        except UnicodeEncodeError as error:
            raise _not_unicode(error) from error

    def _keep(self, pool: ConnectionPool[Connection[Any]], cursor: Cursor[Any]) -> None:
        """Keep a connection for the next statement if it is idle, else give it to the pool."""
        connection = cursor.connection
        if connection.info.transaction_status == TransactionStatus.IDLE and pool is self._pool:
            with self._lock:
                if not self._kept and pool is self._pool:
                    self._kept.append(cursor)
                    return
        pool.putconn(connection)

    def transaction(self, work: Callable[[Connection[Any]], T]) -> T:
        """Run work in a transaction; repeat it like `run`."""

        def in_transaction(connection: Connection[Any]) -> T:
            with connection.transaction():
                return work(connection)

        return self.run(in_transaction)

    def one(self, query: str, *values: Any) -> Any:
        """Return the first row of a query; None if there is none."""
        return self.run(lambda c: c.execute(query.encode(), values).fetchone())

    def all(self, query: str, *values: Any) -> list[Any]:
        """Return the rows of a query."""
        return self.run(lambda c: c.execute(query.encode(), values).fetchall())

    def count(self, query: str, *values: Any) -> int:
        """Return the number of rows that a statement changed."""
        return self.run(lambda c: c.execute(query.encode(), values).rowcount)

    def deleted(self, query: str, *values: Any, then: str | None = None) -> bool:
        """Return whether a DELETE removed its row; `then` deletes what belonged to it.

        After a lost connection, a row that is not there counts as removed by the attempt before.
        """
        attempts = 0

        def work(connection: Connection[Any]) -> bool:
            nonlocal attempts
            attempts += 1
            count = connection.execute(query.encode(), values).rowcount
            if then is not None:
                connection.execute(then.encode(), values)
            return count > 0 or attempts > 1

        return self.transaction(work)

    def _open(self) -> ConnectionPool[Connection[Any]]:
        with self._lock:
            if self._is_closed:
                raise StoreError(f"the store in schema `{self.schema}` is closed")
            if self._pool is None:
                self._prepare()
                self._pool = ConnectionPool(
                    self._url,
                    min_size=0,
                    max_size=_POOL_SIZE + 1,  # `execute` keeps one
                    open=True,
                    timeout=_CONNECT_SECONDS,
                    kwargs={"autocommit": True},
                    configure=self._configure,
                    reconnect_timeout=_CONNECT_SECONDS,
                )
            return self._pool

    def _prepare(self) -> None:
        """Connect once and create the tables, so that a wrong URL is reported soon.

        Whatever goes wrong after the server has answered is left to the caller, which tries again.
        """
        with self._connect() as connection:
            try:
                migrate(connection, self.schema)
            except psycopg.ProgrammingError as error:
                raise _cannot_open(error) from error

    def _connect(self) -> Connection[Any]:
        """Return the first connection; wait for a server that is not listening at the moment."""
        deadline = time.monotonic() + _FIRST_CONNECT_SECONDS
        while True:
            try:
                return psycopg.connect(
                    self._url, autocommit=True, connect_timeout=int(_CONNECT_SECONDS)
                )
            except (psycopg.OperationalError, psycopg.ProgrammingError) as error:
                if _RESTARTING in str(error):
                    raise  # tried again
                is_down = any(sign in str(error) for sign in _NOT_LISTENING)
                if not is_down or time.monotonic() > deadline:
                    raise _cannot_open(error) from error
            self._pause.wait(_FIRST_PAUSE * 5)

    def _configure(self, connection: Connection[Any]) -> None:
        name = sql.Identifier(self.schema)
        connection.execute(sql.SQL("SET search_path TO {}").format(name))
        connection.execute("SET TIME ZONE 'UTC'")
        connection.execute("SET client_encoding TO 'UTF8'")
        if not self._synchronous:
            connection.execute("SET synchronous_commit TO off")

    def close(self) -> None:
        """Close all connections for good."""
        with self._lock:
            self._is_closed = True
            if self._pool is not None:
                for cursor in self._kept:
                    self._pool.putconn(cursor.connection)
                self._kept.clear()
                self._pool.close()
                self._pool = None


def _refused(error: psycopg.Error) -> StoreError:
    return StoreError(f"PostgreSQL refused: {_first_line(error)}")


def _not_unicode(error: UnicodeEncodeError) -> ValidationError:
    return ValidationError(f"an id or a filter is not valid Unicode: {error}")


def _cannot_open(error: psycopg.Error) -> StoreError:
    return StoreError(
        f"cannot open the store in PostgreSQL: {_first_line(error)}",
        hint="check the URL: postgresql://user:password@host:port/database",
    )


def _first_line(error: BaseException) -> str:
    """Return the first line of an error; passwords are not part of it."""
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
