"""Reads one session and all sessions that affect it, from as few sources as possible."""

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
    """Read the session and its related sessions; None if the adapter cannot determine them."""
    related = adapter.related(sources, session_id) if isinstance(adapter, FindsRelated) else None
    if related is None or not isinstance(adapter, FindsRelated):
        return None
    facts = CollectedFacts(adapter.info.name, sources)
    selected = related.more(())
    while selected:
        selected = related.more(facts.add_selected(adapter, selected))
    return facts.assembly()


def read_by_names(adapter: Adapter, sources: Sequence[SourceRef], session_id: str) -> Assembly:
    """Read the session and its related sessions, found by names; if in doubt read all sources."""
    return assemble(adapter.info.name, *_Scope(adapter, sources).read(session_id))


class _Scope:
    """Determines which sources must be read for one session.

    These are its own sources and those of its sub-agents, found by name, those of the sessions it
    names, and the whole group of any source that may contain copies from sessions it does not name.
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
        """Return the source sessions of the session and of all related ones, and the problems."""
        parts: list[SourceSession] = []
        problems: list[Problem] = []
        done: set[str] = set()
        # An id in no name (that of a session in a database, or a nested one) may be in any source.
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
        parts.sort(key=lambda part: order[part.source.location])  # the order of a full read
        return parts, problems

    def _named(self, session_id: str) -> list[SourceRef]:
        found = [
            *self._by_name.get(session_id, []),
            *(s for s in self._by_prefix if session_id.startswith(s.id_prefix or "")),
        ]
        # A source without an id in its name (a database, a list of names) may contain any session.
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
        """Return whether its parent is missing: other copies of it may contain the same calls."""
        is_copy = facts.kind in {"fork", "continuation"} and facts.parent is not None
        return is_copy and not self._holding(facts.parent or "")

    def _holding(self, name: str) -> list[SourceRef]:
        """Return the sources of that name, else those with it in their file name (other logs)."""
        return self._by_name.get(name) or [s for s in self._sources if name in s.name]


def _descendants(session_id: str, parts: Sequence[SourceSession]) -> set[str]:
    """Return the sub-agents of a session at any depth; each may have further sources."""
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
