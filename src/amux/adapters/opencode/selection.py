"""Determines which sessions a list, or a request for one session, has to read.

The row of a session has its start, its directory and its parent. That is not sufficient: a session
with a parent is a sub-agent or a fork, and a fork repeats calls of a session it does not name. The
messages decide both, by their ids and times: copies begin with the first message and have the time
of the original. So all messages are examined, but not their parts, which are nearly all of the
database. Sessions with an answer of the same time may share a call and are read together. The time
of the last change is not known without reading, since messages may be newer than the row.

Of sessions in files, the messages up to the first answer are examined, unless an upgrade has
imported the session into a database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from amux.adapters._kit.related import LinkKey, LinkKeys, queryable_ids
from amux.adapters._kit.spec_tables import has_spec_tables
from amux.adapters._kit.sql_selection import micros
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
    """Return the SQL expressions of `candidates`; None if the tables are not as expected."""
    if not _has_expected_tables(connection):
        return None
    present = columns(connection, "session")
    connection.create_function("amux_is_fork", 1, _is_fork, deterministic=True)
    connection.create_function("amux_head", 2, _message_head, deterministic=True)
    cells = (
        f"{cell if name in present else _ABSENT.get(name, 'NULL')} AS {name}"
        for name, cell in _CELLS.items()
    )
    return _CANDIDATES.format(cells=", ".join(cells), copy=_COPY)


def _has_expected_tables(connection: sqlite3.Connection) -> bool:
    messages = columns(connection, "message")
    has_tables = "id" in columns(connection, "session") and MESSAGE_NEEDS.issubset(messages)
    return has_tables and not has_spec_tables(connection)


def _is_fork(title: Any) -> bool:
    return SessionRecord(id="", title=text(title)).has_fork_title


def _message_head(id: Any, data: Any) -> str:
    """Return a code: whether a message is a copy, then the time if it is an answer."""
    record = decode(data or b"", MESSAGE)
    if record is None:
        return _OWN
    is_copy = StoredMessage(id=str(id), record=record).is_copy
    at = micros(record.created) if record.role == "assistant" else None
    return f"{_COPY if is_copy else _OWN}{'' if at is None else at}"


def sessions_in(connection: sqlite3.Connection) -> list[str] | None:
    """Return the ids of all sessions; None if the tables are not as expected."""
    if not _has_expected_tables(connection):
        return None
    found = [id for (id,) in connection.execute("SELECT id FROM session")]
    spoken = connection.execute("SELECT DISTINCT session_id FROM message")
    found += {id for (id,) in spoken}.difference(found)
    return queryable_ids(found)


def links_in(connection: sqlite3.Connection) -> LinkKeys | None:
    """Return the keys of all sessions: their parents and the times of their answers."""
    ids = sessions_in(connection)
    if ids is None:
        return None
    keys: dict[str, list[LinkKey]] = {id: [] for id in ids}
    for session in read_records(connection).values():
        if session.parent is not None:
            keys[session.id].append(session.parent)
    statement = "SELECT session_id, id, CAST(data AS BLOB) FROM message"
    for session_id, id, data in connection.execute(statement):
        record = decode(data or b"", MESSAGE)
        if record is not None and record.role == "assistant":
            keys[session_id].append(answer_key(str(id), record))
    return keys


def answer_key(id: str, answer: MessageRecord) -> LinkKey:
    """Return the key that an answer shares with its copies: its time, or its id without one."""
    return id if answer.created is None else to_millis(answer.created)
