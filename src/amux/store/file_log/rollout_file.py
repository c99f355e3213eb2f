"""One rollout that this process appends to, and what it knows of the end of it.

`rollout.line_file` locks the file, seals torn lines and writes. A batch counts if its last line is
there: a crash can only cut off its end. The first line after a batch that was cut off says so, so
that readers can tell it from one that was damaged later.
"""

from __future__ import annotations

import threading
from pathlib import Path

from amux.durable import sync_folder
from amux.rollout.line_file import LineFile, LockedLines
from amux.rollout.log import Fsync, ThreadHead, next_item_id
from amux.rollout.records import Record, SessionMeta, encode_batch, meta_of
from amux.rollout.rollout_reader import (
    MovedError,
    committed,
    first_of,
    is_cut_off,
    lines_back,
    lines_of,
)
from amux.store.file_log.layout import store_error


class RolloutFile:
    """A rollout that this process appends to.

    Between `lock` and `unlock` the file is at its path and `head` is current.
    """

    def __init__(self, path: str, fsync: Fsync) -> None:
        self._lock = threading.RLock()
        self._lines = LineFile(Path(path), fsync=fsync, keep_open=True)
        self._locked: LockedLines | None = None
        self._depth = 0
        self._inode = 0
        self._size = -1  # the bytes that were read; -1 if nothing was
        self._is_cut = False  # the file ends with a batch that was cut off
        self._is_torn = False  # or within a line, which may be whole
        self._ids: set[str] | None = None
        self._is_name_durable = False
        self.path = path
        self.head = ThreadHead(seq=0)
        self.visible = 0  # the number of the last record that readers see: not of one cut off
        self.meta: SessionMeta | None = None  # None until `lock`, and if it cannot be read

    def move(self, path: str) -> None:
        """Take note of the path to which the file was moved."""
        with self._lock:
            self.path = path
            self._is_name_durable = False
            self._lines.move(Path(path))

    def lock(self) -> None:
        """Hold the file for a change; raise `MovedError` if it is no longer at its path.

        A thread may lock a file several times; as many calls of `unlock` release it.
        """
        self._lock.acquire()
        try:
            if not self._depth:
                try:
                    self._locked = locked = self._lines.lock()
                except FileNotFoundError:
                    raise MovedError from None
                except OSError as error:
                    raise store_error(error, "open", self.path) from error
                if locked.inode != self._inode or locked.size != self._size:
                    self._catch_up(locked)
        except BaseException:
            self._depth += 1
            self.unlock()
            raise
        self._depth += 1

    def unlock(self) -> None:
        """Release the file."""
        self._depth -= 1
        if not self._depth and self._locked is not None:
            self._locked.release()
            self._locked = None
        self._lock.release()

    def _catch_up(self, locked: LockedLines) -> None:
        """Read what other writers appended."""
        is_known = locked.inode == self._inode and 0 <= self._size <= locked.size
        if is_known:
            new = list(lines_of(locked.descriptor, self._size, locked.size))
            for line in committed(new):
                self._note(line.record)
            last = max((line.record.seq for line in new), default=0)
            self.head = ThreadHead(seq=max(self.head.seq, last), item_id=self.head.item_id)
        else:
            self.head, self.visible = _end_of(locked.descriptor, locked.size)
            self._ids = None
            first = first_of(locked.descriptor, locked.size)
            self.meta = None if first is None else meta_of(first)
        self._is_cut = is_cut_off(locked.descriptor, locked.size)
        self._is_torn = locked.is_torn()
        self._inode, self._size = locked.inode, locked.size

    def _note(self, record: Record) -> None:
        item_id = next_item_id(record, self.head.item_id)
        self.head = ThreadHead(seq=record.seq, item_id=item_id)
        self.visible = record.seq
        if self._ids is not None:
            self._ids.add(record.id)

    def has(self, record_id: str) -> bool:
        """Return whether the thread has a record; the first call reads all ids."""
        if self._ids is None:
            lines = lines_of(self._held().descriptor, 0, self._size)
            self._ids = {line.record.id for line in committed(lines)}
        return record_id in self._ids

    def append(self, records: list[Record]) -> None:
        """Write records as one batch, and sync it if the policy is "always"."""
        locked = self._held()
        try:
            locked.write(encode_batch(records, after_cut=self._is_cut), is_torn=self._is_torn)
        except OSError as error:
            self._size = -1  # perhaps a part of it could not be removed again
            raise store_error(error, "append to", self.path) from error
        self._size, self._is_cut, self._is_torn = locked.size, False, False
        for record in records:
            self._note(record)

    def sync(self) -> None:
        """Force the file to the disk, the first time with its name."""
        try:
            self._held().sync()
            if not self._is_name_durable:
                sync_folder(Path(self.path).parent)
                self._is_name_durable = True
        except OSError as error:
            raise store_error(error, "sync", self.path) from error

    def _held(self) -> LockedLines:
        if self._locked is None:
            raise AssertionError("the file is not locked")
        return self._locked

    def abandon(self) -> None:
        """Close the file in a forked process, whatever a thread of the parent does with it."""
        self._lines.close()

    def close(self) -> bool:
        """Close the file, unless it is being used; return whether it is closed."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            if self._depth:
                return False
            self._lines.close()
        finally:
            self._lock.release()
        return True


def _end_of(descriptor: int, size: int) -> tuple[ThreadHead, int]:
    """Return the head of a file, read from its end, and the number of its last visible record.

    For the head the number of any line counts, also of a batch whose end is missing: it is not used
    again.
    """
    seq = visible = 0
    for line, counts in lines_back(descriptor, size):
        seq = max(seq, line.record.seq)
        visible = visible or (line.record.seq if counts else 0)
        item_id = next_item_id(line.record, None) if counts else None
        if item_id is not None:
            return ThreadHead(seq=seq, item_id=item_id), visible
        if line.record.type == "session_meta":
            break
    return ThreadHead(seq=seq), visible
