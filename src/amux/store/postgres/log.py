"""`PostgresLog`: the log protocol in a PostgreSQL database.

Threads are created, titled and leased under constraints of the database, and times of leases are
those of its clock. `appends` has the write path.
"""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Callable, Collection, Container, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from psycopg import Connection, errors

from amux.errors import ConflictError, StoreError, TitleInUseError, TurnInProgressError
from amux.model.problems import Problem
from amux.rollout import control
from amux.rollout.ids import is_valid_session_id
from amux.rollout.log import (
    Appended,
    Batch,
    Fsync,
    Lease,
    MessageHit,
    Repeat,
    SearchQuery,
    StoredValue,
    VacuumReport,
    check_key,
    check_meta,
    no_thread,
)
from amux.rollout.records import (
    SCHEMA_VERSION,
    NewRecord,
    Record,
    SessionMeta,
    decode_payload,
    new_record_id,
)
from amux.rollout.threads import ThreadFilter, ThreadSummary, listed_text
from amux.store.postgres import rows
from amux.store.postgres.appends import Appender
from amux.store.postgres.connection import Database
from amux.store.postgres.search import search
from amux.store.postgres.texts import index_texts
from amux.store.removal import removable

_PAGE: Final = 200
_RECORDS: Final = ", ".join(rows.RECORD_COLUMNS)
_SUMMARY: Final = ", ".join(rows.SUMMARY_COLUMNS)
_LEASE: Final = "thread_id, token, owner, expires_at, pid, host"
_LABEL: Final = "coalesce(title, nullif(preview, ''), 'thread ' || left(thread_id, 8))"
_ORDERS: Final = {
    "last_active": f"{rows.LAST_ACTIVE} DESC, thread_id DESC",
    "created": "created_at DESC, thread_id DESC",
    "title": f'lower({_LABEL}) COLLATE "C", thread_id COLLATE "C"',
}


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
        self._appender = Appender(self._database, self._now)

    # creating and finding

    def create(self, meta: SessionMeta, records: Sequence[NewRecord] = ()) -> ThreadSummary:
        """Create a thread with its meta data and first records."""
        meta = check_meta(meta)
        if meta.key is not None:
            check_key(meta.namespace, meta.key)
        try:
            self._appender.create(meta, records)
        except StoreError as error:
            raise self._as_conflict(error, meta) from error
        created = self.get(meta.thread_id)
        if created is None:
            raise no_thread(meta.thread_id)
        return created

    def get(self, thread_id: str) -> ThreadSummary | None:
        """Return the summary of a thread; None if there is none."""
        row = self._database.one(f"SELECT {_SUMMARY} FROM threads WHERE thread_id = %s", thread_id)  # noqa: S608
        return None if row is None else rows.summary_of_row(row)

    def meta(self, thread_id: str) -> SessionMeta:
        """Return the meta data of a thread."""
        query = "SELECT payload FROM records WHERE thread_id = %s AND seq = 1"
        row = self._database.one(query, thread_id)
        if row is None:
            raise no_thread(thread_id)
        meta = msgspec.convert(decode_payload(row[0]), SessionMeta, strict=False)
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
        row = self._database.one(query, namespace, rows.join_key(key))
        return None if row is None else str(row[0])

    def resolve(self, prefix: str) -> list[str]:
        """Return the ids of the threads that begin with a prefix."""
        is_whole = is_valid_session_id(prefix)  # `starts_with` uses no index
        test = "thread_id = %s" if is_whole else "starts_with(thread_id, %s)"
        query = f"SELECT thread_id FROM threads WHERE {test} ORDER BY 1"  # noqa: S608 - constants
        found = self._database.all(query, prefix.lower().replace("\0", "?"))
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
            for row in self._database.all(query, *values, selection.limit, selection.offset)
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
        batch = Batch(thread_id=thread_id, records=tuple(records), expect=expect, repeat=repeat)
        return self._appender.append(batch)

    def append_many(self, batches: Sequence[Batch]) -> list[Appended]:
        """Append to several threads in one transaction."""
        return self._appender.append_many(batches)

    # reading

    def read(self, thread_id: str, *, after: int = 0) -> Iterator[Record]:
        """Yield the records with sequence numbers above `after`, oldest first."""
        self._require(thread_id)
        query = (
            f"SELECT {_RECORDS} FROM records WHERE thread_id = %s AND seq > %s "  # noqa: S608
            "ORDER BY seq LIMIT %s"
        )
        while page := self._database.all(query, thread_id, after, _PAGE):
            for row in page:
                yield rows.record_of(row)
            after = page[-1][0]
            if len(page) < _PAGE:
                return

    def read_back(
        self,
        thread_id: str,
        *,
        before: int | None = None,
        kinds: Collection[str] | None = None,
    ) -> Iterator[Record]:
        """Yield the records below a sequence number, newest first, page by page."""
        self._require(thread_id)
        names = None if kinds is None else sorted(kinds)
        contained = None if names is None else [f"%{name}%" for name in names]
        query = (
            f"SELECT {_RECORDS} FROM records WHERE thread_id = %s AND seq < %s "  # noqa: S608
            "AND (%s::text[] IS NULL OR type = ANY(%s::text[]) "
            "OR (type = 'event_msg' AND payload LIKE ANY(%s::text[]))) "
            "ORDER BY seq DESC LIMIT %s"
        )
        last = 2**63 - 1 if before is None else before
        while page := self._database.all(query, thread_id, last, names, names, contained, _PAGE):
            for row in page:
                record = rows.record_of(row)
                if kinds is None or control.kind_of(record) in kinds:
                    yield record
            last = page[-1][0]
            if len(page) < _PAGE:
                return

    def stored_ids(self, thread_id: str, record_ids: Collection[str]) -> set[str]:
        """Return those of some record ids that a thread has."""
        self._require(thread_id)
        query = "SELECT id FROM records WHERE thread_id = %s AND id = ANY(%s)"
        return {row[0] for row in self._database.all(query, thread_id, list(record_ids))}

    def locate(self, record_id: str) -> list[tuple[str, int]]:
        """Return the threads that hold a record, with its sequence number in each."""
        query = "SELECT thread_id, seq FROM records WHERE id = %s ORDER BY 1"
        return [(row[0], row[1]) for row in self._database.all(query, record_id)]

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
        query = "SELECT thread_id FROM threads WHERE title = %s"
        row = self._database.one(query, listed_text(title))
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
        if not self._database.count(query, archived, thread_id):
            raise no_thread(thread_id)

    def delete(self, thread_id: str) -> bool:
        """Delete a thread with its records."""
        self._appender.forget(thread_id)
        return self._database.deleted(
            "DELETE FROM threads WHERE thread_id = %s",
            thread_id,
            then="DELETE FROM records WHERE thread_id = %s",
        )

    def vacuum(self, thread_id: str, *, erase: Container[str] = ()) -> VacuumReport:
        """Remove hidden and superseded records, and those with the ids in `erase`."""

        def work(connection: Connection[Any]) -> VacuumReport:
            self._appender.lock(connection, [thread_id])
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
            if gone:
                connection.execute(
                    "UPDATE threads SET indexed = 0 WHERE thread_id = %s", (thread_id,)
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
            self._appender.lock(connection, [thread_id])
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
        row = self._database.one(
            "UPDATE leases SET expires_at = clock_timestamp() + make_interval(secs => %s) "  # noqa: S608
            f"WHERE thread_id = %s AND token = %s RETURNING {_LEASE}",
            seconds,
            lease.thread_id,
            lease.token,
        )
        return None if row is None else _lease_of(row)

    def release_lease(self, lease: Lease) -> bool:
        """Give a lease back; return False if it was lost before."""
        return self._database.deleted(
            "DELETE FROM leases WHERE thread_id = %s AND token = %s", lease.thread_id, lease.token
        )

    def lease_of(self, thread_id: str) -> Lease | None:
        """Return the valid lease of a thread; None if no turn is running."""
        row = self._database.one(
            f"SELECT {_LEASE} FROM leases WHERE thread_id = %s "  # noqa: S608 - constants
            "AND expires_at > clock_timestamp()",
            thread_id,
        )
        return None if row is None else _lease_of(row)

    def break_lease(self, thread_id: str) -> bool:
        """Take the lease from its owner; return False if there was none."""
        return self._database.deleted("DELETE FROM leases WHERE thread_id = %s", thread_id)

    # blobs and values

    def put_blob(self, data: bytes) -> str:
        """Store bytes and return their SHA-256."""
        digest = hashlib.sha256(data).hexdigest()
        self._database.count(
            "INSERT INTO blobs (digest, data) VALUES (%s, %s) "
            "ON CONFLICT (digest) DO UPDATE SET created_at = now()",
            digest,
            data,
        )
        return digest

    def get_blob(self, digest: str) -> bytes:
        """Return the bytes of a blob."""
        row = self._database.one("SELECT data FROM blobs WHERE digest = %s", digest)
        if row is None:
            raise StoreError(f"the store has no blob `{digest}`")
        return bytes(row[0])

    def collect_blobs(self) -> int:
        """Remove blobs that no record refers to and that are not new; return how many."""
        return self._database.count(
            "DELETE FROM blobs WHERE created_at < now() - interval '1 hour' AND digest NOT IN "
            "(SELECT unnest(blobs) FROM records)"
        )

    def scrub(self, thread_ids: Collection[str], blobs: Collection[str]) -> int:
        """Remove the blobs of deleted threads that no other thread uses."""
        del thread_ids  # their rows refer to each other and went with them
        return self._database.count(
            "DELETE FROM blobs WHERE digest = ANY(%s) AND digest NOT IN "
            "(SELECT unnest(blobs) FROM records)",
            list(blobs),
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
        row = self._database.one(query, rows.join_key(key))
        if row is None:
            return None
        return StoredValue(key=key, data=bytes(row[0]), version=row[1], updated_at=row[2])

    def list_values(self, prefix: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
        """Return the keys that begin with a prefix, sorted."""
        query = "SELECT parts FROM stored_values WHERE starts_with(key, %s)"
        return sorted(tuple(row[0]) for row in self._database.all(query, rows.join_key(prefix)))

    def delete_value(self, key: tuple[str, ...]) -> bool:
        """Delete a value; return False if there is none."""
        query = "DELETE FROM stored_values WHERE key = %s"
        return self._database.deleted(query, rows.join_key(key))

    # the rest

    def search(self, query: SearchQuery) -> list[MessageHit]:
        """Return the messages that match a query."""
        clean = msgspec.structs.replace(query, text=query.text.replace("\0", " "))
        index_texts(self._database)
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

    def _as_conflict(self, error: StoreError, meta: SessionMeta) -> StoreError:
        """Return the error for a constraint that a new thread violates."""
        cause = error.__cause__
        if not isinstance(cause, errors.UniqueViolation):
            return error
        constraint = cause.diag.constraint_name or ""
        if constraint == "threads_title_key":
            return self._title_in_use(str(meta.title))
        if constraint == "threads_namespace_key_key" and meta.key is not None:
            return ConflictError(f"another thread has the key {list(meta.key)}")
        return ConflictError(f"a thread `{meta.thread_id}` exists")

    def _require(self, thread_id: str) -> None:
        if self._database.one("SELECT 1 FROM threads WHERE thread_id = %s", thread_id) is None:
            raise no_thread(thread_id)


def _lease_of(row: Sequence[Any]) -> Lease:
    thread_id, token, owner, expires_at, pid, host = row
    return Lease(
        thread_id=thread_id, token=token, owner=owner, expires_at=expires_at, pid=pid, host=host
    )
