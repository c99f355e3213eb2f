"""What OpenCode's tables say of every session, for lists.

The row says when a session began and where. It does not say all: a session with a parent is a
sub-agent or a fork, and forks repeat calls of sessions they do not name. Both show in the messages,
by their ids and times, so these are looked through; the parts, which are nearly all of a database,
are not. Sessions that have an answer of the same moment may share a call: these are read. When a
session last changed is not told either: messages may be younger than the row.

Which of OpenCode's sessions bear on each other.

A parent is named. Of whom a fork is, it does not say: its messages are copies, from the first one
on, which keep their times. So sessions with an answer of the same moment are read together. In a
database that takes a look at all messages, but not at their parts, which are nearly all of it. In
files it takes the messages up to the first answer, since copies begin with the first message; what
an upgrade has taken over into a database is told there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from amux.adapters._kit.asking import micros
from amux.adapters._kit.kin import Mark, Marked, askable
from amux.adapters._kit.spec_tables import has_spec_tables
from amux.adapters._kit.tables import columns
from amux.adapters._kit.values import decode, text, to_millis
from amux.adapters.opencode.database import MESSAGE_NEEDS, read_records
from amux.adapters.opencode.records import MESSAGE, MessageRecord, SessionRecord, StoredMessage

if TYPE_CHECKING:
    import sqlite3

_CELLS: Final = {
    "parent_id": "amux_text(parent_id)",
    "directory": "amux_text(directory)",
    "time_created": "amux_moment(time_created)",
    "time_archived": "amux_moment(time_archived)",
    "title": "amux_is_fork(title)",
}
_ABSENT: Final = {"title": "FALSE"}

_CANDIDATES: Final = """one AS MATERIALIZED (SELECT amux_id(id) AS id, {cells} FROM session),
head AS MATERIALIZED (
    SELECT amux_id(session_id) AS id, amux_head(id, CAST(data AS BLOB)) AS head FROM message),
answer AS (SELECT id, substr(head, 2) AS at FROM head WHERE length(head) > 1),
sharing AS (SELECT id FROM answer WHERE at IN (
    SELECT at FROM answer GROUP BY at HAVING count(DISTINCT id) > 1)),
copied AS (SELECT id FROM head WHERE substr(head, 1, 1) = '{copy}'),
candidates AS MATERIALIZED (
    SELECT id, iif(directory IS NULL OR id IN sharing, NULL, time_created) AS began,
        directory AS cwd, time_archived IS NOT NULL AS archived, parent_id AS parent,
        parent_id IS NOT NULL AND NOT title AND id NOT IN copied AS nested
    FROM one
    UNION ALL SELECT DISTINCT id, NULL, NULL, FALSE, NULL, FALSE FROM head
    WHERE id IS NULL OR id NOT IN (SELECT id FROM one WHERE id IS NOT NULL))"""
_COPY: Final = "="
_OWN: Final = "-"


def candidates_sql(connection: sqlite3.Connection) -> str | None:
    """The expressions that give `told`; None when there are not just the tables known here."""
    present = columns(connection, "session")
    messages = columns(connection, "message")
    if "id" not in present or not MESSAGE_NEEDS.issubset(messages) or has_spec_tables(connection):
        return None
    connection.create_function("amux_is_fork", 1, _is_fork, deterministic=True)
    connection.create_function("amux_head", 2, _message_head, deterministic=True)
    cells = (
        f"{cell if name in present else _ABSENT.get(name, 'NULL')} AS {name}"
        for name, cell in _CELLS.items()
    )
    return _CANDIDATES.format(cells=", ".join(cells), copy=_COPY)


def _is_fork(title: Any) -> bool:
    return SessionRecord(id="", title=text(title)).has_fork_title


def _message_head(id: Any, data: Any) -> str:
    """Whether a message is a copy, and of an answer when it was made."""
    record = decode(data or b"", MESSAGE)
    if record is None:
        return _OWN
    is_copy = StoredMessage(id=str(id), record=record).is_copy
    made = micros(record.created) if record.role == "assistant" else None
    return f"{_COPY if is_copy else _OWN}{'' if made is None else made}"


def sessions_in(connection: sqlite3.Connection) -> list[str] | None:
    """The ids of all sessions; None when there are not just the tables known here."""
    messages = columns(connection, "message")
    if "id" not in columns(connection, "session") or not MESSAGE_NEEDS.issubset(messages):
        return None
    if has_spec_tables(connection):
        return None
    found = [id for (id,) in connection.execute("SELECT id FROM session")]
    spoken = connection.execute("SELECT DISTINCT session_id FROM message")
    found += {id for (id,) in spoken}.difference(found)
    return askable(found)


def links_in(connection: sqlite3.Connection) -> Marked | None:
    """All sessions of a database with their parents and the moments of their answers."""
    ids = sessions_in(connection)
    if ids is None:
        return None
    marked: dict[str, list[Mark]] = {id: [] for id in ids}
    for session in read_records(connection).values():
        if session.parent is not None:
            marked[session.id].append(session.parent)
    statement = "SELECT session_id, id, CAST(data AS BLOB) FROM message"
    for session_id, id, data in connection.execute(statement):
        record = decode(data or b"", MESSAGE)
        if record is not None and record.role == "assistant":
            marked[session_id].append(answer_key(str(id), record))
    return marked


def answer_key(id: str, answer: MessageRecord) -> Mark:
    """What a copy of an answer has in common with it."""
    return id if answer.created is None else to_millis(answer.created)
