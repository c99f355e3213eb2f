"""Supervises the sessions that agents of this process work on: leases, heartbeats, saving.

A session is worked on by one process at a time. While an agent works, a thread renews the lease and
saves the session in intervals, so that other processes notice if this one dies.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from threading import Event, RLock, Thread
from typing import Any, Final
from uuid import uuid4

from amux.config import SessionManagementSettings
from amux.errors import AmuxError, StoreError, TurnInProgressError
from amux.host import Host
from amux.managed.database import Activity
from amux.managed.processes import process_identity
from amux.managed.state import SessionState
from amux.managed.store import UnifiedSessionStore

MISSED_BEATS: Final = 3
"""A lease without so many heartbeats is not valid any more."""

_LONGEST_JOIN: Final = 5.0
_LOGGER = logging.getLogger("amux")


class SupervisedWork:
    """A session that an agent of this process works on."""

    def __init__(self, state: SessionState, activity: Activity) -> None:
        self.session_id = state.id
        self.agent = state.agent_type
        self.activity = activity
        self.text_so_far: Callable[[], str | None] = lambda: None
        self.warnings: list[str] = []
        self.stop: Callable[[], object] = lambda: None
        self.is_stopped = False
        self.due = 0.0

    @property
    def text(self) -> str | None:
        """The text of the answer so far; None if there is none."""
        return self.text_so_far() or None


class SessionSupervisor:
    """Holds the leases of this process and receives the reports of its agents.

    `save` is called in intervals for every session that an agent works on.
    """

    def __init__(
        self,
        host: Host,
        store: UnifiedSessionStore,
        settings: SessionManagementSettings,
    ) -> None:
        self._host = host
        self._store = store
        self._settings = settings
        self.save: Callable[[SupervisedWork], None] = lambda _: None
        self._lock = RLock()
        self._works: dict[str, SupervisedWork] = {}
        self._wake = Event()
        self._saver: Thread | None = None

    # Reports of agents

    def started(self, session_id: str, stop: Callable[[], object]) -> None:
        """Note how the agent is stopped; stop it at once if that was asked for meanwhile."""
        work = self._works[session_id]
        work.stop = stop
        if work.is_stopped:
            stop()

    def named(self, session_id: str, agent_session_id: str) -> None:
        """Store the agent's id of the session."""

        def change(state: SessionState) -> SessionState:
            return state.replace(agent_session_id=agent_session_id, updated_at=self._host.now())

        self._store.update(session_id, change)

    def wrote(self, session_id: str, text: str) -> None:
        """Note the text of the answer so far."""
        self._works[session_id].text_so_far = lambda: text

    def writes(self, session_id: str, text: Callable[[], str]) -> None:
        """Note how to ask for the text of the answer so far, from any thread."""
        self._works[session_id].text_so_far = text

    def warned(self, session_id: str, text: str) -> None:
        """Note a warning for the caller."""
        self._works[session_id].warnings.append(text)

    # Leases

    @contextmanager
    def working(self, state: SessionState) -> Generator[SupervisedWork]:
        """Hold the lease of a session while the body runs.

        Raises:
            TurnInProgressError: Another process, or another thread, works on the session.
        """
        pid = os.getpid()
        activity = Activity(
            session_id=state.id,
            token=str(uuid4()),
            host=socket.gethostname(),
            pid=pid,
            process=process_identity(pid),
            heartbeat_at=self._host.now(),
        )
        with self._lock:
            held = None
            if state.id not in self._works:
                held = self._store.claim(
                    activity, lambda each: self.is_valid(each, state.agent_type)
                )
            if held is not None or state.id in self._works:
                where = "this process" if held is None else f"process {held.pid} on {held.host}"
                raise TurnInProgressError(
                    f"managed session `{state.id}` is active in {where}",
                    thread_id=state.id,
                    owner=where,
                    hint="wait for its end, or stop it with `amux managed stop`",
                )
            work = SupervisedWork(state, activity)
            work.due = self._host.clock.elapsed() + self.interval(state.agent_type)
            self._works[state.id] = work
            self._start_saver()
        try:
            yield work
        finally:
            with self._lock:
                del self._works[state.id]
            self._store.release(state.id, activity.token)

    def is_valid(self, activity: Activity, agent: str) -> bool:
        """Return whether the process of a lease still works on its session.

        On this machine the process itself is looked for; elsewhere its heartbeats tell.
        """
        if activity.host == socket.gethostname() and activity.process:
            return process_identity(activity.pid) == activity.process
        patience = timedelta(seconds=MISSED_BEATS * self.interval(agent))
        return self._host.now() - activity.heartbeat_at <= patience

    def work_on(self, session_id: str) -> SupervisedWork | None:
        """Return the work of this process on a session; None if there is none."""
        return self._works.get(session_id)

    def interval(self, agent: str) -> float:
        """Return the seconds between two heartbeats of sessions of an agent."""
        if agent == "opencode":
            return min(
                self._settings.agents.opencode.auto_save_interval,
                self._settings.agents.opencode.session.save_interval,
            )
        return self._settings.global_.save_interval

    def close(self) -> None:
        """Stop all agents of this process and the thread that saves their sessions."""
        for work in tuple(self._works.values()):
            work.is_stopped = True
            work.stop()
        self._wake.set()
        saver = self._saver
        if saver is not None:
            saver.join(_LONGEST_JOIN)

    # Heartbeats

    def _start_saver(self) -> None:
        if self._saver is None or not self._saver.is_alive():
            self._wake = Event()
            self._saver = Thread(target=self._beat, name="amux-managed-saver", daemon=True)
            self._saver.start()

    def _beat(self) -> None:
        """Renew the leases and save the sessions that are due, until no session is left."""
        wake = self._wake
        while not wake.is_set():
            with self._lock:
                works = list(self._works.values())
                if not works:
                    self._saver = None
                    return
            pause = min(self.interval(work.agent) for work in works)
            self._host.clock.wait(wake, pause)
            self._store.beat([work.activity for work in works], self._host.now())
            for work in works:
                if work.session_id in self._works and self._host.clock.elapsed() >= work.due:
                    work.due = self._host.clock.elapsed() + self.interval(work.agent)
                    self._save_work(work)

    def _save_work(self, work: SupervisedWork) -> None:
        if not self._saves(work.agent):
            return
        try:
            self.save(work)
        except (AmuxError, StoreError) as error:
            _LOGGER.warning("managed session %s was not saved: %s", work.session_id, error)

    def _saves(self, agent: str) -> bool:
        own = self._settings.agents.opencode.session.auto_save if agent == "opencode" else True
        return self._settings.global_.auto_save and own


def partial_document(known: dict[str, Any], text: str | None) -> dict[str, Any]:
    """Return a document with the text of an unfinished answer, or without any."""
    found = {key: value for key, value in known.items() if key != "partial"}
    return found if text is None else {**found, "partial": text}
