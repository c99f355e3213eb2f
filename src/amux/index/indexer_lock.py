"""The lock of the background indexer, and the record of its last run, in one file.

A cache directory has one such file. The lock belongs to an open file, so it vanishes with the
process that holds it; the record stays. A record without an end whose lock is free is that of an
indexer that was killed.
"""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import Final, Literal

import msgspec

from amux.durable import BINARY, PRIVATE_FILE, make_private_folder, try_lock, unlock
from amux.model.reports import IndexerStatus

_RECORD_BYTES: Final = 1024  # one write of this size replaces a record: no reader sees half of it
_REASON_LENGTH: Final = 200

IndexerResult = Literal["complete", "time_limit", "failed"]


class IndexerRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A run of the indexer. `index` is the file name of the index that it updates."""

    index: str
    pid: int
    started_at: datetime
    ended_at: datetime | None = None
    result: IndexerResult | None = None
    reason: str | None = None

    def ended(self, at: datetime, result: IndexerResult, reason: str | None) -> IndexerRecord:
        """Return the record of the run with its end."""
        if reason is not None:  # it may name a file whose name is no text
            reason = reason[:_REASON_LENGTH].encode(errors="replace").decode()
        return msgspec.structs.replace(self, ended_at=at, result=result, reason=reason)

    def write(self, descriptor: int) -> None:
        """Store the record in the open file of the lock, whose lock the caller holds."""
        text = msgspec.json.encode(self).ljust(_RECORD_BYTES)
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.write(descriptor, text)
        os.ftruncate(descriptor, len(text))


class IndexerLock:
    """The lock file beside an index; every index of a cache directory has the same one."""

    def __init__(self, index_path: Path) -> None:
        self.path = index_path.with_name("indexer.lock")
        self.index = index_path.name

    def acquire(self) -> int | None:
        """Return the open file that holds the lock; None if another process holds it.

        Raises:
            OSError: The file cannot be created or written.
        """
        make_private_folder(self.path.parent)
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | BINARY, PRIVATE_FILE)
        if try_lock(descriptor):
            return descriptor
        os.close(descriptor)
        return None

    def is_held(self) -> bool:
        """Return whether an indexer is running."""
        try:
            descriptor = os.open(self.path, os.O_RDWR | BINARY)
        except OSError:
            return False
        try:
            if not try_lock(descriptor):
                return True
            unlock(descriptor)
            return False
        finally:
            os.close(descriptor)

    def record(self) -> IndexerRecord | None:
        """Return the last run for this index; None if there was none, or one for another index."""
        try:
            record = msgspec.json.decode(self.path.read_bytes(), type=IndexerRecord)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return None
        return record if record.index == self.index else None

    def status(self) -> IndexerStatus | None:
        """Return the state of the running or else of the last indexer; None if there was none."""
        is_running, record = self.is_held(), self.record()
        if is_running and (record is None or record.ended_at is not None):
            return IndexerStatus(state="running")  # it has not written its record yet
        if record is None:
            return None
        return IndexerStatus(
            state="running" if is_running else record.result or "killed",
            pid=record.pid if is_running else None,
            started_at=record.started_at,
            ended_at=record.ended_at,
            reason=record.reason,
        )
