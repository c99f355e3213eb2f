"""Removing sessions: one, several, those that ended long ago, and those that never had a message.

A session that stays loses its parent when the parent is removed. Delegates of a removed session,
by their own record, are removed with it: they are not resumed on their own.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple, TypedDict

from amux.errors import ValidationError
from amux.store.session_db import lineage
from amux.store.session_db.conditions import Conditions
from amux.store.session_db.rows import Row, row_of
from amux.store.session_db.statistics import ESTIMATED_COST

_DAY_S: Final = 86_400.0
_TOKENS: Final = "COALESCE(s.input_tokens, 0) + COALESCE(s.output_tokens, 0)"
_COST: Final = f"COALESCE(actual_cost_usd, {ESTIMATED_COST})"


class PruneOptions(TypedDict, total=False):
    """Further conditions of a prune, all of which must hold.

    `title` and `model` are parts of the texts, in upper or lower case; `cwd` is a directory or a
    parent of it. A session without a known cost has neither a least nor a most cost.
    """

    title: str
    model: str
    cwd: str
    end_reason: str
    min_messages: int
    max_messages: int
    min_tokens: int
    max_tokens: int
    min_cost: float
    max_cost: float
    archived: bool


class PruneFilter(NamedTuple):
    """Which ended sessions are pruned."""

    older_than_days: float | None
    source: str | None
    options: PruneOptions


def delete(connection: sqlite3.Connection, session_ids: Iterable[str]) -> list[str]:
    """Remove sessions with their messages and delegates. Return the ids that were removed."""
    doomed: dict[str, None] = {}
    for session_id in session_ids:
        found = connection.execute("SELECT 1 FROM sessions WHERE id = ?", (session_id,)).fetchone()
        if found is not None:
            doomed |= dict.fromkeys((session_id, *lineage.delegates_of(connection, session_id)))
    _remove(connection, doomed)
    return [*doomed]


def candidates(connection: sqlite3.Connection, wanted: PruneFilter, now: float) -> list[Row]:
    """Return the sessions that a prune would remove, the oldest first."""
    conditions = _conditions(wanted, now)
    rows = connection.execute(
        "SELECT id, source, title, model, started_at, ended_at, message_count, archived "
        f"FROM sessions s WHERE {conditions.sql} ORDER BY started_at, rowid",
        conditions.values,
    )
    return [row_of(row) for row in rows]


def prune(connection: sqlite3.Connection, wanted: PruneFilter, now: float) -> int:
    """Remove the sessions that pass the filter. Return their number. Their children stay."""
    doomed = [row["id"] for row in candidates(connection, wanted, now)]
    _remove(connection, doomed)
    return len(doomed)


def delete_empty(connection: sqlite3.Connection) -> int:
    """Remove ended sessions without a message, a title or a child. Return their number."""
    rows = connection.execute(
        "SELECT id FROM sessions s WHERE s.ended_at IS NOT NULL AND s.title IS NULL "
        "AND s.archived = 0 AND NOT EXISTS (SELECT 1 FROM messages WHERE session_id = s.id) "
        "AND NOT EXISTS (SELECT 1 FROM sessions c WHERE c.parent_session_id = s.id)"
    )
    doomed = [session_id for (session_id,) in rows]
    _remove(connection, doomed)
    return len(doomed)


def _remove(connection: sqlite3.Connection, doomed: Collection[str]) -> None:
    ids = [(session_id,) for session_id in doomed]
    connection.executemany(
        "UPDATE sessions SET parent_session_id = NULL WHERE parent_session_id = ?", ids
    )
    connection.executemany("DELETE FROM messages WHERE session_id = ?", ids)
    connection.executemany("DELETE FROM sessions WHERE id = ?", ids)


def _conditions(wanted: PruneFilter, now: float) -> Conditions:
    conditions = Conditions()
    conditions.add("s.ended_at IS NOT NULL")
    if wanted.older_than_days is not None:
        if not wanted.older_than_days >= 0:
            raise ValidationError("`older_than_days` is negative", fields=("older_than_days",))
        conditions.add("s.started_at < ?", now - wanted.older_than_days * _DAY_S)
    conditions.add_if("s.source = ?", wanted.source)
    options = wanted.options
    unknown = sorted(options.keys() - PruneOptions.__annotations__.keys())
    if unknown:
        raise ValidationError(f"no condition `{unknown[0]}`", fields=unknown)
    conditions.add_if("instr(lower(s.title), lower(?)) > 0", options.get("title"))
    conditions.add_if("instr(lower(s.model), lower(?)) > 0", options.get("model"))
    conditions.add_folder("s.cwd", options.get("cwd"))
    conditions.add_if("s.end_reason = ?", options.get("end_reason"))
    conditions.add_if("s.message_count >= ?", options.get("min_messages"))
    conditions.add_if("s.message_count <= ?", options.get("max_messages"))
    conditions.add_if(f"{_TOKENS} >= ?", options.get("min_tokens"))
    conditions.add_if(f"{_TOKENS} <= ?", options.get("max_tokens"))
    conditions.add_if(f"{_COST} >= ?", options.get("min_cost"))
    conditions.add_if(f"{_COST} <= ?", options.get("max_cost"))
    conditions.add_if("s.archived = ?", options.get("archived"))
    return conditions
