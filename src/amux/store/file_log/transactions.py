"""Appends to several threads that become visible together.

The lines for all threads are first written to a file in `transactions`: from then on the append
has happened, even if the process dies. Any process that finds such a file waits for its writer, and
completes the append if the writer died. Completing twice changes nothing, because a thread that has
the first record of the lines has them all.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from amux.durable import lock, release
from amux.rollout.records import Record, decode_line, encode_record, new_record_id
from amux.store.file_log.layout import as_store_error, store_error, write_all


class PendingLines(msgspec.Struct, frozen=True):
    """The lines of the records for one thread."""

    thread_id: str
    lines: list[str]

    @classmethod
    def of(cls, thread_id: str, records: Sequence[Record]) -> PendingLines:
        """Return the records for a thread in the form in which they are stored."""
        return cls(thread_id, [encode_record(record).decode() for record in records])

    @property
    def records(self) -> list[Record]:
        """Return the records."""
        lines = (decode_line(line.encode()) for line in self.lines)
        return [line.record for line in lines if line is not None]


_SETTLED: Final = 5e7  # nanoseconds: a directory can change again without a new time until then


class Transactions:
    """The directory of appends that are under way."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = str(folder)
        self._idle_since = -1  # the time of the directory when it was empty

    def run(
        self,
        pending: Sequence[PendingLines],
        write: Callable[[PendingLines], None],
        *,
        durable: bool,
    ) -> None:
        """Write the lines of all threads; `write` appends those of one. All threads are locked."""
        path = self._folder / f"{new_record_id()}.json"
        temporary = path.with_suffix(".new")
        try:
            descriptor = os.open(
                temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600
            )
        except OSError as error:
            raise store_error(error, "write", temporary) from error
        try:
            lock(descriptor)
            try:
                write_all(descriptor, msgspec.json.encode(pending))
                if durable:
                    os.fsync(descriptor)
                temporary.replace(path)
            except OSError as error:
                with contextlib.suppress(OSError):
                    temporary.unlink()
                raise store_error(error, "write", path) from error
            for each in pending:
                write(each)
            path.unlink()
        finally:
            release(descriptor)

    def is_idle(self) -> bool:
        """Return whether no append to several threads is under way."""
        try:
            changed = os.stat(self._path).st_mtime_ns  # noqa: PTH116 - runs for every append
            if changed == self._idle_since:
                return True
            names = os.listdir(self._path)  # noqa: PTH208 - likewise
        except FileNotFoundError:
            return True
        except OSError as error:
            raise store_error(error, "list", self._path) from error
        is_idle = not any(name.endswith(".json") for name in names)
        is_settled = time.time_ns() - changed > _SETTLED
        self._idle_since = changed if is_idle and is_settled else -1
        return is_idle

    def recover(self, complete: Callable[[PendingLines], None]) -> None:
        """Complete the appends of processes that died; `complete` appends what is missing.

        The caller holds no lock of a thread: a writer that is alive may need it.
        """
        if not self.is_idle():
            for name in os.listdir(self._path):  # noqa: PTH208 - likewise
                if name.endswith(".json"):
                    self._recover(self._folder / name, complete)

    def _recover(self, path: Path, complete: Callable[[PendingLines], None]) -> None:
        try:
            with as_store_error("complete", path):
                descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            lock(descriptor)  # waits for a writer that is still alive
            if not path.exists():
                return
            with contextlib.suppress(msgspec.DecodeError):
                for each in msgspec.json.decode(path.read_bytes(), type=list[PendingLines]):
                    complete(each)
            path.unlink(missing_ok=True)
        finally:
            release(descriptor)
