"""The threads of a store that LangGraph writes: how they are read, changed and copied."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from amux.errors import ConflictError, SessionNotFoundError
from amux.integrations._common import find_or_create
from amux.integrations.langgraph_state import GraphThreadState
from amux.rollout import control
from amux.rollout.ids import new_run_session_id, new_thread_id
from amux.rollout.log import ThreadLog
from amux.rollout.records import NewRecord, PayloadText
from amux.rollout.view import visible
from amux.store.session_store import SessionStore

NAMESPACE: Final = "langgraph"
FORMAT: Final = "langgraph"

_OPEN_THREADS: Final = 64
_TRIES: Final = 100


class OpenThread:
    """A thread that this process uses: its id in the store, and its state as last read.

    Callers hold `lock`. Other processes may change the thread at any time: a change names the head
    it was made for, and is made again for a newer one.
    """

    def __init__(self, store: SessionStore, key: str) -> None:
        self.lock = threading.RLock()
        self._store = store
        self._log: ThreadLog = store.log
        self._key = key
        self._thread_id: str | None = None
        self._state: GraphThreadState | None = None

    def read(self) -> GraphThreadState | None:
        """Return the state of the thread now; None if there is no such thread."""
        for _ in range(_TRIES):
            thread_id = self.thread_id
            if thread_id is None:
                return None
            try:
                if self._state is None:
                    self._state = GraphThreadState.load(self._log, thread_id)
                else:
                    self._state = self._state.update(self._log, thread_id)
            except SessionNotFoundError:
                self._forget()
            else:
                return self._state
        return None

    @property
    def thread_id(self) -> str | None:
        """The id of the thread in the store; None if there is none."""
        if self._thread_id is None:
            self._thread_id = self._log.find(NAMESPACE, (self._key,))
        return self._thread_id

    def _forget(self) -> None:
        self._thread_id = self._state = None

    def delete(self) -> None:
        """Delete the thread, also one that another process has created anew under its key."""
        self._forget()
        found = self.thread_id
        if found is not None:
            self._log.delete(found)
            self._forget()

    def change(
        self,
        make_records: Callable[[GraphThreadState], Sequence[NewRecord]],
        *,
        create: bool = True,
        user_id: str | None = None,
    ) -> None:
        """Append records that are made for the state; a missing thread is created unless told not.

        Raises:
            ConflictError: Other processes changed the thread every time.
        """
        for _ in range(_TRIES):
            if self.thread_id is None:
                if not create:
                    return
                self._create(user_id)
            try:
                state = self._state or self.read()
                if state is not None and self._append(state, make_records(state)):
                    return
            except SessionNotFoundError:
                self._forget()  # deleted meanwhile
        raise ConflictError(f"the LangGraph thread `{self._key}` is written by too many at once")

    def _create(self, user_id: str | None) -> None:
        meta = {} if user_id is None else {"user_id": user_id}
        self._thread_id = find_or_create(
            self._store, NAMESPACE, (self._key,), payload_format=FORMAT, **meta
        )

    def _append(self, state: GraphThreadState, records: Sequence[NewRecord]) -> bool:
        """Append records; return False if the thread has changed, and then read it again."""
        if not records or self._thread_id is None:
            return not records
        try:
            appended = self._log.append(self._thread_id, records, expect=state.head)
        except ConflictError:
            self.read()
            return False
        if any(each.payload.get("type") == control.HIDE for each in records):
            self._state = None
            return True
        for record_id, record in zip(appended.ids, records, strict=True):
            if record.type == "response_item":
                state.add(record_id, record.payload)
            else:
                state.projections[record_id] = record.payload["of"]
        state.head = appended.head
        return True


class OpenThreads:
    """The threads that a saver and its copies have used lately."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._threads: OrderedDict[str, OpenThread] = OrderedDict()

    def get(self, key: str) -> OpenThread:
        """Return a thread; the least recently used one is forgotten."""
        with self._lock:
            thread = self._threads.get(key)
            if thread is None:
                thread = self._threads[key] = OpenThread(self._store, key)
            self._threads.move_to_end(key)
            if len(self._threads) > _OPEN_THREADS:
                self._threads.popitem(last=False)
            return thread

    def remove(self, key: str) -> None:
        """Forget a thread."""
        with self._lock:
            self._threads.pop(key, None)


def copy_thread(store: SessionStore, source_key: str, target_key: str) -> None:
    """Copy the visible records of a thread to a new one; an unknown source copies nothing.

    Raises:
        ConflictError: The target exists.
    """
    log = store.log
    source = log.find(NAMESPACE, (source_key,))
    if source is None:
        return
    records = copied_records(log, source)
    meta = msgspec.structs.replace(
        log.meta(source),
        thread_id=new_thread_id(),
        session_id=new_run_session_id(),
        created_at=datetime.now(UTC),
        key=(target_key,),
        kind="fork",
        forked_from=source,
        fork_point=records[-1].id if records else None,
        copied=len(records),
        title=None,
    )
    log.create(meta, records)


def copied_records(log: ThreadLog, thread_id: str) -> list[NewRecord]:
    """Return the visible records of a thread for another one, with their ids and times."""
    kept = visible(log.read_back(thread_id), types=("response_item", "event_msg"))
    return [
        NewRecord(
            type=record.type,  # type: ignore[arg-type]  # one of these two
            payload=PayloadText(record.text),
            id=record.id,
            parent_id=None,
            at=record.at,
            blobs=record.blobs,
        )
        for record in kept
        if control.kind_of(record) in {"response_item", control.PROJECTION}
    ]
