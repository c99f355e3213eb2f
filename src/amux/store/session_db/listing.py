"""Lists of sessions with a preview and the time of their last activity."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from typing import Final, NamedTuple

from amux.store.session_db import lineage
from amux.store.session_db.conditions import Conditions
from amux.store.session_db.rows import Row, plain_text, row_of

RECENT_PREVIEW: Final = 63
"""The characters of the preview in `recent`."""

_PREVIEW: Final = 60
_MORE: Final = "..."

_LAST_ACTIVE: Final = (
    "COALESCE((SELECT MAX(a.timestamp) FROM messages a WHERE a.session_id = s.id), s.started_at)"
)
_FIRST_PROMPT: Final = (
    "(SELECT f.content FROM messages f WHERE f.session_id = s.id AND f.role = 'user' "
    "AND f.content IS NOT NULL AND (f.active = 1 OR f.compacted = 1) "
    "ORDER BY f.timestamp, f.id LIMIT 1)"
)
_ROWS: Final = f"SELECT s.*, {_LAST_ACTIVE} AS last_active, {_FIRST_PROMPT} AS preview"

_OF_THE_TIP: Final = (
    *("id", "model", "system_prompt", "ended_at", "end_reason", "title", "message_count"),
    *("tool_call_count", "last_active", "preview"),
)
"""The columns that the row of a chain of continuations takes from its tip, not from its root."""

_LATEST_OF_CHAIN: Final = f"""
CASE WHEN s.end_reason = '{lineage.COMPRESSED}' THEN (
    WITH RECURSIVE chain(id) AS (
        SELECT s.id
        UNION
        SELECT c.id FROM chain JOIN sessions q ON q.id = chain.id
        JOIN sessions c ON c.parent_session_id = q.id
        WHERE q.end_reason = '{lineage.COMPRESSED}'
        AND {lineage.kind_sql("c", "q")} = '{lineage.CONTINUATION}'
    )
    SELECT MAX(last) FROM (
        SELECT {_LAST_ACTIVE} AS last FROM chain JOIN sessions s ON s.id = chain.id
    )
) ELSE {_LAST_ACTIVE} END
"""


class ListedSessions(NamedTuple):
    """Which sessions a list shows."""

    source: str | None = None
    exclude_sources: Collection[str] | None = None
    cwd: str | None = None
    min_message_count: int = 0
    include_children: bool = False
    include_archived: bool = False
    archived_only: bool = False


def select(
    connection: sqlite3.Connection,
    wanted: ListedSessions,
    *,
    limit: int,
    offset: int,
    by_activity: bool,
    project_tips: bool,
) -> list[Row]:
    """Return sessions with `preview` and `last_active`, the latest start or activity first.

    With `project_tips`, the first session of a chain of continuations stands for the whole chain
    and shows its tip; `_lineage_root_id` is then its own id.
    """
    conditions = _conditions(wanted)
    projects = project_tips and not wanted.include_children
    order = "s.started_at"
    if by_activity:
        order = _LATEST_OF_CHAIN if projects else _LAST_ACTIVE
    rows = connection.execute(
        f"{_ROWS} FROM sessions s LEFT JOIN sessions p ON p.id = s.parent_session_id "
        f"WHERE {conditions.sql} ORDER BY {order} DESC, s.rowid DESC LIMIT ? OFFSET ?",
        (*conditions.values, limit, offset),
    ).fetchall()
    found = [_with_preview(row_of(row)) for row in rows]
    return [_projected(connection, row) for row in found] if projects else found


def by_activity(
    connection: sqlite3.Connection, source: str | None, limit: int, offset: int
) -> list[Row]:
    """Return all sessions, children included, with `last_active`, the latest activity first."""
    rows = connection.execute(
        f"SELECT s.*, {_LAST_ACTIVE} AS last_active FROM sessions s "
        "WHERE :source IS NULL OR s.source = :source "
        "ORDER BY last_active DESC, s.rowid DESC LIMIT :limit OFFSET :offset",
        {"source": source, "limit": limit, "offset": offset},
    )
    return [row_of(row) for row in rows]


def recent(connection: sqlite3.Connection, limit: int) -> list[Row]:
    """Return the sessions that started last, with the beginning of their first prompt."""
    rows = connection.execute(
        f"{_ROWS} FROM sessions s ORDER BY s.started_at DESC, s.rowid DESC LIMIT ?", (limit,)
    )
    found = [row_of(row) for row in rows]
    return [{**row, "preview": plain_text(row["preview"])[:RECENT_PREVIEW]} for row in found]


def count(connection: sqlite3.Connection, wanted: ListedSessions) -> int:
    """Return the number of sessions that pass a filter."""
    conditions = _conditions(wanted)
    (number,) = connection.execute(
        "SELECT COUNT(*) FROM sessions s LEFT JOIN sessions p ON p.id = s.parent_session_id "
        f"WHERE {conditions.sql}",
        conditions.values,
    ).fetchone()
    return int(number)


def _conditions(wanted: ListedSessions) -> Conditions:
    conditions = Conditions()
    if not wanted.include_children:
        kind = lineage.kind_sql("s", "p")
        conditions.add(f"p.id IS NULL OR {kind} = ?", lineage.BRANCH)
    conditions.add_if("s.source = ?", wanted.source)
    conditions.add_none_of("s.source", wanted.exclude_sources)
    conditions.add_folder("s.cwd", wanted.cwd)
    if wanted.min_message_count > 0:
        conditions.add("s.message_count >= ?", wanted.min_message_count)
    if wanted.archived_only:
        conditions.add("s.archived = 1")
    elif not wanted.include_archived:
        conditions.add("s.archived = 0")
    return conditions


def _projected(connection: sqlite3.Connection, root: Row) -> Row:
    """Return the row of a chain of continuations; the row itself if it has no continuation."""
    tip = lineage.tip_of(connection, root["id"]) if root["end_reason"] == lineage.COMPRESSED else ""
    if tip in {"", root["id"]}:
        return root
    query = f"{_ROWS} FROM sessions s WHERE s.id = ?"
    row = _with_preview(row_of(connection.execute(query, (tip,)).fetchone()))
    shown = {name: row[name] for name in _OF_THE_TIP}
    return {**root, **shown, "_lineage_root_id": root["id"]}


def _with_preview(row: Row) -> Row:
    text = plain_text(row["preview"]).strip().replace("\r\n", " ").replace("\n", " ")
    return {**row, "preview": text[:_PREVIEW] + (_MORE if len(text) > _PREVIEW else "")}
