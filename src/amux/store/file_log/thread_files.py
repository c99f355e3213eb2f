"""The rollouts of a file store that this process has open, and the locks on them."""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Generator, Sequence
from typing import Final

from amux.durable import abandon_after_fork
from amux.errors import StoreError
from amux.rollout.log import Fsync, no_thread
from amux.rollout.rollout_reader import MovedError
from amux.store.file_log.layout import StoreLayout
from amux.store.file_log.rollout_file import RolloutFile
from amux.store.file_log.transactions import Transactions

TRIES: Final = 100
"""How often an operation begins anew because another process has moved a file."""

_OPEN_FILES: Final = 64


class ThreadFiles:
    """Opens and locks the rollouts of threads; the least recently used ones are closed.

    `recover` completes appends to several threads whose process died. A file is locked for a change
    only when there is none.
    """

    def __init__(
        self,
        layout: StoreLayout,
        transactions: Transactions,
        *,
        recover: Callable[[], None],
        fsync: Fsync,
    ) -> None:
        self._layout = layout
        self._transactions = transactions
        self._recover = recover
        self._fsync: Fsync = fsync
        self._open: OrderedDict[str, RolloutFile] = OrderedDict()
        self._open_lock = threading.Lock()
        self._latest: tuple[str, RolloutFile] | None = None  # the newest of `_open`
        abandon_after_fork(self)

    def abandon(self) -> None:
        """Forget the open files of the parent, whose threads may hold their locks."""
        self._open_lock = threading.Lock()
        files, self._open, self._latest = self._open, OrderedDict(), None
        for file in files.values():
            file.abandon()

    def close(self) -> None:
        """Close all files."""
        with self._open_lock:
            for file in self._open.values():
                file.close()
            self._open.clear()
            self._latest = None

    def forget(self, thread_id: str) -> None:
        """Close the file of a thread that was deleted."""
        with self._open_lock:
            file = self._open.pop(thread_id, None)
            self._latest = None
        if file is not None:
            file.close()

    def path(self, thread_id: str) -> str:
        """Return the path of a thread's file; raise `SessionNotFoundError` if there is none."""
        path = self._layout.path_of(thread_id)
        if path is None:
            raise no_thread(thread_id)
        return path

    def lock(self, thread_id: str) -> RolloutFile:
        """Lock the file of a thread for one change, and return it."""
        file = self.lock_in_recovery(thread_id)
        try:
            if self._transactions.is_idle():
                return file
        except BaseException:
            file.unlock()
            raise
        file.unlock()
        return self._lock_idle((thread_id,))[0]

    @contextlib.contextmanager
    def locked(self, *thread_ids: str) -> Generator[list[RolloutFile]]:
        """Hold threads for one change; the files are in the order of the ids.

        An append uses `lock`, because a generator would cost it a tenth of its time.
        """
        files = self._lock_idle(sorted(thread_ids))
        try:
            yield files
        finally:
            _unlock_all(files)

    def lock_in_recovery(self, thread_id: str) -> RolloutFile:
        """Lock the file of a thread, wherever it lies now, also if an append is incomplete."""
        for _ in range(TRIES):
            file = self._file(thread_id)
            try:
                file.lock()
            except MovedError:
                file.move(self.path(thread_id))
            else:
                return file
        raise no_thread(thread_id)

    def _lock_idle(self, thread_ids: Sequence[str]) -> list[RolloutFile]:
        """Lock the files of threads, whose ids are sorted, and return them in that order.

        No append to several threads is incomplete then. Because of the order two processes cannot
        wait for each other. All locks are given back before another process's append is completed.
        """
        for _ in range(TRIES):
            files: list[RolloutFile] = []
            try:
                for thread_id in thread_ids:
                    files.append(self.lock_in_recovery(thread_id))  # noqa: PERF401 - kept if one fails
                if self._transactions.is_idle():
                    return files
            except BaseException:
                _unlock_all(files)
                raise
            _unlock_all(files)
            self._recover()
        raise StoreError("the store is in use by a process that does not end", hint="try again")

    def _file(self, thread_id: str) -> RolloutFile:
        """Return the file of a thread, which is opened when it is locked."""
        latest = self._latest
        if latest is not None and latest[0] == thread_id:
            return latest[1]
        with self._open_lock:
            file = self._open.get(thread_id)
            if file is None:
                file = self._open[thread_id] = RolloutFile(self.path(thread_id), self._fsync)
            self._open.move_to_end(thread_id)
            if len(self._open) > _OPEN_FILES:
                oldest = next(iter(self._open))
                if self._open[oldest].close():
                    del self._open[oldest]
            self._latest = (thread_id, file)
            return file


def _unlock_all(files: Sequence[RolloutFile]) -> None:
    for file in files:
        file.unlock()
