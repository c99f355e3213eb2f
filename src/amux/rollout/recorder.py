"""`RolloutRecorder`: writes the items of one thread, directly or through a background thread."""

from __future__ import annotations

import queue
import threading
from collections.abc import Mapping
from typing import Any, Final, Protocol, Self

from amux.durable import abandon_after_fork
from amux.errors import StoreError
from amux.rollout.log import ThreadLog
from amux.rollout.records import NewRecord

_LONGEST_QUEUE: Final = 10_000


class RolloutRecorder(Protocol):
    """Records the items of a thread. `flush` and `close` are barriers."""

    def append_event(self, item: NewRecord | Mapping[str, Any]) -> None:
        """Record an item."""
        ...

    def flush(self) -> None:
        """Return when everything that was recorded before is stored."""
        ...

    def close(self) -> None:
        """Flush and release everything. Closing twice is harmless."""
        ...


def as_record(item: NewRecord | Mapping[str, Any]) -> NewRecord:
    """Return an item as a record; a mapping is the payload of a `response_item`."""
    return item if isinstance(item, NewRecord) else NewRecord(payload=dict(item))


class LogRecorder:
    """Appends each item to a log before `append_event` returns."""

    def __init__(self, log: ThreadLog, thread_id: str) -> None:
        self.thread_id = thread_id
        self._log = log
        self._closed = False

    def append_event(self, item: NewRecord | Mapping[str, Any]) -> None:
        """Record an item."""
        if self._closed:
            raise StoreError(f"the recorder of thread `{self.thread_id}` is closed")
        self._log.append(self.thread_id, (as_record(item),))

    def flush(self) -> None:
        """Force everything to the disk."""
        self._log.sync(self.thread_id)

    def close(self) -> None:
        """Flush; nothing can be recorded afterwards."""
        if not self._closed:
            self.flush()
            self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class BackgroundRecorder:
    """Hands items to a thread that appends them in order: the caller never waits for a disk.

    An error of the writer is raised by the next `append_event`, `flush` or `close`. Items that were
    not flushed are not acknowledged.
    """

    def __init__(self, log: ThreadLog, thread_id: str) -> None:
        self.thread_id = thread_id
        self._log = log
        self._queue: queue.Queue[NewRecord | threading.Event | None] = queue.Queue(_LONGEST_QUEUE)
        self._error: Exception | None = None
        self._closed = False
        self._writer = self._start()
        abandon_after_fork(self)

    def _start(self) -> threading.Thread:
        writer = threading.Thread(target=self._write, name=f"rollout-{self.thread_id}", daemon=True)
        writer.start()
        return writer

    def abandon(self) -> None:
        """Start a writer in a forked process; what is queued is written by the parent."""
        self._queue = queue.Queue(_LONGEST_QUEUE)
        self._error = None
        if not self._closed:
            self._writer = self._start()

    def append_event(self, item: NewRecord | Mapping[str, Any]) -> None:
        """Queue an item."""
        if self._closed:
            raise StoreError(f"the recorder of thread `{self.thread_id}` is closed")
        self._raise_error()
        self._queue.put(as_record(item))

    def flush(self) -> None:
        """Return when everything that was queued before is stored and on the disk."""
        if not self._closed:
            stored = threading.Event()
            self._queue.put(stored)
            stored.wait()
        self._raise_error()
        self._log.sync(self.thread_id)

    def close(self) -> None:
        """Flush and end the writer."""
        if self._closed:
            return
        try:
            self.flush()
        finally:
            self._closed = True
            self._queue.put(None)
            self._writer.join()

    def _write(self) -> None:
        while (item := self._queue.get()) is not None:
            if isinstance(item, threading.Event):
                item.set()
            elif self._error is None:
                try:
                    self._log.append(self.thread_id, (item,))
                except Exception as error:  # noqa: BLE001 - the caller gets it, and `flush` returns
                    self._error = error

    def _raise_error(self) -> None:
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
