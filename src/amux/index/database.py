"""The database file: opened, checked, and thrown away when it is damaged or of another make.

Nothing here is the truth. Whatever goes wrong is an `IndexUnavailableError`, for which everybody
above has the same answer: read the sources directly.

Threads take turns: who asks a question holds `turn` until its answer is complete. Connections, open
transactions and what is remembered of the tables are then one thread's at a time.
"""

from __future__ import annotations

import os
import sqlite3
from _thread import RLock  # all that is needed of `threading`, which takes longer to load
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from amux.index.errors import IndexDecodeError, IndexUnavailableError

TYPE_CHECKING = False  # `typing` would be a tenth of a quick list
if TYPE_CHECKING:
    from typing import Final

    from amux.index.text.update import TextDatabase

FORMAT: Final = 8
"""Raised whenever a table or what is kept in it changes: one of another format is made anew."""

_WAIT_SECONDS: Final = 5.0
_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR})
_TABLES: Final = """
CREATE TABLE source (
  id INTEGER PRIMARY KEY,
  agent TEXT NOT NULL,
  path BLOB NOT NULL,
  size INTEGER NOT NULL,
  stamp BLOB NOT NULL,
  digest BLOB NOT NULL,
  maker TEXT NOT NULL,
  depth INTEGER NOT NULL,
  own BLOB NOT NULL,
  named BLOB NOT NULL,
  content BLOB NOT NULL,
  noted BLOB NOT NULL,
  offset INTEGER NOT NULL,
  UNIQUE (agent, path)
);
CREATE TABLE reading (
  id INTEGER PRIMARY KEY, -- of its source
  facts BLOB NOT NULL,
  lines BLOB NOT NULL,
  edge BLOB NOT NULL,
  state BLOB NOT NULL
);
CREATE TABLE made (
  agent TEXT NOT NULL,
  kind TEXT NOT NULL,
  cluster INTEGER NOT NULL,
  basis BLOB NOT NULL,
  members BLOB NOT NULL,
  payload BLOB NOT NULL,
  PRIMARY KEY (agent, kind, cluster)
) WITHOUT ROWID;
CREATE INDEX made_problems ON made (agent) WHERE kind = 'sessions' AND payload != x'';
CREATE TABLE answer (
  agent TEXT NOT NULL,
  kind TEXT NOT NULL,
  basis BLOB NOT NULL,
  snapshot BLOB NOT NULL,
  places BLOB NOT NULL,
  PRIMARY KEY (agent, kind)
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
  tie BLOB NOT NULL,
  names TEXT NOT NULL,
  created INTEGER NOT NULL,
  updated INTEGER NOT NULL,
  turns INTEGER NOT NULL,
  usd REAL NOT NULL,
  is_least INTEGER NOT NULL,
  hidden INTEGER NOT NULL,
  kind TEXT NOT NULL,
  cwd TEXT,
  model TEXT,
  models TEXT NOT NULL,
  title TEXT NOT NULL,
  version TEXT,
  keys BLOB NOT NULL,
  body BLOB NOT NULL,
  places BLOB NOT NULL
);
CREATE INDEX session_cluster ON session (agent, cluster);
CREATE INDEX session_created ON session (created);
CREATE INDEX session_kinds ON session (agent, hidden);
"""


def index_path(cache: Path, home: Path) -> Path:
    """The file of one home: homes that share a cache directory do not share an index."""
    from _blake2 import blake2b  # `hashlib` takes three times as long to load

    name = blake2b(os.fsencode(home), digest_size=6).hexdigest()
    return cache / f"index-{name}.db"


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)  # noqa: PTH202 - text, not a Path
    except OSError:
        return 0


def _remove(path: Path) -> None:
    """Delete a database and what SQLite keeps beside it."""
    for suffix in ("", "-wal", "-shm"):
        with suppress(OSError):
            Path(f"{path}{suffix}").unlink()


class IndexDatabase:
    """One open database. Made when first used; closed with `close`, by any thread."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock = RLock()  # held for a whole question; whoever has it may ask another within it
        self._openings = 0
        self._connection: sqlite3.Connection | None = None
        self._texts: TextDatabase | None = None

    @property
    def connection(self) -> sqlite3.Connection:
        """The open database; use it inside `guarded` only."""
        if self._connection is None:
            self._connection = self._open()
            self._openings += 1
        return self._connection

    def exists(self) -> bool:
        """Whether anything was kept so far; behind a closed door nothing was."""
        try:
            return self.path.exists()
        except OSError:
            return False

    @contextmanager
    def guarded(self) -> Generator[sqlite3.Connection]:
        """The database; what goes wrong with it is an `IndexUnavailableError`."""
        try:
            yield self.connection
        except (sqlite3.Error, OSError, IndexDecodeError) as error:
            self._give_up(error)
            raise IndexUnavailableError(str(error)) from error

    @contextmanager
    def reading(self) -> Generator[sqlite3.Connection]:
        """One state of the database, whatever other processes write meanwhile."""
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
        """One transaction: all of it or nothing; other processes go on reading.

        Inside another one it is a part of that.
        """
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
        """Changes whenever anything is written, by this process or another."""
        connection, foreign = self.foreign_changes()
        return connection, foreign, self.connection.total_changes

    def foreign_changes(self) -> tuple[int, int]:
        """Changes whenever anything is written by another process."""
        with self.guarded() as connection:
            (foreign,) = connection.execute("PRAGMA data_version").fetchone()
            return self._openings, foreign

    @property
    def has_grown(self) -> bool:
        """Whether this process has written anything, into the texts or beside them."""
        own = 0 if self._connection is None else self._connection.total_changes
        return own > 0 or (self._texts is not None and self._texts.has_grown)

    def sizes(self) -> tuple[int, int]:
        """Bytes of the index and of the texts, with what SQLite keeps beside them."""
        own, texts = (
            sum(size for suffix in ("", "-wal") if (size := _size(f"{path}{suffix}")))
            for path in (self.path, self._text_path)
        )
        return own, texts

    def texts(self) -> TextDatabase:
        """The texts, in a file of their own beside this one."""
        if self._texts is None:
            from amux.index.text.update import TextDatabase

            self._texts = TextDatabase(self._text_path)
        return self._texts

    def has_texts(self) -> bool:
        """Whether anybody has searched so far: `texts` would make the file."""
        return self._text_path.exists()

    def text_version(self) -> tuple[int, ...]:
        """Changes whenever anything is written into the texts; nothing while nobody uses them."""
        return () if self._texts is None else (id(self._texts), *self._texts.version())

    def remove_texts(self) -> None:
        """Throw the texts away; they are read again when somebody searches."""
        self._close_texts()
        _remove(self._text_path)

    @property
    def _text_path(self) -> Path:
        return self.path.with_name(self.path.name.replace("index-", "texts-"))

    def _close_texts(self) -> None:
        if self._texts is not None:
            self._texts.close()
            self._texts = None

    def close(self) -> None:
        """Free the file handles; waits until nobody asks. They are opened again when needed."""
        with self.lock:
            self._close_texts()
            if self._connection is not None:
                with suppress(sqlite3.Error):
                    self._connection.close()
                self._connection = None

    def remove(self) -> None:
        """Throw everything away."""
        self.close()
        _remove(self.path)

    def _open(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with suppress(FileExistsError):  # created by us, so that nobody else can read it
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        connection = sqlite3.connect(
            self.path,
            timeout=_WAIT_SECONDS,
            isolation_level=None,
            check_same_thread=False,  # `turn` sees to that
        )
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        (found,) = connection.execute("PRAGMA user_version").fetchone()
        if found != FORMAT:
            self._make(connection)
        connection.execute("PRAGMA synchronous = NORMAL")

    def _make(self, connection: sqlite3.Connection) -> None:
        """Create the tables, or replace those of another format; one process does it."""
        connection.execute("PRAGMA page_size = 8192")  # facts are larger than the usual page
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN IMMEDIATE")
        (found,) = connection.execute("PRAGMA user_version").fetchone()
        if found != FORMAT:
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

    def _give_up(self, error: Exception) -> None:
        """Close; a file that is damaged, rather than in use, is of no use any more."""
        code = getattr(error, "sqlite_errorcode", None)
        self.close()
        is_damaged = code is not None and code & 0xFF in _DAMAGED
        if is_damaged or isinstance(error, IndexDecodeError):
            self.remove()
