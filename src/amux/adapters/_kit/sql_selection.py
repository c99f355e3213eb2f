"""Selects the sessions that a list has to read from a database, with one SQL statement.

An adapter describes all sessions of its tables with common table expressions. The last of them is
`candidates`, with the columns

    id        the session id from `amux_id`; NULL if a statement cannot look it up
    began     the start time from `amux_moment`; NULL if the session has to be read to know it
    cwd       the working directory
    nested    whether the session is a sub-agent
    archived  whether the session is archived
    parent    the id of the session that started it, if it may be a sub-agent

The surrounding statement turns the filters, the order and the limit of the list into WHERE, ORDER
BY and LIMIT. A cell may hold any type, so the statement calls the same Python functions that the
reader uses to interpret it. The result equals that of a list which reads everything; if that is not
possible, there is no result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from amux.adapters._base import ListFilter, SelectedSessions, Selection, SkippedCounts, SourceRef
from amux.adapters._kit.sqlite import read_foreign
from amux.adapters._kit.tables import can_choose
from amux.adapters._kit.values import count, moment, text
from amux.errors import ParseError
from amux.model.directories import plain_directory
from amux.model.facts import Facts

if TYPE_CHECKING:
    import sqlite3

CandidatesSql = Callable[["sqlite3.Connection"], str | None]
"""Returns the common table expressions for a database; None if its tables do not suffice."""

_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_MICROSECOND: Final = timedelta(microseconds=1)

_SELECT: Final = """WITH RECURSIVE {candidates},
clear AS (SELECT * FROM candidates WHERE began IS NOT NULL),
fitting AS (SELECT * FROM clear WHERE {fits}),
shown AS (SELECT id FROM fitting WHERE {shows} ORDER BY began {direction}, id LIMIT :limit),
wanted(id) AS (
    SELECT id FROM shown
    UNION SELECT id FROM candidates WHERE began IS NULL
    UNION SELECT value FROM json_each(:named)
    UNION SELECT child.id FROM wanted JOIN candidates child ON child.parent = wanted.id)
SELECT 'chosen', id, 1 FROM candidates WHERE id IN (SELECT id FROM wanted)
UNION ALL
SELECT CASE WHEN nested AND NOT :children THEN 'children'
            WHEN archived AND NOT :archived THEN 'archived' ELSE 'more' END, NULL, count(*)
    FROM fitting WHERE id NOT IN (SELECT id FROM wanted WHERE id IS NOT NULL) GROUP BY 1
UNION ALL
SELECT 'odd', NULL, count(*) - count(DISTINCT id) FROM candidates"""

_IDS: Final = (
    "WITH RECURSIVE {candidates} SELECT id FROM candidates UNION SELECT parent FROM candidates"
)


def select_in_databases(
    sources: Sequence[SourceRef], candidates_sql: CandidatesSql, list_filter: ListFilter
) -> Selection | None:
    """Select the sessions to read from each database; None if one of them does not allow it.

    If there are several databases, a first statement collects the ids in each: a session that more
    than one database mentions is always read.
    """
    chosen: dict[SourceRef, Sequence[str]] = {}
    skipped = SkippedCounts()
    try:
        if len(sources) > 1:
            times = Counter(
                name
                for source in sources
                for (name,) in _run(source, candidates_sql, _IDS, list_filter) or ()
            )
            shared = {name for name, count in times.items() if count > 1 and name is not None}
            list_filter = msgspec.structs.replace(list_filter, named=list_filter.named | shared)
        for source in sources:
            rows = _run(source, candidates_sql, _SELECT, list_filter)
            counts = {reason: number for reason, id, number in rows or () if id is None}
            if rows is None or counts["odd"]:
                return None
            if ids := [id for _, id, _ in rows if id is not None]:
                chosen[source] = ids
            reasons = (counts.get(reason, 0) for reason in SkippedCounts._fields)
            skipped = skipped.plus(SkippedCounts(*reasons))
    except (ParseError, OSError, UnicodeEncodeError):
        return None  # a full read reports what is wrong
    return _DatabaseSelection(chosen, skipped)


class _DatabaseSelection(NamedTuple):
    """A selection that one statement has already completed."""

    chosen: SelectedSessions
    skipped_counts: SkippedCounts

    def began(self) -> Sequence[datetime]:
        return ()

    def first(self, bound: datetime | None = None) -> SelectedSessions:
        del bound  # the statement has already applied the bound of the list
        return self.chosen

    def more(self, read: Sequence[tuple[SourceRef, Facts]]) -> SelectedSessions:
        del read
        return {}

    def skipped(self) -> SkippedCounts:
        return self.skipped_counts


def _run(
    source: SourceRef, candidates_sql: CandidatesSql, statement: str, list_filter: ListFilter
) -> list[tuple[Any, ...]] | None:
    """Return the rows of a statement about the candidates; None if the tables do not suffice."""

    def query(connection: sqlite3.Connection) -> list[tuple[Any, ...]] | None:
        tables = candidates_sql(connection)
        if tables is None:
            return None
        for name, function in _FUNCTIONS.items():
            connection.create_function(name, 1, function, deterministic=True)
        sql = statement.format(candidates=tables, **_conditions(list_filter))
        return connection.execute(sql, _values(list_filter)).fetchall()

    return read_foreign(source.path, query)


def _conditions(list_filter: ListFilter) -> dict[str, str]:
    fits = ["began >= :since"] if list_filter.since is not None else []
    fits += ["began <= :until"] if list_filter.until is not None else []
    fits += ["amux_directory(cwd) = :cwd"] if list_filter.cwd is not None else []
    shows = ["TRUE"] if list_filter.children else ["NOT nested"]
    shows += [] if list_filter.archived else ["NOT archived"]
    if list_filter.bound is not None:
        shows.append("began >= :bound" if list_filter.descending else "began <= :bound")
    return {
        "fits": " AND ".join(fits) or "TRUE",
        "shows": " AND ".join(shows),
        "direction": "DESC" if list_filter.descending else "ASC",
    }


def _values(list_filter: ListFilter) -> dict[str, Any]:
    return {
        "since": micros(list_filter.since),
        "until": micros(list_filter.until),
        "bound": micros(list_filter.bound),
        "cwd": None if list_filter.cwd is None else plain_directory(list_filter.cwd),
        "children": list_filter.children,
        "archived": list_filter.archived,
        "limit": -1 if list_filter.limit is None else list_filter.limit,
        "named": msgspec.json.encode(sorted(filter(can_choose, list_filter.named))).decode(),
    }


def micros(at: datetime | None) -> int | None:
    """Return a time as microseconds since 1970, which a database can compare."""
    return None if at is None else (at - _EPOCH) // _MICROSECOND


def _id(cell: object) -> str | None:
    id = text(cell)
    return id if id is not None and can_choose(id) else None


_FUNCTIONS: Final[dict[str, Callable[[Any], Any]]] = {
    "amux_id": _id,
    "amux_text": text,
    "amux_moment": lambda cell: micros(moment(cell)),
    "amux_flag": lambda cell: bool(count(cell)),
    "amux_directory": lambda cell: None if cell is None else plain_directory(cell),
}
"""The functions that interpret cells, by the names that statements use."""
