"""Which of OpenCode's sessions bear on each other.

A parent is named. Of whom a fork is, it does not say: its messages are copies, from the first one
on, which keep their times. So sessions with an answer of the same moment are read together. In a
database that takes a look at all messages, but not at their parts, which are nearly all of it. In
files it takes the messages up to the first answer, since copies begin with the first message; what
an upgrade has taken over into a database is told there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amux.adapters._kit.kin import Mark, Marked, askable
from amux.adapters._kit.tables import columns
from amux.adapters._kit.values import decode, to_millis
from amux.adapters._kit.spec_tables import has_spec_tables
from amux.adapters.opencode.database import MESSAGE_NEEDS, read_records
from amux.adapters.opencode.records import MESSAGE, MessageRecord

if TYPE_CHECKING:
    import sqlite3


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


def marked_in(connection: sqlite3.Connection) -> Marked | None:
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
            marked[session_id].append(mark_of(str(id), record))
    return marked


def mark_of(id: str, answer: MessageRecord) -> Mark:
    """What a copy of an answer has in common with it."""
    return id if answer.created is None else to_millis(answer.created)
