"""One file of the text index: the texts of some sources, with the records of these sources.

A session in one source is a text unit; its number is stored with the fingerprint that the source
had when it was read. Texts and records change in one transaction: a source is in a shard or not.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from amux.adapters import load_builtin
from amux.adapters._base import Adapter, Checkpoint, ExtractsTexts, SourceRef
from amux.durable import PRIVATE_FILE
from amux.index.database import shard_path
from amux.index.errors import TextIndexDamagedError, TextIndexError
from amux.index.facts.stored_source import GROWS_NS, prefix_digest, reader_version
from amux.index.rows.stored_session import text_unit_key
from amux.index.text.documents import source_texts
from amux.index.text.engine import TextIndex
from amux.index.text.locations import pack_locations
from amux.index.text.tables import sqlite_errors, transaction
from amux.model.texts import TextDoc
from amux.reading.fingerprint import UNSETTLED, Fingerprints, fingerprint_in
from amux.reading.message_locations import MessageLocations


class _TextCheckpoint(NamedTuple):
    """The checkpoint of a source whose texts are one unit, and its size when it was read.

    The unit contains the messages after the checkpoint as well. `prefix_digest` is that of `size`.
    """

    unit: int
    checkpoint: Checkpoint
    size: int
    prefix_digest: bytes


_TABLES: Final = """
CREATE TABLE IF NOT EXISTS text_sources (
  agent TEXT NOT NULL, path BLOB NOT NULL, fingerprint BLOB NOT NULL, reader TEXT NOT NULL,
  PRIMARY KEY (agent, path)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS text_members (
  agent TEXT NOT NULL, path BLOB NOT NULL, key INTEGER NOT NULL, unit INTEGER NOT NULL,
  PRIMARY KEY (agent, path, unit)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS text_locations (
  unit INTEGER PRIMARY KEY, path BLOB NOT NULL, fingerprint BLOB NOT NULL, locations BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS text_checkpoints (
  agent TEXT NOT NULL, path BLOB NOT NULL, unit INTEGER NOT NULL, offset INTEGER NOT NULL,
  state BLOB NOT NULL, size INTEGER NOT NULL, prefix_digest BLOB NOT NULL,
  PRIMARY KEY (agent, path)
) WITHOUT ROWID;
"""
_SAVE_BYTES: Final = 32 << 20
_SHARD_SHIFT: Final = 24  # the bits of the number of a unit within its shard

HAS_TOOLS: Final = True
"""Whether the texts include the input and output of tools, not only messages."""


class StaleSource(NamedTuple):
    """A source to be read, and its fingerprint."""

    source: SourceRef
    fingerprint: bytes
    size: int
    may_grow: bool

    @property
    def path(self) -> bytes:
        """The location as it is stored."""
        return os.fsencode(self.source.location)


class TextShard:
    """One of the files; the units in a shard have greater numbers than those in the one before."""

    def __init__(self, text_path: Path, number: int) -> None:
        path = shard_path(text_path, number)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, PRIVATE_FILE))
        self.number = number
        self.index = TextIndex.open(path)
        self.connection = self.index.connection
        self._is_whole = True  # no source is partly written
        try:
            with sqlite_errors():
                self.connection.executescript(_TABLES)
                self._check_units()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self.index.close()

    def _check_units(self) -> None:
        """Raise TextIndexDamagedError if the file is that of another shard."""
        for unit in self.connection.execute(
            "SELECT min(unit) FROM text_units UNION ALL SELECT max(unit) FROM text_units"
        ):
            if unit[0] is not None and not self.has_unit(unit[0]):
                raise TextIndexDamagedError("a file of the index has the name of another one")

    def has_unit(self, unit: int) -> bool:
        """Return whether the number of a text unit belongs to this shard."""
        return unit >> _SHARD_SHIFT == self.number

    def version(self) -> tuple[int, int]:
        """Return a value that changes whenever this or another process writes to the file."""
        with sqlite_errors():
            (foreign,) = self.connection.execute("PRAGMA data_version").fetchone()
            return foreign, self.connection.total_changes

    def token(self) -> int:
        """Return a random number that is replaced whenever a source is added or discarded."""
        with sqlite_errors():
            row = self.connection.execute(
                "SELECT CAST(value AS INTEGER) FROM text_state WHERE key = 'token'"
            ).fetchone()
            return 0 if row is None else int(row[0])

    def units(self, agent: str) -> dict[int, int]:
        """Return the unit of every session in every source of an agent, by `text_unit_key`."""
        with sqlite_errors():
            rows = self.connection.execute(
                "SELECT key, unit FROM text_members WHERE agent = ?", (agent,)
            )
            return dict(rows.fetchall())

    def locations(self, units: Sequence[int]) -> dict[int, MessageLocations]:
        """Return the message locations of some units, as far as they are known."""
        holes = ", ".join("?" * len(units))
        with sqlite_errors():
            rows = self.connection.execute(
                "SELECT unit, CAST(path AS BLOB), CAST(fingerprint AS BLOB),"  # noqa: S608 - placeholders only
                f" CAST(locations AS BLOB) FROM text_locations WHERE unit IN ({holes})",
                units,
            )
            return {unit: MessageLocations(*fields) for unit, *fields in rows}

    def fingerprints(self, adapter: Adapter) -> dict[bytes, bytes]:
        """Return the stored fingerprints of an agent's sources; b"" if of another reader."""
        with sqlite_errors():
            rows = self.connection.execute(
                "SELECT path, CASE reader WHEN ? THEN fingerprint ELSE x'' END"
                " FROM text_sources WHERE agent = ?",
                (reader_version(adapter), adapter.info.name),
            )
            return dict(rows.fetchall())

    def load(self, stale: Iterable[tuple[Adapter, StaleSource]]) -> Generator[StaleSource]:
        """Read sources in one bulk load, and yield each when it is read.

        The load is merged at its end, or at the end of the next one if it was interrupted.
        """
        unsaved = 0
        with self._bulk():
            for adapter, each in stale:
                self.read(adapter, each)
                yield each
                unsaved += each.size
                if unsaved > _SAVE_BYTES:
                    self.index.save()
                    unsaved = 0

    @contextmanager
    def _bulk(self) -> Generator[None]:
        self.index.begin_bulk()
        try:
            yield
            self.index.save()
            self._is_whole = False  # everything is saved: a merge need not be committed
            self.index.finish_bulk()
        except BaseException:
            with suppress(TextIndexError):  # the first error is reported
                self.index.leave_bulk(keep=self._is_whole)
            raise
        finally:
            self._is_whole = True

    def resume_read(self, adapter: Adapter, stale: StaleSource) -> bool:
        """Read only the new part of a source; return False if that is not possible."""
        with sqlite_errors():
            last = self._checkpoint(adapter, stale)
        if last is None or prefix_digest(stale.source, last.size) != last.prefix_digest:
            return False
        if not isinstance(adapter, ExtractsTexts):
            return False
        texts = adapter.extract_texts(stale.source, tools=True, checkpoint=last.checkpoint)
        if texts is None:
            return False
        batches, checkpoint = texts
        with sqlite_errors(), transaction(self.connection):
            for _, docs in batches:
                self.index.add(last.unit, docs)
                before = self.locations((last.unit,)).get(last.unit)
                self._store_locations(last.unit, stale, docs, before)
            self._store_source(adapter, stale, checkpoint, unit=last.unit)
        return True

    def read(self, adapter: Adapter, stale: StaleSource) -> None:
        """Replace the texts of a source by new ones; all of them or none."""
        agent, path = adapter.info.name, stale.path
        batches, checkpoint = source_texts(adapter, stale.source, tools=HAS_TOOLS)
        units: dict[str, int] = {}  # a session is entered before its number is used
        self._is_whole = False
        self.discard(agent, (path,))
        try:
            with sqlite_errors(), transaction(self.connection):  # numbers of units must be unique
                (last,) = self.connection.execute(
                    "SELECT coalesce(max(unit), ?) FROM text_units", (self.number << _SHARD_SHIFT,)
                ).fetchone()
                for session, docs in batches:
                    is_first = session not in units
                    unit = units.setdefault(session, last + len(units) + 1)
                    self.index.add(unit, docs)
                    if is_first:  # a source with locations comes in one batch
                        self._store_locations(unit, stale, docs)
                is_one = len(units) == 1 and stale.may_grow
                self._store_source(adapter, stale, checkpoint if is_one else None, unit=last + 1)
                self.connection.executemany(
                    "INSERT INTO text_members VALUES (?, ?, ?, ?)",
                    [
                        (agent, path, text_unit_key(agent, stale.source.location, session), unit)
                        for session, unit in units.items()
                    ],
                )
        except (KeyboardInterrupt, SystemExit):
            for unit in units.values():
                self.index.drop(unit)
            self.discard(agent, (path,))
            self._is_whole = True
            raise
        self._is_whole = True

    def discard(self, agent: str, paths: Iterable[bytes]) -> None:
        """Remove the texts and the records of some sources."""
        with sqlite_errors():
            for path in paths:
                key = (agent, path)
                rows = self.connection.execute(
                    "SELECT unit FROM text_members WHERE agent = ? AND path = ?", key
                ).fetchall()
                for (unit,) in rows:
                    self.index.drop(unit)
                self.connection.executemany("DELETE FROM text_locations WHERE unit = ?", rows)
                for table in ("text_members", "text_sources", "text_checkpoints"):
                    self.connection.execute(
                        f"DELETE FROM {table} WHERE agent = ? AND path = ?",  # noqa: S608 - constants
                        key,
                    )
                self._renew_token()

    def _renew_token(self) -> None:
        self.connection.execute("INSERT OR REPLACE INTO text_state VALUES ('token', random())")

    def _store_locations(
        self,
        unit: int,
        stale: StaleSource,
        docs: Iterable[TextDoc],
        before: MessageLocations | None = None,
    ) -> None:
        locations = pack_locations(docs, before)
        if locations and stale.source.has_path:
            fingerprint = fingerprint_in(stale.fingerprint, stale.source.path)
            self.connection.execute(
                "INSERT OR REPLACE INTO text_locations VALUES (?, ?, ?, ?)",
                (unit, stale.path, fingerprint, locations),
            )

    def _store_source(
        self, adapter: Adapter, stale: StaleSource, checkpoint: Checkpoint | None, *, unit: int
    ) -> None:
        agent, path = adapter.info.name, stale.path
        self.connection.execute(
            "INSERT OR REPLACE INTO text_sources VALUES (?, ?, ?, ?)",
            (agent, path, stale.fingerprint, reader_version(adapter)),
        )
        size = 0 if checkpoint is None else max(checkpoint.offset, stale.size)  # it may have grown
        digest = prefix_digest(stale.source, size) if size else b""
        self.connection.execute(
            "DELETE FROM text_checkpoints WHERE agent = ? AND path = ?", (agent, path)
        )
        if checkpoint is not None and digest:
            self.connection.execute(
                "INSERT INTO text_checkpoints VALUES (?, ?, ?, ?, ?, ?, ?)",
                (agent, path, unit, checkpoint.offset, checkpoint.state, size, digest),
            )
        self._renew_token()

    def _checkpoint(self, adapter: Adapter, stale: StaleSource) -> _TextCheckpoint | None:
        row = self.connection.execute(
            "SELECT unit, CAST(offset AS INTEGER), CAST(state AS BLOB), CAST(size AS INTEGER),"
            " CAST(prefix_digest AS BLOB) FROM text_checkpoints"
            " JOIN text_sources USING (agent, path) WHERE agent = ? AND path = ? AND reader = ?",
            (adapter.info.name, stale.path, reader_version(adapter)),
        ).fetchone()
        if row is None:
            return None
        unit, offset, state, size, digest = row
        return _TextCheckpoint(unit, Checkpoint(offset=offset, state=state), size, digest)


def fingerprinted(adapter: Adapter, sources: Iterable[SourceRef]) -> Iterator[StaleSource]:
    """Yield sources with their present fingerprints."""
    fingerprints = Fingerprints(adapter)
    for source in sources:
        now = fingerprints.of(source)
        is_in_use = now.changed_ns > time.time_ns() - GROWS_NS
        yield StaleSource(source, now.stored, now.size, is_in_use)


def is_stale(stored: Mapping[bytes, bytes], now: StaleSource) -> bool:
    """Return whether a source must be read, given the stored fingerprints."""
    return now.fingerprint == UNSETTLED or stored.get(now.path) != now.fingerprint


def fill_shard(
    text_path: Path, worker: int, tasks: Iterator[tuple[str, StaleSource]]
) -> Generator[bytes]:
    """Read sources of built-in agents into the shard with the number of the worker.

    An empty result is yielded for each of them.
    """
    shard = TextShard(text_path, worker)
    try:
        adapters = ((load_builtin(agent), stale) for agent, stale in tasks)
        for _ in shard.load((adapter, stale) for adapter, stale in adapters if adapter):
            yield b""
    finally:
        shard.close()
