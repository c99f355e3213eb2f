"""`FileSystemRollout`: the storage of an agent framework in a directory, written by recorders."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from amux.rollout.log import Fsync
from amux.rollout.records import SessionMeta
from amux.store.file_log.log import FileLog

if TYPE_CHECKING:
    from amux.rollout.recorder import BackgroundRecorder, LogRecorder
    from amux.store.file_log.index import ThreadIndex


class FileSystemRollout(FileLog):
    """Rollouts in a directory, written by recorders."""

    def __init__(
        self,
        base: Path | str,
        *,
        fsync: Fsync = "turn",
        index: ThreadIndex | Path | str | None = None,
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
        from amux.rollout.recorder import BackgroundRecorder, LogRecorder

        meta = self.meta(thread_id)
        kind = BackgroundRecorder if background else LogRecorder
        return kind(self, meta.thread_id)
