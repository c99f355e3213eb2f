"""Queries stored rows: the filters, order and limit of a list are one SQL query.

Importing this module loads `sqlite3` and little else, so that listing thousands of sessions takes
little longer than starting Python.
"""

from __future__ import annotations

from collections.abc import Sequence

from amux.index.database import IndexDatabase

TYPE_CHECKING = False  # importing `typing` takes a tenth of a fast list
if TYPE_CHECKING:
    from typing import Any, Final

SUBAGENT: Final = 1
ARCHIVED: Final = 2

_ORDERS: Final = {"date": "created", "updated": "updated", "turns": "turns", "cost": "usd"}

Row = tuple[str, bytes, str]
"""Every name of a session, its summary as indented JSON, and its agent."""

Line = tuple[str, str, int, int, int, str, str | None, float, str, int, str, bytes, str]
"""The columns of a table, in the order of `_LINE`.

Agent, id, created, updated, turns, title, model, cost, the reasons why that is not exact, the kinds
it is hidden for, kind, the first byte of its summary, and every name.
"""

NameRow = tuple[str, str, str, bytes]
"""The agent of a session, every name, its title, and the first byte of its summary."""

HiddenCounts = tuple[int, int, int]
"""How many matching sessions are not shown: sub-agents, archived ones, those over the limit."""

_LINE: Final = (
    "agent, id, created, updated, turns, title, model, usd, incomplete, hidden, kind,"
    " substr(body, 1, 1), names"
)


class RowFilter:
    """The filter, order and limit of a list. Times are microseconds of the Unix time."""

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
        """Return an SQL clause with the conditions that were given, and its values."""
        values: dict[str, object] = {f"a{n}": agent for n, agent in enumerate(self.agents)}
        # Among several agents the index by time is better than the one by agent: `+` excludes it.
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
        """The kinds of sessions that are not shown, as a mask."""
        return SUBAGENT * (not self.children) + ARCHIVED * (not self.archived)


def find_summaries(database: IndexDatabase, wanted: RowFilter) -> tuple[list[Row], HiddenCounts]:
    """Return the matching sessions as whole summaries, in order, and counts of the others."""
    return _find(database, wanted, "names, body, agent")


def find_lines(database: IndexDatabase, wanted: RowFilter) -> tuple[list[Line], HiddenCounts]:
    """Return the columns of the matching sessions that a table shows, and counts of the others."""
    return _find(database, wanted, _LINE)


def _find(
    database: IndexDatabase, wanted: RowFilter, columns: str
) -> tuple[list[Any], HiddenCounts]:
    clause, values = wanted.conditions()
    direction = "DESC" if wanted.descending else "ASC"
    with database.guarded() as connection:
        rows = connection.execute(
            f"SELECT {columns} FROM session"  # noqa: S608 - constants
            f" WHERE {clause} AND hidden & {wanted.hidden} = 0"
            f" ORDER BY {_ORDERS[wanted.sort]} {direction}, sort_key LIMIT :limit",
            values | {"limit": -1 if wanted.limit is None else wanted.limit},
        ).fetchall()
        counted = connection.execute(
            f"SELECT hidden, count(*) FROM session WHERE {clause} GROUP BY agent, hidden",  # noqa: S608 - constants
            values,
        ).fetchall()
    children, all_hidden = (
        sum(number for kind, number in counted if kind & mask)
        for mask in (wanted.hidden & SUBAGENT, wanted.hidden)
    )
    truncated = sum(number for _, number in counted) - all_hidden - len(rows)
    return rows, (children, all_hidden - children, truncated)


def find_names(
    database: IndexDatabase, agents: Sequence[str], part: str | None = None
) -> list[NameRow]:
    """Return the names and titles of all sessions; with `part`, of those with it in a name."""
    holes = ", ".join("?" * len(agents))
    clause, values = ("", ()) if part is None else (" AND instr(names, ?)", (part,))
    with database.guarded() as connection:
        return connection.execute(
            f"SELECT agent, names, title, substr(body, 1, 1) FROM session"  # noqa: S608 - constants
            f" WHERE agent IN ({holes}){clause}",
            (*agents, *values),
        ).fetchall()


def find_paths(
    database: IndexDatabase, agents: Sequence[str], part: str
) -> list[tuple[str, bytes]]:
    """Return the agent and the path of every indexed source with a text in its path."""
    holes = ", ".join("?" * len(agents))
    with database.guarded() as connection:
        return connection.execute(
            f"SELECT agent, path FROM source WHERE agent IN ({holes}) AND instr(path, ?)",  # noqa: S608 - placeholders only
            (*agents, part.encode()),
        ).fetchall()
