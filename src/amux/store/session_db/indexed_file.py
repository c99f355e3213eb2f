"""A database file with full-text tables, which are rebuilt when they turn out to be damaged.

The full-text tables are derived from the messages, so damage to them never costs more than the time
to fill them again. A schema that cannot be read is repaired when the file is opened.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar

from amux.errors import StoreError
from amux.host import Host
from amux.store.session_db import fulltext, lineage, migrations, repair
from amux.store.session_db.connection import DatabaseFile, is_damage
from amux.store.session_db.rows import Row
from amux.store.session_db.search import SearchFilter, search

T = TypeVar("T")

MERGE_EVERY: Final = 1000
"""The full-text tables are merged after every so many writes."""

_FUNCTIONS: Final = {"child_kind": (5, lineage.child_kind)}


class IndexedFile:
    """An open session database. Raises `StoreError` if the file is none of a known version."""

    def __init__(self, path: Path, host: Host, *, read_only: bool = False) -> None:
        self._host = host
        self._file = DatabaseFile(path, host, read_only=read_only, functions=_FUNCTIONS)
        self._next_merge = MERGE_EVERY
        try:
            self._fulltext = self._prepare()
        except BaseException:
            self._file.close()
            raise

    @property
    def path(self) -> Path:
        """The path of the file."""
        return self._file.path

    def close(self) -> None:
        """Write the log back into the file and close it."""
        self._file.close()

    @contextmanager
    def transaction(self) -> Generator[None]:
        """Group the writes of a block into one transaction."""
        try:
            with self._file.transaction():
                yield
        except StoreError as error:
            if not is_damage(error) or self._file.is_grouping:
                raise
            self.rebuild()
            raise StoreError(
                f"the search index of `{self.path}` was damaged and is rebuilt; nothing of the "
                "transaction is stored",
                hint="repeat the transaction",
                recoverable=True,
            ) from error

    def read(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """Run a query that sees one state of the database; return its result."""
        return self._file.read(query)

    def write(self, change: Callable[[sqlite3.Connection], T]) -> T:
        """Apply a change; if a full-text table is damaged, rebuild it and try once more."""
        try:
            result = self._file.write(change)
        except StoreError as error:
            if not is_damage(error) or self._file.is_grouping:
                raise
            self.rebuild()
            result = self._file.write(change)
        if self._file.writes >= self._next_merge:
            self._next_merge = self._file.writes + MERGE_EVERY
            with suppress(StoreError):  # the next one does the work
                self._file.write(lambda c: fulltext.merge(c, self._fulltext))
        return result

    def search(self, query: str, wanted: SearchFilter) -> list[Row]:
        """Return the messages that match a query, whatever state the full-text tables are in."""
        return self.read_fulltext(lambda c, usable: search(c, query, wanted, usable))

    def read_fulltext(self, query: Callable[[sqlite3.Connection, fulltext.Fulltext], T]) -> T:
        """Run a query that uses the full-text tables; if one is damaged, rebuild it first."""
        try:
            return self.read(lambda c: query(c, self._fulltext))
        except StoreError as error:
            if not is_damage(error):
                raise
        usable = fulltext.Fulltext(words=False, trigrams=False)
        if not self._file.read_only and not self._file.is_grouping:
            self.rebuild()
            usable = self._fulltext
        return self.read(lambda c: query(c, usable))

    def rebuild(self) -> int:
        """Fill the full-text tables anew from the messages, and return their number."""
        rebuilt = self._file.write(repair.rebuild_fulltext)
        self._fulltext = migrations.find_fulltext(self._file)
        return rebuilt

    def optimize(self) -> int:
        """Merge each full-text table into one segment, and return their number."""
        return self.write(lambda c: fulltext.optimize(c, self._fulltext))

    def vacuum(self) -> None:
        """Give unused space back to the file system."""
        self.optimize()
        self._file.outside(lambda c: c.execute("VACUUM").fetchall())
        self._file.outside(lambda c: c.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall())

    def _prepare(self) -> fulltext.Fulltext:
        try:
            return migrations.prepare(self._file)
        except StoreError as error:
            if self._file.read_only or not is_damage(error):
                raise
        stamp = self._host.now().strftime("%Y%m%dT%H%M%SZ")
        self._file.reopen(lambda: repair.repair_schema(self.path, stamp))
        return migrations.prepare(self._file)
