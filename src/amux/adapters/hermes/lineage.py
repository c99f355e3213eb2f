"""Determines the lineage of sessions, in Python for facts and in SQL for lists.

Hermes links every child to its parent, but only newer versions record in the child whether it is a
branch or a sub-agent. In older ones, a child created after its parent had ended continues it
(compression) or branches off it; any other child is a sub-agent.

The SQL passes kinds and inherited directories down the tree, from sessions without a parent to
their children, so that each row is visited once. A cycle of parents has no root: its sessions are
read. The table does not have the time of the last change, which depends on the messages.

No session has calls of another one, so sessions affect each other only through these links. They
are in the small table of sessions; messages only add the ids of sessions whose row is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from amux.adapters._kit.related import LinkKeys, queryable_ids
from amux.adapters._kit.tables import columns, rows
from amux.adapters._kit.values import document, mapping, text
from amux.adapters.hermes.rows import SessionRow
from amux.model.facts import Kind

if TYPE_CHECKING:
    import sqlite3

_CELLS: Final = {
    "id": "amux_id(id)",
    "source": "amux_text(source)",
    "parent": "amux_text(parent_session_id)",
    "began": "amux_moment(started_at)",
    "ended": "amux_moment(ended_at)",
    "reason": "amux_text(end_reason)",
    "cwd": "amux_text(cwd)",
    "archived": "amux_flag(archived)",
    "branched": "amux_setting(model_config, '_branched_from')",
    "delegated": "amux_setting(model_config, '_delegate_from')",
}
_COLUMNS: Final = {
    "parent": "parent_session_id",
    "began": "started_at",
    "ended": "ended_at",
    "reason": "end_reason",
    "branched": "model_config",
    "delegated": "model_config",
}
_ABSENT: Final = {"archived": "FALSE"}
_CANDIDATES: Final = """one AS MATERIALIZED (SELECT {cells} FROM sessions),
line AS MATERIALIZED (SELECT one.*, up.id IS NULL OR up.id = one.id AS is_root,
    CASE WHEN one.delegated IS NOT NULL OR (one.source = 'subagent' AND one.parent IS NOT NULL)
             THEN 'subagent'
         WHEN one.branched IS NOT NULL THEN 'fork'
         WHEN up.id IS NULL OR up.id = one.id THEN 'session'
         WHEN one.began >= up.ended AND up.reason = 'compression' THEN 'continuation'
         WHEN one.began >= up.ended AND up.reason = 'branched' THEN 'fork'
         ELSE 'subagent' END AS kind
    FROM one LEFT JOIN one up ON up.id = one.parent),
tree(id, kind, cwd) AS (
    SELECT id, kind, cwd FROM line WHERE is_root
    UNION SELECT line.id, iif(line.kind = 'continuation' AND tree.kind = 'subagent',
                              'subagent', line.kind), coalesce(line.cwd, tree.cwd)
        FROM tree JOIN line ON line.parent = tree.id AND NOT line.is_root),
candidates AS MATERIALIZED (SELECT one.id, iif(tree.id IS NULL, NULL, one.began) AS began, tree.cwd,
        tree.kind = 'subagent' AS nested, one.archived,
        iif(coalesce(tree.kind, 'subagent') = 'subagent',
            coalesce(one.parent, one.delegated, one.branched), NULL) AS parent
    FROM one LEFT JOIN tree USING (id){without_row})"""
_WITHOUT_ROW: Final = """
    UNION ALL SELECT amux_id(session_id), NULL, NULL, FALSE, FALSE, NULL FROM (
        SELECT DISTINCT session_id FROM messages
        WHERE session_id NOT IN (SELECT id FROM sessions WHERE id IS NOT NULL))
    WHERE amux_text(session_id) IS NOT NULL"""
_LINKS: Final = ("id", "parent_session_id", "model_config")


@dataclass(slots=True, frozen=True)
class Lineage:
    """The kind of a session, its parent and its working directory."""

    kind: Kind
    parent: str | None
    cwd: str | None


def lineage_of(row: SessionRow, rows: Mapping[str, SessionRow]) -> Lineage:
    """Return the lineage of a session; `rows` must include its ancestors."""
    ancestors = _ancestors(row, rows)
    # A session that continues a compressed sub-agent is nested as well.
    kinds = (_kind(one, rows) for one in (row, *ancestors))
    continued = next((kind for kind in kinds if kind != "continuation"), None)
    kind: Kind = "subagent" if continued == "subagent" else _kind(row, rows)
    parent = row.parent or row.delegate_from or row.branched_from
    cwd = next((one.cwd for one in (row, *ancestors) if one.cwd), None)
    return Lineage(kind=kind, parent=parent, cwd=cwd)


def _kind(row: SessionRow, rows: Mapping[str, SessionRow]) -> Kind:
    if row.delegate_from or (row.source == "subagent" and row.parent):
        return "subagent"
    if row.branched_from:
        return "fork"
    parent = rows.get(row.parent or "")
    if parent is None or parent is row:
        return "session"
    if row.started_at and parent.ended_at and row.started_at >= parent.ended_at:
        if parent.end_reason == "compression":
            return "continuation"
        if parent.end_reason == "branched":
            return "fork"
    return "subagent"


def _ancestors(row: SessionRow, rows: Mapping[str, SessionRow]) -> list[SessionRow]:
    """Return the parent, its parent and so on, up to a root or the end of a cycle."""
    seen = {row.id}
    found: list[SessionRow] = []
    current = rows.get(row.parent or "")
    while current is not None and current.id not in seen:
        seen.add(current.id)
        found.append(current)
        current = rows.get(current.parent or "")
    return found


def candidates_sql(connection: sqlite3.Connection) -> str | None:
    """Return the SQL expressions of `candidates`; None if there is no table of sessions."""
    present = columns(connection, "sessions")
    if "id" not in present:
        return None
    connection.create_function("amux_setting", 2, _setting, deterministic=True)
    cells = (
        f"{cell if _COLUMNS.get(name, name) in present else _ABSENT.get(name, 'NULL')} AS {name}"
        for name, cell in _CELLS.items()
    )
    has_messages = {"session_id", "role"}.issubset(columns(connection, "messages"))
    return _CANDIDATES.format(
        cells=", ".join(cells), without_row=_WITHOUT_ROW if has_messages else ""
    )


def _setting(model_config: Any, name: str) -> str | None:
    return text(mapping(document(model_config)).get(name))


def sessions_in(connection: sqlite3.Connection) -> list[str] | None:
    """Return the ids of all sessions; None if a statement cannot look up each of them."""
    if "id" not in columns(connection, "sessions"):
        return None
    found = [id for (id,) in connection.execute("SELECT id FROM sessions")]
    if {"session_id", "role"}.issubset(columns(connection, "messages")):
        spoken = connection.execute("SELECT DISTINCT session_id FROM messages")
        found += {id for (id,) in spoken}.difference(found)
    return queryable_ids(found)


def links_in(connection: sqlite3.Connection) -> LinkKeys | None:
    """Return the ids that each session refers to as its origin."""
    ids = sessions_in(connection)
    if ids is None:
        return None
    keys: dict[str, tuple[str, ...]] = dict.fromkeys(ids, ())
    present = columns(connection, "sessions")
    for cells in rows(connection, "sessions", [name for name in _LINKS if name in present]):
        row = SessionRow.of(cells)
        if row is not None:
            origins = (row.parent, row.delegate_from, row.branched_from)
            keys[row.id] = tuple(filter(None, origins))
    return keys
