"""Answers a list from the index alone, if nothing has changed since its rows were written.

Most commands repeat a question, and then starting Python takes most of the time: so this module
imports as little as possible. It returns None if the list has to be answered in the ordinary way,
which gives the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from amux.index.database import IndexDatabase
from amux.index.errors import IndexUnavailableError
from amux.index.freshness import Freshness, StoredEnvironment, entries
from amux.index.rows.query import (
    ARCHIVED,
    HiddenCounts,
    Line,
    Row,
    RowFilter,
    find_lines,
    find_summaries,
)

TYPE_CHECKING = False  # importing `typing` takes a tenth of a fast list
if TYPE_CHECKING:
    from typing import Any, TypeVar

    Found = TypeVar("Found")

_LARGEST = (1 << 63) - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_JSON = b"{"  # the first byte of a summary, unless a name in it is not valid Unicode


class FastCost:
    """The cost of a session as far as a list shows it."""

    __slots__ = ("incomplete", "total_usd")

    def __init__(self, total_usd: float, incomplete: str) -> None:
        self.total_usd = total_usd
        self.incomplete = tuple(incomplete.split())


class FastSummary:
    """A session as a table shows it."""

    __slots__ = (
        "agent", "archived", "cost", "created_at", "kind", "model", "session_id", "starred",
        "title", "turn_count", "unified_id", "unrecorded", "updated_at",
    )  # fmt: skip

    def __init__(self, line: Line, stars: Collection[str]) -> None:
        self.agent, self.session_id, created, updated, self.turn_count, self.title = line[:6]
        self.model, usd, incomplete, hidden, self.kind, _, names = line[6:]
        self.unified_id = f"{self.agent}:{self.session_id}"
        self.created_at = _EPOCH + timedelta(microseconds=created)
        self.updated_at = _EPOCH + timedelta(microseconds=updated)
        self.cost = None if usd < 0 else FastCost(usd, incomplete)
        self.unrecorded = tuple(incomplete.split()) if usd < 0 else ()
        self.archived = bool(hidden & ARCHIVED)
        self.starred = bool(stars) and any(
            f"{self.agent}:{name}" in stars for name in names.split("\n")
        )


class FastReport:
    """The sessions of a list for a table, and the counts of a `ListReport` without problems."""

    __slots__ = ("hidden_archived", "hidden_children", "sessions", "truncated")

    def __init__(
        self, lines: Sequence[Line], hidden: HiddenCounts, environment: StoredEnvironment
    ) -> None:
        self.hidden_children, self.hidden_archived, self.truncated = hidden
        stars = {fields[0] for fields in entries(environment.stars)}
        self.sessions = tuple(FastSummary(line, stars) for line in lines)


class FastTexts:
    """The sessions of a list as whole summaries in indented JSON, and the same counts."""

    __slots__ = ("hidden_archived", "hidden_children", "sessions", "truncated")

    def __init__(
        self, rows: Sequence[Row], hidden: HiddenCounts, environment: StoredEnvironment
    ) -> None:
        self.hidden_children, self.hidden_archived, self.truncated = hidden
        annotate = _Annotator(environment)
        self.sessions = tuple(annotate(*row) for row in rows)


class FastList:
    """Lists stored rows while they are current; every method returns None if they are not."""

    def __init__(
        self, database: IndexDatabase, environment: StoredEnvironment, env: Mapping[str, str]
    ) -> None:
        self._database = database
        self._environment = environment
        self._freshness = Freshness(database, "sessions", environment.fingerprint_for)
        self._env = env

    def report(self, agents: Sequence[str] | None, wanted: Mapping[str, Any]) -> FastReport | None:
        """Return a list for a table; `agents` None means all agents."""
        found = self._find(find_lines, agents, wanted)
        if found is None or any(line[-2] != _JSON for line in found[0]):
            return None
        return FastReport(*found, self._environment)

    def texts(self, agents: Sequence[str] | None, wanted: Mapping[str, Any]) -> FastTexts | None:
        """Return a list as JSON texts; `agents` None means all agents."""
        found = self._find(find_summaries, agents, wanted)
        if found is None or any(row[1][:1] != _JSON for row in found[0]):
            return None
        return FastTexts(*found, self._environment)

    def _find(
        self,
        find: Callable[[IndexDatabase, RowFilter], Found],
        agents: Sequence[str] | None,
        wanted: Mapping[str, Any],
    ) -> Found | None:
        """Return the rows if those of every agent are current and there is no problem to report."""
        all_agents = [fields[0] for fields in entries(self._environment.agents)]
        names = all_agents if agents is None else [*map(_storable, agents)]
        try:
            if not names or not self._database.exists():
                return None
            with self._database.lock, self._database.reading():
                freshness = self._freshness
                if freshness.payloads(names) or not freshness.is_valid(names, self._env):
                    return None
                values = {name: _storable(value) for name, value in wanted.items()}
                return find(self._database, RowFilter(names, **values))
        except IndexUnavailableError:
            return None


class _Annotator:
    """Adds the tags and the star of a session to the JSON of its summary.

    Line ends within a JSON string are escaped, so a line end and two spaces begin a field of the
    summary itself; fields are in the order of `SessionSummary`.
    """

    def __init__(self, environment: StoredEnvironment) -> None:
        self._stars = {fields[0] for fields in entries(environment.stars)}
        self._run_tags = {name: tags for name, *tags in entries(environment.run_tags)}
        self._tags = {name: tags for name, *tags in entries(environment.tags)}

    def __call__(self, names: str, body: bytes, agent: str) -> str:
        """Return the JSON of a summary with its annotations."""
        text = body.decode("utf-8", "replace")
        if not (self._stars or self._run_tags or self._tags):
            return text
        every = [f"{agent}:{name}" for name in names.split("\n")]
        tags = [*self._run_tags.get(every[0], ())]
        for name in every:
            tags += self._tags.get(name, ())
        if tags:
            inner = ",\n    ".join(dict.fromkeys(tags))
            text = text.replace('\n  "tags": []', f'\n  "tags": [\n    {inner}\n  ]', 1)
        return text if self._stars.isdisjoint(every) else _with_star(text)


def _with_star(text: str) -> str:
    for later in ('\n  "problems": ', '\n  "unrecorded": ', '\n  "raw": '):
        before, found, after = text.partition(later)
        if found:
            return f'{before}\n  "starred": true,{found}{after}'
    return f'{text[:-2]},\n  "starred": true\n}}'


def _storable(value: Any) -> Any:
    """Return a value as a column stores it: a datetime in microseconds of the Unix time."""
    if isinstance(value, datetime):
        return (value - _EPOCH) // timedelta(microseconds=1)
    if isinstance(value, int):
        return min(value, _LARGEST)
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
