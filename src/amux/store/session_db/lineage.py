"""Lineage: which session descends from which, and what kind of child each one is.

A continuation goes on after the context of its parent was compressed. A branch is a copy that a
person made to try something else. A delegate works for its parent, which goes on itself. A chain of
continuations is one conversation: it is resumed at its tip.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict, deque
from itertools import pairwise
from typing import Final

from amux.store.session_db.rows import Row, decode_object, row_of

CONTINUATION: Final = "continuation"
BRANCH: Final = "branch"
DELEGATE: Final = "delegate"

COMPRESSED: Final = "compression"
"""The end reason of a session whose context was compressed."""
_BRANCHED: Final = "branched"
_DELEGATE_SOURCES: Final = frozenset({"subagent", "tool"})

_ANCESTORS: Final = """
WITH RECURSIVE line(id, parent) AS (
    SELECT id, parent_session_id FROM sessions WHERE id = :id
    UNION
    SELECT s.id, s.parent_session_id FROM sessions s JOIN line l ON s.id = l.parent
)
SELECT * FROM sessions WHERE id IN (SELECT id FROM line)
"""
_DESCENDANTS: Final = """
WITH RECURSIVE line(id) AS (
    SELECT id FROM sessions WHERE id = :id
    UNION
    SELECT s.id FROM sessions s JOIN line l ON s.parent_session_id = l.id
)
SELECT * FROM sessions WHERE id IN (SELECT id FROM line) ORDER BY started_at, rowid
"""


def kind_sql(child: str, parent: str) -> str:
    """Return the SQL of the kind of a child, given the aliases of the child and its parent."""
    own = f"{child}.model_config, {child}.source, {child}.started_at"
    return f"child_kind({own}, {parent}.end_reason, {parent}.ended_at)"


_CONTINUATION_OF: Final = f"""
SELECT c.id FROM sessions p JOIN sessions c ON c.parent_session_id = p.id
WHERE p.id = :id AND p.end_reason = '{COMPRESSED}'
AND {kind_sql("c", "p")} = '{CONTINUATION}'
ORDER BY (c.ended_at IS NULL OR c.end_reason = '{COMPRESSED}') DESC, c.started_at DESC, c.rowid DESC
LIMIT 1
"""


def child_kind(
    model_config: object, source: object, started_at: object, end_reason: object, ended_at: object
) -> str:
    """Return the kind of a child, from three of its columns and the end of its parent.

    The child's own record decides, else the reason for which its parent ended. A child that was
    started before its parent ended is a delegate. SQL statements can call this function.
    """
    config = decode_object(model_config)
    if config.get("_branched_from"):
        return BRANCH
    if config.get("_delegate_from"):
        return DELEGATE
    is_later = (
        isinstance(started_at, float) and isinstance(ended_at, float) and started_at >= ended_at
    )
    if source in _DELEGATE_SOURCES or not is_later:
        return DELEGATE
    kinds = {COMPRESSED: CONTINUATION, _BRANCHED: BRANCH}
    return kinds.get(str(end_reason), DELEGATE)


def ancestors(connection: sqlite3.Connection, session_id: str) -> list[Row]:
    """Return a session and its ancestors, the session first and the root last.

    Each row has its `kind` of child, None for the root. The list is empty if the session does not
    exist; a cycle ends at the session that would come a second time.
    """
    rows = {row["id"]: row_of(row) for row in connection.execute(_ANCESTORS, {"id": session_id})}
    line: list[Row] = []
    current = rows.pop(session_id, None)
    while current is not None:
        parent = rows.pop(current["parent_session_id"], None)
        line.append({**current, "kind": None if parent is None else _kind(current, parent)})
        current = parent
    return line


def descendants(connection: sqlite3.Connection, session_id: str) -> list[Row]:
    """Return a session and its descendants, parents before children, oldest first.

    Each row has its `kind` of child, None for the session itself.
    """
    rows = [row_of(row) for row in connection.execute(_DESCENDANTS, {"id": session_id})]
    children: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row["id"] != session_id:  # it may have a parent of its own, or be part of a cycle
            children[row["parent_session_id"]].append(row)
    found: list[Row] = [{**row, "kind": None} for row in rows if row["id"] == session_id]
    parents = deque(found)
    while parents:
        parent = parents.popleft()
        young = [{**row, "kind": _kind(row, parent)} for row in children[parent["id"]]]
        found += young
        parents += young
    return found


def root_of(connection: sqlite3.Connection, session_id: str) -> str:
    """Return the session from which a session descends, whatever the kinds; itself if alone."""
    line = ancestors(connection, session_id)
    return str(line[-1]["id"]) if line else session_id


def tip_of(connection: sqlite3.Connection, session_id: str) -> str:
    """Return the last continuation of a session; the session itself if there is none."""
    return _continuations(connection, session_id)[-1]


def continued_by(connection: sqlite3.Connection, session_id: str) -> list[str]:
    """Return the sessions that a session continues, the first one first, without itself."""
    line = ancestors(connection, session_id)
    found: list[str] = []
    for child, parent in pairwise(line):
        if child["kind"] != CONTINUATION:
            break
        found.insert(0, parent["id"])
    return found


def compression_lineage(connection: sqlite3.Connection, session_id: str) -> list[str]:
    """Return the chain of continuations that a session belongs to, from its root to its tip.

    The list is empty if the session does not exist.
    """
    exists = connection.execute("SELECT 1 FROM sessions WHERE id = ?", (session_id,)).fetchone()
    if exists is None:
        return []
    return [*continued_by(connection, session_id), *_continuations(connection, session_id)]


def delegates_of(connection: sqlite3.Connection, session_id: str) -> list[str]:
    """Return the delegates of a session, their delegates included, by their own record.

    A child without such a record may be anything, so it is not part of the list.
    """
    found: list[str] = []
    wanted = {session_id}
    for row in descendants(connection, session_id)[1:]:
        is_delegate = decode_object(row["model_config"]).get("_delegate_from")
        if row["parent_session_id"] in wanted and is_delegate:
            wanted.add(row["id"])
            found.append(row["id"])
    return found


def _continuations(connection: sqlite3.Connection, session_id: str) -> list[str]:
    """Return a session and its continuations in order.

    If a session was continued more than once, one that is open or was continued itself is
    preferred, then the latest.
    """
    line = [session_id]
    while True:
        found = connection.execute(_CONTINUATION_OF, {"id": line[-1]}).fetchone()
        if found is None or found[0] in line:
            return line
        line.append(found[0])


def _kind(child: Row, parent: Row) -> str:
    own = (child["model_config"], child["source"], child["started_at"])
    return child_kind(*own, parent["end_reason"], parent["ended_at"])
