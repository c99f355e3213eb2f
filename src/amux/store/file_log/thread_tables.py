"""The tables of the thread index: a session database with four tables beside its own.

`threads` has one row per rollout with its summary and the state of its file, `thread_records` tells
which threads hold a record, and `thread_problems` lists doubled titles and keys. Messages are rows
of the session database. `thread_texts` has the folded texts of those that its full-text tables fold
otherwise than a search.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeVar

import msgspec

from amux.errors import StoreError
from amux.model.message import SessionMessage
from amux.model.problems import Problem
from amux.rollout.log import SearchQuery
from amux.rollout.records import Record
from amux.rollout.search_text import parse_search
from amux.rollout.threads import ThreadFilter, ThreadSummary
from amux.store.file_log.thread_search import folded_text, search_messages
from amux.store.session_db import fulltext, messages, sessions
from amux.store.session_db.database import SessionDB
from amux.store.session_db.fulltext import Fulltext

T = TypeVar("T")
_Unique = Literal["title", "key"]

FORMAT: Final = "5"
"""The version of the tables. With another one they are made anew."""

_META_KEY: Final = "amux_thread_index"
_TABLES: Final = (
    """CREATE TABLE IF NOT EXISTS threads (
        thread_id TEXT PRIMARY KEY, archived INTEGER, namespace TEXT, key TEXT, cwd TEXT,
        model TEXT, source TEXT, agent TEXT, user_id TEXT, parent TEXT, forked_from TEXT, kind TEXT,
        ended INTEGER, title TEXT, last_active REAL, created REAL, tags TEXT, label TEXT,
        summary BLOB, copied INTEGER NOT NULL DEFAULT 0, path TEXT NOT NULL, size INTEGER NOT NULL,
        mtime INTEGER NOT NULL, inode INTEGER NOT NULL, offset INTEGER NOT NULL, edge BLOB NOT NULL
    )""",
    """CREATE INDEX IF NOT EXISTS idx_threads_active
        ON threads(archived, last_active DESC, thread_id DESC)""",
    "CREATE INDEX IF NOT EXISTS idx_threads_key ON threads(namespace, key)",
    "CREATE INDEX IF NOT EXISTS idx_threads_parent ON threads(parent)",
    "CREATE INDEX IF NOT EXISTS idx_threads_forked_from ON threads(forked_from)",
    "CREATE INDEX IF NOT EXISTS idx_threads_title ON threads(title)",
    """CREATE TABLE IF NOT EXISTS thread_records (
        record_id TEXT NOT NULL, thread_id TEXT NOT NULL, seq INTEGER NOT NULL, message_id INTEGER,
        PRIMARY KEY (record_id, thread_id)
    ) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS idx_thread_records_thread ON thread_records(thread_id)",
    "CREATE INDEX IF NOT EXISTS idx_thread_records_message ON thread_records(message_id)",
    """CREATE TABLE IF NOT EXISTS thread_problems (
        thread_id TEXT NOT NULL, message TEXT NOT NULL, PRIMARY KEY (thread_id, message)
    )""",
    """CREATE TABLE IF NOT EXISTS thread_texts (
        message_id INTEGER PRIMARY KEY, folded TEXT NOT NULL
    )""",
)
_OWN: Final = ("threads", "thread_records", "thread_problems", "thread_texts")
_COLUMNS: Final = (
    "thread_id", "archived", "namespace", "key", "cwd", "model", "source", "agent", "user_id",
    "parent", "forked_from", "kind", "ended", "title", "last_active", "created", "tags", "label",
    "summary", "copied", "path", "size", "mtime", "inode", "offset", "edge",
)  # fmt: skip
_SAVE: Final = (
    f"INSERT OR REPLACE INTO threads({', '.join(_COLUMNS)}) "  # noqa: S608 - constants
    f"VALUES ({', '.join('?' * len(_COLUMNS))})"
)
_EXACT: Final = (
    "archived", "namespace", "cwd", "model", "source", "agent", "user_id", "parent", "title",
    "kind", "ended",
)  # fmt: skip
_ORDERS: Final = {
    "last_active": "last_active DESC, thread_id DESC",
    "created": "created DESC, thread_id DESC",
    "title": "label, thread_id",
}
_SUMMARY: Final = msgspec.json.Decoder(ThreadSummary)


class FileState(NamedTuple):
    """The state of a file when it was read; `edge` identifies what stands before `offset`."""

    path: str
    size: int
    mtime: int
    inode: int
    offset: int = 0
    edge: bytes = b""

    def is_of(self, other: FileState) -> bool:
        """Return whether nothing but the position differs."""
        return self[:4] == other[:4]


class IndexedRecord(NamedTuple):
    """A record for the index: its message, if it has one, and whether a search finds it."""

    record: Record
    message: SessionMessage | None
    is_active: bool


class _Database(SessionDB):
    """A session database whose connection the tables of the index share."""

    def read(self, question: Callable[[sqlite3.Connection], T]) -> T:
        return self._read(question)

    def read_fulltext(self, question: Callable[[sqlite3.Connection, Fulltext], T]) -> T:
        return self._file.read_fulltext(question)

    def write(self, change: Callable[[sqlite3.Connection], T]) -> T:
        return self._write(change)


class ThreadTables:
    """The open index database."""

    def __init__(self, path: Path) -> None:
        self._database = _Database(path)
        try:
            self._prepare()
        except BaseException:
            self._database.close()
            raise

    def _prepare(self) -> None:
        if self._database.get_meta(_META_KEY) == FORMAT:
            return

        def create(connection: sqlite3.Connection) -> None:
            for table in _OWN:
                connection.execute(f"DROP TABLE IF EXISTS {table}")
            for statement in _TABLES:
                connection.execute(statement)
            connection.execute("DELETE FROM messages")
            connection.execute("UPDATE sessions SET parent_session_id = NULL")
            connection.execute("DELETE FROM sessions")
            sessions.set_meta(connection, _META_KEY, FORMAT)

        self._database.write(create)

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def optimize(self) -> tuple[int, int]:
        """Merge the full-text tables and give unused space back; return the sizes in bytes."""
        before = self._bytes()
        self._database.vacuum()
        return before, self._bytes()

    def _bytes(self) -> int:
        pages = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
        return int(self._one(pages)[0])

    def transaction(self) -> Any:
        """Return a context manager that groups changes."""
        return self._database.transaction()

    def is_intact(self) -> bool:
        """Return whether the database can be read completely."""
        try:
            result = self._database.read(lambda c: c.execute("PRAGMA quick_check(1)").fetchone()[0])
        except StoreError:
            return False
        return bool(result == "ok")

    # files

    def file_states(self) -> dict[str, FileState]:
        """Return the states of all files when they were read."""
        query = "SELECT thread_id, path, size, mtime, inode, offset, edge FROM threads"
        rows = self._database.read(lambda c: c.execute(query).fetchall())
        return {row[0]: FileState(*row[1:]) for row in rows}

    def file_state(self, thread_id: str) -> FileState | None:
        """Return the state of a thread's file when it was read; None if it was not."""
        query = "SELECT path, size, mtime, inode, offset, edge FROM threads WHERE thread_id = ?"
        row = self._one(query, thread_id)
        return None if row is None else FileState(*row)

    def clear(self) -> None:
        """Remove everything. The full-text tables are made anew: emptying them takes long."""

        def clear(connection: sqlite3.Connection) -> None:
            for table in fulltext.TABLES:
                fulltext.drop(connection, table)
            for name in (*_OWN, "messages"):
                connection.execute(f"DELETE FROM {name}")  # noqa: S608 - constants
            connection.execute("UPDATE sessions SET parent_session_id = NULL")
            connection.execute("DELETE FROM sessions")
            for table in fulltext.TABLES:
                fulltext.create(connection, table)

        self._database.write(clear)

    # threads

    def summary(self, thread_id: str) -> ThreadSummary | None:
        """Return the summary of a thread; None if it is unknown or unreadable."""
        row = self._one("SELECT summary FROM threads WHERE thread_id = ?", thread_id)
        return None if row is None or row[0] is None else _SUMMARY.decode(row[0])

    def copied(self, thread_id: str) -> int:
        """Return how many records of a thread are copies from its origin."""
        row = self._one("SELECT copied FROM threads WHERE thread_id = ?", thread_id)
        return 0 if row is None else int(row[0])

    def count(self) -> int:
        """Return the number of threads."""
        return int(self._one("SELECT COUNT(*) FROM threads WHERE summary IS NOT NULL")[0])

    def message_count(self) -> int:
        """Return the number of messages."""
        return self._database.message_count()

    def holder_of(self, title: str) -> str | None:
        """Return the thread that has a title."""
        row = self._one("SELECT thread_id FROM threads WHERE title = ?", title)
        return None if row is None else str(row[0])

    def select(self, selection: ThreadFilter) -> list[ThreadSummary]:
        """Return the selected threads in order."""
        conditions, values = ["summary IS NOT NULL"], list[object]()
        for name in _EXACT:
            wanted = getattr(selection, name)
            if wanted is not None:
                conditions.append(f"{name} = ?")
                values.append(int(wanted) if isinstance(wanted, bool) else wanted)
        if selection.since is not None:
            conditions.append("last_active >= ?")
            values.append(selection.since.timestamp())
        if selection.until is not None:
            conditions.append("last_active < ?")
            values.append(selection.until.timestamp())
        if selection.key_prefix is not None:
            conditions.append("key IS NOT NULL AND substr(key, 1, ?) = ?")
            prefix = _key_prefix(selection.key_prefix)
            values += [len(prefix), prefix]
        if selection.tag is not None:
            conditions.append("instr(tags, ?)")
            values.append(f"\n{selection.tag}\n")
        if selection.worktree is not None:
            conditions.append("substr(cwd || '/', 1, ?) = ?")
            values += [len(selection.worktree_prefix), selection.worktree_prefix]
        if selection.related_to is not None:
            conditions.append("(parent = ? OR forked_from = ?)")
            values += [selection.related_to] * 2
        if selection.title_base is not None:
            conditions.append("substr(title, 1, ?) = ?")
            values += [len(selection.title_base), selection.title_base]
        query = (
            f"SELECT summary FROM threads WHERE {' AND '.join(conditions)} "  # noqa: S608 - constants
            f"ORDER BY {_ORDERS[selection.order]} LIMIT ? OFFSET ?"
        )
        values += [-1 if selection.limit is None else selection.limit, selection.offset]
        rows = self._database.read(lambda c: c.execute(query, values).fetchall())
        return [_SUMMARY.decode(row[0]) for row in rows]

    def save(self, thread: ThreadSummary, state: FileState, *, copied: int | None = None) -> None:
        """Store the summary of a thread. The older holder of a title or key keeps it."""
        if copied is None:
            copied = self.copied(thread.thread_id)
        thread = self._without_doubles(thread)
        self._database.write(lambda c: _save(c, thread, state, copied or 0))

    def save_unreadable(self, thread_id: str, state: FileState) -> None:
        """Note the state of a file that is not a thread, so that it is not read again."""
        values: dict[str, Any] = {"thread_id": thread_id, **state._asdict(), "copied": 0}
        self._database.write(
            lambda c: c.execute(_SAVE, tuple(values.get(name) for name in _COLUMNS))
        )
        self._note(thread_id, "the first line is not the meta data of a thread")

    def _without_doubles(self, thread: ThreadSummary) -> ThreadSummary:
        self._database.write(
            lambda c: c.execute(
                "DELETE FROM thread_problems WHERE thread_id = ?", (thread.thread_id,)
            )
        )
        if thread.title is not None:
            holder = self._one(
                "SELECT thread_id, path FROM threads WHERE thread_id <> ? AND title = ?",
                thread.thread_id,
                thread.title,
            )
            thread = self._settle(thread, holder, "title")
        if thread.key is not None:
            holder = self._one(
                "SELECT thread_id, path FROM threads "
                "WHERE thread_id <> ? AND namespace = ? AND key = ?",
                thread.thread_id,
                thread.namespace,
                _key_text(thread.key),
            )
            thread = self._settle(thread, holder, "key")
        return thread

    def _settle(
        self, thread: ThreadSummary, holder: tuple[Any, ...] | None, field: _Unique
    ) -> ThreadSummary:
        """Take a title or key from the younger of two threads; return the first as it is then.

        A holder whose file is gone was deleted, or moved and is found again: it holds nothing.
        """
        if holder is not None and not os.path.lexists(holder[1]):
            self.remove(holder[0])
            return thread
        other = None if holder is None else self.summary(holder[0])
        if other is None:
            return thread
        if (other.created_at, other.thread_id) < (thread.created_at, thread.thread_id):
            return self._taken_from(thread, field)
        changed = self._taken_from(other, field)
        self._database.write(lambda c: _replace_summary(c, changed))
        return thread

    def _taken_from(self, thread: ThreadSummary, field: _Unique) -> ThreadSummary:
        """Return a thread without its title or key, which an older one has, and note that."""
        held = (
            f"the title `{thread.title}`"
            if field == "title"
            else f"the key {list(thread.key or ())}"
        )
        self._note(thread.thread_id, f"an older thread has {held}")
        without: dict[str, Any] = {field: None}
        return msgspec.structs.replace(thread, **without)

    def _note(self, thread_id: str, message: str) -> None:
        self._database.write(
            lambda c: c.execute(
                "INSERT OR IGNORE INTO thread_problems VALUES (?, ?)", (thread_id, message)
            )
        )

    def problems(self) -> tuple[Problem, ...]:
        """Return what was wrong with threads when they were read."""
        query = (
            "SELECT p.message, t.path FROM thread_problems p JOIN threads t USING (thread_id) "
            "ORDER BY t.path"
        )
        rows = self._database.read(lambda c: c.execute(query).fetchall())
        return tuple(Problem(code="bad-record", message=row[0], path=row[1]) for row in rows)

    def remove(self, thread_id: str) -> None:
        """Remove a thread whose file is gone."""
        self.remove_records(thread_id)

        def remove(connection: sqlite3.Connection) -> None:
            for table in ("threads", "thread_problems"):
                connection.execute(f"DELETE FROM {table} WHERE thread_id = ?", (thread_id,))  # noqa: S608
            connection.execute(
                "UPDATE sessions SET parent_session_id = NULL WHERE parent_session_id = ?",
                (thread_id,),
            )
            connection.execute("DELETE FROM sessions WHERE id = ?", (thread_id,))

        self._database.write(remove)

    # records

    def has_record(self, thread_id: str, record_id: str) -> bool:
        """Return whether a thread has a record with an id."""
        query = "SELECT 1 FROM thread_records WHERE record_id = ? AND thread_id = ?"
        return self._one(query, record_id, thread_id) is not None

    def locate(self, record_id: str) -> list[tuple[str, int]]:
        """Return the threads that hold a record, with its sequence number in each."""
        query = "SELECT thread_id, seq FROM thread_records WHERE record_id = ? ORDER BY thread_id"
        rows = self._database.read(lambda c: c.execute(query, (record_id,)).fetchall())
        return [(row[0], row[1]) for row in rows]

    def add_records(self, thread_id: str, records: Iterable[IndexedRecord]) -> None:
        """Add records of a thread; the session's row must exist."""
        items = list(records)
        found = [(each, message) for each in items if (message := each.message)]
        rows = [_message_row(each, message) for each, message in found]
        texts = [folded_text(message) for _, message in found]

        def add(connection: sqlite3.Connection) -> None:
            ids: Iterator[int] = iter(())
            if rows:
                new = list(messages.insert(connection, thread_id, rows, 0.0, is_exported=True))
                ids = iter(new)
                folded = [each for each in zip(new, texts, strict=True) if each[1] is not None]
                connection.executemany("INSERT INTO thread_texts VALUES (?, ?)", folded)
            connection.executemany(
                "INSERT OR REPLACE INTO thread_records VALUES (?, ?, ?, ?)",
                [
                    (
                        each.record.id,
                        thread_id,
                        each.record.seq,
                        next(ids) if each.message else None,
                    )
                    for each in items
                ],
            )

        self._database.write(add)

    def remove_records(self, thread_id: str) -> None:
        """Remove the records and messages of a thread."""

        def remove(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM thread_records WHERE thread_id = ?", (thread_id,))
            connection.execute(
                "DELETE FROM thread_texts WHERE message_id IN "
                "(SELECT id FROM messages WHERE session_id = ?)",
                (thread_id,),
            )
            connection.execute("DELETE FROM messages WHERE session_id = ?", (thread_id,))

        self._database.write(remove)

    def search(self, query: SearchQuery) -> list[dict[str, Any]]:
        """Return the rows of messages that match, with the ids of their records."""
        alternatives = parse_search(query.text)
        if not alternatives:
            return []
        return self._database.read_fulltext(
            lambda connection, usable: search_messages(connection, usable, alternatives, query)
        )

    def _one(self, query: str, *values: object) -> Any:
        return self._database.read(lambda c: c.execute(query, values).fetchone())


def _message_row(indexed: IndexedRecord, message: SessionMessage) -> dict[str, Any]:
    """Return a message as the session database stores it."""
    result = message.tool_result
    calls = [
        {"id": call.tool_call_id, "name": call.tool_name, "arguments": call.input}
        for call in message.tool_calls
    ]
    return {
        "role": message.role,
        "content": message.content,
        "tool_name": None if result is None else result.tool_name or None,
        "tool_call_id": None if result is None else result.tool_call_id or None,
        "tool_calls": calls or None,
        "timestamp": indexed.record.at.timestamp(),
        "active": int(indexed.is_active),
        "reasoning": message.thinking,
    }


def _save(
    connection: sqlite3.Connection, thread: ThreadSummary, state: FileState, copied: int
) -> None:
    values: dict[str, Any] = {
        **{name: getattr(thread, name) for name in _EXACT if name != "ended"},
        **state._asdict(),
        "thread_id": thread.thread_id,
        "archived": int(thread.archived),
        "key": _key_text(thread.key),
        "forked_from": thread.forked_from,
        "ended": int(thread.ended_at is not None),
        "last_active": thread.last_active.timestamp(),
        "created": thread.created_at.timestamp(),
        "tags": "".join(f"\n{tag}\n" for tag in thread.tags),
        "label": thread.label.casefold(),
        "summary": msgspec.json.encode(thread),
        "copied": copied,
    }
    connection.execute(_SAVE, tuple(values[name] for name in _COLUMNS))
    sessions.create(
        connection,
        thread.thread_id,
        thread.source or "cli",
        started_at=thread.created_at.timestamp(),
        metadata={"model": thread.model, "user_id": thread.user_id, "cwd": thread.cwd},
    )
    connection.execute(
        "UPDATE sessions SET title = ?, model = ?, ended_at = ?, end_reason = ?, archived = ?, "
        "input_tokens = ?, output_tokens = ?, cache_read_tokens = ?, cache_write_tokens = ?, "
        "message_count = 0, tool_call_count = 0, "
        "parent_session_id = (SELECT id FROM sessions WHERE id = ?) WHERE id = ?",
        (
            thread.title,
            thread.model,
            None if thread.ended_at is None else thread.ended_at.timestamp(),
            thread.end_reason,
            int(thread.archived),
            thread.input_tokens,
            thread.output_tokens,
            thread.cache_read_tokens,
            thread.cache_write_tokens,
            thread.parent or thread.forked_from,
            thread.thread_id,
        ),
    )


def _replace_summary(connection: sqlite3.Connection, thread: ThreadSummary) -> None:
    """Store a thread that lost its title or key; its records and its file are the same."""
    connection.execute(
        "UPDATE threads SET title = ?, key = ?, label = ?, summary = ? WHERE thread_id = ?",
        (
            thread.title,
            _key_text(thread.key),
            thread.label.casefold(),
            msgspec.json.encode(thread),
            thread.thread_id,
        ),
    )
    connection.execute(
        "UPDATE sessions SET title = ? WHERE id = ?", (thread.title, thread.thread_id)
    )


def _key_text(key: tuple[str, ...] | None) -> str | None:
    """Return a key as text in which the parts of a prefix are a prefix."""
    return None if key is None else _key_prefix(key)


def _key_prefix(key: tuple[str, ...]) -> str:
    return "".join(f"{len(part)}:{part}" for part in key)
