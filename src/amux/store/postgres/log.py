"""`PostgresLog`: the log protocol in a PostgreSQL database.

An append is one statement: it moves the head of the thread and inserts the records, if the head is
still the one this process has seen. If another process was faster, the thread is locked and the
append repeated. Threads are created, titled and leased under constraints of the database.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import threading
from collections.abc import Callable, Collection, Container, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final, cast

import msgspec
from psycopg import Connection, errors

from amux.errors import ConflictError, StoreError, TitleInUseError, TurnInProgressError
from amux.model.problems import Problem
from amux.rollout import control
from amux.rollout.log import (
    Appended,
    Batch,
    Fsync,
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
    next_item_id,
    prepare,
)
from amux.rollout.records import (
    SCHEMA_VERSION,
    NewRecord,
    Record,
    SessionMeta,
    as_mapping,
    check_record_id,
    encode_record,
    meta_payload,
    new_record_id,
)
from amux.rollout.threads import ThreadFilter, ThreadSummary, changes_by, summary_of
from amux.rollout.view import searchable
from amux.store.memory import no_thread
from amux.store.postgres import rows
from amux.store.postgres.connection import Database
from amux.store.postgres.search import search
from amux.store.removal import removable

_PAGE: Final = 200
_COPY_FROM: Final = 100  # records: above, COPY is faster than INSERT
_REMEMBERED: Final = 1_000
_RECORDS: Final = ", ".join(rows.RECORD_COLUMNS)
_SUMMARY: Final = ", ".join(rows.SUMMARY_COLUMNS)
_INSERTED: Final = ", ".join(rows.INSERT_COLUMNS)
_ROW: Final = "(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, array_to_tsvector(%s::text[]), %s::text[])"
_SELECTED: Final = (
    "%s::text, %s::bigint, %s::text, %s::text, %s::text, %s::timestamptz, %s::text, %s::text[], "
    "%s::text, %s::text, array_to_tsvector(%s::text[]), %s::text[]"
)
_LEASE: Final = "thread_id, token, owner, expires_at, pid, host"
_ORDERS: Final = {
    "last_active": f"{rows.LAST_ACTIVE} DESC, thread_id DESC",
    "created": "created_at DESC, thread_id DESC",
    "title": "lower(coalesce(title, nullif(preview, ''), thread_id)), thread_id",
}
_META: Final = msgspec.json.Decoder(SessionMeta)


class _Known(msgspec.Struct, frozen=True):
    """The head of a thread as this process has seen it, and the facts that never change."""

    head: ThreadHead
    payload_format: str
    copied: int


class PostgresLog:
    """The log protocol in one schema of a database. All methods may be called from any thread."""

    def __init__(
        self,
        url: str,
        *,
        fsync: Fsync = "turn",
        now: Callable[[], datetime] | None = None,
    ) -> None:
        self._now = now or (lambda: datetime.now(UTC))
        self._database = Database(url, synchronous=fsync != "never")
        self._known: dict[str, _Known] = {}
        self._known_lock = threading.Lock()

    # creating and finding

    def create(self, meta: SessionMeta, records: Sequence[NewRecord] = ()) -> ThreadSummary:
        """Create a thread with its meta data and first records."""
        if meta.key is not None:
            check_key(meta.namespace, meta.key)
        first = NewRecord(type="session_meta", payload=meta_payload(meta), parent_id=None)
        prepared = self._prepare(
            (first, *_with_ids(records)), ThreadHead(seq=0), lambda _: False, "error"
        )
        try:
            self._database.transaction(lambda c: self._create(c, meta, prepared.records))
        except StoreError as error:
            raise _as_conflict(error, meta) from error
        self._remember(meta.thread_id, meta, prepared.records)
        created = self.get(meta.thread_id)
        if created is None:
            raise no_thread(meta.thread_id)
        return created

    def _create(
        self, connection: Connection[Any], meta: SessionMeta, records: list[Record]
    ) -> None:
        existing = connection.execute(
            "SELECT id FROM records WHERE thread_id = %s AND seq = 1", (meta.thread_id,)
        ).fetchone()
        if existing is not None and existing[0] == records[0].id:
            return  # a lost connection hid that the first attempt succeeded
        thread = summary_of(meta, records[0])
        fields = {name: getattr(thread, name) for name in rows.SUMMARY_COLUMNS}
        fields |= {
            "key": None if meta.key is None else rows.join_key(meta.key),
            "tags": list(thread.tags),
            "meta": msgspec.json.encode(meta).decode(),
            "copied": meta.copied,
        }
        names = ", ".join(fields)
        marks = ", ".join(["%s"] * len(fields))
        connection.execute(
            f"INSERT INTO threads ({names}) VALUES ({marks})".encode(),  # noqa: S608 - constants
            list(fields.values()),
        )
        self._insert(connection, meta.thread_id, records, meta.payload_format)
        self._apply(connection, meta.thread_id, records, meta.payload_format, meta.copied)

    def get(self, thread_id: str) -> ThreadSummary | None:
        """Return the summary of a thread; None if there is none."""
        row = self._one(f"SELECT {_SUMMARY} FROM threads WHERE thread_id = %s", thread_id)  # noqa: S608
        return None if row is None else rows.summary_of_row(row)

    def meta(self, thread_id: str) -> SessionMeta:
        """Return the meta data of a thread."""
        row = self._one("SELECT meta FROM threads WHERE thread_id = %s", thread_id)
        if row is None:
            raise no_thread(thread_id)
        meta = _META.decode(row[0])
        if meta.schema_version > SCHEMA_VERSION:
            raise StoreError(
                f"thread `{thread_id}` has version {meta.schema_version} of the format; "
                f"this version of amux reads up to {SCHEMA_VERSION}",
                hint="update amux",
            )
        return meta

    def find(self, namespace: str, key: tuple[str, ...]) -> str | None:
        """Return the id of the thread with an external key; None if there is none."""
        check_key(namespace, key)
        query = "SELECT thread_id FROM threads WHERE namespace = %s AND key = %s"
        row = self._one(query, namespace, rows.join_key(key))
        return None if row is None else str(row[0])

    def resolve(self, prefix: str) -> list[str]:
        """Return the ids of the threads that begin with a prefix."""
        query = "SELECT thread_id FROM threads WHERE starts_with(thread_id, %s) ORDER BY 1"
        found = self._all(query, prefix.lower().replace("\0", "?"))
        return [row[0] for row in found]

    def threads(self, selection: ThreadFilter) -> list[ThreadSummary]:
        """Return the selected threads."""
        conditions, values = rows.conditions_of(selection)
        query = (
            f"SELECT {_SUMMARY} FROM threads WHERE {conditions} "  # noqa: S608 - constants
            f"ORDER BY {_ORDERS[selection.order]} LIMIT %s OFFSET %s"
        )
        return [
            rows.summary_of_row(row)
            for row in self._all(query, *values, selection.limit, selection.offset)
        ]

    # appending

    def append(
        self,
        thread_id: str,
        records: Sequence[NewRecord],
        *,
        expect: int | None = None,
        repeat: Repeat = "skip",
    ) -> Appended:
        """Append records as one batch."""
        given = tuple(_with_ids(records))
        known, uncertain = self._known.get(thread_id), False
        if known is not None and given and not any(map(_changes_search, given)):
            check = known.head.seq if expect is None else expect
            if check == known.head.seq:
                try:
                    appended = self._append_at(thread_id, given, known, repeat)
                except StoreError as error:
                    appended = None
                    uncertain = not isinstance(error.__cause__, errors.UniqueViolation)
                if appended is not None:
                    return appended
        batch = Batch(thread_id=thread_id, records=given, expect=expect, repeat=repeat)
        return self._append_locked((batch,), uncertain=uncertain)[0]

    def _append_at(
        self, thread_id: str, records: Sequence[NewRecord], known: _Known, repeat: Repeat
    ) -> Appended | None:
        """Append in one statement if the head is the known one; return None if it is not.

        An error leaves open whether the records are stored, unless it is a violated constraint.
        """
        if repeat == "replace":
            return None
        prepared = self._prepare(records, known.head, lambda _: False, "error")
        changes = changes_by(
            prepared.records,
            payload_format=known.payload_format,
            written_at=self._now(),
            copied=known.copied,
        )
        item_id = _item_after(prepared.records, known.head.item_id)
        clause, values = rows.assignments(changes)
        union = " UNION ALL ".join([f"SELECT {_SELECTED} FROM moved"] * len(prepared.records))  # noqa: S608
        query = (
            f"WITH moved AS (UPDATE threads SET {clause}, item_id = %s "  # noqa: S608 - constants
            "WHERE thread_id = %s AND head = %s RETURNING 1) "
            f"INSERT INTO records ({_INSERTED}) {union}"
        )
        inserted = [
            value
            for record in prepared.records
            for value in rows.insert_values(thread_id, record, known.payload_format)
        ]
        count = self._once(query, *values, item_id, thread_id, known.head.seq, *inserted)
        if count != len(prepared.records):
            return None
        head = ThreadHead(seq=changes.head, item_id=item_id)
        self._known[thread_id] = msgspec.structs.replace(known, head=head)
        return Appended(head=head.seq, ids=prepared.ids, stored=len(prepared.records))

    def append_many(self, batches: Sequence[Batch]) -> list[Appended]:
        """Append to several threads in one transaction."""
        if len({batch.thread_id for batch in batches}) < len(batches):
            raise StoreError("`append_many` takes one batch per thread")
        return self._append_locked(
            [
                msgspec.structs.replace(batch, records=tuple(_with_ids(batch.records)))
                for batch in batches
            ]
        )

    def _append_locked(
        self, batches: Sequence[Batch], *, uncertain: bool = False
    ) -> list[Appended]:
        """Append while the threads are locked; all records have ids.

        If an earlier attempt may have succeeded (`uncertain`), records that are stored already are
        taken as stored by it.
        """
        attempts = 1 if uncertain else 0

        def work(connection: Connection[Any]) -> list[Appended]:
            nonlocal attempts
            attempts += 1
            locked = self._lock(connection, [batch.thread_id for batch in batches])
            return [
                self._append(connection, batch, locked[batch.thread_id], uncertain=attempts > 1)
                for batch in batches
            ]

        return self._database.transaction(work)

    def _lock(self, connection: Connection[Any], thread_ids: Sequence[str]) -> dict[str, _Known]:
        """Lock threads in the order of their ids and return what is known of them."""
        found = connection.execute(
            "SELECT thread_id, head, item_id, payload_format, copied FROM threads "
            "WHERE thread_id = ANY(%s) ORDER BY thread_id FOR UPDATE",
            (list(thread_ids),),
        ).fetchall()
        known = {
            row[0]: _Known(ThreadHead(seq=row[1], item_id=row[2]), row[3], row[4]) for row in found
        }
        for thread_id in thread_ids:
            if thread_id not in known:
                self._known.pop(thread_id, None)
                raise no_thread(thread_id)
        return known

    def _append(
        self, connection: Connection[Any], batch: Batch, known: _Known, *, uncertain: bool
    ) -> Appended:
        ids = [str(new.id) for new in batch.records]
        stored = {
            row[0]
            for row in connection.execute(
                "SELECT id FROM records WHERE thread_id = %s AND id = ANY(%s)",
                (batch.thread_id, ids),
            )
        }
        if uncertain and ids and stored.issuperset(ids):
            return Appended(head=known.head.seq, ids=tuple(ids), stored=len(ids))
        check_expected(batch.thread_id, known.head.seq, batch.expect)
        prepared = self._prepare(batch.records, known.head, stored.__contains__, batch.repeat)
        if not prepared.records:
            return Appended(head=known.head.seq, ids=prepared.ids, stored=0)
        if batch.repeat == "replace":
            connection.execute(
                "DELETE FROM records WHERE thread_id = %s AND id = ANY(%s)",
                (batch.thread_id, list(stored)),
            )
            last = {record.id: record for record in prepared.records}  # an id may occur twice
            kept = sorted(last.values(), key=lambda record: record.seq)
            prepared = Prepared(kept, prepared.ids)
        self._insert(connection, batch.thread_id, prepared.records, known.payload_format)
        self._apply(
            connection, batch.thread_id, prepared.records, known.payload_format, known.copied
        )
        if any(map(_changes_search, batch.records)):
            self._reindex(connection, batch.thread_id, known.payload_format)
        head = ThreadHead(
            seq=prepared.records[-1].seq, item_id=_item_after(prepared.records, known.head.item_id)
        )
        self._know(batch.thread_id, msgspec.structs.replace(known, head=head))
        return Appended(head=head.seq, ids=prepared.ids, stored=len(prepared.records))

    def _prepare(
        self,
        records: Sequence[NewRecord],
        head: ThreadHead,
        is_known: Callable[[str], bool],
        repeat: Repeat,
    ) -> Prepared:
        prepared = prepare(records, head, is_known=is_known, repeat=repeat, now=self._now())
        for record in prepared.records:
            encode_record(record)  # refuses what is not valid Unicode
        return prepared

    def _insert(
        self,
        connection: Connection[Any],
        thread_id: str,
        records: Sequence[Record],
        payload_format: str,
    ) -> None:
        values = [rows.insert_values(thread_id, record, payload_format) for record in records]
        if len(values) < _COPY_FROM:
            query = f"INSERT INTO records ({_INSERTED}) VALUES {_ROW}"  # noqa: S608 - constants
            with connection.cursor() as cursor:
                cursor.executemany(query.encode(), values)
            return
        connection.execute(
            "CREATE TEMP TABLE IF NOT EXISTS incoming (LIKE records) ON COMMIT DELETE ROWS"
        )
        connection.execute("ALTER TABLE incoming ADD COLUMN IF NOT EXISTS lexemes text[]")
        columns = _INSERTED.replace("words", "lexemes")
        with (
            connection.cursor() as cursor,
            cursor.copy(f"COPY incoming ({columns}) FROM STDIN".encode()) as copy,
        ):
            for row in values:
                copy.write_row(row)
        selected = _INSERTED.replace("words", "array_to_tsvector(lexemes)")
        query = f"INSERT INTO records ({_INSERTED}) SELECT {selected} FROM incoming ORDER BY seq"  # noqa: S608
        connection.execute(query.encode())

    def _apply(
        self,
        connection: Connection[Any],
        thread_id: str,
        records: Sequence[Record],
        payload_format: str,
        copied: int,
    ) -> None:
        """Apply the changes of appended records to their thread."""
        changes = changes_by(
            records, payload_format=payload_format, written_at=self._now(), copied=copied
        )
        clause, values = rows.assignments(changes)
        connection.execute(
            f"UPDATE threads SET {clause} WHERE thread_id = %s".encode(),  # noqa: S608 - constants
            (*values, thread_id),
        )
        item_id = _item_after(records, None)
        if item_id is not None:
            connection.execute(
                "UPDATE threads SET item_id = %s WHERE thread_id = %s", (item_id, thread_id)
            )

    def _reindex(self, connection: Connection[Any], thread_id: str, payload_format: str) -> None:
        """Derive again which records a search finds, after some were hidden or corrected."""
        found = connection.execute(
            f"SELECT {_RECORDS} FROM records WHERE thread_id = %s ORDER BY seq DESC".encode(),  # noqa: S608
            (thread_id,),
        ).fetchall()
        newest_first = [rows.record_of(row) for row in found]
        active = {record.seq for record in searchable(newest_first)}
        original = {record.seq: record for record in newest_first}
        connection.execute(
            "UPDATE records SET active = (seq = ANY(%s)) WHERE thread_id = %s",
            (list(active), thread_id),
        )
        for record in searchable(newest_first, include_inactive=True):
            if record is not original[record.seq]:  # corrected
                text = rows.indexed_text(record, payload_format)
                connection.execute(
                    "UPDATE records SET body = %s, words = array_to_tsvector(%s::text[]), "
                    "pairs = %s::text[] WHERE thread_id = %s AND seq = %s",
                    (text.body, text.words, text.pairs, thread_id, record.seq),
                )

    # reading

    def read(self, thread_id: str, *, after: int = 0) -> Iterator[Record]:
        """Yield the records with sequence numbers above `after`, oldest first."""
        self._require(thread_id)
        query = (
            f"SELECT {_RECORDS} FROM records WHERE thread_id = %s AND seq > %s "  # noqa: S608
            "ORDER BY seq LIMIT %s"
        )
        while page := self._all(query, thread_id, after, _PAGE):
            for row in page:
                yield rows.record_of(row)
            after = page[-1][0]
            if len(page) < _PAGE:
                return

    def read_back(self, thread_id: str, *, before: int | None = None) -> Iterator[Record]:
        """Yield the records below a sequence number, newest first, page by page."""
        self._require(thread_id)
        query = (
            f"SELECT {_RECORDS} FROM records WHERE thread_id = %s AND seq < %s "  # noqa: S608
            "ORDER BY seq DESC LIMIT %s"
        )
        last = 2**63 - 1 if before is None else before
        while page := self._all(query, thread_id, last, _PAGE):
            for row in page:
                yield rows.record_of(row)
            last = page[-1][0]
            if len(page) < _PAGE:
                return

    def stored_ids(self, thread_id: str, record_ids: Collection[str]) -> set[str]:
        """Return those of some record ids that a thread has."""
        self._require(thread_id)
        query = "SELECT id FROM records WHERE thread_id = %s AND id = ANY(%s)"
        return {row[0] for row in self._all(query, thread_id, list(record_ids))}

    def locate(self, record_id: str) -> list[tuple[str, int]]:
        """Return the threads that hold a record, with its sequence number in each."""
        query = "SELECT thread_id, seq FROM records WHERE id = %s ORDER BY 1"
        return [(row[0], row[1]) for row in self._all(query, record_id)]

    # changing threads

    def set_title(self, thread_id: str, title: str | None) -> None:
        """Append a title, or remove it."""
        try:
            self.append(thread_id, (control.event(control.TITLE, title=title),))
        except StoreError as error:
            if title is not None and isinstance(error.__cause__, errors.UniqueViolation):
                raise self._title_in_use(title) from error
            raise

    def _title_in_use(self, title: str) -> TitleInUseError:
        row = self._one("SELECT thread_id FROM threads WHERE title = %s", title)
        holder = None if row is None else str(row[0])
        return TitleInUseError(
            f"thread `{holder}` has the title `{title}`",
            title=title,
            holder=holder,
            hint="choose another title",
        )

    def archive(self, thread_id: str, *, archived: bool) -> None:
        """Move a thread to the archive, or back."""
        query = "UPDATE threads SET archived = %s WHERE thread_id = %s"
        if not self._count(query, archived, thread_id):
            raise no_thread(thread_id)

    def delete(self, thread_id: str) -> bool:
        """Delete a thread with its records."""
        self._known.pop(thread_id, None)
        return self._count("DELETE FROM threads WHERE thread_id = %s", thread_id) > 0

    def vacuum(self, thread_id: str, *, erase: Container[str] = ()) -> VacuumReport:
        """Remove hidden and superseded records, and those with the ids in `erase`."""

        def work(connection: Connection[Any]) -> VacuumReport:
            self._lock(connection, [thread_id])
            found = connection.execute(
                f"SELECT {_RECORDS} FROM records WHERE thread_id = %s ORDER BY seq DESC".encode(),  # noqa: S608
                (thread_id,),
            ).fetchall()
            newest_first = [rows.record_of(row) for row in found]
            gone = removable(newest_first, erase)
            before = sum(len(record.text) for record in newest_first)
            removed = sum(len(record.text) for record in newest_first if record.seq in gone)
            connection.execute(
                "DELETE FROM records WHERE thread_id = %s AND seq = ANY(%s)",
                (thread_id, list(gone)),
            )
            return VacuumReport(
                removed=len(gone), bytes_before=before, bytes_after=before - removed
            )

        return self._database.transaction(work)

    # turns

    def acquire_lease(self, thread_id: str, owner: str, *, seconds: float) -> Lease:
        """Take the lease of a thread; the clock is that of the server."""
        token = new_record_id()

        def work(connection: Connection[Any]) -> Lease:
            self._lock(connection, [thread_id])
            row = connection.execute(
                "INSERT INTO leases (thread_id, token, owner, expires_at, pid, host) "  # noqa: S608
                "VALUES (%s, %s, %s, clock_timestamp() + make_interval(secs => %s), %s, %s) "
                "ON CONFLICT (thread_id) DO UPDATE SET token = excluded.token, "
                "owner = excluded.owner, expires_at = excluded.expires_at, pid = excluded.pid, "
                "host = excluded.host WHERE leases.expires_at <= clock_timestamp() "
                f"OR leases.token = excluded.token RETURNING {_LEASE}".encode(),
                (thread_id, token, owner, seconds, os.getpid(), socket.gethostname()),
            ).fetchone()
            if row is not None:
                return _lease_of(row)
            held = connection.execute(
                "SELECT owner, pid, host FROM leases WHERE thread_id = %s", (thread_id,)
            ).fetchone()
            where = "another process" if held is None else f"process {held[1]} on {held[2]}"
            raise TurnInProgressError(
                f"a turn of thread `{thread_id}` is running in {where}",
                thread_id=thread_id,
                owner=None if held is None else held[0],
                hint="wait for its end, interrupt it, or fork the thread",
            )

        return self._database.transaction(work)

    def renew_lease(self, lease: Lease, *, seconds: float) -> Lease | None:
        """Extend a lease; return None if it was lost."""
        row = self._one(
            "UPDATE leases SET expires_at = clock_timestamp() + make_interval(secs => %s) "  # noqa: S608
            f"WHERE thread_id = %s AND token = %s RETURNING {_LEASE}",
            seconds,
            lease.thread_id,
            lease.token,
        )
        return None if row is None else _lease_of(row)

    def release_lease(self, lease: Lease) -> bool:
        """Give a lease back; return False if it was lost before."""
        query = "DELETE FROM leases WHERE thread_id = %s AND token = %s"
        return self._count(query, lease.thread_id, lease.token) > 0

    def lease_of(self, thread_id: str) -> Lease | None:
        """Return the valid lease of a thread; None if no turn is running."""
        row = self._one(
            f"SELECT {_LEASE} FROM leases WHERE thread_id = %s "  # noqa: S608 - constants
            "AND expires_at > clock_timestamp()",
            thread_id,
        )
        return None if row is None else _lease_of(row)

    def break_lease(self, thread_id: str) -> bool:
        """Take the lease from its owner; return False if there was none."""
        return self._count("DELETE FROM leases WHERE thread_id = %s", thread_id) > 0

    # blobs and values

    def put_blob(self, data: bytes) -> str:
        """Store bytes and return their SHA-256."""
        digest = hashlib.sha256(data).hexdigest()
        query = "INSERT INTO blobs (digest, data) VALUES (%s, %s) ON CONFLICT DO NOTHING"
        self._count(query, digest, data)
        return digest

    def get_blob(self, digest: str) -> bytes:
        """Return the bytes of a blob."""
        row = self._one("SELECT data FROM blobs WHERE digest = %s", digest)
        if row is None:
            raise StoreError(f"the store has no blob `{digest}`")
        return bytes(row[0])

    def collect_blobs(self) -> int:
        """Remove blobs that no record refers to and that are not new; return how many."""
        return self._count(
            "DELETE FROM blobs WHERE created_at < now() - interval '1 hour' AND digest NOT IN "
            "(SELECT unnest(blobs) FROM records)"
        )

    def put_value(
        self, key: tuple[str, ...], data: bytes, *, expect: str | None = None
    ) -> StoredValue:
        """Replace a value."""
        check_key("", key)
        text, version = rows.join_key(key), new_record_id()

        def work(connection: Connection[Any]) -> StoredValue:
            connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (text,))
            row = connection.execute(
                "SELECT version FROM stored_values WHERE key = %s", (text,)
            ).fetchone()
            found = "" if row is None else str(row[0])
            if expect is not None and found not in {expect, version}:
                raise ConflictError(
                    f"the value {list(key)} has another version", expected=expect, found=found
                )
            stored = connection.execute(
                "INSERT INTO stored_values (key, parts, data, version) VALUES (%s, %s, %s, %s) "
                "ON CONFLICT (key) DO UPDATE SET data = excluded.data, "
                "version = excluded.version, updated_at = clock_timestamp() RETURNING updated_at",
                (text, list(key), data, version),
            ).fetchone()
            at = self._now() if stored is None else stored[0]
            return StoredValue(key=key, data=bytes(data), version=version, updated_at=at)

        return self._database.transaction(work)

    def get_value(self, key: tuple[str, ...]) -> StoredValue | None:
        """Return a value; None if there is none."""
        query = "SELECT data, version, updated_at FROM stored_values WHERE key = %s"
        row = self._one(query, rows.join_key(key))
        if row is None:
            return None
        return StoredValue(key=key, data=bytes(row[0]), version=row[1], updated_at=row[2])

    def list_values(self, prefix: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
        """Return the keys that begin with a prefix, sorted."""
        query = "SELECT parts FROM stored_values WHERE starts_with(key, %s)"
        return sorted(tuple(row[0]) for row in self._all(query, rows.join_key(prefix)))

    def delete_value(self, key: tuple[str, ...]) -> bool:
        """Delete a value; return False if there is none."""
        return self._count("DELETE FROM stored_values WHERE key = %s", rows.join_key(key)) > 0

    # the rest

    def search(self, query: SearchQuery) -> list[MessageHit]:
        """Return the messages that match a query."""
        clean = msgspec.structs.replace(query, text=query.text.replace("\0", " "))
        return self._database.run(lambda connection: search(connection, clean))

    def sync(self, thread_id: str) -> None:
        """Do nothing: a commit is on the disk of the server, unless the policy is "never"."""
        self._require(thread_id)

    def verify(self, thread_id: str) -> list[Problem]:
        """Read a thread completely and return what is wrong with it."""
        problems: list[Problem] = []
        first: Record | None = None
        for record in self.read(thread_id):
            first = first or record
            try:
                _ = record.payload
            except ValueError as error:
                problems.append(Problem(code="bad-record", message=f"{record.id}: {error}"))
        if first is None or first.type != "session_meta":
            message = f"the first record of `{thread_id}` is not its meta data"
            problems.append(Problem(code="unknown-format", message=message))
        return problems

    def close(self) -> None:
        """Close all connections."""
        self._database.close()

    # statements

    def _require(self, thread_id: str) -> None:
        if self._one("SELECT 1 FROM threads WHERE thread_id = %s", thread_id) is None:
            raise no_thread(thread_id)

    def _one(self, query: str, *values: Any) -> Any:
        return self._database.run(lambda c: c.execute(query.encode(), values).fetchone())

    def _all(self, query: str, *values: Any) -> list[Any]:
        return self._database.run(lambda c: c.execute(query.encode(), values).fetchall())

    def _count(self, query: str, *values: Any) -> int:
        return self._database.run(lambda c: c.execute(query.encode(), values).rowcount)

    def _once(self, query: str, *values: Any) -> int:
        """Run a statement without repeating it; raise `StoreError` if its outcome is unknown."""
        return self._database.run_once(lambda c: c.execute(query.encode(), values).rowcount)

    def _know(self, thread_id: str, known: _Known) -> None:
        with self._known_lock:
            if len(self._known) >= _REMEMBERED:
                with contextlib.suppress(StopIteration):
                    del self._known[next(iter(self._known))]
            self._known[thread_id] = known

    def _remember(self, thread_id: str, meta: SessionMeta, records: Sequence[Record]) -> None:
        head = ThreadHead(seq=records[-1].seq, item_id=_item_after(records, None))
        self._know(thread_id, _Known(head, meta.payload_format, meta.copied))


def _with_ids(records: Sequence[NewRecord]) -> Iterator[NewRecord]:
    """Yield records with ids, so that a repeated attempt stores each once."""
    for record in records:
        if record.id is None:
            yield msgspec.structs.replace(record, id=new_record_id())
        else:
            check_record_id(record.id)
            yield record


def _changes_search(record: NewRecord) -> bool:
    """Return whether a record changes which earlier records a search finds."""
    given: object = record.payload
    if record.type != "event_msg" or not isinstance(given, dict):
        return False
    payload = as_mapping(cast("object", given))
    kind = payload.get("type")
    if kind == control.HIDE:
        return payload.get("searchable") is not True
    return kind in {control.UNHIDE, control.CORRECTION}


def _item_after(records: Sequence[Record], item_id: str | None) -> str | None:
    for record in records:
        item_id = next_item_id(record, item_id)
    return item_id


def _lease_of(row: Sequence[Any]) -> Lease:
    thread_id, token, owner, expires_at, pid, host = row
    return Lease(
        thread_id=thread_id, token=token, owner=owner, expires_at=expires_at, pid=pid, host=host
    )


def _as_conflict(error: StoreError, meta: SessionMeta) -> StoreError:
    """Return the error for a constraint that a new thread violates."""
    cause = error.__cause__
    if not isinstance(cause, errors.UniqueViolation):
        return error
    constraint = cause.diag.constraint_name or ""
    if "title" in constraint:
        return TitleInUseError(
            f"another thread has the title `{meta.title}`",
            title=str(meta.title),
            hint="choose another title",
        )
    if "key" in constraint and meta.key is not None and "pkey" not in constraint:
        return ConflictError(f"another thread has the key {list(meta.key)}")
    return ConflictError(f"a thread `{meta.thread_id}` exists")
