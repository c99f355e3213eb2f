"""Listing from kept rows: filters, order and limit are one query, without reading a summary.

Needs nothing but `sqlite3`, so that a list of thousands costs little more than starting Python.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from amux.index.store import Store

SUBAGENT: Final = 1
ARCHIVED: Final = 2

_ORDERS: Final = {"date": "created", "updated": "updated", "turns": "turns", "cost": "usd"}

Row = tuple[str, str, str, int, int, int, str, bytes]
"""Agent, id, every name of it, created, updated, turns, title, summary as JSON."""


class Wanted:
    """What a list is to show. Times are microseconds of the Unix time."""

    __slots__ = (
        "agents", "archived", "children", "cwd", "descending", "limit", "model", "since",
        "sort", "until",
    )  # fmt: skip

    def __init__(
        self,
        agents: Sequence[str],
        *,
        since: int | None = None,
        until: int | None = None,
        cwd: str | None = None,
        model: str | None = None,
        sort: str = "date",
        descending: bool = True,
        limit: int | None = None,
        children: bool = False,
        archived: bool = False,
    ) -> None:
        self.agents = agents
        self.since = since
        self.until = until
        self.cwd = cwd
        self.model = model
        self.sort = sort
        self.descending = descending
        self.limit = limit
        self.children = children
        self.archived = archived

    def conditions(self) -> tuple[str, dict[str, object]]:
        """Which sessions fit, as a clause that says no more than was asked, and its values."""
        values: dict[str, object] = {f"a{n}": agent for n, agent in enumerate(self.agents)}
        clauses = [f"agent IN ({', '.join(f':{name}' for name in values)})"]
        for clause, name, value in (
            ("created >= :since", "since", self.since),
            ("created <= :until", "until", self.until),
            ("cwd = :cwd", "cwd", self.cwd),
            ("instr(models, :model)", "model", self.model and f"\n{self.model}\n"),
        ):
            if value is not None:
                clauses.append(clause)
                values[name] = value
        return " AND ".join(clauses), values

    @property
    def hidden(self) -> int:
        """The kinds that are left out, as a mask."""
        return SUBAGENT * (not self.children) + ARCHIVED * (not self.archived)


class Listed:
    """The rows to show, and how many are not shown."""

    __slots__ = ("hidden_archived", "hidden_children", "rows", "truncated")

    def __init__(self, rows: Sequence[Row], counts: Mapping[int, int], hidden: int) -> None:
        fitting = sum(counts.values())
        self.rows = rows
        self.hidden_children = _count(counts, hidden & SUBAGENT)
        self.hidden_archived = _count(counts, hidden) - self.hidden_children
        self.truncated = fitting - _count(counts, hidden) - len(rows)


def _count(counts: Mapping[int, int], mask: int) -> int:
    return sum(number for kind, number in counts.items() if kind & mask)


def find_sessions(store: Store, wanted: Wanted) -> Listed:
    """The rows that fit, in order, and counts of the others."""
    clause, values = wanted.conditions()
    direction = "DESC" if wanted.descending else "ASC"
    with store.guarded() as database:
        rows: list[Row] = database.execute(
            "SELECT agent, id, names, created, updated, turns, title, body FROM session"  # noqa: S608 - our own words
            f" WHERE {clause} AND hidden & {wanted.hidden} = 0"
            f" ORDER BY {_ORDERS[wanted.sort]} {direction}, agent || ':' || id LIMIT :limit",
            values | {"limit": -1 if wanted.limit is None else wanted.limit},
        ).fetchall()
        counts = database.execute(
            f"SELECT hidden, count(*) FROM session WHERE {clause} GROUP BY hidden",  # noqa: S608 - likewise
            values,
        ).fetchall()
    return Listed(rows, dict(counts), wanted.hidden)
