"""A list straight from the index, when nothing has changed since the last one.

Imports as little as possible: most commands ask what an earlier one has answered already, and then
starting Python is most of the work. Whoever gets None asks the long way, with the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from amux.index.database import IndexDatabase
from amux.index.environment import StoredEnvironment, entries
from amux.index.errors import IndexUnavailableError
from amux.index.freshness import Freshness
from amux.index.rows.query import (
    ARCHIVED,
    HiddenCounts,
    Line,
    Row,
    RowFilter,
    find_lines,
    find_summaries,
)

TYPE_CHECKING = False  # `typing` would be a tenth of a quick list
if TYPE_CHECKING:
    from typing import Any, TypeVar

    Found = TypeVar("Found")

_LARGEST = (1 << 63) - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_JSON = b"{"  # how a summary begins; a name that is no Unicode is kept in another way


class FastCost:
    """What a session cost, as far as a list shows it."""

    __slots__ = ("incomplete", "total_usd")

    def __init__(self, total_usd: float, *, is_least: bool) -> None:
        self.total_usd = total_usd
        self.incomplete = ("incomplete",) if is_least else ()


class FastSummary:
    """A session as a table shows it."""

    __slots__ = (
        "agent", "archived", "cost", "created_at", "kind", "model", "session_id", "starred",
        "title", "turn_count", "unified_id", "updated_at",
    )  # fmt: skip

    def __init__(self, line: Line, stars: Collection[str]) -> None:
        self.agent, self.session_id, created, updated, self.turn_count, self.title = line[:6]
        self.model, usd, is_least, hidden, self.kind, _, names = line[6:]
        self.unified_id = f"{self.agent}:{self.session_id}"
        self.created_at = _EPOCH + timedelta(microseconds=created)
        self.updated_at = _EPOCH + timedelta(microseconds=updated)
        self.cost = None if usd < 0 else FastCost(usd, is_least=bool(is_least))
        self.archived = bool(hidden & ARCHIVED)
        self.starred = bool(stars) and any(
            f"{self.agent}:{name}" in stars for name in names.split("\n")
        )


class FastReport:
    """A list as a table shows it, and what it leaves out; as a `ListReport` without problems."""

    __slots__ = ("hidden_archived", "hidden_children", "sessions", "truncated")

    def __init__(
        self, lines: Sequence[Line], omitted: HiddenCounts, environment: StoredEnvironment
    ) -> None:
        stars = {fields[0] for fields in entries(environment.stars)}
        self.sessions = tuple(FastSummary(line, stars) for line in lines)
        self.hidden_children = omitted.hidden_children
        self.hidden_archived = omitted.hidden_archived
        self.truncated = omitted.truncated


class FastTexts:
    """A list whose sessions are whole summaries as indented JSON, and what it leaves out."""

    __slots__ = ("hidden_archived", "hidden_children", "sessions", "truncated")

    def __init__(
        self, rows: Sequence[Row], omitted: HiddenCounts, environment: StoredEnvironment
    ) -> None:
        annotate = _Annotator(environment)
        self.sessions = tuple(annotate(*row) for row in rows)
        self.hidden_children = omitted.hidden_children
        self.hidden_archived = omitted.hidden_archived
        self.truncated = omitted.truncated


class FastList:
    """Lists of what is kept, as long as it holds; None: ask the long way."""

    def __init__(
        self, database: IndexDatabase, environment: StoredEnvironment, env: Mapping[str, str]
    ) -> None:
        self._database = database
        self._environment = environment
        self._answers = Freshness(database, "sessions", environment.fingerprint_for)
        self._env = env

    def report(self, agents: Sequence[str] | None, wanted: Mapping[str, Any]) -> FastReport | None:
        """For a table; `agents` None: all there are."""
        found = self._find(find_lines, agents, wanted)
        if found is None or any(line[-2] != _JSON for line in found[0]):
            return None
        return FastReport(*found, self._environment)

    def texts(self, agents: Sequence[str] | None, wanted: Mapping[str, Any]) -> FastTexts | None:
        """As JSON."""
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
        try:
            if not self._database.exists():
                return None
            with self._database.lock, self._database.reading():
                names = self._valid_agents(agents)
                return None if names is None else find(self._database, _wanted(names, wanted))
        except IndexUnavailableError:
            return None

    def _valid_agents(self, agents: Sequence[str] | None) -> Sequence[str] | None:
        """The agents, if what is kept of each still holds and there is no problem to report."""
        everyone = [fields[0] for fields in entries(self._environment.agents)]
        names = everyone if agents is None else [*map(_storable, agents)]
        if not names or self._answers.payloads(names):
            return None
        return names if self._answers.is_valid(names, self._env) else None


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
        """Return the summary with what was added to it."""
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
    for later in ('\n  "problems": ', '\n  "raw": '):
        before, found, after = text.partition(later)
        if found:
            return f'{before}\n  "starred": true,{found}{after}'
    return f'{text[:-2]},\n  "starred": true\n}}'


def _wanted(agents: Sequence[str], wanted: Mapping[str, Any]) -> RowFilter:
    return RowFilter(agents, **{name: _storable(value) for name, value in wanted.items()})


def _storable(value: Any) -> Any:
    """A moment as a whole number, a number and a text as a column holds them."""
    if isinstance(value, datetime):
        return (value - _EPOCH) // timedelta(microseconds=1)
    if isinstance(value, int):
        return min(value, _LARGEST)
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
