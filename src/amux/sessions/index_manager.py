"""Looking after the index: what is in it, bringing it up to date, checking it against the sources.

Nobody has to: every command brings up to date what it needs. The check reads a sample of sources
again and compares, fact by fact.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Mapping, Sequence

from amux.adapters._base import SourceRef
from amux.index.database import IndexDatabase
from amux.index.errors import IndexUnavailableError, TextIndexError
from amux.index.facts.sources import SourceIndex
from amux.index.facts.stored_source import Depth, SourceReader
from amux.index.text.update import HAS_TOOLS
from amux.model.options import CostAggregationOptions
from amux.model.reports import (
    IndexCheck,
    IndexedSources,
    IndexMismatch,
    IndexStatus,
    unusable_index,
)
from amux.sessions.service import SessionService

SAMPLE = 50


class IndexManager:
    """`client.index`: the index of this home."""

    def __init__(self, reader: SessionService, store: IndexDatabase | None) -> None:
        self._reader = reader
        self._store = store

    def status(self) -> IndexStatus:
        """Where it is, what it holds, what is stale; changes nothing."""
        store = self._store
        if store is None:
            return IndexStatus(bytes=0, text_bytes=0, texts_have_tools=HAS_TOOLS)
        agents: tuple[IndexedSources, ...] = ()
        trouble = self._reader.catalogue.index_error
        with store.lock:
            texts, text_trouble = self._texts(store)
        try:
            with store.lock:
                agents = tuple(self._agents(store, texts)) if store.exists() else ()
        except IndexUnavailableError as error:
            trouble = str(error)
        own, text_bytes = store.sizes()
        return IndexStatus(
            path=str(store.path),
            bytes=own,
            text_bytes=text_bytes,
            agents=agents,
            texts_have_tools=HAS_TOOLS,
            trouble=trouble,
            text_trouble=text_trouble,
        )

    def update(self, *, texts: bool = False) -> IndexStatus:
        """Read what is new or has changed, now rather than when it is needed."""
        reader = self._reader
        with reader.lock:
            reader.catalogue.update_rows(reader.coster)
            reader.total_cost(CostAggregationOptions())
            if texts:
                reader.catalogue.text_candidates(reader.registry.names())
            return self.status()

    def rebuild(self, *, texts: bool = False) -> IndexStatus:
        """Throw it away and read everything again."""
        with self._reader.lock:
            if self._store is not None:
                self._store.remove()
                self._store.remove_texts()
            return self.update(texts=texts)

    def check(self, *, sample: int | None = SAMPLE) -> IndexCheck:
        """Read some sources (None: all) directly and compare; what is stale is passed over."""
        store = self._store
        if store is None or not store.exists():
            return IndexCheck(checked=0)
        try:
            with store.lock:
                pairs = [pair for name in self._names() for pair in self._fresh(store, name)]
                if sample is not None and len(pairs) > sample:
                    pairs = random.sample(pairs, sample)
                found = [self._compare(store, name, source) for name, source in pairs]
        except IndexUnavailableError as error:
            raise unusable_index(str(error)) from error
        return IndexCheck(
            checked=len(pairs), mismatches=tuple(each for each in found if each is not None)
        )

    def _names(self) -> Sequence[str]:
        registry = self._reader.registry
        return [name for name in registry.names() if registry.is_indexable(name)]

    def _texts(self, store: IndexDatabase) -> tuple[dict[str, int], str | None]:
        """How many sources of each agent have their texts; or why nobody can tell."""
        library = self._reader.library
        found = [(name, library.adapter(name)) for name in self._names()]
        indexed = {
            name: each for name, each in found if not library.has_complete_native_index(name)
        }
        if not store.has_texts():
            return dict.fromkeys(indexed, 0), None
        try:
            texts = store.texts()
            counts = {n: texts.current(each, library.sources(n)) for n, each in indexed.items()}
        except TextIndexError as error:
            return {}, str(error)
        return counts, None

    def _agents(self, store: IndexDatabase, texts: Mapping[str, int]) -> Iterator[IndexedSources]:
        for name in self._names():
            sources = self._reader.library.sources(name)
            kept = self._index(store, name)
            stale = kept.stale(sources, Depth.USAGE)
            numbers = kept.counts()
            if sources or numbers[0]:
                yield IndexedSources(
                    agent=name,
                    sources=len(sources),
                    kept=numbers[0],
                    stale=len(stale),
                    stale_bytes=kept.stale_bytes(stale, Depth.USAGE),
                    sessions=numbers[1],
                    subagents=numbers[2],
                    texts=texts.get(name),
                )

    def _index(self, store: IndexDatabase, name: str) -> SourceIndex:
        return SourceIndex(store, name, self._reader.library.adapter(name))

    def _fresh(self, store: IndexDatabase, name: str) -> Iterator[tuple[str, SourceRef]]:
        sources = self._reader.library.sources(name)
        stale = {source.location for source in self._index(store, name).stale(sources, Depth.USAGE)}
        yield from ((name, source) for source in sources if source.location not in stale)

    def _compare(self, store: IndexDatabase, name: str, source: SourceRef) -> IndexMismatch | None:
        kept = self._index(store, name).stored(os.fsencode(source.location))
        if kept is None:
            return None
        depth, facts, problems = kept
        now = SourceReader(self._reader.library.adapter(name)).whole(source, depth.want)
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
