"""The background indexer: a process that completes the index once, after an answer, and ends.

It is started detached from the terminal, for an index that lacks so much that lists do without it.
One indexer works in a cache directory at a time. The process that starts it takes the lock and
hands it over, so that no second one is started in between, and the lock vanishes with the process.
See ADR 29.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from amux.index.indexer_lock import IndexerLock, IndexerRecord, IndexerResult
from amux.sessions.index_manager import IndexManager

TIME_LIMIT: Final = 600.0
"""Seconds after which an indexer ends; what it has done is kept."""

PAUSE: Final = timedelta(minutes=10)
"""The shortest time between two starts, so that an index that stays incomplete costs little."""

_GRACE: Final = 0.05  # the last part of the limit: what was begun may end
_NICE: Final = 10
_OWN_LOCK: Final = "-"  # instead of a descriptor: the new process has to take the lock itself


class _TimeLimitError(KeyboardInterrupt):
    """The time limit is near; it ends an update as Ctrl-C does: what was read is kept."""


class BackgroundIndexer:
    """Starts and runs the indexer of one index."""

    def __init__(
        self,
        lock: IndexerLock,
        index: IndexManager,
        *,
        watch: Callable[[Callable[[int, int, str], None] | None], None],
        now: Callable[[], datetime],
        elapsed: Callable[[], float],
    ) -> None:
        self._lock = lock
        self._index = index
        self._watch = watch
        self._now = now
        self._elapsed = elapsed
        self._started: list[int] = []  # processes whose end the system has to be asked for

    def start(self, command: Sequence[str], *, after_pause: bool = True) -> bool:
        """Start a detached process and return whether it was started.

        It is not if another one is running, if the cache directory cannot be written to, or, with
        `after_pause`, if the last one was started less than `PAUSE` ago. The process calls `run`
        with the last word of its command line, which is added to `command`.
        """
        self._started = [pid for pid in self._started if not _has_ended(pid)]
        record = self._lock.record() if after_pause else None
        if record is not None and timedelta(0) <= self._now() - record.started_at < PAUSE:
            return False
        try:
            descriptor = self._lock.acquire()
            if descriptor is None:
                return False
            try:
                self._spawn(command, descriptor)
            finally:
                os.close(descriptor)
        except OSError:  # nobody asked for an indexer: no message
            return False
        return True

    def _spawn(self, command: Sequence[str], descriptor: int) -> None:
        """Start the process in a session of its own, without any stream of this one."""
        start = partial(
            subprocess.Popen[bytes],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self._lock.path.parent,  # no directory of the user is kept in use
        )
        if sys.platform == "win32":  # a lock cannot be handed over
            flags = subprocess.DETACHED_PROCESS | subprocess.BELOW_NORMAL_PRIORITY_CLASS
            process = start([*command, _OWN_LOCK], creationflags=flags)
        else:
            words = [*command, str(descriptor)]
            process = start(words, pass_fds=(descriptor,), start_new_session=True)
        process.returncode = 0  # this process does not wait for it, which is no mistake
        self._started.append(process.pid)

    def run(self, handed_over: str = _OWN_LOCK, *, limit: float = TIME_LIMIT) -> None:
        """Complete rows, spending and texts in this process, which does nothing else.

        `handed_over` is the descriptor that holds the lock. The update stops shortly before `limit`
        seconds have passed; if it does not, the process and its workers end then. SIGTERM ends it
        as Ctrl-C does: what was read is kept.
        """
        descriptor = self._lock.acquire() if handed_over == _OWN_LOCK else int(handed_over)
        if descriptor is None:
            return
        os.set_inheritable(descriptor, False)  # noqa: FBT003 - it takes no keywords
        if hasattr(os, "register_at_fork"):  # a worker that outlives this process holds no lock
            end = self._elapsed() + limit
            os.register_at_fork(after_in_child=partial(self._begin_worker, descriptor, end))
        if hasattr(os, "nice"):
            os.nice(_NICE)
        record = IndexerRecord(index=self._lock.index, pid=os.getpid(), started_at=self._now())
        record.write(descriptor)
        result, reason = self._update(limit)
        with suppress(OSError):  # the disk may be full by now
            record.ended(self._now(), result, reason).write(descriptor)
        os.close(descriptor)

    def _begin_worker(self, descriptor: int, end: float) -> None:
        """Prepare a forked worker, which may outlive this process, but not the time limit."""
        os.close(descriptor)
        _set_alarm(max(end - self._elapsed(), 0.001))

    def _update(self, limit: float) -> tuple[IndexerResult, str | None]:
        """Update everything; return how that ended, and the reason of a failure."""
        try:
            with self._limited(limit):
                status = self._index.update(texts=True)
        except _TimeLimitError:
            return "time_limit", None
        except Exception as error:  # noqa: BLE001 - the record is the only place to say it
            return "failed", f"{type(error).__name__}: {error}"
        trouble = status.trouble or status.text_trouble
        return ("complete", None) if trouble is None else ("failed", trouble)

    @contextmanager
    def _limited(self, limit: float) -> Generator[None]:
        """Raise `_TimeLimitError` between two sources near the limit; end the process at the limit.

        SQLite undoes the open transaction of a process that is ended.
        """
        end = self._elapsed() + limit * (1 - _GRACE)

        def check(done: int, total: int, unit: str) -> None:
            del done, total, unit
            if self._elapsed() >= end:
                raise _TimeLimitError

        self._watch(check)
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        _set_alarm(limit)
        try:
            yield
        finally:
            _set_alarm(0.0)
            signal.signal(signal.SIGTERM, before)


def _has_ended(child: int) -> bool:
    """Return whether a child process has ended; if so, it is no longer a zombie."""
    if sys.platform == "win32":
        return True
    try:
        return os.waitpid(child, os.WNOHANG)[0] == child
    except ChildProcessError:
        return True


def _set_alarm(seconds: float) -> None:
    """End this process after some seconds, even if it waits; 0: no longer."""
    if sys.platform != "win32":
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # it may have been ignored or blocked before
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
        signal.setitimer(signal.ITIMER_REAL, seconds)
