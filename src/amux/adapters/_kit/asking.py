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
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from amux.adapters._base import Choice, Chosen, Question, SourceRef, Unread
from amux.adapters._kit.sqlite import read_foreign
from amux.adapters._kit.tables import can_choose
from amux.adapters._kit.values import count, moment, text
from amux.errors import ParseError
from amux.model.facts import Facts
from amux.model.places import plain_place

if TYPE_CHECKING:
    import sqlite3

CandidatesSql = Callable[["sqlite3.Connection"], str | None]
"""Returns the common table expressions for a database; None if its tables do not suffice."""

_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_MICROSECOND: Final = timedelta(microseconds=1)

_QUESTION: Final = """WITH RECURSIVE {candidates},
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

_NAMES: Final = "WITH RECURSIVE {} SELECT id FROM candidates UNION SELECT parent FROM candidates"


def choose_in_databases(
    sources: Sequence[SourceRef], candidates_sql: CandidatesSql, question: Question
) -> Choice | None:
    """Select the sessions to read from each database; None if one of them does not allow it.

    If there are several databases, a first statement collects the ids in each: a session that more
    than one database mentions is always read.
    """
    try:
        shared = _shared_names(sources, candidates_sql) if len(sources) > 1 else frozenset[str]()
        question = msgspec.structs.replace(question, named=question.named | shared)
        answers = [_ask(source, candidates_sql, question) for source in sources]
    except (ParseError, OSError, UnicodeEncodeError):
        return None  # a full read reports what is wrong
    chosen: dict[SourceRef, Sequence[str]] = {}
    unread = Unread()
    for source, answer in zip(sources, answers, strict=True):
        if answer is None:
            return None
        ids, left = answer
        if ids:
            chosen[source] = ids
        unread = unread.plus(left)
    return _DatabaseChoice(chosen, unread)


class _DatabaseChoice(NamedTuple):
    """A selection that one statement has already completed."""

    chosen: Chosen
    left: Unread

    def began(self) -> Sequence[datetime]:
        return ()

    def first(self, bound: datetime | None = None) -> Chosen:
        del bound  # the statement has already applied the bound of the question
        return self.chosen

    def more(self, read: Sequence[tuple[SourceRef, Facts]]) -> Chosen:
        del read
        return {}

    def unread(self) -> Unread:
        return self.left


def _shared_names(sources: Sequence[SourceRef], candidates_sql: CandidatesSql) -> frozenset[str]:
    def names(connection: sqlite3.Connection) -> list[str]:
        tables = candidates_sql(connection)
        if tables is None:
            return []
        _register_functions(connection)
        return [name for (name,) in connection.execute(_NAMES.format(tables)) if name is not None]

    times = Counter(name for source in sources for name in read_foreign(source.path, names))
    return frozenset(name for name, count in times.items() if count > 1)


def _ask(
    source: SourceRef, candidates_sql: CandidatesSql, question: Question
) -> tuple[list[str], Unread] | None:
    def ask(connection: sqlite3.Connection) -> list[tuple[str, str | None, int]] | None:
        tables = candidates_sql(connection)
        if tables is None:
            return None
        _register_functions(connection)
        return connection.execute(_statement(tables, question), _values(question)).fetchall()

    rows = read_foreign(source.path, ask)
    counts = {reason: number for reason, id, number in rows or () if id is None}
    if rows is None or counts["odd"]:
        return None
    ids = [id for _, id, _ in rows if id is not None]
    return ids, Unread(*(counts.get(reason, 0) for reason in Unread._fields))


def _statement(tables: str, question: Question) -> str:
    fits = ["began >= :since"] if question.since is not None else []
    fits += ["began <= :until"] if question.until is not None else []
    fits += ["amux_place(cwd) = :cwd"] if question.cwd is not None else []
    shows = ["TRUE"] if question.children else ["NOT nested"]
    shows += [] if question.archived else ["NOT archived"]
    if question.bound is not None:
        shows.append("began >= :bound" if question.descending else "began <= :bound")
    return _QUESTION.format(
        candidates=tables,
        fits=" AND ".join(fits) or "TRUE",
        shows=" AND ".join(shows),
        direction="DESC" if question.descending else "ASC",
    )


def _values(question: Question) -> dict[str, Any]:
    named: Iterable[str] = filter(can_choose, question.named)
    return {
        "since": micros(question.since),
        "until": micros(question.until),
        "bound": micros(question.bound),
        "cwd": None if question.cwd is None else plain_place(question.cwd),
        "children": question.children,
        "archived": question.archived,
        "limit": -1 if question.limit is None else question.limit,
        "named": msgspec.json.encode(sorted(named)).decode(),
    }


def micros(at: datetime | None) -> int | None:
    """Return a time as microseconds since 1970, which a database can compare."""
    return None if at is None else (at - _EPOCH) // _MICROSECOND


def _register_functions(connection: sqlite3.Connection) -> None:
    """Register the functions that interpret cells, under the names that statements use."""
    functions: dict[str, Callable[[Any], Any]] = {
        "amux_id": _id,
        "amux_text": text,
        "amux_moment": lambda cell: micros(moment(cell)),
        "amux_flag": lambda cell: bool(count(cell)),
        "amux_place": lambda cell: None if cell is None else plain_place(cell),
    }
    for name, function in functions.items():
        connection.create_function(name, 1, function, deterministic=True)


def _id(cell: object) -> str | None:
    id = text(cell)
    return id if id is not None and can_choose(id) else None
