"""`SqliteSessionIndex`: the index of an agent framework, to be chosen apart from its storage.

`FileSystemRollout` keeps the rollouts, and the index lists them; together they are the file backend
of the store.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import msgspec

from amux.rollout.records import Record, SessionMeta, encode_payload, meta_payload
from amux.rollout.threads import ThreadFilter, ThreadSummary, summary_of
from amux.store.file_log.index import ThreadIndex
from amux.store.file_log.thread_tables import FileState


class SessionIndex(Protocol):
    """An index of threads: what a list needs without opening a rollout."""

    def save_thread(self, meta: SessionMeta) -> None:
        """Add a thread, or replace what is known of it."""
        ...

    def list_threads(self, filter: ThreadFilter) -> list[ThreadSummary]:
        """Return the selected threads."""
        ...

    def find_thread(self, thread_id: str) -> ThreadSummary | None:
        """Return a thread; None if it is unknown."""
        ...

    def archive_thread(self, thread_id: str) -> None:
        """Mark a thread as archived."""
        ...


class SqliteSessionIndex(ThreadIndex):
    """An index in a SQLite file. It follows the files of rollouts, or keeps what it is given."""

    def __init__(self, path: Path | str) -> None:
        super().__init__(Path(path).expanduser())

    def save_thread(self, meta: SessionMeta) -> None:
        """Add a thread, or replace what is known of it."""
        record = Record(
            seq=1,
            id=meta.thread_id,
            type="session_meta",
            at=meta.created_at,
            text=encode_payload(meta_payload(meta)),
        )
        self._ask(
            lambda tables: tables.save(
                summary_of(meta, record), FileState("", 0, 0, 0), copied=meta.copied
            )
        )

    def list_threads(self, filter: ThreadFilter | None = None) -> list[ThreadSummary]:
        """Return the selected threads; without a filter those that are not archived."""
        return self.threads(filter or ThreadFilter())

    def find_thread(self, thread_id: str) -> ThreadSummary | None:
        """Return a thread; None if it is unknown."""
        return self.get(thread_id)

    def archive_thread(self, thread_id: str) -> None:
        """Mark a thread as archived. If there are rollouts, the place of the file decides."""
        thread = self.get(thread_id)
        if thread is not None:
            archived = msgspec.structs.replace(thread, archived=True)
            self._ask(
                lambda tables: tables.save(
                    archived, tables.file_state(thread_id) or FileState("", 0, 0, 0)
                )
            )
