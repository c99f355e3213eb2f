"""Listing from kept rows: filters, order and limit are one query, without reading a summary.

Needs nothing but `sqlite3`, so that a list of thousands costs little more than starting Python.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from amux.index.database import IndexDatabase

TYPE_CHECKING = False  # `typing` would be a tenth of a quick list
if TYPE_CHECKING:
    from typing import Any, Final


SUBAGENT: Final = 1
ARCHIVED: Final = 2

_ORDERS: Final = {"date": "created", "updated": "updated", "turns": "turns", "cost": "usd"}

Row = tuple[str, bytes, str]
"""Every name of a session, its summary as indented JSON, and its agent."""

Line = tuple[str, str, int, int, int, str, str | None, float, int, int, str, bytes, str]
"""What a table shows: agent, id, created, updated, turns, title, model, cost, whether that is the
least it can be, what it is hidden for, kind, how its summary begins, and every name."""

_LINE: Final = (
    "agent, id, created, updated, turns, title, model, usd, is_least, hidden, kind,"
    " substr(body, 1, 1), names"
)


class RowFilter:
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
        # Among several agents the order is worth more than the index by agent: `+` rules it out.
        agent = "agent" if len(values) == 1 else "+agent"
        clauses = [f"{agent} IN ({', '.join(f':{name}' for name in values)})"]
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


class HiddenCounts:
    """How many sessions fit and are not shown."""

    __slots__ = ("hidden_archived", "hidden_children", "truncated")

    def __init__(self, counts: Mapping[int, int], *, hidden: int, shown: int) -> None:
        self.hidden_children = _count(counts, hidden & SUBAGENT)
        self.hidden_archived = _count(counts, hidden) - self.hidden_children
        self.truncated = sum(counts.values()) - _count(counts, hidden) - shown


def _count(counts: Mapping[int, int], mask: int) -> int:
    return sum(number for kind, number in counts.items() if kind & mask)


def find_summaries(database: IndexDatabase, wanted: RowFilter) -> tuple[list[Row], HiddenCounts]:
    """The sessions that fit, whole and in order, and counts of the others."""
    return _find(database, wanted, "names, body, agent")


def find_lines(database: IndexDatabase, wanted: RowFilter) -> tuple[list[Line], HiddenCounts]:
    """The same, with no more of each session than a table shows."""
    return _find(database, wanted, _LINE)


def _find(
    database: IndexDatabase, wanted: RowFilter, columns: str
) -> tuple[list[Any], HiddenCounts]:
    clause, values = wanted.conditions()
    direction = "DESC" if wanted.descending else "ASC"
    with database.guarded() as connection:
        rows = connection.execute(
            f"SELECT {columns} FROM session"  # noqa: S608 - our own words
            f" WHERE {clause} AND hidden & {wanted.hidden} = 0"
            f" ORDER BY {_ORDERS[wanted.sort]} {direction}, tie LIMIT :limit",
            values | {"limit": -1 if wanted.limit is None else wanted.limit},
        ).fetchall()
        counted = connection.execute(
            f"SELECT hidden, count(*) FROM session WHERE {clause} GROUP BY agent, hidden",  # noqa: S608 - likewise
            values,
        ).fetchall()
    counts: dict[int, int] = {}
    for kind, number in counted:
        counts[kind] = counts.get(kind, 0) + number
    return rows, HiddenCounts(counts, hidden=wanted.hidden, shown=len(rows))


_VISIBLE: Final = f"agent = :agent AND hidden & {SUBAGENT} = 0"
_SPAN: Final = f"SELECT count(*), min(created), max(updated) FROM session WHERE {_VISIBLE}"  # noqa: S608 - our own words
_VERSION: Final = f"SELECT version FROM session WHERE {_VISIBLE} ORDER BY updated DESC, tie LIMIT 1"  # noqa: S608 - likewise
_SIZE: Final = "SELECT coalesce(sum(size), 0) FROM source WHERE agent = :agent"


class AgentCounts(NamedTuple):
    """The sessions of one agent, sub-agents left out. Times are microseconds of the Unix time."""

    sessions: int
    oldest: int | None
    newest: int | None
    version: str | None  # of the agent, in the session that changed last
    size: int  # bytes of its sources


def agent_counts(database: IndexDatabase, agent: str) -> AgentCounts:
    """What is kept of one agent."""
    if not database.exists():
        return AgentCounts(0, None, None, None, 0)
    values = {"agent": agent}
    with database.guarded() as connection:
        sessions, oldest, newest = connection.execute(_SPAN, values).fetchone()
        version = connection.execute(_VERSION, values).fetchone() if sessions else None
        (size,) = connection.execute(_SIZE, values).fetchone()
    return AgentCounts(sessions, oldest, newest, version and version[0], size)
