"""Appends records to threads in PostgreSQL.

An append is one statement: it moves the head of the thread and inserts the records, if the head is
still the one this process has seen. If another process was faster, the thread is locked and the
append repeated. Records have ids before the first attempt, so that an attempt whose outcome is
unknown can be repeated.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

import msgspec
from psycopg import Connection

from amux.durable import abandon_after_fork
from amux.errors import StoreError
from amux.rollout.log import (
    Appended,
    Batch,
    Prepared,
    Repeat,
    ThreadHead,
    check_expected,
    next_item_id,
    no_thread,
    prepare,
)
from amux.rollout.records import (
    NewRecord,
    Record,
    SessionMeta,
    check_record_id,
    meta_payload,
    new_record_id,
)
from amux.rollout.threads import ThreadChanges, changes_by, summary_of
from amux.store.postgres import rows
from amux.store.postgres.connection import Database, is_lost

_COPY_FROM: Final = 100  # records: above, COPY is faster than INSERT
_REMEMBERED: Final = 1_000
_INSERTED: Final = ", ".join(rows.INSERT_COLUMNS)
_ROW: Final = ", ".join(rows.INSERT_VALUES)


class _Known(msgspec.Struct, frozen=True):
    """The head of a thread as this process has seen it, and the facts that never change."""

    head: ThreadHead
    payload_format: str
    copied: int
    last_call: str | None = None


class Appender:
    """Creates threads and appends to them. It remembers the heads that it has seen."""

    def __init__(self, database: Database, now: Callable[[], datetime]) -> None:
        self._database = database
        self._now = now
        self._known: dict[str, _Known] = {}
        self._known_lock = threading.Lock()
        abandon_after_fork(self)

    def abandon(self) -> None:
        """Forget the lock, which a thread of the parent may hold."""
        self._known_lock = threading.Lock()

    def create(self, meta: SessionMeta, records: Sequence[NewRecord]) -> None:
        """Create a thread with its meta data and first records."""
        first = NewRecord(type="session_meta", payload=meta_payload(meta), parent_id=None)
        given = (first, *_with_ids(records))
        prepared = self._prepare(given, ThreadHead(seq=0), lambda _: False, "error").records
        start = _Known(ThreadHead(seq=0), meta.payload_format, meta.copied)

        def work(connection: Connection[Any]) -> None:
            if not _is_created(connection, meta.thread_id, prepared[0].id):
                _insert_thread(connection, meta, prepared[0])
                self._store(connection, meta.thread_id, prepared, start)

        self._database.transaction(work)
        self._remember(meta.thread_id, start, prepared, self._changes(prepared, start))

    def append(self, batch: Batch) -> Appended:
        """Append records as one batch."""
        batch = msgspec.structs.replace(batch, records=tuple(_with_ids(batch.records)))
        known, is_uncertain = self._known.get(batch.thread_id), False
        if known is not None and batch.expect in {None, known.head.seq}:
            try:
                appended = self._append_at(batch, known)
            except StoreError as error:
                is_uncertain = is_lost(error.__cause__)
            else:
                if appended is not None:
                    return appended
        return self._append_locked((batch,), is_uncertain=is_uncertain)[0]

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

    def lock(self, connection: Connection[Any], thread_ids: Sequence[str]) -> None:
        """Lock threads until the end of the transaction; raise an error if one does not exist."""
        self._lock(connection, thread_ids)

    def forget(self, thread_id: str) -> None:
        """Forget the head of a thread that is deleted."""
        self._known.pop(thread_id, None)

    def _append_at(self, batch: Batch, known: _Known) -> Appended | None:
        """Append in one statement; return None if it has to be done while the thread is locked.

        That is the case if the head is not the known one, if stored records are replaced, and if
        there are many. If the connection is lost, the records may or may not be stored.
        """
        if batch.repeat == "replace" or not 0 < len(batch.records) < _COPY_FROM:
            return None
        prepared = self._prepare(batch.records, known.head, lambda _: False, "error")
        changes = self._changes(prepared.records, known)
        clause, values = _assignments(changes, prepared.records, known)
        statement = _append_statement(clause, len(prepared.records))
        inserted = [
            value
            for record in prepared.records
            for value in rows.insert_values(batch.thread_id, record)
        ]
        given = (*values, batch.thread_id, known.head.seq, *inserted)
        if self._database.execute(statement, given) != len(prepared.records):
            return None
        return self._appended(batch, known, prepared, changes)

    def _append_locked(
        self, batches: Sequence[Batch], *, is_uncertain: bool = False
    ) -> list[Appended]:
        """Append while the threads are locked; all records have ids.

        If an earlier attempt may have succeeded, records that are stored already are taken as
        stored by it.
        """
        attempts = 1 if is_uncertain else 0

        def work(connection: Connection[Any]) -> list[Appended]:
            nonlocal attempts
            attempts += 1
            locked = self._lock(connection, [batch.thread_id for batch in batches])
            return [
                self._append(connection, batch, locked[batch.thread_id], is_again=attempts > 1)
                for batch in batches
            ]

        return self._database.transaction(work)

    def _lock(self, connection: Connection[Any], thread_ids: Sequence[str]) -> dict[str, _Known]:
        """Lock threads in the order of their ids and return what is known of them."""
        found = connection.execute(
            "SELECT thread_id, head, item_id, payload_format, copied, last_call FROM threads "
            "WHERE thread_id = ANY(%s) ORDER BY thread_id FOR UPDATE",
            (list(thread_ids),),
        ).fetchall()
        known = {row[0]: _Known(ThreadHead(seq=row[1], item_id=row[2]), *row[3:]) for row in found}
        for thread_id in thread_ids:
            if thread_id not in known:
                self.forget(thread_id)
                raise no_thread(thread_id)
        return known

    def _append(
        self, connection: Connection[Any], batch: Batch, known: _Known, *, is_again: bool
    ) -> Appended:
        ids = [str(new.id) for new in batch.records]
        stored = {
            row[0]
            for row in connection.execute(
                "SELECT id FROM records WHERE thread_id = %s AND id = ANY(%s)",
                (batch.thread_id, ids),
            )
        }
        if is_again and ids and stored.issuperset(ids):
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
        changes = self._store(connection, batch.thread_id, prepared.records, known)
        return self._appended(batch, known, prepared, changes)

    def _store(
        self,
        connection: Connection[Any],
        thread_id: str,
        records: Sequence[Record],
        known: _Known,
    ) -> ThreadChanges:
        """Insert prepared records and apply their changes to their thread, which is locked."""
        _insert(connection, thread_id, records)
        changes = self._changes(records, known)
        clause, values = _assignments(changes, records, known)
        connection.execute(
            f"UPDATE threads SET {clause} WHERE thread_id = %s".encode(),  # noqa: S608 - constants
            (*values, thread_id),
        )
        return changes

    def _changes(self, records: Sequence[Record], known: _Known) -> ThreadChanges:
        return changes_by(
            records,
            payload_format=known.payload_format,
            written_at=self._now(),
            copied=known.copied,
            last_call=known.last_call,
        )

    def _prepare(
        self,
        records: Sequence[NewRecord],
        head: ThreadHead,
        is_known: Callable[[str], bool],
        repeat: Repeat,
    ) -> Prepared:
        return prepare(records, head, is_known=is_known, repeat=repeat, now=self._now())

    def _appended(
        self, batch: Batch, known: _Known, prepared: Prepared, changes: ThreadChanges
    ) -> Appended:
        head = self._remember(batch.thread_id, known, prepared.records, changes)
        return Appended(head=head.seq, ids=prepared.ids, stored=len(prepared.records))

    def _remember(
        self, thread_id: str, known: _Known, records: Sequence[Record], changes: ThreadChanges
    ) -> ThreadHead:
        """Remember the head of a thread after some records, and return it."""
        head = ThreadHead(seq=records[-1].seq, item_id=_item_after(records, known.head.item_id))
        with self._known_lock:
            if thread_id not in self._known and len(self._known) >= _REMEMBERED:
                del self._known[next(iter(self._known))]
            self._known[thread_id] = msgspec.structs.replace(
                known, head=head, last_call=changes.last_call
            )
        return head


def _assignments(
    changes: ThreadChanges, records: Sequence[Record], known: _Known
) -> tuple[str, list[Any]]:
    """Return the SET clause for a thread to which records are appended, and its values."""
    clause, values = rows.assignments(changes)
    return f"{clause}, item_id = %s", [*values, _item_after(records, known.head.item_id)]


@lru_cache(maxsize=256)
def _append_statement(clause: str, count: int) -> bytes:
    """Return the statement that moves a head, if it is the known one, and inserts records."""
    selects = [f"SELECT {_ROW} FROM moved"] * count  # noqa: S608 - constants
    return (
        f"WITH moved AS (UPDATE threads SET {clause} "  # noqa: S608 - constants
        "WHERE thread_id = %s AND head = %s RETURNING 1) "
        f"INSERT INTO records ({_INSERTED}) {' UNION ALL '.join(selects)}"
    ).encode()


def _is_created(connection: Connection[Any], thread_id: str, first_id: str) -> bool:
    """Return whether a lost connection hid that an earlier attempt has created a thread."""
    query = "SELECT 1 FROM records WHERE thread_id = %s AND seq = 1 AND id = %s"
    return connection.execute(query, (thread_id, first_id)).fetchone() is not None


def _insert_thread(connection: Connection[Any], meta: SessionMeta, first: Record) -> None:
    thread = summary_of(meta, first)
    fields = {name: getattr(thread, name) for name in rows.SUMMARY_COLUMNS}
    fields |= {
        "key": None if meta.key is None else rows.join_key(meta.key),
        "tags": list(thread.tags),
        "copied": meta.copied,
    }
    names = ", ".join(fields)
    marks = ", ".join(["%s"] * len(fields))
    connection.execute(
        f"INSERT INTO threads ({names}) VALUES ({marks})".encode(),  # noqa: S608 - constants
        list(fields.values()),
    )


def _insert(connection: Connection[Any], thread_id: str, records: Sequence[Record]) -> None:
    values = [rows.insert_values(thread_id, record) for record in records]
    with connection.cursor() as cursor:
        if len(values) < _COPY_FROM:
            query = f"INSERT INTO records ({_INSERTED}) VALUES ({_ROW})"  # noqa: S608 - constants
            cursor.executemany(query.encode(), values)
            return
        with cursor.copy(f"COPY records ({_INSERTED}) FROM STDIN".encode()) as copy:
            for row in values:
                copy.write_row(row)


def _with_ids(records: Sequence[NewRecord]) -> Iterator[NewRecord]:
    """Yield records with ids, so that a repeated attempt stores each once."""
    for record in records:
        if record.id is None:
            yield msgspec.structs.replace(record, id=new_record_id())
        else:
            check_record_id(record.id)
            yield record


def _item_after(records: Sequence[Record], item_id: str | None) -> str | None:
    for record in records:
        item_id = next_item_id(record, item_id)
    return item_id
