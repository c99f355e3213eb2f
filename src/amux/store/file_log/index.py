"""`ThreadIndex`: what lists and searches need to know of rollouts, in a session database.

Everything here is derived from the files and can be thrown away. Appends do not touch the index:
they leave a mark beside the thread, and the next list or search reads what is new. A full check of
sizes and times finds files that were changed in other ways; it runs when the index is first used
and then at most every two seconds. A damaged database is put aside and made anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from amux.durable import abandon_after_fork
from amux.errors import StoreBusyError, StoreError
from amux.model.problems import Problem
from amux.rollout import control
from amux.rollout.log import ContextMessage, MessageHit, SearchQuery
from amux.rollout.messages import message_of
from amux.rollout.records import Line, Record, decode_line, meta_of
from amux.rollout.rollout_reader import committed
from amux.rollout.threads import ThreadFilter, ThreadSummary, extend_thread, fold_thread
from amux.rollout.view import searchable
from amux.store.file_log.file_scan import FileScan
from amux.store.file_log.layout import StoreLayout
from amux.store.file_log.thread_tables import FileState, IndexedRecord, ThreadTables
from amux.store.reports import RebuildReport

T = TypeVar("T")

_CHECK_SECONDS: Final = 2.0
_EDGE: Final = 256
_BATCH: Final = 200  # threads per transaction, so that other processes can write in between


class ThreadIndex:
    """The index of a directory of rollouts. All methods bring it up to date first."""

    def __init__(self, path: Path | str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.path = Path(path)
        self._clock = clock
        self._lock = threading.RLock()
        self._layout: StoreLayout | None = None
        self._tables: ThreadTables | None = None
        self._checked = float("-inf")
        abandon_after_fork(self)

    def abandon(self) -> None:
        """Forget the lock, which a thread of the parent may hold."""
        self._lock = threading.RLock()
        self._checked = float("-inf")

    def bind(self, layout: StoreLayout) -> None:
        """Set the directory that the index is about."""
        self._layout = layout

    # questions

    def get(self, thread_id: str) -> ThreadSummary | None:
        """Return the summary of a thread; None if it does not exist."""

        def ask(tables: ThreadTables) -> ThreadSummary | None:
            if self._layout is not None:
                path = self._layout.path_of(thread_id)
                self._update(tables, {} if path is None else {thread_id: path}, {thread_id})
            return tables.summary(thread_id)

        return self._ask(ask, lambda scan: scan.get(thread_id))

    def threads(self, selection: ThreadFilter) -> list[ThreadSummary]:
        """Return the selected threads."""
        return self._ask(
            lambda tables: self._current(tables).select(selection),
            lambda scan: scan.threads(selection),
        )

    def holder_of(self, title: str) -> str | None:
        """Return the id of the thread that has a title; None if there is none."""
        return self._ask(
            lambda tables: self._current(tables).holder_of(title),
            lambda scan: scan.holder_of(title),
        )

    def locate(self, record_id: str) -> list[tuple[str, int]]:
        """Return the threads that hold a record, with its sequence number in each."""
        return self._ask(
            lambda tables: self._current(tables).locate(record_id),
            lambda scan: scan.locate(record_id),
        )

    def search(self, query: SearchQuery) -> list[MessageHit]:
        """Return the messages that match a query."""

        def ask(tables: ThreadTables) -> list[MessageHit]:
            return [_hit(row) for row in self._current(tables).search(query)]

        return self._ask(ask, lambda scan: scan.search(query))

    def problems(self) -> tuple[Problem, ...]:
        """Return what was wrong with threads when they were read: doubled titles and keys."""
        return self._ask(
            lambda tables: self._current(tables).problems(), lambda scan: scan.problems()
        )

    # the database

    def _ask(
        self,
        question: Callable[[ThreadTables], T],
        otherwise: Callable[[FileScan], T] | None = None,
    ) -> T:
        """Return an answer; if the database is damaged, make it anew and ask again.

        If there can be no database, as in a directory that cannot be written to, the answer comes
        from the files.
        """
        with self._lock:
            try:
                return question(self._open())
            except StoreBusyError:
                raise
            except StoreError:
                if self._discard():
                    return question(self._open())
                if self._tables is not None or self._layout is None or otherwise is None:
                    raise
                return otherwise(FileScan(self._layout))

    def _open(self) -> ThreadTables:
        if self._tables is None:
            self._tables = ThreadTables(self.path)
            self._checked = float("-inf")
        return self._tables

    def _discard(self) -> bool:
        """Put a damaged database aside; return False if it is not damaged or cannot be moved."""
        if self._tables is not None:
            if self._tables.is_intact():
                return False
            self._tables.close()
            self._tables = None
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
        try:
            self.path.replace(self.path.with_name(f"{self.path.name}.damaged-{stamp}"))
            for suffix in ("-wal", "-shm"):
                Path(f"{self.path}{suffix}").unlink(missing_ok=True)
        except OSError:
            return False
        return True

    def rebuild(self, progress: Callable[[int, int], None] | None = None) -> RebuildReport:
        """Read all threads again; what was read stays if this is interrupted."""
        with self._lock:
            tables = self._open()
            tables.clear()
            self._check_all(tables, progress)
            return RebuildReport(
                threads=tables.count(), messages=tables.message_count(), problems=tables.problems()
            )

    def optimize(self) -> tuple[int, int]:
        """Make the database small and fast; return its size before and after."""
        with self._lock:
            return self._ask(lambda tables: self._current(tables).optimize())

    def scrub(self) -> None:
        """Forget deleted threads for good: also in unused pages, and in databases put aside."""
        with self._lock:
            self._checked = float("-inf")
            self.optimize()
            for path in self.path.parent.glob(f"{self.path.name}.damaged-*"):
                path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            if self._tables is not None:
                self._tables.close()
                self._tables = None

    # updating

    def _files(self) -> StoreLayout:
        if self._layout is None:
            raise StoreError("the index is not bound to a directory")
        return self._layout

    def _current(self, tables: ThreadTables) -> ThreadTables:
        """Bring the index up to date and return its tables; alone it is always up to date."""
        if self._layout is None:
            return tables
        if self._clock() - self._checked >= _CHECK_SECONDS:
            self._check_all(tables)
        else:
            marked = self._take_marks()
            if marked:
                paths = self._files().paths()
                self._update(
                    tables, {each: paths[each] for each in marked if each in paths}, marked
                )
        return tables

    def _take_marks(self) -> set[str]:
        """Remove the marks of changed threads and return the ids.

        A mark goes before the file is read: whatever is appended later makes a new one.
        """
        folder = self._files().base / "changed"
        try:
            names = os.listdir(folder)  # noqa: PTH208 - runs before every list
        except FileNotFoundError:
            return set()
        for name in names:
            with contextlib.suppress(OSError):
                os.unlink(f"{folder}/{name}")  # noqa: PTH108 - likewise
        return set(names)

    def _check_all(
        self, tables: ThreadTables, progress: Callable[[int, int], None] | None = None
    ) -> None:
        """Compare all files with the index and read those that changed."""
        started = self._clock()
        self._take_marks()
        paths = self._files().paths()
        known = tables.file_states()
        stale: dict[str, str] = {}
        for thread_id, path in paths.items():
            state = _state_of(path)
            before = known.get(thread_id)
            if state is not None and (before is None or not before.is_of(state)):
                stale[thread_id] = path
        gone = known.keys() - paths.keys()
        self._update(tables, stale, {*stale, *gone}, progress)
        self._checked = started

    def _update(
        self,
        tables: ThreadTables,
        paths: dict[str, str],
        thread_ids: set[str],
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Read threads again; those without a path are removed."""
        ordered = sorted(thread_ids, key=lambda each: os.path.basename(paths.get(each, "")))  # noqa: PTH119
        for start in range(0, len(ordered), _BATCH):
            part = ordered[start : start + _BATCH]
            with tables.transaction():
                for thread_id in part:
                    path = paths.get(thread_id)
                    if path is None:
                        tables.remove(thread_id)
                    else:
                        self._update_thread(tables, thread_id, path)
            if progress is not None:
                progress(start + len(part), len(ordered))

    def _update_thread(self, tables: ThreadTables, thread_id: str, path: str) -> None:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return  # moved in between: the next check finds it
        try:
            state = _state(path, os.fstat(descriptor))
            before = tables.file_state(thread_id)
            if before is not None and before.is_of(state) and before.size == before.offset:
                return
            archived = self._files().is_archived(path)
            thread = tables.summary(thread_id)
            if before is not None and thread is not None and _continues(descriptor, before, state):
                lines, end = _whole_lines(descriptor, before.offset, state.size)
                records = [line.record for line in lines]
                if not _rewrites(records, tables, thread_id):
                    summary = extend_thread(thread, records, tables.copied(thread_id))
                    summary = msgspec.structs.replace(summary, archived=archived)
                    tables.save(summary, _at(state, end, descriptor))
                    tables.add_records(thread_id, _indexed(records, summary.payload_format))
                    return
            lines, end = _whole_lines(descriptor, 0, state.size)
            self._store(tables, thread_id, lines, _at(state, end, descriptor), archived=archived)
        finally:
            os.close(descriptor)

    def _store(
        self,
        tables: ThreadTables,
        thread_id: str,
        lines: Sequence[Line],
        state: FileState,
        *,
        archived: bool,
    ) -> None:
        """Store a thread that was read from its beginning."""
        records = [line.record for line in lines]
        meta = meta_of(records[0]) if records else None
        if meta is None or meta.thread_id.lower() != thread_id:
            tables.save_unreadable(thread_id, state)
            return
        summary = msgspec.structs.replace(fold_thread(meta, records), archived=archived)
        tables.remove_records(thread_id)
        tables.save(summary, state, copied=meta.copied)
        tables.add_records(thread_id, _indexed(records, meta.payload_format))


def _indexed(records: Sequence[Record], payload_format: str) -> list[IndexedRecord]:
    active = {record.seq for record in searchable(reversed(records))}
    found: list[IndexedRecord] = []
    for record in searchable(reversed(records), include_inactive=True):
        message = message_of(record, payload_format)
        found.append(IndexedRecord(record, message, record.seq in active))
    found.reverse()
    return found


def _rewrites(records: Iterable[Record], tables: ThreadTables, thread_id: str) -> bool:
    """Return whether new records change how earlier ones are found: read the thread again then."""
    for record in records:
        found = control.event_of(record)
        if found is None:
            if tables.has_record(thread_id, record.id):
                return True
            continue
        kind, payload = found
        if kind in {control.UNHIDE, control.CORRECTION}:
            return True
        if kind == control.HIDE and payload.get("searchable") is not True:
            return True
    return False


def _whole_lines(descriptor: int, start: int, size: int) -> tuple[list[Line], int]:
    """Return the lines that count between two offsets, and where the last one ends.

    A batch whose end is missing at the end of the file is read again later.
    """
    data = os.pread(descriptor, size - start, start)
    ends: dict[int, int] = {}
    lines: list[Line] = []
    position = 0
    while position < len(data):
        newline = data.find(b"\n", position)
        line = decode_line(data[position : None if newline < 0 else newline])
        if newline < 0 and line is None:
            break  # a torn tail
        position = len(data) if newline < 0 else newline + 1
        if line is not None:
            lines.append(line)
            ends[id(line)] = position
    found = list(committed(lines))
    is_open = bool(lines) and (not found or found[-1] is not lines[-1])
    end = (ends[id(found[-1])] if found else 0) if is_open else position
    return found, start + end


def _continues(descriptor: int, before: FileState, now: FileState) -> bool:
    """Return whether the file was only appended to since it was read."""
    return (
        before.inode == now.inode
        and 0 < before.offset <= now.size
        and before.edge == _edge(descriptor, before.offset)
    )


def _edge(descriptor: int, offset: int) -> bytes:
    """Return a digest of the first bytes and of the bytes before an offset."""
    head = os.pread(descriptor, min(_EDGE, offset), 0)
    tail = os.pread(descriptor, min(_EDGE, offset), max(0, offset - _EDGE))
    return hashlib.blake2b(head + tail, digest_size=16).digest()


def _at(state: FileState, offset: int, descriptor: int) -> FileState:
    return state._replace(offset=offset, edge=_edge(descriptor, offset))


def _state_of(path: str) -> FileState | None:
    try:
        return _state(path, os.stat(path))  # noqa: PTH116 - thousands of files per check
    except OSError:
        return None


def _state(path: str, stat: os.stat_result) -> FileState:
    return FileState(path, stat.st_size, stat.st_mtime_ns, stat.st_ino)


def _hit(found: dict[str, Any]) -> MessageHit:
    return MessageHit(
        thread_id=found["session_id"],
        record_id=found["record_id"],
        seq=found["seq"],
        role=found["role"],
        at=datetime.fromtimestamp(found["timestamp"], UTC),
        snippet=found["snippet"],
        context=tuple(
            ContextMessage(each["role"], str(each["content"] or "")) for each in found["context"]
        ),
        title=found["title"],
        source=found["source"],
        model=found["model"],
        session_started=datetime.fromtimestamp(found["session_started"], UTC),
    )
