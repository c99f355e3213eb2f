"""Follow a session while it grows: an iterator of changes that polls the files.

There is no thread and no daemon: polling happens while the caller waits for the next change, and no
file stays open between two polls. A poll takes a few `stat` calls; only changed sources are read.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from threading import Event, Lock
from typing import Final, Self

from amux.adapters._base import Adapter, Fingerprinted
from amux.assembly.assemble import Assembly
from amux.assembly.session import AssembledSession
from amux.errors import ValidationError
from amux.host import Host
from amux.model.change import SessionChange
from amux.reading.fingerprint import Fingerprints
from amux.reading.sources import SourceCatalog
from amux.sessions.follow.followed_session import REST, FollowedSession
from amux.sessions.follow.scope import FollowScope

FILE_POLL_S: Final = 0.25
DATABASE_POLL_S: Final = 2.0
SCOPE_POLL_S: Final = 2.0
"""Minimum seconds between two searches for new sub-agents."""

SCOPE_REST: Final = 20
"""The next search waits this many times its duration: listing thousands of files takes long."""

Stop = Callable[[], bool] | Event


class Follow:
    """Iterator of the changes of one session and its sub-agents.

    It ends when `stop` says so, when nothing was reported for `idle_timeout` seconds, or when the
    session is deleted. `close()`, also from another thread, or leaving the context ends it, too.
    """

    def __init__(
        self,
        catalog: SourceCatalog,
        adapter: Adapter,
        host: Host,
        opened: tuple[Assembly, AssembledSession],
        *,
        from_start: bool = False,
        poll: float | None = None,
        stop: Stop | None = None,
        idle_timeout: float | None = None,
    ) -> None:
        self._adapter, self._host = adapter, host
        self._name = opened[0].unique_name(opened[1])
        is_sqlite = adapter.info.capabilities.session_persistence == "sqlite"
        self._is_database = is_sqlite or isinstance(adapter, Fingerprinted)
        self._interval = self._checked_interval(poll)
        self._stop = stop.is_set if isinstance(stop, Event) else stop
        self._idle_timeout = idle_timeout
        self._closed = Event()
        self._running = Lock()
        self._followed: dict[tuple[str | None, str], FollowedSession] = {}
        self._scope = FollowScope(catalog, adapter, *opened)
        self._scope_due = self._rest_until = 0.0
        self._is_missing = False
        self._is_over = False
        fingerprints = Fingerprints(self._adapter)
        self._update_sessions(fingerprints)
        if not from_start:
            for followed in self._followed.values():
                followed.mark_all_reported(fingerprints)
        self._reported_at = host.clock.elapsed()
        self._changes = self._poll_until_stopped()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> SessionChange:
        with self._running:
            return next(self._changes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the iteration; wait for a poll that is in progress."""
        self._closed.set()
        with self._running:
            self._changes.close()

    def _poll_until_stopped(self) -> Generator[SessionChange]:
        clock = self._host.clock
        while not (self._closed.is_set() or (self._stop is not None and self._stop())):
            for change in self._poll():
                yield change
                self._reported_at = clock.elapsed()
            if self._is_over or self._is_idle():
                return
            clock.wait(self._closed, max(0.0, self._next_poll() - clock.elapsed()))

    def _poll(self) -> list[SessionChange]:
        """Return the changes of all followed sessions since the last poll."""
        began = self._host.clock.elapsed()
        fingerprints = Fingerprints(self._adapter)
        changes: list[SessionChange] = []
        if began >= self._scope_due:
            changes += self._update_sessions(fingerprints)
        for followed in self._followed.values():
            changes += followed.poll(fingerprints)
        self._rest_until = began + REST * (self._host.clock.elapsed() - began)
        return changes

    def _update_sessions(self, fingerprints: Fingerprints) -> list[SessionChange]:
        """Update the followed sessions: sub-agents may have been added, sources replaced."""
        began = self._host.clock.elapsed()
        assembly = self._scope.poll(fingerprints)
        now = self._host.clock.elapsed()
        self._scope_due = now + max(SCOPE_POLL_S, SCOPE_REST * (now - began))
        if assembly is None and not self._is_missing:
            return []
        session = None if assembly is None else assembly.find(self._name)
        if assembly is None or session is None:
            # A file that exists but is empty is being written; a database has other sessions.
            may_be_gone = self._is_database or not self._scope.has_sources
            return self._missing() if may_be_gone else []
        self._is_missing = False
        sessions = {
            (None if each is session else each.parent, each.session_id): each
            for each in session.with_children()
        }
        gone = [self._followed.pop(key) for key in self._followed.keys() - sessions.keys()]
        for key, each in sessions.items():
            if key in self._followed:
                self._followed[key].update(assembly, each)
            else:
                self._followed[key] = FollowedSession(self._adapter, self._host, assembly, each)
        return [followed.ended() for followed in gone]

    def _missing(self) -> list[SessionChange]:
        """End if the session is missing a second time: a file may be in the middle of a rename."""
        self._is_over, self._is_missing = self._is_missing, True
        return [followed.ended() for followed in self._followed.values()] if self._is_over else []

    def _next_poll(self) -> float:
        soonest = min([self._host.clock.elapsed() + self._interval, *self._due_times()])
        return max(soonest, self._rest_until)

    def _due_times(self) -> list[float]:
        times = (followed.next_due() for followed in self._followed.values())
        return [due for due in times if due is not None]

    def _is_idle(self) -> bool:
        if self._idle_timeout is None or self._due_times():
            return False
        return self._host.clock.elapsed() - self._reported_at >= self._idle_timeout

    def _checked_interval(self, poll: float | None) -> float:
        if poll is None:
            return DATABASE_POLL_S if self._is_database else FILE_POLL_S
        if not poll > 0:
            raise ValidationError(f"`poll` must be greater than 0, not `{poll}`")
        return poll
