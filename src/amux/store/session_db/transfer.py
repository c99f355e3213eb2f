"""Export of sessions as plain dicts, and import of such exports.

An export holds the columns of a session and, under `messages`, its messages in order. An import
gives the messages new ids; everything else comes back as it was, except that a parent that is not
there is dropped and that a title that is taken gets the next number of its lineage.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Final, cast

from amux.errors import AmuxError, ValidationError
from amux.store.session_db import lineage, listing, messages, schema, sessions, titles
from amux.store.session_db.rows import Row, encode_text

MOST_SESSIONS: Final = 10_000
"""The most sessions of one import."""

MOST_MESSAGES: Final = 100_000
"""The most messages of one imported session."""

MOST_CHARACTERS: Final = 64 * 1024 * 1024
"""The most characters of text in one imported session."""

_ALL: Final = -1
_LARGEST_NUMBER: Final = 2**63
_RECOUNTED: Final = frozenset(
    {"id", "message_count", "tool_call_count", "parent_session_id", "title"}
)
_NUMBERS: Final = ("REAL", "INTEGER")


def export_session(
    connection: sqlite3.Connection, session_id: str, *, include_inactive: bool = False
) -> Row | None:
    """Return a session with its messages; None if it does not exist."""
    row = sessions.get(connection, session_id)
    return None if row is None else _with_messages(connection, row, include_inactive)


def export_all(
    connection: sqlite3.Connection, source: str | None, *, include_inactive: bool = False
) -> list[Row]:
    """Return all sessions with their messages, the latest activity first."""
    rows = listing.by_activity(connection, source, _ALL, 0)
    return [_with_messages(connection, row, include_inactive) for row in rows]


def export_lineage(connection: sqlite3.Connection, session_id: str) -> Row | None:
    """Return a chain of continuations as one session: its tip, with the messages of all.

    `segments` holds the exports of the single sessions.
    """
    chain = lineage.compression_lineage(connection, session_id)
    if not chain:
        return None
    parts = [export_session(connection, each) or {} for each in chain]
    found = [message for part in parts for message in part["messages"]]
    return {
        **parts[-1],
        "message_count": len(found),
        "messages": found,
        "segments": parts,
        "lineage_session_ids": chain,
    }


class Import:
    """An import in progress: which sessions were taken, skipped and refused, and why."""

    def __init__(self, connection: sqlite3.Connection, now: float) -> None:
        self._connection = connection
        self._now = now
        self._parents: dict[str, str] = {}
        self._imported: list[str] = []
        self._skipped: list[str] = []
        self._errors: list[Row] = []

    def add(self, number: int, session: object) -> None:
        """Import one session, or note why it cannot be imported."""
        self._connection.execute("SAVEPOINT imported")
        try:
            self._take(session)
        except AmuxError as error:
            self._connection.execute("ROLLBACK TO imported")
            self._errors.append({"index": number, "error": error.message})
        self._connection.execute("RELEASE imported")

    def finish(self) -> Row:
        """Connect the imported sessions with their parents. Return the report."""
        detached = sum(not self._connect(child, parent) for child, parent in self._parents.items())
        return {
            "ok": not self._errors,
            "imported": len(self._imported),
            "skipped": len(self._skipped),
            "detached": detached,
            "imported_ids": self._imported,
            "skipped_ids": self._skipped,
            "errors": self._errors,
        }

    def _take(self, session: object) -> None:
        if not isinstance(session, dict):
            raise ValidationError("a session must be an object")
        session = cast("Row", session)
        session_id = session.get("id")
        if not isinstance(session_id, str) or not session_id:
            raise ValidationError("a session needs an `id`")
        if sessions.get(self._connection, session_id) is not None:
            self._skipped.append(session_id)
            return
        content = _checked_messages(session.get("messages", []))
        self._insert(session_id, session)
        messages.insert(self._connection, session_id, content, self._now, is_exported=True)
        parent = session.get("parent_session_id")
        if isinstance(parent, str):
            self._parents[session_id] = parent
        self._imported.append(session_id)

    def _insert(self, session_id: str, session: Row) -> None:
        columns = [each for each in schema.SESSIONS.columns if each.name not in _RECOUNTED]
        values = {
            each.name: _value(each, session[each.name]) for each in columns if each.name in session
        }
        values |= {"id": session_id, "title": self._free_title(session.get("title"))}
        values.setdefault("source", "unknown")
        if values.get("started_at") is None:
            values["started_at"] = self._now
        self._connection.execute(
            f"INSERT INTO sessions({', '.join(values)}) VALUES ({', '.join('?' * len(values))})",
            tuple(values.values()),
        )

    def _free_title(self, title: object) -> str | None:
        text = titles.sanitize(title if isinstance(title, str) else None)
        if text is None or titles.holder(self._connection, text) is None:
            return text
        return titles.next_in_lineage(self._connection, text)

    def _connect(self, child: str, parent: str) -> bool:
        if sessions.get(self._connection, parent) is None:
            return False
        return sessions.set_value(self._connection, child, "parent_session_id", parent)


def import_sessions(connection: sqlite3.Connection, exported: Iterable[object], now: float) -> Row:
    """Import sessions and return a report. Sessions that exist are skipped.

    A session that cannot be imported is in `errors`, with its position and the reason; it does not
    keep the others from being imported.
    """
    work = Import(connection, now)
    for number, session in enumerate(exported):
        if number == MOST_SESSIONS:
            raise ValidationError(f"an import has at most {MOST_SESSIONS} sessions")
        work.add(number, session)
    return work.finish()


def _with_messages(connection: sqlite3.Connection, row: Row, include_inactive: bool) -> Row:  # noqa: FBT001 - private
    found = messages.select(connection, row["id"], include_inactive=include_inactive)
    return {**row, "messages": found}


def _checked_messages(value: object) -> list[Row]:
    items = cast("list[object]", value) if isinstance(value, list) else [None]
    if not all(isinstance(each, dict) for each in items):
        raise ValidationError("`messages` must be a list of objects")
    found = cast("list[Row]", items)
    if len(found) > MOST_MESSAGES:
        raise ValidationError(f"the session has more than {MOST_MESSAGES} messages")
    if sum(_length(each) for each in found) > MOST_CHARACTERS:
        raise ValidationError(f"the session has more than {MOST_CHARACTERS} characters")
    return found


def _length(message: Row) -> int:
    return sum(len(each) if isinstance(each, str) else len(str(each)) for each in message.values())


def _value(column: schema.TableColumn, value: object) -> object:
    """Return a value for a column of a session; a value of another type is an error."""
    if column.name == "model_config":
        return sessions.encode_model_config(value)
    if value is None:
        return None if "NOT NULL" not in column.declaration else 0
    is_number = column.declaration.startswith(_NUMBERS)
    if is_number and isinstance(value, int | float) and abs(value) < _LARGEST_NUMBER:
        return value
    if is_number or not isinstance(value, str):
        raise ValidationError(f"`{column.name}` has a value of another type", fields=(column.name,))
    return encode_text(value)
