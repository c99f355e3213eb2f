"""How long threads are kept, and the erasure of everything that belongs to one user.

The limits are values in the store, one per namespace, so that every program that prunes a store
applies the same ones. A thread stays as long as one that belongs to it: a sub-agent stays with the
thread that started it, and a thread whose key begins the key of another one, such as the state of a
user, stays with that one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Protocol, runtime_checkable

import msgspec

from amux.errors import SessionNotFoundError, ValidationError
from amux.rollout.log import ThreadLog
from amux.rollout.threads import ThreadFilter, ThreadSummary
from amux.store.reports import EraseReport

_PLACE: Final = ("amux", "retention")
_MOST_DAYS: Final = 36_500


@runtime_checkable
class Scrubs(Protocol):
    """A backend that keeps more than records: copies, an index, blobs that are young."""

    def scrub(self, thread_ids: Collection[str], blobs: Collection[str]) -> int:
        """Remove what deleted threads left behind; return how many blobs went.

        `blobs` are those that the threads referred to; one that another thread uses stays.
        """
        ...


def read_limits(log: ThreadLog) -> dict[str, float]:
    """Return the days after which threads expire, by namespace."""
    found: dict[str, float] = {}
    for key in log.list_values(_PLACE):
        value = log.get_value(key)
        days = None if value is None else _days_in(value.data)
        if days is not None:
            found[key[len(_PLACE)]] = days
    return found


def set_limit(log: ThreadLog, namespace: str, days: float | None) -> None:
    """Set the days after which the threads of a namespace expire; None removes the limit."""
    key = (*_PLACE, namespace)
    if days is None:
        log.delete_value(key)
        return
    if not 0 < days <= _MOST_DAYS:
        raise ValidationError(
            f"threads expire after more than 0 and at most {_MOST_DAYS} days, not after {days:g}",
            fields=("days",),
        )
    log.put_value(key, msgspec.json.encode({"days": days}))


def _days_in(data: bytes) -> float | None:
    try:
        days = msgspec.json.decode(data, type=dict[str, Any]).get("days")
    except (msgspec.DecodeError, UnicodeError):
        return None
    is_limit = isinstance(days, int | float) and 0 < days <= _MOST_DAYS
    return days if is_limit else None


def find_expired(log: ThreadLog, limits: Mapping[str, float], now: datetime) -> list[ThreadSummary]:
    """Return the threads whose namespace has a limit that they have passed, running ones excepted.

    A thread expires some days after its last message or its last write, whichever is later.
    """
    found: list[ThreadSummary] = []
    for namespace, days in limits.items():
        threads = log.threads(ThreadFilter(namespace=namespace, archived=None))
        before = now - timedelta(days=days)
        kept = {
            thread.thread_id
            for thread in threads
            if max(thread.last_active, thread.updated_at) >= before
            or log.lease_of(thread.thread_id) is not None
        }
        _keep_relatives(threads, kept)
        found += [thread for thread in threads if thread.thread_id not in kept]
    return found


def _keep_relatives(threads: Sequence[ThreadSummary], kept: set[str]) -> None:
    """Add to the kept threads those that belong to one of them."""
    while True:
        named = {thread.parent for thread in threads if thread.thread_id in kept}
        prefixes = {
            thread.key[:length]
            for thread in threads
            if thread.thread_id in kept and thread.key is not None
            for length in range(1, len(thread.key))
        }
        more = {
            thread.thread_id
            for thread in threads
            if thread.thread_id not in kept
            and (thread.thread_id in named or thread.parent in kept or thread.key in prefixes)
        }
        if not more:
            return
        kept |= more


def erase_user(log: ThreadLog, user_id: str, *, dry_run: bool) -> EraseReport:
    """Delete the threads and the values of a user in all namespaces, and all traces of them.

    A thread is the user's if its `user_id` is the user's or its external key contains it, or if it
    comes from such a thread: forks hold copies. The key of a value that is the user's contains it.
    """
    if not user_id.strip():
        raise ValidationError("the id of a user is not empty", fields=("user_id",))
    threads = _threads_of(log.threads(ThreadFilter(archived=None)), user_id)
    values = [key for key in log.list_values() if user_id in key and key[:2] != _PLACE]
    if dry_run:
        return EraseReport(threads=tuple(threads), values=tuple(values), dry_run=True)
    ids = [thread.thread_id for thread in threads]
    digests: set[str] = set()
    for thread_id in ids:
        with contextlib.suppress(SessionNotFoundError):  # deleted meanwhile
            digests.update(digest for record in log.read(thread_id) for digest in record.blobs)
        log.delete(thread_id)
    for key in values:
        log.delete_value(key)
    blobs = log.scrub(ids, digests) if isinstance(log, Scrubs) else log.collect_blobs()
    return EraseReport(threads=tuple(threads), values=tuple(values), blobs=blobs)


def _threads_of(threads: Iterable[ThreadSummary], user_id: str) -> list[ThreadSummary]:
    """Return the threads of a user, those that come from them included."""
    known = list(threads)
    own = {
        thread.thread_id
        for thread in known
        if thread.user_id == user_id or user_id in (thread.key or ())
    }
    while True:
        more = {
            thread.thread_id
            for thread in known
            if thread.thread_id not in own and own & {thread.parent, thread.forked_from}
        }
        if not more:
            return [thread for thread in known if thread.thread_id in own]
        own |= more
