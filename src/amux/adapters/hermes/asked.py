"""What state.db says of every session in its own table, for lists, by the rules of `lineage`.

Kinds and inherited directories go down the tree, from those without a parent to their children, so
each row is looked at once. A circle of parents hangs on no root: its sessions are read. When a
session last changed is not told: its messages are, as far as they are not repetitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from amux.adapters._kit.tables import columns
from amux.adapters._kit.values import document, mapping, text

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

_TOLD: Final = """one AS MATERIALIZED (SELECT {cells} FROM sessions),
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
told AS MATERIALIZED (SELECT one.id, iif(tree.id IS NULL, NULL, one.began) AS began, tree.cwd,
        tree.kind = 'subagent' AS nested, one.archived,
        iif(coalesce(tree.kind, 'subagent') = 'subagent',
            coalesce(one.parent, one.delegated, one.branched), NULL) AS parent
    FROM one LEFT JOIN tree USING (id){without_row})"""

_WITHOUT_ROW: Final = """
    UNION ALL SELECT amux_id(session_id), NULL, NULL, FALSE, FALSE, NULL FROM (
        SELECT DISTINCT session_id FROM messages
        WHERE session_id NOT IN (SELECT id FROM sessions WHERE id IS NOT NULL))
    WHERE amux_text(session_id) IS NOT NULL"""


def told_by(connection: sqlite3.Connection) -> str | None:
    """The expressions that give `told`; None when there is no table of sessions."""
    present = columns(connection, "sessions")
    if "id" not in present:
        return None
    connection.create_function("amux_setting", 2, _setting, deterministic=True)
    cells = (
        f"{cell if _COLUMNS.get(name, name) in present else _ABSENT.get(name, 'NULL')} AS {name}"
        for name, cell in _CELLS.items()
    )
    has_messages = {"session_id", "role"}.issubset(columns(connection, "messages"))
    return _TOLD.format(cells=", ".join(cells), without_row=_WITHOUT_ROW if has_messages else "")


def _setting(model_config: Any, name: str) -> str | None:
    return text(mapping(document(model_config)).get(name))
