"""`FileLog`: threads as append-only rollouts in a directory.

The files are the truth. What can be derived from them is in the index, which a lost or damaged
state.db costs only time. An acknowledged append survives the death of the process; with
`fsync="always"` also a power loss.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Container, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from amux.errors import ConflictError, SessionNotFoundError, StoreError, TitleInUseError
from amux.model.problems import Problem
from amux.rollout import control
from amux.rollout.ids import is_valid_session_id
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
    check_meta,
    check_version,
    no_thread,
    prepare,
)
from amux.rollout.records import (
    SCHEMA_VERSION,
    NewRecord,
    Record,
    SessionMeta,
    encode_batch,
    encode_record,
    meta_of,
    meta_payload,
)
from amux.rollout.rollout_reader import MovedError, read_backward, read_first, read_forward
from amux.rollout.threads import ThreadFilter, ThreadSummary, fold_thread, listed_text
from amux.store.file_log.layout import (
    StoreLayout,
    as_store_error,
    digest_of,
    rollout_name,
    write_file,
)
from amux.store.file_log.leases import LeaseFiles
from amux.store.file_log.rollout_file import RolloutFile
from amux.store.file_log.thread_files import TRIES, ThreadFiles
from amux.store.file_log.transactions import PendingLines, Transactions
from amux.store.file_log.values import BlobFiles, ValueFiles
from amux.store.removal import removable
from amux.store.reports import OptimizeReport, RebuildReport, RepairReport

if TYPE_CHECKING:
    from amux.store.file_log.index import ThreadIndex


class _KeyEntry(msgspec.Struct, frozen=True):
    namespace: str
    key: tuple[str, ...]
    thread_id: str


_KEY: Final = msgspec.json.Decoder(_KeyEntry)


class FileLog:
    """The log protocol on files. All methods may be called from any thread and any process."""

    def __init__(
        self,
        base: Path | str,
        *,
        fsync: Fsync = "turn",
        index: ThreadIndex | Path | str | None = None,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        self.base = Path(base)
        self.fsync: Fsync = fsync
        self._now = now or (lambda: datetime.now(UTC))
        self._layout = StoreLayout(self.base)
        self._marks = f"{self.base}/changed/"
        self._index: ThreadIndex | None = None
        self._index_path = self.base / "state.db"
        if index is not None:
            self.use_index(index)
        self._leases = LeaseFiles(self.base / "leases", self._now)
        self._transactions = Transactions(self.base / "transactions")
        self._blobs = BlobFiles(self.base / "blobs")
        self._values = ValueFiles(self._layout, self._now)
        self._files = ThreadFiles(
            self._layout, self._transactions, recover=self._recover, fsync=fsync
        )

    @property
    def index(self) -> ThreadIndex:
        """The index; it is created on first use."""
        if self._index is None:
            from amux.store.file_log.index import ThreadIndex

            self._index = ThreadIndex(self._index_path)
        self._index.bind(self._layout)
        return self._index

    def use_index(self, index: ThreadIndex | Path | str) -> None:
        """List the threads with another index, or with one in another file."""
        if isinstance(index, str | Path):
            self._index_path = Path(index).expanduser()
        else:
            self._index = index

    # creating

    def create(self, meta: SessionMeta, records: Sequence[NewRecord] = ()) -> ThreadSummary:
        """Create a thread with its meta data and first records."""
        meta = check_meta(meta)
        first = NewRecord(type="session_meta", payload=meta_payload(meta), parent_id=None)
        prepared = prepare(
            (first, *records),
            ThreadHead(seq=0),
            is_known=lambda _: False,
            repeat="error",
            now=self._now(),
        )
        with self._layout.locked() as lock:
            if not self._layout.reserve(meta.thread_id, lock):
                raise ConflictError(f"a thread `{meta.thread_id}` exists")
            if meta.key is not None:
                check_key(meta.namespace, meta.key)
                holder = self.find(meta.namespace, meta.key)
                if holder is not None:
                    raise ConflictError(
                        f"thread `{holder}` has the key {list(meta.key)}", found=holder
                    )
            if meta.title is not None:
                self._check_title(meta.title, meta.thread_id)
            if meta.key is not None:  # first, so that a key never lies in two threads
                entry = _KeyEntry(meta.namespace, meta.key, meta.thread_id)
                write_file(self._key_path(meta.namespace, meta.key), msgspec.json.encode(entry))
            path = self._layout.sessions / rollout_name(meta.created_at, meta.thread_id)
            data = encode_batch(prepared.records)
            write_file(path, data, durable=self.fsync == "always")
            self._layout.remember(meta.thread_id, str(path))
            self._mark_changed(meta.thread_id)
        return fold_thread(meta, prepared.records, self._now())

    def _key_path(self, namespace: str, key: tuple[str, ...]) -> Path:
        return self.base / "keys" / digest_of(namespace, *key)

    # finding

    def get(self, thread_id: str) -> ThreadSummary | None:
        """Return the summary of a thread, archived or not; None if there is none."""
        if self._layout.path_of(thread_id) is None:
            return None
        self._recover()
        return self.index.get(thread_id)

    def meta(self, thread_id: str) -> SessionMeta:
        """Return the meta data of a thread."""
        for _ in range(TRIES):
            with contextlib.suppress(MovedError):
                record = read_first(self._files.path(thread_id))
                meta = None if record is None else meta_of(record)
                if meta is None:
                    raise StoreError(
                        f"the first line of thread `{thread_id}` is not its meta data",
                        hint="`amux store doctor` says what can be saved",
                    )
                check_version(meta)
                return meta
        raise no_thread(thread_id)

    def find(self, namespace: str, key: tuple[str, ...]) -> str | None:
        """Return the id of the thread with an external key; None if there is none."""
        check_key(namespace, key)
        path = self._key_path(namespace, key)
        try:
            with as_store_error("read", path):
                entry = _KEY.decode(path.read_bytes())
        except (FileNotFoundError, msgspec.DecodeError):
            return None
        if self._layout.path_of(entry.thread_id) is None:
            return None  # its creator died before it wrote the thread
        return entry.thread_id

    def resolve(self, prefix: str) -> list[str]:
        """Return the ids of the threads that begin with a prefix, archived ones included."""
        wanted = prefix.lower()
        if is_valid_session_id(wanted):
            return [] if self._layout.path_of(wanted) is None else [wanted]
        return sorted(each for each in self._layout.paths() if each.startswith(wanted))

    def threads(self, selection: ThreadFilter) -> list[ThreadSummary]:
        """Return the selected threads from the index."""
        self._recover()
        return self.index.threads(selection)

    # appending

    def append(
        self,
        thread_id: str,
        records: Sequence[NewRecord],
        *,
        expect: int | None = None,
        repeat: Repeat = "skip",
    ) -> Appended:
        """Append records as one batch: one write of whole lines."""
        file = self._files.lock(thread_id)
        try:
            if expect is not None:
                check_expected(thread_id, file.visible, expect)
            prepared = self._prepare(file, records, repeat)
            if prepared.records:
                file.append(prepared.records)
            appended = Appended(head=file.head.seq, ids=prepared.ids, stored=len(prepared.records))
        finally:
            file.unlock()
        if prepared.records:
            self._mark_changed(thread_id)
        return appended

    def _prepare(self, file: RolloutFile, records: Sequence[NewRecord], repeat: Repeat) -> Prepared:
        if file.head.seq == 0:
            raise StoreError(
                f"`{file.path}` does not begin with its meta data",
                hint="`amux store doctor` says what can be saved",
            )
        if file.meta is not None:
            check_version(file.meta)
        return prepare(records, file.head, is_known=file.has, repeat=repeat, now=self._now())

    def append_many(self, batches: Sequence[Batch]) -> list[Appended]:
        """Append to several threads; all batches become visible or none does."""
        if len({batch.thread_id for batch in batches}) < len(batches):
            raise StoreError("`append_many` takes one batch per thread")
        thread_ids = sorted(batch.thread_id for batch in batches)
        with self._files.locked(*thread_ids) as locked:
            files = dict(zip(thread_ids, locked, strict=True))
            prepared: dict[str, Prepared] = {}
            for batch in batches:
                file = files[batch.thread_id]
                check_expected(batch.thread_id, file.visible, batch.expect)
                prepared[batch.thread_id] = self._prepare(file, batch.records, batch.repeat)

            def write(pending: PendingLines) -> None:
                files[pending.thread_id].append(prepared[pending.thread_id].records)

            pending = [
                PendingLines.of(thread_id, each.records)
                for thread_id, each in prepared.items()
                if each.records
            ]
            self._transactions.run(pending, write, durable=self.fsync == "always")
            appended = [
                Appended(head=files[thread_id].head.seq, ids=each.ids, stored=len(each.records))
                for thread_id, each in prepared.items()
            ]
        for thread_id in thread_ids:
            self._mark_changed(thread_id)
        return appended

    def _recover(self) -> None:
        """Complete appends to several threads whose process died."""
        self._transactions.recover(self._complete)

    def _complete(self, pending: PendingLines) -> None:
        try:
            file = self._files.lock_in_recovery(pending.thread_id)
        except SessionNotFoundError:
            return  # deleted since
        try:
            records = pending.records
            if records and not file.has(records[0].id):
                seq = file.head.seq
                renumbered = [
                    msgspec.structs.replace(record, seq=seq + number)
                    for number, record in enumerate(records, 1)
                ]
                file.append(renumbered)
        finally:
            file.unlock()
        self._mark_changed(pending.thread_id)

    def _mark_changed(self, thread_id: str) -> None:
        """Tell the index that a thread has records it has not read.

        This comes after the write: if the index reads the thread in between, the mark is made anew.
        """
        mark = self._marks + thread_id
        if not os.access(mark, os.F_OK):  # faster than `os.stat`, and this runs for every append
            with contextlib.suppress(OSError):  # the full check of the index finds it as well
                os.close(os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))

    # reading

    def read(self, thread_id: str, *, after: int = 0) -> Iterator[Record]:
        """Yield the records with sequence numbers above `after`, oldest first."""
        self._recover()
        if after:  # the new ones are at the end
            new: list[Record] = []
            for record in self._read_back(thread_id):
                if record.seq <= after:
                    break
                new.append(record)
            yield from reversed(new)
            return
        for _ in range(TRIES):
            with contextlib.suppress(MovedError):
                yield from read_forward(self._readable(thread_id))
                return
        raise no_thread(thread_id)

    def read_back(
        self,
        thread_id: str,
        *,
        before: int | None = None,
        kinds: Collection[str] | None = None,
    ) -> Iterator[Record]:
        """Yield the records below a sequence number, newest first."""
        self._recover()
        records = self._read_back(thread_id, kinds)
        if before is None:
            yield from records
        else:
            yield from (record for record in records if record.seq < before)

    def _read_back(self, thread_id: str, kinds: Collection[str] | None = None) -> Iterator[Record]:
        for _ in range(TRIES):
            with contextlib.suppress(MovedError):
                yield from read_backward(self._readable(thread_id), kinds=kinds)
                return
        raise no_thread(thread_id)

    def stored_ids(self, thread_id: str, record_ids: Collection[str]) -> set[str]:
        """Return those of some record ids that a thread has; the first call reads them all."""
        with self._files.locked(thread_id) as (file,):
            return {record_id for record_id in record_ids if file.has(record_id)}

    def locate(self, record_id: str) -> list[tuple[str, int]]:
        """Return the threads that hold a record, with its sequence number in each."""
        self._recover()
        return self.index.locate(record_id)

    # changing threads

    def set_title(self, thread_id: str, title: str | None) -> None:
        """Append a title, or remove it."""
        with self._layout.locked():
            if title is not None:
                self._files.path(thread_id)
                self._check_title(title, thread_id)
            self.append(thread_id, (control.event(control.TITLE, title=title),))

    def _check_title(self, title: str, thread_id: str) -> None:
        holder = self.index.holder_of(listed_text(title))
        if holder is not None and holder != thread_id:
            raise TitleInUseError(
                f"thread `{holder}` has the title `{title}`",
                title=title,
                holder=holder,
                hint="choose another title",
            )

    def archive(self, thread_id: str, *, archived: bool) -> None:
        """Move a thread to the archive, or back."""
        with self._files.locked(thread_id) as (file,):
            if self._layout.is_archived(file.path) is archived:
                return
            folder = self._layout.archive if archived else self._layout.sessions
            target = folder / Path(file.path).name
            with as_store_error("move", file.path):
                os.rename(file.path, target)  # noqa: PTH104 - as above
            self._layout.remember(thread_id, str(target))
            file.move(str(target))
        self._mark_changed(thread_id)

    def delete(self, thread_id: str) -> bool:
        """Delete a thread with its records."""
        if self._layout.path_of(thread_id) is None:
            return False
        with self._layout.locked():
            if self._layout.path_of(thread_id) is None:
                return False  # another process was faster
            meta: SessionMeta | None = None
            with contextlib.suppress(StoreError):
                meta = self.meta(thread_id)
            with self._files.locked(thread_id) as (file,):
                self._leases.remove(thread_id)
                with as_store_error("delete", file.path):
                    Path(file.path).unlink(missing_ok=True)
            self._files.forget(thread_id)
            if meta is not None and meta.key is not None:
                path = self._key_path(meta.namespace, meta.key)
                with as_store_error("delete", path):
                    path.unlink(missing_ok=True)
        self._mark_changed(thread_id)
        return True

    def vacuum(self, thread_id: str, *, erase: Container[str] = ()) -> VacuumReport:
        """Write the records that remain to a new file, and put it in the place of the old one."""
        with self._files.locked(thread_id) as (file,):
            records = list(read_forward(self._readable(thread_id)))
            gone = removable(reversed(records), erase)
            note = control.event("vacuumed", removed=len(gone))
            added = prepare(
                (note,), file.head, is_known=lambda _: False, repeat="skip", now=self._now()
            )
            kept = [record for record in records if record.seq not in gone]
            data = b"".join(encode_record(record) for record in (*kept, *added.records))
            before = Path(file.path).stat().st_size
            write_file(Path(file.path), data, durable=self.fsync != "never")
        self._mark_changed(thread_id)
        return VacuumReport(removed=len(gone), bytes_before=before, bytes_after=len(data))

    def repair(self, thread_id: str) -> RepairReport:
        """Write the whole records of a damaged thread to a new file.

        The original goes to the directory `damaged`. Lost meta data are made anew, as far as the
        name of the file and the first record tell.
        """
        from amux.store.repair import with_meta

        with self._files.locked(thread_id) as (file,):
            problems = tuple(self.verify(thread_id))
            records = list(read_forward(file.path))
            if not problems:
                return RepairReport(thread_id=thread_id, records=len(records))
            whole = with_meta(records, thread_id, self._now())
            note = control.event("repaired", problems=len(problems))
            head = ThreadHead(seq=whole[-1].seq)
            added = prepare((note,), head, is_known=lambda _: False, repeat="skip", now=self._now())
            damaged = self._layout.keep_damaged(file.path, self._now())
            data = b"".join(encode_record(record) for record in (*whole, *added.records))
            write_file(Path(file.path), data, durable=self.fsync != "never")
        self._mark_changed(thread_id)
        return RepairReport(
            thread_id=thread_id, records=len(whole), problems=problems, damaged=str(damaged)
        )

    def optimize(self) -> OptimizeReport:
        """Make the index small and fast, and remove blobs that no record refers to."""
        before, after = self.index.optimize()
        return OptimizeReport(
            bytes_before=before, bytes_after=after, blobs_removed=self.collect_blobs()
        )

    # turns

    def acquire_lease(self, thread_id: str, owner: str, *, seconds: float) -> Lease:
        """Take the lease of a thread."""
        with self._files.locked(thread_id):
            return self._leases.acquire(thread_id, owner, seconds)

    def renew_lease(self, lease: Lease, *, seconds: float) -> Lease | None:
        """Extend a lease; return None if it was lost."""
        with self._files.locked(lease.thread_id):
            return self._leases.renew(lease, seconds)

    def release_lease(self, lease: Lease) -> bool:
        """Give a lease back; return False if it was lost before."""
        with self._files.locked(lease.thread_id):
            return self._leases.release(lease)

    def lease_of(self, thread_id: str) -> Lease | None:
        """Return the valid lease of a thread; None if no turn is running."""
        return self._leases.current(thread_id)

    def break_lease(self, thread_id: str) -> bool:
        """Take the lease from its owner; return False if there was none."""
        with self._files.locked(thread_id):
            return self._leases.remove(thread_id)

    # blobs and values

    def put_blob(self, data: bytes) -> str:
        """Store bytes and return their SHA-256."""
        self._layout.prepare()
        return self._blobs.put(data, durable=self.fsync == "always")

    def get_blob(self, digest: str) -> bytes:
        """Return the bytes of a blob."""
        return self._blobs.get(digest)

    def collect_blobs(self) -> int:
        """Remove blobs that no record refers to any more; return how many."""
        return self._blobs.collect(self._used_blobs())

    def _used_blobs(self) -> set[str]:
        used: set[str] = set()
        for path in self._layout.paths().values():
            with contextlib.suppress(MovedError):
                used.update(digest for record in read_forward(path) for digest in record.blobs)
        return used

    def scrub(self, thread_ids: Collection[str], blobs: Collection[str]) -> int:
        """Remove what deleted threads left in the index, in blobs and in copies put aside."""
        removed = self._blobs.remove(set(blobs) - self._used_blobs()) if blobs else 0
        self._layout.remove_damaged(thread_ids)
        self.index.scrub()
        return removed

    def put_value(
        self, key: tuple[str, ...], data: bytes, *, expect: str | None = None
    ) -> StoredValue:
        """Replace a value."""
        return self._values.put(key, data, expect=expect, durable=self.fsync == "always")

    def get_value(self, key: tuple[str, ...]) -> StoredValue | None:
        """Return a value; None if there is none."""
        return self._values.get(key)

    def list_values(self, prefix: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
        """Return the keys that begin with a prefix, sorted."""
        return self._values.keys(prefix)

    def delete_value(self, key: tuple[str, ...]) -> bool:
        """Delete a value; return False if there is none."""
        return self._values.delete(key)

    # the rest

    def search(self, query: SearchQuery) -> list[MessageHit]:
        """Return the messages that match a query, from the index."""
        self._recover()
        return self.index.search(query)

    def sync(self, thread_id: str) -> None:
        """Force the records of a thread to the disk, unless the policy is "never"."""
        if self.fsync != "never":
            with self._files.locked(thread_id) as (file,):
                file.sync()

    def verify(self, thread_id: str) -> list[Problem]:
        """Read a thread completely and return what is wrong with it."""
        return self.read_checked(thread_id)[1]

    def read_checked(self, thread_id: str) -> tuple[list[Record], list[Problem]]:
        """Return all records of a thread, and what is wrong with it."""
        problems: list[Problem] = []
        path = self._files.path(thread_id)
        records = list(read_forward(path, problems=problems))
        meta = meta_of(records[0]) if records else None
        if meta is None or meta.schema_version > SCHEMA_VERSION:
            message = (
                "the first line is not the meta data of a thread"
                if meta is None
                else f"version {meta.schema_version} of the format is newer than amux"
            )
            problems.append(Problem(code="unknown-format", message=message, path=path, line=1))
        numbers = [record.seq for record in records]
        if numbers != sorted(set(numbers)):
            message = "the sequence numbers do not increase"
            problems.append(Problem(code="bad-record", message=message, path=path))
        return records, problems

    def problems(self) -> tuple[Problem, ...]:
        """Return what the index found wrong with threads: doubled titles and keys."""
        return self.index.problems()

    def rebuild(self, *, progress: Callable[[int, int], None] | None = None) -> RebuildReport:
        """Derive the index and the files of external keys from the threads again."""
        report = self.index.rebuild(progress)
        for thread in self.index.threads(ThreadFilter(archived=None)):
            if thread.key is not None and self.find(thread.namespace, thread.key) is None:
                entry = _KeyEntry(thread.namespace, thread.key, thread.thread_id)
                write_file(self._key_path(thread.namespace, thread.key), msgspec.json.encode(entry))
        return report

    def path_of(self, thread_id: str) -> Path:
        """Return the file of a thread."""
        return Path(self._files.path(thread_id))

    def close(self) -> None:
        """Close the files and the index."""
        self._files.close()
        if self._index is not None:
            self._index.close()

    # files

    def _readable(self, thread_id: str) -> str:
        """Return the path of a thread; raise `StoreError` if it has a newer format."""
        path = self._files.path(thread_id)
        first = read_first(path)
        meta = None if first is None else meta_of(first)
        if meta is not None:
            check_version(meta)
        return path
