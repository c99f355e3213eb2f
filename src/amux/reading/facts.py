"""Collects the facts of sources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain

from amux.adapters._base import (
    Adapter,
    Item,
    Reading,
    SelectedSessions,
    Selective,
    SourceRef,
)
from amux.adapters._kit.related import FindsRelated
from amux.assembly.assemble import Assembly, assemble
from amux.assembly.session import SourceSession
from amux.model.facts import Facts
from amux.model.problems import Problem


def collect(items: Iterable[Item]) -> Reading:
    """Return the facts among some items, and the problems that these facts do not contain."""
    facts: list[Facts] = []
    problems: list[Problem] = []
    for item in items:
        if isinstance(item, Facts):
            facts.append(item)
        elif isinstance(item, Problem):
            problems.append(item)
    in_facts = {problem for each in facts for problem in each.problems}
    others = tuple(problem for problem in problems if problem not in in_facts)
    return Reading(facts=tuple(facts), problems=others)


def source_sessions(source: SourceRef, facts: Iterable[Facts]) -> list[SourceSession]:
    """Pair the facts of a source's sessions with the source; undated ones get its file's mtime."""
    return [
        SourceSession(each, source, None if each.created_at else _file_time(source))
        for each in facts
    ]


def _file_time(source: SourceRef) -> datetime | None:
    if not source.has_path:
        return None
    try:
        return datetime.fromtimestamp(source.path.stat().st_mtime, UTC)
    except OSError:
        return None


def read_facts(
    adapter: Adapter, source: SourceRef, parts: list[SourceSession], problems: list[Problem]
) -> None:
    """Add the sessions of a source to `parts`, and problems of no session to `problems`."""
    _add_facts(adapter.read(source, want="facts"), source, parts, problems)


def _add_facts(
    items: Iterable[Item], source: SourceRef, parts: list[SourceSession], problems: list[Problem]
) -> None:
    reading = collect(items)
    parts.extend(source_sessions(source, reading.facts))
    problems.extend(reading.problems)


class CollectedFacts:
    """Collects the facts of one agent in any order; assembles them in the order of its sources."""

    def __init__(self, agent: str, sources: Sequence[SourceRef]) -> None:
        self._agent = agent
        self._sources = sources
        self._parts: dict[str, list[SourceSession]] = {}
        self._problems: list[Problem] = []

    def add_source(self, adapter: Adapter, source: SourceRef) -> None:
        """Read and add all sessions of a source."""
        read_facts(adapter, source, self._parts.setdefault(source.location, []), self._problems)

    def add_selected(
        self, adapter: Selective | FindsRelated, selected: SelectedSessions
    ) -> list[tuple[SourceRef, Facts]]:
        """Read and add the selected sessions of some sources; return the facts of these sources."""
        read: list[tuple[SourceRef, Facts]] = []
        for source, ids in selected.items():
            parts = self._parts.setdefault(source.location, [])
            _add_facts(adapter.read_selected(source, chosen=ids), source, parts, self._problems)
            read += ((source, part.facts) for part in parts)
        return read

    def names(self) -> Iterator[str]:
        """Yield every session id that the collected facts mention."""
        for part in chain.from_iterable(self._parts.values()):
            facts = part.facts
            prefix = None if facts.prefix is None else facts.prefix.of
            noted = (note.session_id for note in facts.notes)
            own = (facts.session_id, *facts.aliases)
            yield from filter(None, (*own, facts.parent, prefix, *facts.children, *noted))

    def assembly(self) -> Assembly:
        """Assemble all sessions collected so far."""
        in_order = (self._parts.get(source.location, ()) for source in self._sources)
        return assemble(self._agent, chain.from_iterable(in_order), self._problems)
