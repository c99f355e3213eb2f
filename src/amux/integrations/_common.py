"""Code that the integrations share: opening a store, finding or creating threads, repeating.

The functions block. The asynchronous methods of an integration call them in a worker thread
(`amux.workers.run_in_worker`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from amux._version import __version__
from amux.errors import ConflictError, SessionNotFoundError, ValidationError
from amux.rollout.ids import new_run_session_id, new_thread_id
from amux.rollout.log import ThreadLog
from amux.rollout.records import SessionMeta
from amux.rollout.threads import ThreadFilter, ThreadSummary
from amux.store.session_store import SessionStore

T = TypeVar("T")

StoreAddress = SessionStore | ThreadLog | Path | str
"""A store: an open one, a backend, a directory, a `postgresql://` URL, or "memory:"."""

TRIES: Final = 100


def check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    """Raise `ValidationError` if the value of an argument is none of its choices."""
    if value not in choices:
        listed = " or ".join(f'"{choice}"' for choice in choices)
        raise ValidationError(f"`{name}` must be {listed}, not `{value}`", fields=(name,))


def open_store(store: StoreAddress) -> SessionStore:
    """Return the store that an argument names; an open store is returned as it is.

    Nothing is created before the first write.
    """
    return store if isinstance(store, SessionStore) else SessionStore(store)


def find_or_create(
    store: SessionStore,
    namespace: str,
    key: Sequence[str],
    *,
    payload_format: str,
    **meta: Any,
) -> str:
    """Return the id of the thread with a key; it is created if there is none.

    Of several callers that create it at the same time one does, and all get its thread. `meta` are
    further arguments of `SessionStore.start`, such as `agent`, `user_id`, `kind` and `parent`.
    """

    def attempt() -> str:
        found = store.log.find(namespace, tuple(key))
        return found or create(store, namespace, key, payload_format=payload_format, **meta)

    return retrying(attempt)


def create(
    store: SessionStore,
    namespace: str,
    key: Sequence[str],
    *,
    payload_format: str,
    **meta: Any,
) -> str:
    """Create the thread of a key and return its id.

    Raises:
        ConflictError: A thread with the key exists.
    """
    given: dict[str, Any] = {"cwd": "", "source": namespace, **meta}
    return store.start(
        **given, namespace=namespace, key=tuple(key), payload_format=payload_format
    ).thread_id


def retrying(change: Callable[[], T], *, tries: int = TRIES) -> T:
    """Return the result of a change that is repeated while other writers interfere.

    The change must read all it depends on, and must name the head it has seen (`expect`). It is
    repeated after a `ConflictError`, and after a `SessionNotFoundError`: the thread that it looked
    up was deleted meanwhile. The last error is raised.
    """
    for _ in range(tries - 1):
        try:
            return change()
        except (ConflictError, SessionNotFoundError):
            continue
    return change()


def head_of(log: ThreadLog, thread_id: str) -> int:
    """Return the sequence number of the last record of a thread, for `expect`."""
    return next((record.seq for record in log.read_back(thread_id)), 0)


def threads_below(log: ThreadLog, namespace: str, *prefix: str) -> list[ThreadSummary]:
    """Return the threads whose keys begin with a prefix, archived ones included."""
    return log.threads(ThreadFilter(namespace=namespace, key_prefix=prefix, archived=None))


def new_meta(
    namespace: str, key: Sequence[str], *, payload_format: str, **fields: Any
) -> SessionMeta:
    """Return the meta data of a new thread with a key, for `ThreadLog.create`.

    `fields` are further fields of `SessionMeta`, such as `user_id`, `kind` and `copied`.
    """
    return SessionMeta(
        thread_id=new_thread_id(),
        session_id=new_run_session_id(),
        created_at=datetime.now(UTC),
        cli_version=__version__,
        source=namespace,
        namespace=namespace,
        key=tuple(key),
        payload_format=payload_format,
        **fields,
    )


class RecentValues(Generic[T]):
    """The last values by key; the oldest are dropped. Any thread may use it."""

    def __init__(self, most: int = 50_000) -> None:
        self._most = most
        self._values: dict[str, T] = {}
        self._lock = threading.Lock()

    def get(self, key: str) -> T | None:
        """Return a value; None if it is not known any more."""
        return self._values.get(key)

    def put(self, key: str, value: T) -> None:
        """Keep a value as the newest."""
        with self._lock:
            self._values.pop(key, None)
            self._values[key] = value
            if len(self._values) > self._most:
                del self._values[next(iter(self._values))]
