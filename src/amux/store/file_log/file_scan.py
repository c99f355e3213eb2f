"""Answers the questions of the index by reading the rollouts: for stores without a usable index.

Everything works without an index, only slower. A store in a directory that cannot be written to is
read like this.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from amux.model.problems import Problem
from amux.rollout.log import MessageHit, SearchQuery
from amux.rollout.records import Record, meta_of
from amux.rollout.rollout_reader import MovedError, read_forward
from amux.rollout.threads import ThreadFilter, ThreadSummary, fold_thread
from amux.store.file_log.layout import StoreLayout
from amux.store.scan_search import search_threads


class FileScan:
    """The threads of a directory, read when they are asked for."""

    def __init__(self, layout: StoreLayout) -> None:
        self._layout = layout

    def get(self, thread_id: str) -> ThreadSummary | None:
        """Return the summary of a thread; None if it does not exist."""
        path = self._layout.path_of(thread_id)
        found = None if path is None else self._read(path)
        return None if found is None else found[0]

    def threads(self, selection: ThreadFilter) -> list[ThreadSummary]:
        """Return the selected threads."""
        return selection.apply(thread for thread, _ in self._all())

    def holder_of(self, title: str) -> str | None:
        """Return the id of the oldest thread that has a title; None if there is none."""
        found = self.threads(ThreadFilter(archived=None, title=title, order="created"))
        return found[-1].thread_id if found else None

    def locate(self, record_id: str) -> list[tuple[str, int]]:
        """Return the threads that hold a record, with its sequence number in each."""
        return sorted(
            {
                thread.thread_id: record.seq
                for thread, records in self._all()
                for record in records
                if record.id == record_id
            }.items()
        )

    def search(self, query: SearchQuery) -> list[MessageHit]:
        """Return the messages that match a query."""
        return search_threads(query, self._all())

    def problems(self) -> tuple[Problem, ...]:
        """Return nothing: without an index no title or key is taken from a thread."""
        return ()

    def _all(self) -> Iterator[tuple[ThreadSummary, list[Record]]]:
        for path in self._layout.paths().values():
            found = self._read(path)
            if found is not None:
                yield found

    def _read(self, path: str) -> tuple[ThreadSummary, list[Record]] | None:
        try:
            records = list(read_forward(path))
        except MovedError:
            return None
        meta = meta_of(records[0]) if records else None
        if meta is None:
            return None
        thread = fold_thread(meta, records)
        archived = self._layout.is_archived(path)
        return msgspec.structs.replace(thread, archived=archived), records
