"""The SQLite database of the index: opened, checked, and replaced if it is damaged or outdated.

The index holds derived data only. Every error of the database is raised as `IndexUnavailableError`,
and callers then read the sources instead.

Callers hold `lock` until they have consumed the result: some results, such as a search scope, read
from the index lazily. So one thread at a time uses the connections, open transactions and cached
values.
"""

from __future__ import annotations

import os
import sqlite3
from _thread import RLock  # all that is needed of `threading`, which takes longer to load
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from amux.index.errors import IndexDecodeError, IndexUnavailableError

TYPE_CHECKING = False  # importing `typing` takes a tenth of a fast list
if TYPE_CHECKING:
    from typing import Final

    from amux.index.text.update import TextDatabase

FORMAT: Final = 11
"""Raised whenever a table or a stored value changes: a database of another format is rebuilt."""

MAX_SHARDS: Final = 8
"""The most files that the texts of a home are in."""

_WAIT_SECONDS: Final = 5.0
_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR})
_TABLES: Final = """
CREATE TABLE source (
  id INTEGER PRIMARY KEY,
  agent TEXT NOT NULL,
  path BLOB NOT NULL,
  size INTEGER NOT NULL,
  fingerprint BLOB NOT NULL,
  digest BLOB NOT NULL,
  reader TEXT NOT NULL,
  own BLOB NOT NULL,
  named BLOB NOT NULL,
  content BLOB NOT NULL,
  titled BLOB NOT NULL,
  offset INTEGER NOT NULL,
  UNIQUE (agent, path)
);
CREATE TABLE reading (
  id INTEGER PRIMARY KEY, -- of its source
  facts BLOB NOT NULL,
  lines BLOB NOT NULL,
  prefix_digest BLOB NOT NULL,
  state BLOB NOT NULL
);
CREATE TABLE result (
  agent TEXT NOT NULL,
  cluster INTEGER NOT NULL,
  environment BLOB NOT NULL,
  members BLOB NOT NULL,
  PRIMARY KEY (agent, cluster)
) WITHOUT ROWID;
CREATE TABLE payload (
  agent TEXT NOT NULL,
  kind TEXT NOT NULL,
  cluster INTEGER NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (agent, kind, cluster)
) WITHOUT ROWID;
CREATE TABLE freshness (
  agent TEXT PRIMARY KEY,
  environment BLOB NOT NULL,
  snapshot BLOB NOT NULL,
  paths BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE environment (
  scope BLOB PRIMARY KEY,
  state BLOB NOT NULL,
  annotations TEXT NOT NULL,
  fingerprint BLOB NOT NULL,
  agents TEXT NOT NULL,
  runs TEXT NOT NULL,
  color TEXT NOT NULL,
  timezone TEXT NOT NULL,
  stars TEXT NOT NULL,
  run_tags TEXT NOT NULL,
  tags TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE session (
  agent TEXT NOT NULL,
  cluster INTEGER NOT NULL,
  id TEXT NOT NULL,
  sort_key BLOB NOT NULL,
  names TEXT NOT NULL,
  created INTEGER NOT NULL,
  updated INTEGER NOT NULL,
  turns INTEGER NOT NULL,
  usd REAL NOT NULL,
  incomplete TEXT NOT NULL,
  hidden INTEGER NOT NULL,
  kind TEXT NOT NULL,
  cwd TEXT,
  model TEXT,
  models TEXT NOT NULL,
  title TEXT NOT NULL,
  version TEXT,
  keys BLOB NOT NULL,
  body BLOB NOT NULL,
  message_sources BLOB NOT NULL
);
CREATE INDEX session_cluster ON session (agent, cluster);
CREATE INDEX session_created ON session (created);
CREATE INDEX session_kinds ON session (agent, hidden);
"""


def index_path(cache: Path, home: Path) -> Path:
    """Return the database file of a home: homes with one cache directory share no index."""
    from _blake2 import blake2b  # `hashlib` takes three times as long to load

    name = blake2b(os.fsencode(home), digest_size=6).hexdigest()
    return cache / f"index-{name}.db"


def shard_path(text_path: Path, number: int) -> Path:
    """Return a file of the texts: the first one, or a shard beside it."""
    return text_path.with_suffix(f".{number}.db") if number else text_path


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)  # noqa: PTH202 - text, not a Path
    except OSError:
        return 0


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        with suppress(OSError):
            Path(f"{path}{suffix}").unlink()


class IndexDatabase:
    """A connection to the index, opened on first use. Any thread may call `close`.

    `texts` is the open text index, if this process uses it; see `text.update.open_texts`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.text_path = path.with_name(path.name.replace("index-", "texts-"))
        self.lock = RLock()  # for a whole question, within which the thread may ask another one
        self.texts: TextDatabase | None = None
        self._openings = 0
        self._connection: sqlite3.Connection | None = None

    def exists(self) -> bool:
        """Return whether there is an index; False if its directory is unreadable."""
        try:
            return self.path.exists()
        except OSError:
            return False

    @contextmanager
    def guarded(self) -> Generator[sqlite3.Connection]:
        """Provide the connection; raise every error of the database as `IndexUnavailableError`.

        The database is closed after an error, and deleted if it is damaged rather than in use.
        """
        try:
            if self._connection is None:
                self._connection = self._open()
                self._openings += 1
            yield self._connection
        except (sqlite3.Error, OSError, IndexDecodeError, UnicodeDecodeError) as error:
            code = getattr(error, "sqlite_errorcode", None)
            self.close()
            # A damaged schema is quoted in the error message, which may then be invalid Unicode.
            if isinstance(error, ValueError) or (code and code & 0xFF in _DAMAGED):
                self.remove()
            raise IndexUnavailableError(str(error)) from error

    @contextmanager
    def reading(self) -> Generator[sqlite3.Connection]:
        """Read one state of the database, whatever other processes write meanwhile."""
        with self.guarded() as connection:
            if connection.in_transaction:
                yield connection
                return
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")

    @contextmanager
    def writing(self) -> Generator[sqlite3.Connection]:
        """Write in one transaction, or in the one that is open; other processes can still read."""
        with self.guarded() as connection:
            if connection.in_transaction:
                yield connection
                return
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    def version(self) -> tuple[int, int, int]:
        """Return a value that changes whenever this or another process writes to the index."""
        with self.guarded() as connection:
            return *self.foreign_changes(), connection.total_changes

    def foreign_changes(self) -> tuple[int, int]:
        """Return a value that changes whenever another process writes to the index."""
        with self.guarded() as connection:
            (foreign,) = connection.execute("PRAGMA data_version").fetchone()
            return self._openings, foreign

    @property
    def has_grown(self) -> bool:
        """Whether this process has written to the index or to the texts."""
        own = 0 if self._connection is None else self._connection.total_changes
        return own > 0 or (self.texts is not None and self.texts.has_grown)

    def sizes(self) -> tuple[int, int]:
        """Return the bytes of the index and of the texts, with SQLite's write-ahead logs."""
        own, *texts = (
            _size(f"{path}") + _size(f"{path}-wal") for path in (self.path, *self._text_paths())
        )
        return own, sum(texts)

    def remove_texts(self) -> None:
        """Delete the texts; the next search reads them again."""
        self._close_texts()
        for path in self._text_paths():
            _remove(path)

    def _text_paths(self) -> list[Path]:
        return [shard_path(self.text_path, number) for number in range(MAX_SHARDS)]

    def _close_texts(self) -> None:
        if self.texts is not None:
            self.texts.close()
            self.texts = None

    def close(self) -> None:
        """Close the files when no thread uses them; the next use opens them again."""
        with self.lock:
            self._close_texts()
            if self._connection is not None:
                with suppress(sqlite3.Error):
                    self._connection.close()
                self._connection = None

    def remove(self) -> None:
        """Delete the index, but not the texts."""
        self.close()
        _remove(self.path)

    def _open(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with suppress(FileExistsError):  # with a mode that lets no other user read it
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        connection = sqlite3.connect(
            self.path,
            timeout=_WAIT_SECONDS,
            isolation_level=None,
            check_same_thread=False,  # `lock` ensures that one thread uses it at a time
        )
        try:
            if connection.execute("PRAGMA user_version").fetchone() != (FORMAT,):
                _create_tables(connection)
            connection.execute("PRAGMA synchronous = NORMAL")
        except BaseException:
            connection.close()
            raise
        return connection


def _create_tables(connection: sqlite3.Connection) -> None:
    """Create the tables, or replace those of another format, unless another process did so."""
    connection.execute("PRAGMA page_size = 8192")  # facts are larger than the usual page
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("BEGIN IMMEDIATE")
    if connection.execute("PRAGMA user_version").fetchone() != (FORMAT,):
        names = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite~_%'"
            " ESCAPE '~'"
        ).fetchall()
        for (name,) in names:
            connection.execute(f'DROP TABLE IF EXISTS "{name}"')
        for statement in _TABLES.split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {FORMAT}")
    connection.execute("COMMIT")
