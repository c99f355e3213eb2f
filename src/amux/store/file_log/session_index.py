"""The storage and the index of an agent framework, as two parts that can be chosen apart.

`FileSystemRollout` keeps the rollouts, `SqliteSessionIndex` lists them; together they are the file
backend of the store.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Protocol

import msgspec

from amux.rollout.log import Fsync
from amux.rollout.recorder import BackgroundRecorder, LogRecorder
from amux.rollout.records import Record, SessionMeta, encode_payload, meta_payload
from amux.rollout.threads import ThreadFilter, ThreadSummary, summary_of
from amux.store.file_log.index import ThreadIndex
from amux.store.file_log.log import FileLog
from amux.store.file_log.thread_tables import FileState


class SessionIndex(Protocol):
    """An index of threads: what a list needs without opening a rollout."""

    def save_thread(self, meta: SessionMeta) -> None:
        """Add a thread, or replace what is known of it."""
        ...

    def list_threads(self, selection: ThreadFilter) -> list[ThreadSummary]:
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

    def list_threads(self, selection: ThreadFilter | None = None) -> list[ThreadSummary]:
        """Return the selected threads; without a selection those that are not archived."""
        return self.threads(selection or ThreadFilter())

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


class FileSystemRollout(FileLog):
    """Rollouts in a directory, written by recorders."""

    def __init__(
        self,
        base: Path | str,
        *,
        fsync: Fsync = "turn",
        index: ThreadIndex | None = None,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        super().__init__(Path(base).expanduser(), fsync=fsync, index=index, now=now)

    def record(
        self, meta: SessionMeta, *, background: bool = False
    ) -> LogRecorder | BackgroundRecorder:
        """Create a thread and return its recorder."""
        self.create(meta)
        return self.resume(meta.thread_id, background=background)

    def resume(
        self, thread_id: str, *, background: bool = False
    ) -> LogRecorder | BackgroundRecorder:
        """Return a recorder that continues a thread, archived or not."""
        meta = self.meta(thread_id)
        kind = BackgroundRecorder if background else LogRecorder
        return kind(self, meta.thread_id)
