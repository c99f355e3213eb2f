"""`client.index`: the status of the index, updating, rebuilding and checking it.

No command requires this: each one updates what it needs.
"""

from __future__ import annotations

from amux.index.database import IndexDatabase
from amux.index.errors import IndexUnavailableError
from amux.index.indexer_lock import IndexerLock
from amux.index.inspection import TEXTS_HAVE_TOOLS, IndexInspection
from amux.model.options import CostAggregationOptions
from amux.model.reports import IndexCheck, IndexedSources, IndexStatus, unusable_index
from amux.sessions.service import SessionService

SAMPLE = 50


class IndexManager:
    """The index of one home directory."""

    def __init__(self, service: SessionService, database: IndexDatabase | None) -> None:
        self._service = service
        self._database = database

    def status(self) -> IndexStatus:
        """Return where the index is, what it holds and what is stale; changes nothing."""
        database = self._database
        if database is None:
            return IndexStatus(bytes=0, text_bytes=0, texts_have_tools=TEXTS_HAVE_TOOLS)
        agents: tuple[IndexedSources, ...] = ()
        trouble, inspection = self._service.index_error, self._inspection(database)
        with database.lock:
            texts, text_trouble = inspection.text_counts()
        try:
            with database.lock:
                agents = tuple(inspection.sources(texts)) if database.exists() else ()
        except IndexUnavailableError as error:
            trouble = str(error)
        own, text_bytes = database.sizes()
        return IndexStatus(
            path=str(database.path),
            bytes=own,
            text_bytes=text_bytes,
            agents=agents,
            texts_have_tools=TEXTS_HAVE_TOOLS,
            trouble=trouble,
            text_trouble=text_trouble,
            indexer=IndexerLock(database.path).status(),
        )

    def update(self, *, texts: bool = False) -> IndexStatus:
        """Read new and changed sources now instead of when they are needed."""
        service = self._service
        with service.lock:
            service.update_rows()
            service.total_cost(CostAggregationOptions())
            if texts:
                service.text_candidates(service.registry.names())
            return self.status()

    def rebuild(self, *, texts: bool = False) -> IndexStatus:
        """Delete the index and read everything again."""
        with self._service.lock:
            if self._database is not None:
                self._database.remove()
                self._database.remove_texts()
            return self.update(texts=texts)

    def check(self, *, sample: int | None = SAMPLE) -> IndexCheck:
        """Read some sources (None: all) and compare them with the index; skip stale ones."""
        database = self._database
        if database is None or not database.exists():
            return IndexCheck(checked=0)
        try:
            with database.lock:
                return self._inspection(database).check(sample)
        except IndexUnavailableError as error:
            raise unusable_index(str(error)) from error

    def _inspection(self, database: IndexDatabase) -> IndexInspection:
        registry = self._service.registry
        names = [name for name in registry.names() if registry.is_indexable(name)]
        return IndexInspection(database, self._service.catalog, names)
