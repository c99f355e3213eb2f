"""Examines the index: how far it is behind the sources, and whether it says what they say."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence

from amux.adapters._base import SourceRef
from amux.index.database import IndexDatabase
from amux.index.errors import TextIndexError
from amux.index.facts.sources import SourceIndex
from amux.index.facts.stored_source import Depth, SourceReader
from amux.index.text.update import HAS_TOOLS as TEXTS_HAVE_TOOLS
from amux.model.reports import IndexCheck, IndexedSources, IndexMismatch
from amux.reading.sources import SourceCatalog

__all__ = ["TEXTS_HAVE_TOOLS", "IndexInspection"]


class IndexInspection:
    """Compares the index with the sources of some agents. Callers hold the lock of the index."""

    def __init__(
        self, database: IndexDatabase, catalog: SourceCatalog, agents: Sequence[str]
    ) -> None:
        self._database = database
        self._catalog = catalog
        self._agents = agents

    def text_counts(self) -> tuple[dict[str, int], str | None]:
        """Return how many sources of each agent have current texts; or why that is unknown.

        An agent whose own full-text index is complete is left out.
        """
        catalog, database = self._catalog, self._database
        agents = [name for name in self._agents if not catalog.has_complete_native_index(name)]
        if not database.has_texts():
            return dict.fromkeys(agents, 0), None
        try:
            texts = database.texts()
            counts = {
                name: texts.current(catalog.adapter(name), catalog.sources(name)) for name in agents
            }
        except TextIndexError as error:
            return {}, str(error)
        return counts, None

    def sources(self, texts: dict[str, int]) -> Iterator[IndexedSources]:
        """Yield what the index holds of each agent, and how much of it is stale."""
        for name in self._agents:
            sources, index = self._catalog.sources(name), self._index(name)
            stale = index.stale(sources, Depth.USAGE)
            stored, sessions, subagents = index.counts()
            if sources or stored:
                yield IndexedSources(
                    agent=name,
                    sources=len(sources),
                    kept=stored,
                    stale=len(stale),
                    stale_bytes=index.stale_bytes(stale, Depth.USAGE),
                    sessions=sessions,
                    subagents=subagents,
                    texts=texts.get(name),
                )

    def check(self, sample: int | None) -> IndexCheck:
        """Read a sample of the current sources (None: all) and compare them with the index."""
        pairs = [pair for name in self._agents for pair in self._current(name)]
        if sample is not None and len(pairs) > sample:
            pairs = random.sample(pairs, sample)
        found = [self._compare(name, source) for name, source in pairs]
        return IndexCheck(
            checked=len(pairs), mismatches=tuple(each for each in found if each is not None)
        )

    def _index(self, name: str) -> SourceIndex:
        return SourceIndex(self._database, name, self._catalog.adapter(name))

    def _current(self, name: str) -> Iterator[tuple[str, SourceRef]]:
        sources = self._catalog.sources(name)
        stale = {source.location for source in self._index(name).stale(sources, Depth.USAGE)}
        return ((name, source) for source in sources if source.location not in stale)

    def _compare(self, name: str, source: SourceRef) -> IndexMismatch | None:
        stored = self._index(name).stored(os.fsencode(source.location))
        if stored is None:
            return None
        depth, facts, problems = stored
        now = SourceReader(self._catalog.adapter(name)).whole(source, depth.want)
        fields = {
            field
            for one, other in zip(facts, now.facts, strict=False)
            for field in one.__struct_fields__
            if getattr(one, field) != getattr(other, field)
        }
        if len(facts) != len(now.facts):
            fields.add("sessions")
        if problems != now.problems:
            fields.add("problems")
        if not fields:
            return None
        return IndexMismatch(agent=name, path=source.location, fields=tuple(sorted(fields)))
