"""Which sessions of a state.db bear on each other: parents and children, by every link there is.

No session has calls of another one, so links are all. They stand in the table of sessions, which is
small; messages are asked only for the ids of sessions whose row is gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from amux.adapters._kit.kin import Marked, askable
from amux.adapters._kit.tables import columns, rows
from amux.adapters.hermes.rows import SessionRow

if TYPE_CHECKING:
    import sqlite3

_LINKS: Final = ("id", "parent_session_id", "model_config")


def sessions_in(connection: sqlite3.Connection) -> list[str] | None:
    """The ids of all sessions; None when a statement would not find each of them."""
    if "id" not in columns(connection, "sessions"):
        return None
    found = [id for (id,) in connection.execute("SELECT id FROM sessions")]
    if {"session_id", "role"}.issubset(columns(connection, "messages")):
        spoken = connection.execute("SELECT DISTINCT session_id FROM messages")
        found += {id for (id,) in spoken}.difference(found)
    return askable(found)


def marked_in(connection: sqlite3.Connection) -> Marked | None:
    """All sessions with the names of those they come from."""
    ids = sessions_in(connection)
    if ids is None:
        return None
    marked: dict[str, tuple[str, ...]] = dict.fromkeys(ids, ())
    present = columns(connection, "sessions")
    for cells in rows(connection, "sessions", [name for name in _LINKS if name in present]):
        row = SessionRow.of(cells)
        if row is not None:
            links = (row.parent, row.delegate_from, row.branched_from)
            marked[row.id] = tuple(filter(None, links))
    return marked
