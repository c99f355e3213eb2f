"""`AmuxSessionService`: the Agent Development Kit keeps its sessions in an amux store.

    from google.adk.runners import Runner
    from amux.integrations.adk import AmuxSessionService

    runner = Runner(app_name="app", agent=agent, session_service=AmuxSessionService("~/.myagent"))

A session is a thread with the key (app, user, session), and an event is a record of it, in the
order of the calls. The states of users and applications are threads with the keys (app, user) and
(app). An event changes all three together or not at all (`adk_state` has the details).

A session object names the last event it has seen. An append through an object that another writer
has overtaken raises `StaleSessionError`. An event that is appended again is stored once.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

try:
    from google.adk.errors._stale_session_error import StaleSessionError
    from google.adk.errors.already_exists_error import AlreadyExistsError
    from google.adk.errors.session_not_found_error import SessionNotFoundError
    from google.adk.events.event import Event
    from google.adk.platform import time as platform_time
    from google.adk.platform import uuid as platform_uuid
    from google.adk.sessions._session_util import extract_json_safe_state_delta
    from google.adk.sessions.base_session_service import (
        BaseSessionService,
        GetSessionConfig,
        ListSessionsResponse,
    )
    from google.adk.sessions.session import Session
    from google.adk.sessions.state import State
except ImportError as error:
    from amux.integrations._extras import missing_extra

    raise missing_extra(error, "the Agent Development Kit", "adk") from error

from amux.errors import SessionNotFoundError as ThreadNotFoundError
from amux.errors import ValidationError
from amux.integrations._common import (
    StoreAddress,
    find_or_create,
    new_meta,
    open_store,
    retrying,
    threads_below,
)
from amux.integrations.adk_state import (
    EMPTY,
    STATE_FORMAT,
    StateThreads,
    ThreadState,
    as_delta,
    as_register,
)
from amux.rollout.log import Appended, Batch
from amux.rollout.records import (
    MAX_ID_LENGTH,
    NewRecord,
    PayloadText,
    Record,
    as_mapping,
    encode_payload,
)
from amux.rollout.view import visible
from amux.workers import run_in_worker

NAMESPACE: Final = "google-adk"
FORMAT: Final = "adk-event"
SCHEME: Final = "amux://"

_USER_KEY, _SESSION_KEY = 2, 3
"""The number of parts in the key of a user's state and of a session."""

_LOCKS: Final = 64
_LONGEST_EVENT_ID: Final = MAX_ID_LENGTH - 17
_EVENT_TYPES: Final = frozenset({"response_item"})

_FIELDS: Final = set(Session.model_fields)

Deltas = Mapping[str, dict[str, Any]]
"""Changes of state by scope: "app", "user" and "session", without the prefixes of the keys."""


class AmuxSessionService(BaseSessionService):
    """A session service of the Agent Development Kit on a directory, a database or an open store.

    Calls run in worker threads. Calls with one session object are made one after the other.
    """

    def __init__(
        self, store: StoreAddress | None = None, *, uri: str | None = None, **_: object
    ) -> None:
        """Open a store, or the one that a URI names.

        The command line of the kit builds a service from `amux://<directory>` or
        `amux://postgresql://...`, and passes further arguments, which are ignored.
        """
        if store is None:
            if uri is None:
                raise ValidationError("a session service needs a store", fields=("store", "uri"))
            store = uri.removeprefix(SCHEME)
        self.store = open_store(store)
        self._log = self.store.log
        self._states = StateThreads(self._log)
        self._locks = [threading.RLock() for _ in range(_LOCKS)]

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """Create a session; raise `AlreadyExistsError` if the user has one with the id."""
        given = (session_id or "").strip() or platform_uuid.new_uuid()
        deltas = extract_json_safe_state_delta(state or {})
        return await run_in_worker(self._create, (app_name, user_id, given), deltas)

    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        """Return a session with its events and its merged state; None if there is none.

        With `num_recent_events` only the end of the session is read.
        """
        key = (app_name, user_id, session_id.strip())
        return await run_in_worker(self._get, key, config or GetSessionConfig())

    async def list_sessions(
        self, *, app_name: str, user_id: str | None = None
    ) -> ListSessionsResponse:
        """Return the sessions of a user, or of all users, without events, last updated last."""
        return await run_in_worker(self._list, app_name, user_id)

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete a session with its events; the states of the user and the application stay."""
        await run_in_worker(self._delete, (app_name, user_id, session_id.strip()))

    async def append_event(self, session: Session, event: Event) -> Event:
        """Store an event with its changes of state, and add it to the session object.

        Raises:
            SessionNotFoundError: The session does not exist.
            StaleSessionError: Another event was stored since the session object was loaded.
        """
        if event.partial:
            return event
        return await run_in_worker(self._append_event, session, event)

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Return the state of a user, without the prefixes of its keys."""
        found = await run_in_worker(self._state_of, (app_name, user_id))
        return found.values()

    # sessions

    def _create(self, key: tuple[str, str, str], deltas: Deltas) -> Session:
        first = EMPTY._replace(
            updated_at=platform_time.get_time(), text=encode_payload(deltas["session"])
        )
        records = (as_register(first),)
        is_scoped = bool(deltas["user"] or deltas["app"])

        def attempt() -> Session:
            thread_id = self._log.find(NAMESPACE, key)
            if thread_id is None and not is_scoped:
                meta = new_meta(NAMESPACE, key, payload_format=FORMAT, user_id=key[1])
                head = self._log.create(meta, records).head
                thread_id = meta.thread_id
            else:  # a thread is a session as soon as it has its first register
                thread_id = thread_id or self._thread(key)
                state = self._states.read_end(thread_id)
                if state.is_started:
                    raise AlreadyExistsError(f"Session with id {key[2]} already exists.")
                batch = Batch(thread_id=thread_id, records=records, expect=state.head)
                batches = [batch, *self._scope_batches(key, deltas, None)]
                head = self._append_all(batches)[0].head
            created = self._states.keep(thread_id, first._replace(head=head, is_started=True))
            return self._session(key, thread_id, created, ())

        return retrying(attempt)

    def _get(self, key: tuple[str, str, str], config: GetSessionConfig) -> Session | None:
        thread_id = self._log.find(NAMESPACE, key)
        if thread_id is None:
            return None
        try:
            state = self._states.read(thread_id)
            limit = config.num_recent_events
            before = state.head + 1  # events that are appended meanwhile are not in the state
            records = visible(
                self._log.read_back(thread_id, before=before), limit=limit, types=_EVENT_TYPES
            )
        except ThreadNotFoundError:  # deleted meanwhile
            return None
        if not state.is_started:
            return None
        events = [Event.model_validate_json(record.text) for record in records]
        if config.after_timestamp is not None:
            events = [event for event in events if event.timestamp >= config.after_timestamp]
        return self._session(key, thread_id, state, events)

    def _session(
        self,
        key: tuple[str, str, str],
        thread_id: str,
        state: ThreadState,
        events: Sequence[Event],
    ) -> Session:
        merged = _merged(state, self._state_of(key[:2]), self._state_of(key[:1]))
        return _as_session(key, thread_id, state, merged, events)

    def _list(self, app_name: str, user_id: str | None) -> ListSessionsResponse:
        prefix = (app_name,) if user_id is None else (app_name, user_id)
        with _paused_collection():
            threads = threads_below(self._log, NAMESPACE, *prefix)
            threads.sort(key=lambda thread: thread.key or ())
            app = self._state_of((app_name,))
            users: dict[str, ThreadState] = {}
            sessions: list[Session] = []
            for thread in threads:  # a user's key stands before those of the user's sessions
                key, state = thread.key or (), self._listed_state(thread.thread_id, thread.head)
                if len(key) == _USER_KEY:
                    users[key[1]] = state
                elif len(key) == _SESSION_KEY and state.is_started:
                    merged = _merged(state, users.get(key[1], EMPTY), app)
                    sessions.append(_as_session(key, thread.thread_id, state, merged, ()))
            sessions.sort(key=lambda session: session.last_update_time)  # else by user and id
            return ListSessionsResponse(sessions=sessions)

    def _listed_state(self, thread_id: str, head: int) -> ThreadState:
        try:
            return self._states.read_at(thread_id, head)
        except ThreadNotFoundError:  # deleted meanwhile
            return EMPTY

    def _delete(self, key: tuple[str, str, str]) -> None:
        thread_id = self._log.find(NAMESPACE, key)
        if thread_id is not None:
            self._log.delete(thread_id)

    # events

    def _append_event(self, session: Session, event: Event) -> Event:
        key = (session.app_name, session.user_id, session.id.strip())
        with self._locks[hash(key) % _LOCKS]:
            self._apply_temp_state(session, event)
            event = self._trim_temp_delta_state(event)
            deltas = extract_json_safe_state_delta(event.actions.state_delta)
            text = event.model_dump_json(exclude_none=True, by_alias=True)
            marker = retrying(lambda: self._store(session, event, text, deltas))
            if marker is None:
                return event
            session._storage_update_marker = marker  # noqa: SLF001 - the field for this purpose
            session.last_update_time = event.timestamp
            return self._commit_event_to_session(session, event)

    def _store(self, session: Session, event: Event, text: str, deltas: Deltas) -> str | None:
        """Append an event and return the new marker; None if the event is stored already."""
        key = (session.app_name, session.user_id, session.id.strip())
        thread_id = self._log.find(NAMESPACE, key)
        state = EMPTY if thread_id is None else self._states.read_end(thread_id)
        if thread_id is None or not state.is_started:
            raise SessionNotFoundError(f"Session {session.id} not found.")
        record_id = self._new_id(thread_id, event.id, text)
        if record_id is None:
            return None
        self._check_revision(session, thread_id, state)
        records = (
            NewRecord(payload=PayloadText(text), id=record_id, at=_moment(event.timestamp)),
            *_changes(deltas["session"], event.id),
        )
        batch = Batch(thread_id=thread_id, records=records, expect=state.head)
        batches = [batch, *self._scope_batches(key, deltas, event.id)]
        appended = self._append_all(batches)
        for each, result in zip(batches, appended, strict=True):
            self._states.checkpoint(each.thread_id, result)
        return _marker(thread_id, appended[0].head - len(records) + 1)

    def _append_all(self, batches: Sequence[Batch]) -> list[Appended]:
        """Append the batches together; a single one needs no transaction."""
        if len(batches) > 1:
            return self._log.append_many(batches)
        (one,) = batches
        return [self._log.append(one.thread_id, one.records, expect=one.expect)]

    def _new_id(self, thread_id: str, event_id: str, text: str) -> str | None:
        """Return the id for the record of an event; None if the thread has the event.

        Of events that share an id, the first has it in the thread, the others have it with a digest
        of their text.
        """
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        is_plain = 0 < len(event_id) <= _LONGEST_EVENT_ID and event_id.strip()
        plain = event_id if is_plain and "\0" not in event_id else f"event.{digest}"
        other = f"{plain}.{digest}"
        known = self._log.stored_ids(thread_id, (plain, other))
        if plain not in known:
            return plain
        if other in known:
            return None
        stored = next(record for record in self._log.read_back(thread_id) if record.id == plain)
        return None if stored.text == text else other

    def _check_revision(self, session: Session, thread_id: str, state: ThreadState) -> None:
        """Raise `StaleSessionError` if an event was stored that the session object lacks.

        An object without a marker, such as one that was sent over a network, is current if it is
        not older than the last event or ends with it.
        """
        marker = session._storage_update_marker  # noqa: SLF001 - the field for this purpose
        if marker is None:
            is_current = state.updated_at <= session.last_update_time
            if not is_current and session.events and state.revision:
                last = self._event_at(thread_id, state.revision)
                is_current = as_mapping(last.payload).get("id") == session.events[-1].id
        else:
            is_current = marker == _marker(thread_id, state.revision)
        if not is_current:
            raise StaleSessionError(
                f"Session {session.id} has events that this session object lacks. Get it again."
            )

    def _event_at(self, thread_id: str, seq: int) -> Record:
        return next(self._log.read_back(thread_id, before=seq + 1))

    # states of users and applications

    def _state_of(self, key: tuple[str, ...]) -> ThreadState:
        thread_id = self._log.find(NAMESPACE, key)
        if thread_id is None:
            return EMPTY
        try:
            return self._states.read(thread_id)
        except ThreadNotFoundError:  # deleted meanwhile
            return EMPTY

    def _scope_batches(
        self, key: tuple[str, str, str], deltas: Deltas, event_id: str | None
    ) -> list[Batch]:
        """Return the changes of the states of the user and the application."""
        scopes = ((key[:2], deltas["user"]), (key[:1], deltas["app"]))
        return [
            Batch(thread_id=self._thread(scope), records=(as_delta(changes, event_id),))
            for scope, changes in scopes
            if changes
        ]

    def _thread(self, key: tuple[str, ...]) -> str:
        user = key[1] if len(key) > 1 else None
        payload_format = FORMAT if len(key) == _SESSION_KEY else STATE_FORMAT
        return find_or_create(
            self.store, NAMESPACE, key, payload_format=payload_format, user_id=user
        )


@contextlib.contextmanager
def _paused_collection() -> Iterator[None]:
    """Keep the cyclic garbage collector from searching thousands of new objects that all live."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _changes(changes: Mapping[str, Any], event_id: str | None) -> tuple[NewRecord, ...]:
    return (as_delta(changes, event_id),) if changes else ()


def _merged(state: ThreadState, user: ThreadState, app: ThreadState) -> dict[str, Any]:
    """Return the state of a session with those of its user and its application."""
    merged = state.values()
    for prefix, scope in ((State.APP_PREFIX, app), (State.USER_PREFIX, user)):
        if scope.text != EMPTY.text:
            merged |= {prefix + name: value for name, value in scope.values().items()}
    return merged


def _as_session(
    key: tuple[str, ...],
    thread_id: str,
    state: ThreadState,
    merged: dict[str, Any],
    events: Sequence[Event],
) -> Session:
    session = Session.__new__(Session)
    session.__setstate__(  # as `pickle` does: a list has thousands, with values of our making
        {
            "__dict__": {
                "id": key[2],
                "app_name": key[0],
                "user_id": key[1],
                "state": merged,
                "events": list(events),
                "last_update_time": state.updated_at,
            },
            "__pydantic_fields_set__": _FIELDS.copy(),
            "__pydantic_extra__": None,
            "__pydantic_private__": {"_storage_update_marker": _marker(thread_id, state.revision)},
        }
    )
    return session


def _marker(thread_id: str, revision: int) -> str:
    return f"{thread_id}:{revision}"


def _moment(timestamp: float) -> datetime | None:
    """Return the time of an event; None if it lies outside the years that a record can have."""
    try:
        return datetime.fromtimestamp(timestamp, tz=UTC)
    except (ValueError, OverflowError, OSError):
        return None
