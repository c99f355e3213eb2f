"""A session as it grows: an iterator of changes that looks at the files from time to time.

No thread and no daemon: time passes only while the caller waits for the next change, and between
two looks nothing is held open. A look costs some `stat` calls; only what has changed is read.
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
"""How often new sub-agents are looked for."""

SCOPE_REST: Final = 20
"""Less often where that takes long: listing some thousand files is no work for every moment."""

Stop = Callable[[], bool] | Event


class Follow:
    """Changes of one session and its sub-agents. Ends when told to, or when the session is gone.

    Leaving it, as a context manager or with `close()`, ends the iteration, from another thread too.
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
        self._session_id = opened[1].session_id
        is_sqlite = adapter.info.capabilities.session_persistence == "sqlite"
        self._is_database = is_sqlite or isinstance(adapter, Fingerprinted)
        self._poll = self._checked_poll(poll)
        self._stop = stop.is_set if isinstance(stop, Event) else stop
        self._idle_timeout = idle_timeout
        self._left = Event()
        self._running = Lock()
        self._threads: dict[tuple[str | None, str], FollowedSession] = {}
        self._scope = FollowScope(catalog, adapter, *opened)
        self._scope_due = self._rest_until = 0.0
        self._is_missing = False
        self._is_over = False
        fingerprints = Fingerprints(self._adapter)
        self._look_for_sessions(fingerprints)
        if not from_start:
            for thread in self._threads.values():
                thread.mark_all_reported(fingerprints)
        self._told_at = host.clock.elapsed()
        self._changes = self._rounds()

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
        """End the iteration; waits for a look that is under way."""
        self._left.set()
        with self._running:
            self._changes.close()

    def _rounds(self) -> Generator[SessionChange]:
        clock = self._host.clock
        while not self._is_to_stop():
            for change in self._round():
                yield change
                self._told_at = clock.elapsed()
            if self._is_over or self._is_idle():
                return
            clock.wait(self._left, max(0.0, self._next_look() - clock.elapsed()))

    def _round(self) -> list[SessionChange]:
        """Look at everything once."""
        began = self._host.clock.elapsed()
        fingerprints = Fingerprints(self._adapter)
        changes: list[SessionChange] = []
        if began >= self._scope_due:
            changes += self._look_for_sessions(fingerprints)
        for thread in self._threads.values():
            changes += thread.poll(fingerprints)
        self._rest_until = began + REST * (self._host.clock.elapsed() - began)
        return changes

    def _look_for_sessions(self, fingerprints: Fingerprints) -> list[SessionChange]:
        """Bring the followed sessions in line with what there is now."""
        began = self._host.clock.elapsed()
        assembly = self._scope.poll(fingerprints)
        now = self._host.clock.elapsed()
        self._scope_due = now + max(SCOPE_POLL_S, SCOPE_REST * (now - began))
        if assembly is None and not self._is_missing:
            return []
        session = None if assembly is None else assembly.find(self._session_id)
        if assembly is None or session is None:
            return self._miss() if self._may_be_gone() else []
        self._is_missing = False
        return self._update(assembly, session)

    def _may_be_gone(self) -> bool:
        """A file that is there but empty is being written; a database holds other sessions."""
        return self._is_database or not self._scope.has_sources

    def _miss(self) -> list[SessionChange]:
        """It is gone if it is not there the next time either: files are replaced at times."""
        self._is_over, self._is_missing = self._is_missing, True
        return [thread.ended() for thread in self._threads.values()] if self._is_over else []

    def _update(self, assembly: Assembly, session: AssembledSession) -> list[SessionChange]:
        sessions = {
            (None if each is session else each.parent, each.session_id): each
            for each in session.with_children()
        }
        gone = [self._threads.pop(key) for key in self._threads.keys() - sessions.keys()]
        for key, each in sessions.items():
            if key in self._threads:
                self._threads[key].update(assembly, each)
            else:
                self._threads[key] = FollowedSession(self._adapter, self._host, assembly, each)
        return [thread.ended() for thread in gone]

    def _next_look(self) -> float:
        soonest = min([self._host.clock.elapsed() + self._poll, *self._appointments()])
        return max(soonest, self._rest_until)

    def _appointments(self) -> list[float]:
        dues = (thread.next_due() for thread in self._threads.values())
        return [due for due in dues if due is not None]

    def _is_to_stop(self) -> bool:
        return self._left.is_set() or (self._stop is not None and self._stop())

    def _is_idle(self) -> bool:
        if self._idle_timeout is None or self._appointments():
            return False
        return self._host.clock.elapsed() - self._told_at >= self._idle_timeout

    def _checked_poll(self, poll: float | None) -> float:
        if poll is None:
            return DATABASE_POLL_S if self._is_database else FILE_POLL_S
        if not poll > 0:
            raise ValidationError(f"`poll` is {poll}: between two looks some time must pass")
        return poll
