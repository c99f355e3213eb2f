"""One session with all that bears on it, from as few sources as an exact answer needs."""

from __future__ import annotations

from collections.abc import Sequence

from amux.adapters._base import Adapter, SourceRef
from amux.adapters._kit.related import FindsRelated
from amux.assembly.assemble import Assembly, assemble
from amux.assembly.session import SourceSession
from amux.model.facts import Facts
from amux.model.problems import Problem
from amux.reading.facts import CollectedFacts, read_facts


def read_related(
    adapter: Adapter, sources: Sequence[SourceRef], session_id: str
) -> Assembly | None:
    """The session and everything related, as the adapter tells; None: it does not."""
    related = adapter.related(sources, session_id) if isinstance(adapter, FindsRelated) else None
    if related is None or not isinstance(adapter, FindsRelated):
        return None
    facts = CollectedFacts(adapter.info.name, sources)
    selected = related.more(())
    while selected:
        selected = related.more(facts.add_selected(adapter, selected))
    return facts.assembly()


def read_by_names(adapter: Adapter, sources: Sequence[SourceRef], session_id: str) -> Assembly:
    """The same by names alone; where these do not tell, everything is read."""
    return assemble(adapter.info.name, *_Scope(adapter, sources).read(session_id))


class _Scope:
    """Which sources an exact answer about one session needs.

    Its own and its sub-agents' are known by name; sessions it names are followed; sources that may
    hold copies without saying so bring in their whole group.
    """

    def __init__(self, adapter: Adapter, sources: Sequence[SourceRef]) -> None:
        self._adapter = adapter
        self._sources = sources
        self._by_name: dict[str, list[SourceRef]] = {}
        for source in sources:
            for name in {source.session_id, source.parent, source.name.split(".")[0]} - {None}:
                self._by_name.setdefault(str(name), []).append(source)
        self._by_prefix = [source for source in sources if source.id_prefix]

    def read(self, session_id: str) -> tuple[list[SourceSession], list[Problem]]:
        """The parts of the session and of everything related, and the problems met."""
        parts: list[SourceSession] = []
        problems: list[Problem] = []
        done: set[str] = set()
        # An id that no name shows (a database, a nested session) needs a look at everything.
        waiting = self._named(session_id) or list(self._sources)
        while waiting:
            source = waiting.pop()
            if source.location not in done:
                done.add(source.location)
                before = len(parts)
                read_facts(self._adapter, source, parts, problems)
                for part in parts[before:]:
                    waiting.extend(self._related(part))
            if not waiting:
                names = _descendants(session_id, parts)
                named = (s for name in names for s in self._holding(name))
                waiting = [source for source in named if source.location not in done]
        order = {source.location: number for number, source in enumerate(self._sources)}
        parts.sort(key=lambda part: order[part.source.location])  # as reading everything has them
        return parts, problems

    def _named(self, session_id: str) -> list[SourceRef]:
        found = [
            *self._by_name.get(session_id, []),
            *(s for s in self._by_prefix if session_id.startswith(s.id_prefix or "")),
        ]
        # A source whose name promises no session (a database, a list of names) may hold any.
        unnamed = (
            s
            for s in self._sources
            if s.role != "subagent" and not s.session_id and not s.id_prefix
        )
        return [*found, *unnamed] if found else []

    def _related(self, part: SourceSession) -> list[SourceRef]:
        facts = part.facts
        if facts.unnamed_copies or self._has_missing_parent(facts):
            group = part.source.group
            return [source for source in self._sources if source.group == group]
        names = (facts.parent, facts.prefix.of if facts.prefix else None, *facts.children)
        return [source for name in names if name for source in self._holding(name)]

    def _has_missing_parent(self, facts: Facts) -> bool:
        """Whether it is a copy of what is gone: others may be, too, and hold the same calls."""
        is_copy = facts.kind in {"fork", "continuation"} and facts.parent is not None
        return is_copy and not self._holding(facts.parent or "")

    def _holding(self, name: str) -> list[SourceRef]:
        """Sources of that name; else those whose file name mentions it (a log within a thread)."""
        return self._by_name.get(name) or [s for s in self._sources if name in s.name]


def _descendants(session_id: str, parts: Sequence[SourceSession]) -> set[str]:
    """The sub-agents of a session, at any depth: each may lie in further sources of its own."""
    names = {session_id}
    while True:
        more = {
            part.facts.session_id
            for part in parts
            if part.facts.kind == "subagent" and part.facts.parent in names
        } - names
        if not more:
            return names - {session_id}
        names |= more
