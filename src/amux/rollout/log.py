"""The log protocol: what a backend of the session store offers.

A thread is a sequence of records that only grows. `FileLog`, `MemoryLog` and `PostgresLog` (package
`store`) implement the protocol, and `amux.testing.BackendSuite` holds its rules; another package
may add a backend that passes the suite.

- A batch becomes visible as a whole or not at all, also after a crash.
- Appending needs no turn: any number of threads and processes may append at the same time.
- Order is the order of appends, never that of clocks.
- Ids and external keys are data; no backend uses them as unchecked paths or as SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterator, Sequence
from datetime import datetime
from typing import Final, Literal, Protocol

import msgspec

from amux.errors import ConflictError, SessionNotFoundError, StoreError, ValidationError
from amux.model.problems import Problem
from amux.rollout.ids import is_valid_session_id
from amux.rollout.records import (
    SCHEMA_VERSION,
    NewRecord,
    Record,
    SessionMeta,
    as_mapping,
    check_record_id,
    encode_payload,
    new_record_id,
    utc,
)
from amux.rollout.threads import ThreadFilter, ThreadSummary

Repeat = Literal["skip", "replace", "error"]
"""The treatment of a record whose id the thread already has."""

Fsync = Literal["never", "turn", "always"]
"""When appended records are forced to the disk: never, at the end of a turn, at every append."""


MAX_KEY_BYTES: Final = 2_000
"""The most bytes of a namespace and a key in UTF-8: an index of a database can hold no more."""


class Appended(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an append: the new head, and the ids of the records, the skipped included."""

    head: int
    ids: tuple[str, ...]
    stored: int


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """Records for one thread of `append_many`."""

    thread_id: str
    records: tuple[NewRecord, ...]
    expect: int | None = None
    repeat: Repeat = "skip"


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """The right to run the turn of a thread. It ends when it expires without being renewed."""

    thread_id: str
    token: str
    owner: str  # the run of the program, for messages
    expires_at: datetime
    pid: int | None = None
    host: str | None = None


class SearchQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A search in the messages of all threads. Words are combined with AND unless OR is written."""

    text: str
    sources: tuple[str, ...] = ()
    exclude_sources: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    namespace: str | None = None
    thread_id: str | None = None
    include_inactive: bool = False  # also rewound and popped messages
    limit: int = 20
    offset: int = 0
    sort: Literal["rank", "newest", "oldest"] = "rank"


class ContextMessage(msgspec.Struct, frozen=True):
    """A message before or after a hit, or the hit itself, cut to 200 characters."""

    role: str
    content: str


class MessageHit(msgspec.Struct, frozen=True, kw_only=True):
    """A message that matches a query. Matches in the snippet stand between >>> and <<<."""

    thread_id: str
    record_id: str
    seq: int
    role: str
    at: datetime
    snippet: str
    context: tuple[ContextMessage, ...] = ()
    title: str | None = None
    source: str = ""
    model: str | None = None
    session_started: datetime | None = None


class StoredValue(msgspec.Struct, frozen=True, kw_only=True):
    """A value outside the records: it is replaced as a whole, and `version` changes each time."""

    key: tuple[str, ...]
    data: bytes
    version: str
    updated_at: datetime


class VacuumReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a vacuum: removed records, and the size of the thread before and after."""

    removed: int
    bytes_before: int
    bytes_after: int


class ThreadLog(Protocol):
    """A backend. Methods raise `SessionNotFoundError` for a thread that does not exist."""

    def create(self, meta: SessionMeta, records: Sequence[NewRecord] = ()) -> ThreadSummary:
        """Create a thread with its meta data and first records, in one step.

        Raise `ConflictError` if a thread with that id, or with that key in that namespace, exists,
        and `TitleInUseError` if another thread has the title.
        """
        ...

    def get(self, thread_id: str) -> ThreadSummary | None:
        """Return the summary of a thread, archived or not; None if there is none."""
        ...

    def meta(self, thread_id: str) -> SessionMeta:
        """Return the meta data of a thread."""
        ...

    def find(self, namespace: str, key: tuple[str, ...]) -> str | None:
        """Return the id of the thread with an external key; None if there is none."""
        ...

    def resolve(self, prefix: str) -> list[str]:
        """Return the ids of the threads that begin with a prefix, archived ones included."""
        ...

    def threads(self, selection: ThreadFilter) -> list[ThreadSummary]:
        """Return the selected threads, without reading their records."""
        ...

    def append(
        self,
        thread_id: str,
        records: Sequence[NewRecord],
        *,
        expect: int | None = None,
        repeat: Repeat = "skip",
    ) -> Appended:
        """Append records as one batch.

        With `expect`, the sequence number of the head that the caller has seen, raise
        `ConflictError` if the head is another one; nothing is appended then.
        """
        ...

    def append_many(self, batches: Sequence[Batch]) -> list[Appended]:
        """Append to several threads; all batches become visible or none does."""
        ...

    def read(self, thread_id: str, *, after: int = 0) -> Iterator[Record]:
        """Yield the records with sequence numbers above `after`, oldest first, hidden included.

        A record that a later one with its id replaced may be missing.
        """
        ...

    def read_back(
        self,
        thread_id: str,
        *,
        before: int | None = None,
        kinds: Collection[str] | None = None,
    ) -> Iterator[Record]:
        """Yield the records below a sequence number, newest first; only what is taken is read.

        `kinds` are types of records and kinds of control records (`control.kind_of`): with them,
        only such records are yielded, and the others should cost next to nothing.
        """
        ...

    def stored_ids(self, thread_id: str, record_ids: Collection[str]) -> set[str]:
        """Return those of some record ids that a thread has."""
        ...

    def locate(self, record_id: str) -> list[tuple[str, int]]:
        """Return the threads that hold a record, with its sequence number in each."""
        ...

    def set_title(self, thread_id: str, title: str | None) -> None:
        """Append a title, or remove it; raise `TitleInUseError` if another thread has it."""
        ...

    def archive(self, thread_id: str, *, archived: bool) -> None:
        """Move a thread to the archive, or back."""
        ...

    def delete(self, thread_id: str) -> bool:
        """Delete a thread with its records; return False if there is none."""
        ...

    def vacuum(self, thread_id: str, *, erase: Container[str] = ()) -> VacuumReport:
        """Remove hidden and superseded records, and those with the ids in `erase`, for good."""
        ...

    def acquire_lease(self, thread_id: str, owner: str, *, seconds: float) -> Lease:
        """Take the lease of a thread; raise `TurnInProgressError` while another one is valid."""
        ...

    def renew_lease(self, lease: Lease, *, seconds: float) -> Lease | None:
        """Extend a lease; return None if it was lost."""
        ...

    def release_lease(self, lease: Lease) -> bool:
        """Give a lease back; return False if it was lost before."""
        ...

    def lease_of(self, thread_id: str) -> Lease | None:
        """Return the valid lease of a thread; None if no turn is running."""
        ...

    def break_lease(self, thread_id: str) -> bool:
        """Take the lease from its owner; return False if there was none."""
        ...

    def put_blob(self, data: bytes) -> str:
        """Store bytes and return their SHA-256; equal bytes are stored once."""
        ...

    def get_blob(self, digest: str) -> bytes:
        """Return the bytes of a blob; raise `StoreError` if there are none."""
        ...

    def collect_blobs(self) -> int:
        """Remove blobs that no record refers to any more; return how many."""
        ...

    def put_value(
        self, key: tuple[str, ...], data: bytes, *, expect: str | None = None
    ) -> StoredValue:
        """Replace a value. With `expect` raise `ConflictError` unless that version is stored."""
        ...

    def get_value(self, key: tuple[str, ...]) -> StoredValue | None:
        """Return a value; None if there is none."""
        ...

    def list_values(self, prefix: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
        """Return the keys that begin with a prefix, sorted."""
        ...

    def delete_value(self, key: tuple[str, ...]) -> bool:
        """Delete a value; return False if there is none."""
        ...

    def search(self, query: SearchQuery) -> list[MessageHit]:
        """Return the messages that match a query."""
        ...

    def sync(self, thread_id: str) -> None:
        """Force the records of a thread to the disk, unless the policy is "never"."""
        ...

    def verify(self, thread_id: str) -> list[Problem]:
        """Read a thread completely and return what is wrong with it."""
        ...

    def close(self) -> None:
        """Release files and connections. The log must not be used afterwards."""
        ...


class Prepared(msgspec.Struct, frozen=True):
    """The records of a batch that are to be stored, and the ids of all its records."""

    records: list[Record]
    ids: tuple[str, ...]


class ThreadHead(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a thread: its last sequence number and the id that new items follow."""

    seq: int
    item_id: str | None = None


def prepare(
    records: Sequence[NewRecord],
    head: ThreadHead,
    *,
    is_known: Callable[[str], bool],
    repeat: Repeat,
    now: datetime,
) -> Prepared:
    """Return the records to store, with ids, parents, times and sequence numbers.

    Records that the thread already has are left out, or raise an error, or are stored again so that
    they replace the earlier ones. All backends use this function, so that they number alike.
    """
    prepared: list[Record] = []
    ids: list[str] = []
    given: set[str] = set()  # `set[str]()` would take a microsecond
    seq, item_id = head.seq, head.item_id
    for new in records:
        record_id = new_record_id() if new.id is None else check_record_id(new.id)
        ids.append(record_id)
        if new.id is not None:
            if (record_id in given or is_known(record_id)) and repeat != "replace":
                if repeat == "error":
                    raise ConflictError(f"the thread already has a record `{record_id}`")
                continue
            given.add(record_id)
        seq += 1
        record = Record(
            seq=seq,
            id=record_id,
            type=new.type,
            at=utc(new.at, now),
            text=encode_payload(new.payload),
            parent_id=item_id if new.parent_id is msgspec.UNSET else new.parent_id,
            blobs=new.blobs,
        )
        prepared.append(record)
        item_id = next_item_id(record, item_id)
    return Prepared(prepared, tuple(ids))


def next_item_id(record: Record, item_id: str | None) -> str | None:
    """Return the id that items after a record follow."""
    if record.type in {"response_item", "compacted"}:
        return record.id
    if record.type == "event_msg" and '"head"' in record.text:
        payload = as_mapping(record.payload)
        if payload.get("type") == "head" and isinstance(payload.get("id"), str):
            return str(payload["id"])
    return item_id


def check_meta(meta: SessionMeta) -> SessionMeta:
    """Return the meta data of a new thread, with its id in lower case.

    Raises:
        ValidationError: The id is not a UUID. Ids become names of files, so none is trusted.
        StoreError: The thread has a newer format.
    """
    if not is_valid_session_id(meta.thread_id):
        raise ValidationError(
            f"`{meta.thread_id}` is not the id of a thread",
            fields=("thread_id",),
            hint="`new_thread_id` makes one",
        )
    check_version(meta)
    return msgspec.structs.replace(meta, thread_id=meta.thread_id.lower())


def check_version(meta: SessionMeta) -> None:
    """Raise `StoreError` if a thread has a newer format: it must be neither read nor written."""
    if meta.schema_version > SCHEMA_VERSION:
        raise StoreError(
            f"thread `{meta.thread_id}` has version {meta.schema_version} of the format; "
            f"this version of amux reads up to {SCHEMA_VERSION}",
            hint="update amux",
        )


def check_expected(thread_id: str, head: int, expect: int | None) -> None:
    """Raise `ConflictError` if the head is not the expected one."""
    if expect is not None and expect != head:
        raise ConflictError(
            f"thread `{thread_id}` has {head} as its last record, not {expect}",
            expected=expect,
            found=head,
            hint="read the thread again and repeat the change",
        )


def check_key(namespace: str, key: tuple[str, ...]) -> None:
    """Raise `ValidationError` if an external key is empty, too long or not valid Unicode."""
    try:
        data = "".join((namespace, *key)).encode()
    except (UnicodeEncodeError, TypeError):
        data = b"\0"
    if not key or b"\0" in data or len(data) > MAX_KEY_BYTES:
        raise ValidationError(
            "an external key must be a tuple of one or more strings of valid Unicode without NUL, "
            f"with at most {MAX_KEY_BYTES} bytes",
            fields=("key",),
        )


def no_thread(thread_id: str) -> SessionNotFoundError:
    """Return the error for a thread that does not exist."""
    return SessionNotFoundError(
        f"the store has no thread `{thread_id}`", hint="`amux store list` shows the threads"
    )
