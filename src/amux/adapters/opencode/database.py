"""Reads the tables of OpenCode since 1.2: `session`, `message` and `part`, with JSON in `data`.

The `event` table holds a second copy of every message and is never read. A fixed number of
statements reads all sessions: messages and parts are sorted in the same order and merged.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import msgspec

from amux.adapters._base import Item
from amux.adapters._kit.tables import Row, SelectedIds, columns, rows
from amux.adapters._kit.values import decode, document
from amux.adapters.opencode.conversation import Conversation
from amux.adapters.opencode.records import MESSAGE, PART, SessionRecord, StoredMessage, session_of
from amux.model.facts import Facts
from amux.model.problems import Problem
from amux.model.usage import Call

if TYPE_CHECKING:
    import sqlite3

_SESSION_COLUMNS = (
    "id",
    "title",
    "directory",
    "parent_id",
    "version",
    "project_id",
    "revert",
    "agent",
    "time_created",
    "time_updated",
    "time_archived",
)
MESSAGE_NEEDS = {"id", "session_id", "data"}
_PART_NEEDS = {"id", "message_id", "data"}
_Session = tuple[list[Item], Facts]


def read_records(connection: sqlite3.Connection) -> dict[str, SessionRecord]:
    """Return all rows of the table `session`, by id."""
    present = columns(connection, "session")
    names = [name for name in _SESSION_COLUMNS if name in present]
    found = (_record(row) for row in rows(connection, "session", names))
    return {record.id: record for record in found if record.id}


class SessionTables:
    """Reads the tables once; with `only`, some sessions and their parents."""

    def __init__(
        self, connection: sqlite3.Connection, path: str, *, bodies: bool, only: SelectedIds | None
    ) -> None:
        self._connection = connection
        self._path = path
        self._bodies = bodies
        self._only = only
        self._records = read_records(connection)
        self._wanted: SelectedIds | None = None
        if only is not None:  # calls shared with the parent distinguish a fork from a sub-agent
            parents = (self._records[id].parent for id in only.ids if id in self._records)
            self._wanted = SelectedIds((*only.ids, *filter(None, parents)))

    def items(self) -> list[Item]:
        """Return the items of every requested session."""
        present = columns(self._connection, "message")
        if not MESSAGE_NEEDS.issubset(present):
            message = "table `message` lacks the column `id`, `session_id` or `data`"
            return [Problem(code="unknown-format", message=message, path=self._path)]
        return [
            item
            for items, facts in _with_forks(list(self._sessions(present)))
            if self._only is None or facts.session_id in self._only.ids
            for item in (*items, facts)
        ]

    def _sessions(self, present: Sequence[str]) -> Iterator[_Session]:
        rest = dict(self._records)
        for session_id, messages in self._conversations(present):
            record = rest.pop(session_id, None) or SessionRecord(id=session_id)
            yield Conversation(record, messages, bodies=self._bodies).read()
        for record in rest.values():
            if self._wanted is None or record.id in self._wanted.ids:
                yield Conversation(record, (), bodies=self._bodies).read()

    def _conversations(
        self, present: Sequence[str]
    ) -> Iterator[tuple[str, list[StoredMessage | Problem]]]:
        """Yield each session id that has messages, with its messages."""
        order = [f"m.{name}" for name in ("session_id", "time_created", "id") if name in present]
        parts = _Parts(self._part_rows(order))
        messages = self._select("m.session_id, m.id, CAST(m.data AS BLOB) FROM message m", order)
        for session_id, found in groupby(messages, key=itemgetter(0)):
            yield str(session_id), [self._stored(row, parts) for row in found]

    def _part_rows(self, order: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        if not _PART_NEEDS.issubset(columns(self._connection, "part")):
            return iter(())
        # CROSS makes messages the outer loop and parts the inner one, so that no sort is needed.
        joined = "message m CROSS JOIN part p ON p.message_id = m.id"
        return self._select(f"m.id, p.id, CAST(p.data AS BLOB) FROM {joined}", [*order, "p.id"])

    def _select(self, what: str, order: Sequence[str]) -> sqlite3.Cursor:
        wanted = self._wanted
        where = "" if wanted is None else f"WHERE m.session_id IN {wanted.sql}"
        return self._connection.execute(
            f"SELECT {what} {where} ORDER BY {', '.join(order)}",
            () if wanted is None else wanted.values,
        )

    def _stored(self, row: tuple[Any, ...], parts: _Parts) -> StoredMessage | Problem:
        _, message_id, data = row
        own_parts = parts.of(message_id)
        record = decode(data or b"", MESSAGE)
        if record is None:
            message = f"message `{message_id}` is not a JSON object"
            return Problem(code="bad-record", message=message, path=self._path)
        stored = StoredMessage(id=str(message_id), record=record)
        stored.check_role(data)
        for part_id, raw in own_parts:
            part = decode(raw or b"", PART)
            if part is not None:
                part.id = str(part_id)
                stored.add(part, raw)
        return stored


class _Parts:
    """Returns the parts of one message after the other; both are in the same order."""

    def __init__(self, found: Iterator[tuple[Any, ...]]) -> None:
        self._found = found
        self._next = next(found, None)

    def of(self, message_id: Any) -> list[tuple[Any, bytes | None]]:
        """Return the parts of the next message."""
        own: list[tuple[Any, bytes | None]] = []
        while self._next is not None and self._next[0] == message_id:
            own.append((self._next[1], self._next[2]))
            self._next = next(self._found, None)
        return own


def _record(row: Row) -> SessionRecord:
    """Convert a row to the form of a session's JSON file, and parse it."""
    return session_of(
        {
            "id": None if row["id"] is None else str(row["id"]),
            "title": row.get("title"),
            "directory": row.get("directory"),
            "parentID": row.get("parent_id"),
            "version": row.get("version"),
            "projectID": row.get("project_id"),
            "revert": document(row.get("revert")),
            "agent": row.get("agent"),
            "time": {
                "created": row.get("time_created"),
                "updated": row.get("time_updated"),
                "archived": row.get("time_archived"),
            },
        },
        "",
    )


def _with_forks(sessions: list[_Session]) -> list[_Session]:
    """Turn sub-agents that share calls with their parent into forks."""
    identity = {facts.session_id: set(array("q", facts.copy_keys)) for _, facts in sessions}
    return [
        _as_fork(items, facts)
        if facts.kind == "subagent"
        and facts.parent != facts.session_id
        and identity.get(facts.parent or "", set()) & identity[facts.session_id]
        else (items, facts)
        for items, facts in sessions
    ]


def _as_fork(items: list[Item], facts: Facts) -> _Session:
    calls = tuple(map(_own_call, facts.calls))
    renamed = [_own_call(item) if isinstance(item, Call) else item for item in items]
    return renamed, msgspec.structs.replace(facts, kind="fork", calls=calls)


def _own_call(call: Call) -> Call:
    """Return the call as one of the main conversation, not of a sub-agent."""
    purpose = "main" if call.purpose == "subagent" else call.purpose
    return msgspec.structs.replace(call, purpose=purpose)
