"""`MemoryLog`: the log protocol in memory, for tests and for programs that keep nothing.

It is also the reference: it has no files, no SQL and no recovery, so that its answers show the
rules of the protocol alone.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Collection, Container, Iterator, Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from amux.durable import hold_while_forking
from amux.errors import (
    ConflictError,
    StoreError,
    TitleInUseError,
    TurnInProgressError,
)
from amux.model.problems import Problem
from amux.rollout import control
from amux.rollout.log import (
    Appended,
    Batch,
    Lease,
    MessageHit,
    Prepared,
    Repeat,
    SearchQuery,
    StoredValue,
    ThreadHead,
    VacuumReport,
    check_expected,
    check_key,
    check_meta,
    next_item_id,
    no_thread,
    prepare,
)
from amux.rollout.records import (
    NewRecord,
    Record,
    SessionMeta,
    encode_record,
    meta_payload,
    new_record_id,
)
from amux.rollout.threads import (
    ThreadFilter,
    ThreadSummary,
    apply_changes,
    changes_by,
    listed_text,
    summary_of,
)
from amux.store.removal import removable
from amux.store.scan_search import search_threads


class _Thread:
    def __init__(self, meta: SessionMeta, summary: ThreadSummary) -> None:
        self.meta = meta
        self.summary = summary
        self.records: list[Record] = []
        self.ids: set[str] = set()
        self.item_id: str | None = None


class MemoryLog:
    """Threads in the memory of this process. All methods may be called from any thread."""

    def __init__(self, *, now: Callable[[], datetime] | None = None) -> None:
        self._now = now or (lambda: datetime.now(UTC))
        self._lock = threading.RLock()
        self._threads: dict[str, _Thread] = {}
        self._keys: dict[tuple[str, tuple[str, ...]], str] = {}
        self._leases: dict[str, Lease] = {}
        self._blobs: dict[str, bytes] = {}
        self._values: dict[tuple[str, ...], StoredValue] = {}
        hold_while_forking(self)

    def hold(self, timeout: float) -> bool:
        """Wait until no thread changes anything."""
        return self._lock.acquire(timeout=timeout)

    def let_go(self) -> None:
        """Let other threads go on."""
        self._lock.release()

    def abandon(self) -> None:
        """Make a lock for a forked process, which has a copy of the threads."""
        self._lock = threading.RLock()

    def create(self, meta: SessionMeta, records: Sequence[NewRecord] = ()) -> ThreadSummary:
        """Create a thread with its meta data and first records."""
        meta = check_meta(meta)
        with self._lock:
            if meta.thread_id in self._threads:
                raise ConflictError(f"a thread `{meta.thread_id}` exists")
            if meta.key is not None:
                check_key(meta.namespace, meta.key)
                holder = self._keys.get((meta.namespace, meta.key))
                if holder is not None:
                    raise ConflictError(
                        f"thread `{holder}` has the key {list(meta.key)}", found=holder
                    )
            self._check_title(meta.title, meta.thread_id)
            first = NewRecord(type="session_meta", payload=meta_payload(meta), parent_id=None)
            prepared = self._prepare((first, *records), ThreadHead(seq=0), set(), "error").records
            thread = _Thread(meta, summary_of(meta, prepared[0]))
            self._add(thread, prepared)
            self._threads[meta.thread_id] = thread
            if meta.key is not None:
                self._keys[meta.namespace, meta.key] = meta.thread_id
            return thread.summary

    def get(self, thread_id: str) -> ThreadSummary | None:
        """Return the summary of a thread; None if there is none."""
        thread = self._threads.get(thread_id)
        return None if thread is None else thread.summary

    def meta(self, thread_id: str) -> SessionMeta:
        """Return the meta data of a thread."""
        return self._require(thread_id).meta

    def find(self, namespace: str, key: tuple[str, ...]) -> str | None:
        """Return the id of the thread with an external key."""
        return self._keys.get((namespace, key))

    def resolve(self, prefix: str) -> list[str]:
        """Return the ids of the threads that begin with a prefix."""
        with self._lock:
            return sorted(each for each in self._threads if each.startswith(prefix.lower()))

    def threads(self, selection: ThreadFilter) -> list[ThreadSummary]:
        """Return the selected threads."""
        with self._lock:
            summaries = [thread.summary for thread in self._threads.values()]
        return selection.apply(summaries)

    def append(
        self,
        thread_id: str,
        records: Sequence[NewRecord],
        *,
        expect: int | None = None,
        repeat: Repeat = "skip",
    ) -> Appended:
        """Append records as one batch."""
        batch = Batch(thread_id=thread_id, records=tuple(records), expect=expect, repeat=repeat)
        return self.append_many((batch,))[0]

    def append_many(self, batches: Sequence[Batch]) -> list[Appended]:
        """Append to several threads; all batches become visible or none does."""
        with self._lock:
            checked: list[tuple[_Thread, Prepared]] = []
            for batch in batches:
                thread = self._require(batch.thread_id)
                check_expected(batch.thread_id, thread.summary.head, batch.expect)
                head = ThreadHead(seq=thread.summary.head, item_id=thread.item_id)
                prepared = self._prepare(batch.records, head, thread.ids, batch.repeat)
                checked.append((thread, prepared))
            if len({batch.thread_id for batch in batches}) < len(batches):
                raise StoreError("`append_many` takes one batch per thread")
            return [self._store(*each) for each in checked]

    def _store(self, thread: _Thread, prepared: Prepared) -> Appended:
        self._add(thread, prepared.records)
        return Appended(head=thread.summary.head, ids=prepared.ids, stored=len(prepared.records))

    def _prepare(
        self, records: Sequence[NewRecord], head: ThreadHead, known: set[str], repeat: Repeat
    ) -> Prepared:
        return prepare(records, head, is_known=known.__contains__, repeat=repeat, now=self._now())

    def _add(self, thread: _Thread, prepared: list[Record]) -> None:
        if not prepared:
            return
        for record in prepared:
            encode_record(record)  # refuses what a file could not hold
        for record in prepared:
            thread.records.append(record)
            thread.ids.add(record.id)
            thread.item_id = next_item_id(record, thread.item_id)
        changes = changes_by(
            prepared,
            payload_format=thread.meta.payload_format,
            written_at=self._now(),
            copied=thread.meta.copied,
            last_call=thread.summary.last_call,
        )
        thread.summary = apply_changes(thread.summary, changes)

    def read(self, thread_id: str, *, after: int = 0) -> Iterator[Record]:
        """Yield the records with sequence numbers above `after`, oldest first."""
        for record in tuple(self._require(thread_id).records):
            if record.seq > after:
                yield record

    def read_back(
        self,
        thread_id: str,
        *,
        before: int | None = None,
        kinds: Collection[str] | None = None,
    ) -> Iterator[Record]:
        """Yield the records below a sequence number, newest first."""
        for record in reversed(tuple(self._require(thread_id).records)):
            if (before is None or record.seq < before) and (
                kinds is None or control.kind_of(record) in kinds
            ):
                yield record

    def stored_ids(self, thread_id: str, record_ids: Collection[str]) -> set[str]:
        """Return those of some record ids that a thread has."""
        with self._lock:
            return self._require(thread_id).ids.intersection(record_ids)

    def locate(self, record_id: str) -> list[tuple[str, int]]:
        """Return the threads that hold a record, with its sequence number in each."""
        with self._lock:
            return [
                (thread_id, max(r.seq for r in thread.records if r.id == record_id))
                for thread_id, thread in self._threads.items()
                if record_id in thread.ids
            ]

    def set_title(self, thread_id: str, title: str | None) -> None:
        """Append a title, or remove it."""
        with self._lock:
            self._require(thread_id)
            self._check_title(title, thread_id)
            self.append(thread_id, (control.event(control.TITLE, title=title),))

    def _check_title(self, title: str | None, thread_id: str) -> None:
        if title is None:
            return
        listed = listed_text(title)
        for thread in self._threads.values():
            if thread.summary.title == listed and thread.summary.thread_id != thread_id:
                raise TitleInUseError(
                    f"thread `{thread.summary.thread_id}` has the title `{title}`",
                    title=title,
                    holder=thread.summary.thread_id,
                    hint="choose another title",
                )

    def archive(self, thread_id: str, *, archived: bool) -> None:
        """Move a thread to the archive, or back."""
        with self._lock:
            thread = self._require(thread_id)
            thread.summary = msgspec.structs.replace(thread.summary, archived=archived)

    def delete(self, thread_id: str) -> bool:
        """Delete a thread with its records."""
        with self._lock:
            thread = self._threads.pop(thread_id, None)
            if thread is None:
                return False
            if thread.meta.key is not None:
                self._keys.pop((thread.meta.namespace, thread.meta.key), None)
            self._leases.pop(thread_id, None)
            return True

    def vacuum(self, thread_id: str, *, erase: Container[str] = ()) -> VacuumReport:
        """Remove hidden and superseded records, and those with the ids in `erase`."""
        with self._lock:
            thread = self._require(thread_id)
            before = thread.records
            gone = removable(reversed(before), erase)
            thread.records = [record for record in before if record.seq not in gone]
            thread.ids = {record.id for record in thread.records}
            return VacuumReport(
                removed=len(gone), bytes_before=_size(before), bytes_after=_size(thread.records)
            )

    def acquire_lease(self, thread_id: str, owner: str, *, seconds: float) -> Lease:
        """Take the lease of a thread."""
        with self._lock:
            self._require(thread_id)
            held = self.lease_of(thread_id)
            if held is not None:
                raise TurnInProgressError(
                    f"a turn of thread `{thread_id}` is running in `{held.owner}`",
                    thread_id=thread_id,
                    owner=held.owner,
                    hint="wait for its end, interrupt it, or fork the thread",
                )
            lease = Lease(
                thread_id=thread_id,
                token=new_record_id(),
                owner=owner,
                expires_at=self._now() + timedelta(seconds=seconds),
            )
            self._leases[thread_id] = lease
            return lease

    def renew_lease(self, lease: Lease, *, seconds: float) -> Lease | None:
        """Extend a lease; return None if it was lost."""
        with self._lock:
            held = self._leases.get(lease.thread_id)
            if held is None or held.token != lease.token:
                return None
            renewed = msgspec.structs.replace(
                held, expires_at=self._now() + timedelta(seconds=seconds)
            )
            self._leases[lease.thread_id] = renewed
            return renewed

    def release_lease(self, lease: Lease) -> bool:
        """Give a lease back; return False if it was lost before."""
        with self._lock:
            held = self._leases.get(lease.thread_id)
            if held is None or held.token != lease.token:
                return False
            del self._leases[lease.thread_id]
            return True

    def lease_of(self, thread_id: str) -> Lease | None:
        """Return the valid lease of a thread."""
        held = self._leases.get(thread_id)
        return held if held is not None and held.expires_at > self._now() else None

    def break_lease(self, thread_id: str) -> bool:
        """Take the lease from its owner."""
        with self._lock:
            return self._leases.pop(thread_id, None) is not None

    def put_blob(self, data: bytes) -> str:
        """Store bytes and return their SHA-256."""
        digest = hashlib.sha256(data).hexdigest()
        self._blobs.setdefault(digest, bytes(data))
        return digest

    def get_blob(self, digest: str) -> bytes:
        """Return the bytes of a blob."""
        data = self._blobs.get(digest)
        if data is None:
            raise StoreError(f"the store has no blob `{digest}`")
        return data

    def collect_blobs(self) -> int:
        """Remove blobs that no record refers to any more."""
        with self._lock:
            used = {
                digest
                for thread in self._threads.values()
                for record in thread.records
                for digest in record.blobs
            }
            gone = [digest for digest in self._blobs if digest not in used]
            for digest in gone:
                del self._blobs[digest]
            return len(gone)

    def put_value(
        self, key: tuple[str, ...], data: bytes, *, expect: str | None = None
    ) -> StoredValue:
        """Replace a value."""
        check_key("", key)
        with self._lock:
            stored = self._values.get(key)
            found = "" if stored is None else stored.version
            if expect is not None and found != expect:
                raise ConflictError(
                    f"the value {list(key)} has another version", expected=expect, found=found
                )
            value = StoredValue(
                key=key, data=bytes(data), version=new_record_id(), updated_at=self._now()
            )
            self._values[key] = value
            return value

    def get_value(self, key: tuple[str, ...]) -> StoredValue | None:
        """Return a value; None if there is none."""
        return self._values.get(key)

    def list_values(self, prefix: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
        """Return the keys that begin with a prefix, sorted."""
        with self._lock:
            return sorted(key for key in self._values if key[: len(prefix)] == prefix)

    def delete_value(self, key: tuple[str, ...]) -> bool:
        """Delete a value; return False if there is none."""
        with self._lock:
            return self._values.pop(key, None) is not None

    def search(self, query: SearchQuery) -> list[MessageHit]:
        """Return the messages that match a query, by reading all threads."""
        with self._lock:
            threads = [(thread.summary, tuple(thread.records)) for thread in self._threads.values()]
        return search_threads(query, threads)

    def sync(self, thread_id: str) -> None:
        """Do nothing: there is no disk."""
        self._require(thread_id)

    def verify(self, thread_id: str) -> list[Problem]:
        """Return no problem: there is nothing that could be damaged."""
        self._require(thread_id)
        return []

    def close(self) -> None:
        """Forget everything."""
        with self._lock:
            for part in (self._threads, self._keys, self._leases, self._blobs, self._values):
                part.clear()

    def _require(self, thread_id: str) -> _Thread:
        thread = self._threads.get(thread_id)
        if thread is None:
            raise no_thread(thread_id)
        return thread


def _size(records: Sequence[Record]) -> int:
    return sum(len(encode_record(record)) for record in records)
