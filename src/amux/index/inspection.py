"""Compares the index with the sources: how far it is behind, and whether its facts are equal."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence

from amux.adapters._base import SourceRef
from amux.index.database import IndexDatabase
from amux.index.errors import TextIndexError
from amux.index.facts.sources import SourceIndex
from amux.index.facts.stored_source import SourceReader
from amux.index.rows.results import stored_counts
from amux.index.text.shard import HAS_TOOLS as TEXTS_HAVE_TOOLS
from amux.index.text.update import open_texts
from amux.model.reports import IndexCheck, IndexedSources, IndexMismatch
from amux.reading.fingerprint import total_size
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

        An agent whose own full-text index is complete is not included.
        """
        catalog, database = self._catalog, self._database
        agents = [name for name in self._agents if not catalog.has_complete_native_index(name)]
        if not database.text_path.exists():  # opening them would create the file
            return dict.fromkeys(agents, 0), None
        try:
            texts = open_texts(database)
            counts = {
                name: texts.current(catalog.adapter(name), catalog.sources(name)) for name in agents
            }
        except TextIndexError as error:
            return {}, str(error)
        return counts, None

    def sources(self, texts: dict[str, int]) -> Iterator[IndexedSources]:
        """Yield the size of the index for each agent, and how much of it is stale."""
        for name in self._agents:
            sources, index = self._catalog.sources(name), self._index(name)
            stale = index.stale(sources)
            stored, sessions, subagents = stored_counts(self._database, name)
            if sources or stored:
                yield IndexedSources(
                    agent=name,
                    sources=len(sources),
                    kept=stored,
                    stale=len(stale),
                    stale_bytes=total_size(stale),
                    sessions=sessions,
                    subagents=subagents,
                    texts=texts.get(name),
                )

    def check(self, sample: int | None) -> IndexCheck:
        """Read a sample of the current sources (None: all) and compare them with the index."""
        pairs: list[tuple[str, SourceRef]] = []
        for name in self._agents:
            sources = self._catalog.sources(name)
            stale = {source.location for source in self._index(name).stale(sources)}
            pairs += [(name, source) for source in sources if source.location not in stale]
        if sample is not None and len(pairs) > sample:
            pairs = random.sample(pairs, sample)
        found = [self._compare(name, source) for name, source in pairs]
        return IndexCheck(
            checked=len(pairs), mismatches=tuple(each for each in found if each is not None)
        )

    def _index(self, name: str) -> SourceIndex:
        return SourceIndex(self._database, name, self._catalog.adapter(name))

    def _compare(self, name: str, source: SourceRef) -> IndexMismatch | None:
        stored = self._index(name).stored(os.fsencode(source.location))
        if stored is None:
            return None
        facts, problems = stored
        now = SourceReader(self._catalog.adapter(name)).whole(source)
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
