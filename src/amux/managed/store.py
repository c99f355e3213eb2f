"""`UnifiedSessionStore`: the managed sessions of all agents, in one database and JSON files.

If the disk refuses a change, the store goes on in memory: it alerts once, queues the changes and
writes them in order as soon as the disk accepts them again. The queue is bounded. If it is full,
states that a later change has replaced are dropped; then the store refuses new sessions.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from threading import RLock
from typing import Any, Final, NamedTuple, TypeVar

from amux.config import SessionManagementSettings
from amux.errors import SessionNotFoundError, StoreError
from amux.host import Host
from amux.managed.database import Activity, ManagedDatabase, is_damaged
from amux.managed.documents import DocumentFolder
from amux.managed.rebuild import restored_states, set_aside
from amux.managed.state import SessionState

T = TypeVar("T")

QUEUE_LIMIT: Final = 1000
RETRY_SECONDS: Final = 1.0
"""Pause between two attempts to write the queue."""

_LOGGER = logging.getLogger("amux")


class _Save(NamedTuple):
    state: SessionState

    @property
    def key(self) -> tuple[str, str]:
        return ("state", self.state.id)


class _Delete(NamedTuple):
    session_id: str

    @property
    def key(self) -> tuple[str, str]:
        return ("state", self.session_id)


class _Document(NamedTuple):
    agent: str
    session_id: str
    content: dict[str, Any]

    @property
    def key(self) -> tuple[str, str]:
        return ("document", self.session_id)


_Change = _Save | _Delete | _Document


class UnifiedSessionStore:
    """The states and documents of all managed sessions. Threads may share it."""

    def __init__(
        self,
        host: Host,
        settings: SessionManagementSettings,
        *,
        alert: Callable[[str], None] = _LOGGER.warning,
        queue_limit: int = QUEUE_LIMIT,
    ) -> None:
        self._host = host
        self._settings = settings
        self._alert = alert
        self._queue_limit = queue_limit
        self.base_path = host.expand(settings.storage.base_path)
        self.database_path = self.base_path / settings.storage.sqlite_db
        self._database: ManagedDatabase | None = None
        self._lock = RLock()
        self._memory: dict[str, SessionState] = {}
        self._documents: dict[str, dict[str, Any]] = {}
        self._deleted: set[str] = set()
        self._pending: list[_Change] = []
        self._retry_at = 0.0

    @property
    def is_degraded(self) -> bool:
        """Whether changes wait in memory because the disk refuses them."""
        return bool(self._pending)

    @property
    def pending(self) -> int:
        """The number of changes that wait in memory."""
        return len(self._pending)

    def add(self, state: SessionState) -> None:
        """Store a new session.

        Raises:
            StoreError: The id is in use, or the disk and the queue are full.
        """
        with self._lock:
            if state.id in self._memory and state.id not in self._deleted:
                raise StoreError(f"managed session `{state.id}` exists already")
            self._write(_Save(state), lambda database: database.add(state))
            self._memory[state.id] = state
            self._deleted.discard(state.id)

    def update(
        self, session_id: str, change: Callable[[SessionState], SessionState]
    ) -> SessionState:
        """Change the state of a session; return the new one.

        Raises:
            SessionNotFoundError: There is no such session.
        """
        with self._lock:
            self._try_flush()
            if not self._pending:
                try:
                    found = self._open().update(session_id, change)
                except StoreError as error:
                    self._degrade(error)
                else:
                    return self._known(session_id, found)
            state = change(self.get(session_id))
            self._enqueue(_Save(state))
            self._memory[session_id] = state
            return state

    def get(self, session_id: str) -> SessionState:
        """Return the state of a session.

        Raises:
            SessionNotFoundError: There is no such session.
        """
        with self._lock:
            if self._pending and session_id in self._memory:
                return self._memory[session_id]
            found = self._read(lambda database: database.get(session_id), None)
            if found is None and session_id not in self._deleted:
                found = self._memory.get(session_id) if self._pending else None
            return self._known(session_id, found)

    def list(self) -> list[SessionState]:
        """Return all sessions, the one that changed last first."""
        with self._lock:
            empty: list[SessionState] = []
            states = {state.id: state for state in self._read(lambda each: each.list(), empty)}
            if self._pending:
                states |= self._memory
                states = {id: state for id, state in states.items() if id not in self._deleted}
            else:
                self._memory = dict(states)
            return sorted(states.values(), key=lambda state: state.updated_at, reverse=True)

    def delete(self, session_id: str) -> bool:
        """Delete the state and the document of a session; return whether there was one."""
        with self._lock:
            try:
                state = self.get(session_id)
            except SessionNotFoundError:
                return False
            self._write(_Delete(session_id), lambda database: database.delete(session_id))
            self._memory.pop(session_id, None)
            self._documents.pop(session_id, None)
            self._deleted.add(session_id)
            if not self._pending:
                self.folder(state.agent_type).delete(session_id)
            return True

    def find_native(self, agent: str, agent_session_id: str) -> str | None:
        """Return the session that has, or had, this id of the agent; None if there is none."""
        with self._lock:
            for state in self._memory.values() if self._pending else ():
                if (state.agent_type, state.agent_session_id) == (agent, agent_session_id):
                    return state.id
            return self._read(lambda each: each.find_native(agent, agent_session_id), None)

    def folder(self, agent: str) -> DocumentFolder:
        """Return the directory of an agent's JSON files."""
        path = self._settings.agents.of(agent).path or agent
        return DocumentFolder(self.resolve(path))

    def resolve(self, path: str) -> Path:
        """Return a path of the settings, which may be relative to the base path."""
        if path.startswith("~") or Path(path).is_absolute():
            return self._host.expand(path)
        return self.base_path / path

    def document(self, agent: str, session_id: str) -> dict[str, Any]:
        """Return the document of a session; an empty one if there is none."""
        with self._lock:
            if session_id in self._documents:
                return dict(self._documents[session_id])
        return self.folder(agent).read(session_id)

    def save_document(self, state: SessionState, content: Mapping[str, Any]) -> None:
        """Replace what only the agent of a session knows; the identity is added to it."""
        identity = {
            "id": state.id,
            "agent_type": state.agent_type,
            "agent_session_id": state.agent_session_id,
            "created_at": state.created_at.isoformat(),
            "cwd": state.cwd,
        }
        document = {**identity, **content}
        folder = self.folder(state.agent_type)

        def write(_: ManagedDatabase) -> None:
            folder.write(state.id, document)

        with self._lock:
            self._write(_Document(state.agent_type, state.id, document), write)
            if self._pending:
                self._documents[state.id] = document

    def claim(self, activity: Activity, is_valid: Callable[[Activity], bool]) -> Activity | None:
        """Take the lease of a session; return the valid one of another process instead, if any.

        While the disk refuses changes there are no leases: no other process sees the session.
        """
        with self._lock:
            try:
                return None if self._pending else self._open().claim(activity, is_valid)
            except StoreError as error:
                self._degrade(error)
                return None

    def beat(self, activities: Sequence[Activity], now: datetime) -> None:
        """Renew leases, and write the queue if the disk accepts it again."""
        with self._lock:
            self._try_flush()
            if not self._pending:
                try:
                    self._open().beat(activities, now)
                except StoreError as error:
                    self._degrade(error)

    def release(self, session_id: str, token: str | None = None) -> None:
        """Give a lease back; without a token, that of any process."""
        with self._lock:
            if not self._pending:
                try:
                    self._open().release(session_id, token)
                except StoreError as error:
                    self._degrade(error)

    def activity(self, session_id: str) -> Activity | None:
        """Return the lease of a session, valid or not; None if there is none."""
        with self._lock:
            return self._read(lambda database: database.activity(session_id), None)

    def flush(self) -> bool:
        """Write the queue now; return whether it is empty."""
        with self._lock:
            self._retry_at = 0.0
            self._try_flush()
            return not self._pending

    def close(self) -> None:
        """Write the queue and close the database; alert if changes are lost."""
        with self._lock:
            if self._pending and not self.flush():
                self._alert(
                    f"{len(self._pending)} changes of managed sessions are lost: "
                    f"`{self.base_path}` cannot be written"
                )
            if self._database is not None:
                self._database.close()
                self._database = None

    # The disk and the queue

    def _open(self) -> ManagedDatabase:
        """Return the database; a damaged one is set aside and made anew from the documents."""
        if self._database is None:
            try:
                self._database = ManagedDatabase(self.database_path, self._host)
            except StoreError as error:
                if not is_damaged(error):
                    raise
                self._rebuild()
        assert self._database is not None  # noqa: S101 - set above
        return self._database

    def _rebuild(self) -> None:
        moved = set_aside(self.database_path, self._host.now())
        self._database = ManagedDatabase(self.database_path, self._host)
        agents = {path.name for path in self.base_path.iterdir() if path.is_dir()}
        known = self._settings.agents
        agents |= {"claude", "droid", "opencode", *known.others}
        states = restored_states((self.folder(agent) for agent in sorted(agents)), self._host.now())
        for state in states:
            self._database.save(self._memory.get(state.id, state))
        self._alert(
            f"`{self.database_path}` was damaged and is now `{moved.name}`; "
            f"{len(states)} managed sessions were restored from their files"
        )

    def _read(self, query: Callable[[ManagedDatabase], T], otherwise: T) -> T:
        """Return the result of a query; `otherwise` if there is no readable database."""
        if self._database is None and not self.database_path.exists():
            return otherwise
        try:
            return query(self._open())
        except StoreError as error:
            try:
                database = ManagedDatabase(self.database_path, self._host, read_only=True)
            except StoreError:
                if self._pending:
                    return otherwise
                raise error from None
            try:
                return query(database)
            finally:
                database.close()

    def _write(self, change: _Change, write: Callable[[ManagedDatabase], object]) -> None:
        self._try_flush()
        if not self._pending:
            try:
                write(self._open())
            except StoreError as error:
                if isinstance(change, _Save) and "UNIQUE constraint" in str(error):
                    raise
                self._degrade(error)
            else:
                self._retry_at = 0.0
                return
        self._enqueue(change)

    def _degrade(self, error: StoreError) -> None:
        """Go on in memory; the first failure is told."""
        if self._retry_at == 0.0:
            self._alert(
                f"managed sessions are kept in memory for now: {error}; they are stored as soon "
                "as that is possible"
            )
        self._disconnect()
        self._retry_at = self._host.clock.elapsed() + RETRY_SECONDS

    def _disconnect(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    def _enqueue(self, change: _Change) -> None:
        if len(self._pending) >= self._queue_limit:
            later: set[tuple[str, str]] = {change.key}
            kept: list[_Change] = []
            for each in reversed(self._pending):
                if each.key not in later:
                    kept.append(each)
                later.add(each.key)
            self._pending = kept[::-1]
        if len(self._pending) >= self._queue_limit:
            raise StoreError(
                f"`{self.base_path}` cannot be written, and {len(self._pending)} changes wait",
                hint="make the directory writable",
            )
        self._pending.append(change)

    def _try_flush(self) -> None:
        """Write the queue in order, unless the last attempt was a moment ago."""
        if not self._pending or self._host.clock.elapsed() < self._retry_at:
            return
        try:
            database = self._open()
            while self._pending:
                self._apply(database, self._pending[0])
                del self._pending[0]
        except StoreError:
            self._disconnect()
            self._retry_at = self._host.clock.elapsed() + RETRY_SECONDS
            return
        self._retry_at = 0.0
        self._documents.clear()
        self._deleted.clear()
        _LOGGER.info("managed sessions are stored in %s again", self.base_path)

    def _apply(self, database: ManagedDatabase, change: _Change) -> None:
        match change:
            case _Save(state):
                database.save(state)
            case _Delete(session_id):
                database.delete(session_id)
            case _Document(agent, session_id, content):
                self.folder(agent).write(session_id, content)

    def _known(self, session_id: str, state: SessionState | None) -> SessionState:
        if state is None:
            raise SessionNotFoundError(
                f"there is no managed session `{session_id}`",
                hint="`amux managed list` shows all",
            )
        self._memory[session_id] = state
        return state
