"""Listing from kept rows: filters, order and limit are one query, without reading a summary.

Needs nothing but `sqlite3`, so that a list of thousands costs little more than starting Python.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from amux.index.store import Store

SUBAGENT: Final = 1
ARCHIVED: Final = 2

_ORDERS: Final = {"date": "created", "updated": "updated", "turns": "turns", "cost": "usd"}
_FITTING: Final = """
FROM session WHERE agent IN (SELECT value FROM json_each(:agents))
  AND created >= coalesce(:since, created) AND created <= coalesce(:until, created)
  AND (:cwd IS NULL OR cwd = :cwd)
  AND (:model IS NULL OR instr(models, :model))
  AND (:ids IS NULL OR agent || ':' || id IN (SELECT value FROM json_each(:ids)))
"""
_HIDDEN: Final = f"(NOT :children AND hidden & {SUBAGENT} OR NOT :archived AND hidden & {ARCHIVED})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a list is to show. Times are microseconds of the Unix time; `ids` are unified ids."""

    agents: Sequence[str]
    since: int | None = None
    until: int | None = None
    cwd: str | None = None
    model: str | None = None
    ids: Sequence[str] | None = None
    sort: str = "date"
    descending: bool = True
    limit: int | None = None
    children: bool = False
    archived: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """The rows to show, and how many are not shown."""

    rows: Sequence[tuple[str, str, int, int, int, str, bytes]]
    hidden_children: int
    hidden_archived: int
    truncated: int


def find_sessions(store: Store, wanted: Wanted) -> Listed:
    """Rows of (agent, id, created, updated, turns, title, summary as JSON)."""
    from json import dumps

    values = {
        "agents": dumps(list(wanted.agents)),
        "since": wanted.since,
        "until": wanted.until,
        "cwd": wanted.cwd,
        "model": None if wanted.model is None else f"\n{wanted.model}\n",
        "ids": None if wanted.ids is None else dumps(list(wanted.ids)),
        "children": wanted.children,
        "archived": wanted.archived,
        "limit": -1 if wanted.limit is None else wanted.limit,
    }
    direction = "DESC" if wanted.descending else "ASC"
    with store.guarded() as database:
        rows = database.execute(
            "SELECT agent, id, created, updated, turns, title, body"
            f" {_FITTING} AND NOT {_HIDDEN}"
            f" ORDER BY {_ORDERS[wanted.sort]} {direction}, agent || ':' || id LIMIT :limit",
            values,
        ).fetchall()
        return _counted(database, values, rows)


def _counted(
    database: sqlite3.Connection,
    values: Mapping[str, object],
    rows: list[tuple[str, str, int, int, int, str, bytes]],
) -> Listed:
    total, children, hidden = database.execute(
        f"SELECT count(*), total(NOT :children AND hidden & {SUBAGENT}),"
        f" total({_HIDDEN}) {_FITTING}",
        values,
    ).fetchone()
    return Listed(
        rows=rows,
        hidden_children=int(children),
        hidden_archived=int(hidden - children),
        truncated=int(total - hidden) - len(rows),
    )
