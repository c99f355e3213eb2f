"""OpenCode's sessions as far as their rows and the heads of their messages tell.

The row says when a session began and where. It does not say all: a session with a parent is a
sub-agent or a fork, and forks repeat calls of sessions they do not name. Both show in the messages,
by their ids and times, so these are looked through; the parts, which are nearly all of a database,
are not. Sessions that have an answer of the same moment may share a call: nothing is said of them.
When a session last changed is not told either: messages may be younger than the row.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from amux.adapters._base import Outline
from amux.adapters._kit.tables import can_choose, columns
from amux.adapters._kit.values import decode
from amux.adapters._opencode.database import MESSAGE_NEEDS, read_records
from amux.adapters._opencode.records import MESSAGE, SessionRecord, Stored

if TYPE_CHECKING:
    import sqlite3

_HEADS = "SELECT session_id, id, CAST(data AS BLOB) FROM message"


def outline_sessions(connection: sqlite3.Connection) -> list[Outline] | None:
    """All sessions; None when some cannot be told or asked for."""
    if not MESSAGE_NEEDS.issubset(columns(connection, "message")):
        return None
    records = read_records(connection)
    heads = _Heads(connection.execute(_HEADS))
    ids = dict.fromkeys([*records, *heads.sessions])
    if not all(isinstance(id, str) and can_choose(id) for id in ids):
        return None
    children: dict[str, list[str]] = {}
    for record in records.values():
        if record.parent is not None:
            children.setdefault(record.parent, []).append(record.id)
    return [_outline(id, records.get(id), heads, tuple(children.get(id, ()))) for id in ids]


class _Heads:
    """What the messages say of their sessions without their parts."""

    def __init__(self, rows: Iterable[tuple[Any, Any, bytes | None]]) -> None:
        self.sessions: dict[Any, None] = {}
        self.copies: set[Any] = set()  # sessions that hold messages of others
        self.sharing: set[Any] = set()  # sessions that may hold a call of each other
        first: dict[datetime, Any] = {}
        for session_id, id, data in rows:
            self.sessions.setdefault(session_id)
            record = decode(data or b"", MESSAGE)
            if record is None:
                continue
            if Stored(id=str(id), record=record).is_copy:
                self.copies.add(session_id)
            if record.role == "assistant" and record.created is not None:
                other = first.setdefault(record.created, session_id)
                if other != session_id:
                    self.sharing.update((other, session_id))


def _outline(
    id: str, record: SessionRecord | None, heads: _Heads, children: tuple[str, ...]
) -> Outline:
    if record is None or record.directory is None or id in heads.sharing:
        return Outline(session_id=id, needs=children)  # its messages tell the rest
    is_fork = id in heads.copies or record.is_marked_fork
    return Outline(
        session_id=id,
        created_at=record.created,
        cwd=record.directory,
        is_subagent=record.parent is not None and not is_fork,
        archived=record.archived,
        needs=children,
    )
