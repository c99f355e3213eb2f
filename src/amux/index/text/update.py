"""Updates the texts of all sources: those of changed sources are discarded and read again.

Of an append-only source that has grown, only the new part is read. The texts are in a file beside
the index, and as disposable. A session in one source is a text unit; its number is stored with the
fingerprint that the source had when it was read.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from amux.adapters._base import Adapter, Checkpoint, ExtractsTexts, Fingerprinted, SourceRef
from amux.index.codec import pack, unpack
from amux.index.errors import TextIndexError
from amux.index.facts.stored_source import GROWS_NS, prefix_digest, reader_version
from amux.index.freshness import Freshness
from amux.index.pool import core_count, work_through
from amux.index.rows.stored_session import agents_with_rows, text_unit_key
from amux.index.text.documents import Batch, source_texts
from amux.index.text.engine import PreparedDoc, TextIndex, prepare
from amux.index.text.locations import pack_locations
from amux.index.text.tables import sqlite_errors, transaction
from amux.reading.fingerprint import UNSETTLED, Fingerprints, fingerprint_in, total_size
from amux.reading.message_locations import MessageLocations
from amux.reading.sources import SourceCatalog

if TYPE_CHECKING:
    from amux.index.database import IndexDatabase
    from amux.index.facts.sources import ReportProgress
    from amux.index.result_environment import ResultEnvironment


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
CREATE TABLE IF NOT EXISTS text_freshness (
  agent TEXT PRIMARY KEY, state BLOB NOT NULL
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
_BULK: Final = 4 << 20
_SAVE_BYTES: Final = 32 << 20
_MAX_SHARED_BYTES: Final = 8 << 20
"""Larger sources are read in this process: their texts may not fit into memory twice."""

HAS_TOOLS: Final = True
"""Whether the texts include the input and output of tools, not only messages."""

_Texts = tuple[str, list[PreparedDoc], bytes]
"""A session, some of its documents as they are added, and their packed locations."""

_TEXTS: Final = msgspec.msgpack.Decoder(tuple[list[_Texts], Checkpoint | None])


class _Stale(NamedTuple):
    """A source to be read, and its fingerprint."""

    source: SourceRef
    fingerprint: bytes
    size: int
    may_grow: bool


class _ProgressReport:
    def __init__(self, total: int, report: ReportProgress | None) -> None:
        self._total = total
        self._report = report
        self._done = 0
        self._saved = 0

    def add(self, size: int) -> bool:
        """Report that some more bytes are done; return whether it is time to save."""
        self._done += size
        if self._report is not None:
            self._report(self._done, self._total)
        is_due = self._done - self._saved > _SAVE_BYTES
        self._saved = self._done if is_due else self._saved
        return is_due


class TextDatabase:
    """The text index of one home, with the sources that its units belong to."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        self.index = TextIndex.open(path)
        self._units_of: dict[str, tuple[tuple[int, ...], dict[int, int]]] = {}
        with sqlite_errors():
            self.index.connection.executescript(_TABLES)
        self._is_whole = True  # no source is partly written
        self.has_grown = False

    def close(self) -> None:
        """Close the file."""
        self.index.close()

    def units(self, agent: str) -> dict[int, int]:
        """Return the unit of every session in every source of an agent, by `text_unit_key`."""
        version = self.version()
        with sqlite_errors():
            if self._units_of.get(agent, ((), {}))[0] != version:
                rows = self.index.connection.execute(
                    "SELECT key, unit FROM text_members WHERE agent = ?", (agent,)
                )
                self._units_of[agent] = version, dict(rows.fetchall())
        return self._units_of[agent][1]

    def locations(self, units: Sequence[int]) -> dict[int, MessageLocations]:
        """Return the message locations of some units, as far as they are known."""
        holes = ", ".join("?" * len(units))
        with sqlite_errors():
            rows = self.index.connection.execute(
                "SELECT unit, CAST(path AS BLOB), CAST(fingerprint AS BLOB),"  # noqa: S608 - placeholders only
                f" CAST(locations AS BLOB) FROM text_locations WHERE unit IN ({holes})",
                units,
            )
            return {unit: MessageLocations(*fields) for unit, *fields in rows}

    def version(self) -> tuple[int, int]:
        """Return a value that changes whenever this or another process writes."""
        with sqlite_errors():
            connection = self.index.connection
            (foreign,) = connection.execute("PRAGMA data_version").fetchone()
            return foreign, connection.total_changes

    def states(self) -> dict[str, bytes]:
        """Return the states of the files of all agents from before their texts were read."""
        with sqlite_errors():
            rows = self.index.connection.execute(
                "SELECT agent, CAST(state AS BLOB) FROM text_freshness"
            )
            return dict(rows.fetchall())

    def record(self, states: Mapping[str, bytes]) -> None:
        """Store the states of the files of some agents from before their texts were read."""
        with sqlite_errors(), transaction(self.index.connection):
            self.index.connection.executemany(
                "INSERT OR REPLACE INTO text_freshness VALUES (?, ?)", states.items()
            )

    def current(self, adapter: Adapter, sources: Sequence[SourceRef]) -> int:
        """Return how many of some sources have current texts; changes nothing."""
        stored = self._fingerprints(adapter.info.name, reader_version(adapter))
        return sum(not _is_stale(stored, each) for each in _fingerprinted(adapter, sources))

    def update(
        self,
        wanted: Iterable[tuple[Adapter, Sequence[SourceRef]]],
        *,
        progress: ReportProgress | None = None,
    ) -> None:
        """Read the texts of new and changed sources, and discard those of missing ones.

        All agents are read in one bulk load, which is merged once at its end, or at the end of the
        next update if it was interrupted.
        """
        stale = [(adapter, self._stale(adapter, sources)) for adapter, sources in wanted]
        report = _ProgressReport(_size_of(stale), progress)
        whole = [
            (adapter, [each for each in some if not self._resume_read(adapter, each, report)])
            for adapter, some in stale
        ]
        if _size_of(whole) <= _BULK and not self.index.is_unfinished:
            for adapter, some in whole:
                self._read(adapter, some, report, in_bulk=False)
            return
        self.index.begin_bulk()
        try:
            for adapter, some in whole:
                self._read(adapter, some, report, in_bulk=True)
            self.index.save()
            self._is_whole = False  # everything is saved: a merge need not be committed
            self.index.finish_bulk()
        except BaseException:
            with suppress(TextIndexError):  # the first error is reported
                self.index.leave_bulk(keep=self._is_whole)
            raise
        finally:
            self._is_whole = True

    def _stale(self, adapter: Adapter, sources: Sequence[SourceRef]) -> list[_Stale]:
        """Return the sources to be read; discard the texts of missing sources."""
        agent = adapter.info.name
        stored = self._fingerprints(agent, reader_version(adapter))
        now = {os.fsencode(each.source.location): each for each in _fingerprinted(adapter, sources)}
        self._discard(agent, stored.keys() - now.keys())
        return [each for each in now.values() if _is_stale(stored, each)]

    def _fingerprints(
        self, agent: str, reader: str, path: bytes | None = None
    ) -> dict[bytes, bytes]:
        """Return the stored fingerprints of all sources or one; b"" if of another reader."""
        only = "" if path is None else " AND path = :path"
        with sqlite_errors():
            rows = self.index.connection.execute(
                "SELECT path, CASE reader WHEN :reader THEN fingerprint ELSE x'' END"  # noqa: S608 - constants
                f" FROM text_sources WHERE agent = :agent{only}",
                {"agent": agent, "reader": reader, "path": path},
            )
            return dict(rows.fetchall())

    def _read(
        self, adapter: Adapter, stale: Sequence[_Stale], report: _ProgressReport, *, in_bulk: bool
    ) -> None:
        sources = [each.source for each in stale]
        for number, texts, checkpoint in _texts(adapter, sources, shared=in_bulk):
            self._replace(adapter, stale[number], texts, checkpoint)
            if report.add(stale[number].size) and in_bulk:
                self.index.save()

    def _resume_read(self, adapter: Adapter, stale: _Stale, report: _ProgressReport) -> bool:
        """Read only the new part of a source; return False if that is not possible."""
        agent, path = adapter.info.name, os.fsencode(stale.source.location)
        with sqlite_errors():
            last = self._checkpoint(agent, path, reader_version(adapter))
        if last is None or prefix_digest(stale.source, last.size) != last.prefix_digest:
            return False
        if not isinstance(adapter, ExtractsTexts):
            return False
        texts = adapter.extract_texts(stale.source, tools=True, checkpoint=last.checkpoint)
        if texts is None:
            return False
        batches, checkpoint = texts
        with sqlite_errors(), transaction(self.index.connection):
            if self._checkpoint(agent, path, reader_version(adapter)) != last:
                return False  # another process was faster
            for _, docs in batches:
                self.index.add(last.unit, docs)
                locations = pack_locations(docs, self.locations((last.unit,)).get(last.unit))
                self._store_locations(last.unit, stale, locations)
            self._store_source(adapter, stale, checkpoint, unit=last.unit)
        report.add(stale.size)
        return True

    def _store_source(
        self, adapter: Adapter, stale: _Stale, checkpoint: Checkpoint | None, *, unit: int
    ) -> None:
        agent, path = adapter.info.name, os.fsencode(stale.source.location)
        self.index.connection.execute(
            "INSERT OR REPLACE INTO text_sources VALUES (?, ?, ?, ?)",
            (agent, path, stale.fingerprint, reader_version(adapter)),
        )
        size = 0 if checkpoint is None else max(checkpoint.offset, stale.size)  # it may have grown
        digest = prefix_digest(stale.source, size) if size else b""
        self.index.connection.execute(
            "DELETE FROM text_checkpoints WHERE agent = ? AND path = ?", (agent, path)
        )
        if checkpoint is not None and digest:
            self.index.connection.execute(
                "INSERT INTO text_checkpoints VALUES (?, ?, ?, ?, ?, ?, ?)",
                (agent, path, unit, checkpoint.offset, checkpoint.state, size, digest),
            )

    def _checkpoint(self, agent: str, path: bytes, reader: str) -> _TextCheckpoint | None:
        row = self.index.connection.execute(
            "SELECT unit, CAST(offset AS INTEGER), CAST(state AS BLOB), CAST(size AS INTEGER),"
            " CAST(prefix_digest AS BLOB) FROM text_checkpoints"
            " JOIN text_sources USING (agent, path) WHERE agent = ? AND path = ? AND reader = ?",
            (agent, path, reader),
        ).fetchone()
        if row is None:
            return None
        unit, offset, state, size, digest = row
        return _TextCheckpoint(unit, Checkpoint(offset=offset, state=state), size, digest)

    def _replace(
        self,
        adapter: Adapter,
        stale: _Stale,
        texts: Iterable[_Texts],
        checkpoint: Checkpoint | None,
    ) -> None:
        """Replace the texts of a source by new ones; all of them or none."""
        agent, path = adapter.info.name, os.fsencode(stale.source.location)
        if not _is_stale(self._fingerprints(agent, reader_version(adapter), path), stale):
            return  # another process was faster
        units: dict[str, int] = {}  # a session is entered before its number is used
        self._is_whole = False
        self._discard(agent, (path,))
        connection = self.index.connection
        try:
            with sqlite_errors(), transaction(connection):  # numbers of units must be unique
                (last,) = connection.execute(
                    "SELECT coalesce(max(unit), 0) FROM text_units"
                ).fetchone()
                for session, docs, locations in texts:
                    is_first = session not in units
                    unit = units.setdefault(session, last + len(units) + 1)
                    self.index.add_prepared(unit, docs)
                    if is_first:  # a source with locations comes in one batch
                        self._store_locations(unit, stale, locations)
                is_one = len(units) == 1 and stale.may_grow
                self._store_source(adapter, stale, checkpoint if is_one else None, unit=last + 1)
                connection.executemany(
                    "INSERT INTO text_members VALUES (?, ?, ?, ?)",
                    [
                        (agent, path, text_unit_key(agent, stale.source.location, session), unit)
                        for session, unit in units.items()
                    ],
                )
        except KeyboardInterrupt:
            for unit in units.values():
                self.index.drop(unit)
            self._discard(agent, (path,))
            self._is_whole = True
            raise
        self._is_whole = self.has_grown = True

    def _store_locations(self, unit: int, stale: _Stale, locations: bytes) -> None:
        if locations and stale.source.has_path:
            fingerprint = fingerprint_in(stale.fingerprint, stale.source.path)
            self.index.connection.execute(
                "INSERT OR REPLACE INTO text_locations VALUES (?, ?, ?, ?)",
                (unit, os.fsencode(stale.source.location), fingerprint, locations),
            )

    def _discard(self, agent: str, paths: Iterable[bytes]) -> None:
        with sqlite_errors():
            connection = self.index.connection
            for path in paths:
                key = (agent, path)
                rows = connection.execute(
                    "SELECT unit FROM text_members WHERE agent = ? AND path = ?", key
                ).fetchall()
                for (unit,) in rows:
                    self.index.drop(unit)
                connection.executemany("DELETE FROM text_locations WHERE unit = ?", rows)
                for table in ("text_members", "text_sources", "text_checkpoints"):
                    connection.execute(f"DELETE FROM {table} WHERE agent = ? AND path = ?", key)  # noqa: S608 - constants


def _size_of(stale: Iterable[tuple[Adapter, Sequence[_Stale]]]) -> int:
    return sum(each.size for _, some in stale for each in some)


def _fingerprinted(adapter: Adapter, sources: Iterable[SourceRef]) -> Iterator[_Stale]:
    fingerprints = Fingerprints(adapter)
    for source in sources:
        now = fingerprints.of(source)
        is_in_use = now.changed_ns > time.time_ns() - GROWS_NS
        yield _Stale(source, now.stored, now.size, is_in_use)


def _is_stale(stored: Mapping[bytes, bytes], now: _Stale) -> bool:
    before = stored.get(os.fsencode(now.source.location))
    return now.fingerprint == UNSETTLED or before != now.fingerprint


def _texts(
    adapter: Adapter, sources: Sequence[SourceRef], *, shared: bool
) -> Iterator[tuple[int, Iterable[_Texts], Checkpoint | None]]:
    """Yield the texts of all sources; small ones are read on all cores."""
    small = [n for n, source in enumerate(sources) if total_size((source,)) <= _MAX_SHARED_BYTES]
    missing = set(range(len(sources)))
    work = partial(_encoded_texts, adapter, sources)
    can_share = shared and not isinstance(adapter, Fingerprinted)
    for position, result in work_through(small, work, workers=core_count() if can_share else 1):
        missing.discard(small[position])
        yield small[position], *unpack(result, _TEXTS)
    for number in sorted(missing):
        batches, checkpoint = source_texts(adapter, sources[number], tools=HAS_TOOLS)
        yield number, map(_prepared, batches), checkpoint


def _encoded_texts(adapter: Adapter, sources: Sequence[SourceRef], number: int) -> bytes:
    batches, checkpoint = source_texts(adapter, sources[number], tools=HAS_TOOLS)
    return pack((list(map(_prepared, batches)), checkpoint))


def _prepared(batch: Batch) -> _Texts:
    session, docs = batch
    return session, prepare(docs), pack_locations(docs)


def open_texts(database: IndexDatabase) -> TextDatabase:
    """Return the text index beside an index; it is created if necessary."""
    if database.texts is None:
        database.texts = TextDatabase(database.text_path)
    return database.texts


def update_texts(
    catalog: SourceCatalog,
    database: IndexDatabase,
    environment: ResultEnvironment,
    agents: Iterable[str],
    *,
    progress: ReportProgress | None,
) -> tuple[TextDatabase, list[str]]:
    """Update the texts of some agents; return them and the agents whose texts are current.

    The rows of these agents must be up to date: the snapshot of the files that was stored with the
    rows says whether the texts are current, so that no adapter is loaded for an agent without
    changes. An agent whose own full-text index is complete has no texts here.
    """
    texts = open_texts(database)
    freshness = Freshness(database, "sessions", environment.fingerprint_for)
    recorded = texts.states()
    present = agents_with_rows(database) | recorded.keys()
    fingerprint = environment.fingerprint()  # without runs: no text depends on them
    snapshots = {agent: freshness.snapshot(agent) for agent in agents if agent in present}
    states = {agent: found and fingerprint + found for agent, found in snapshots.items()}
    stale = {a: state for a, state in states.items() if not state or recorded.get(a) != state}
    behind = {a: state for a, state in stale.items() if not catalog.has_complete_native_index(a)}
    if behind and texts.index.needs_rebuild:  # dead words can only be removed together
        database.remove_texts()
        texts = open_texts(database)
        behind = {
            a: state for a, state in states.items() if not catalog.has_complete_native_index(a)
        }
    if behind:
        found = [(catalog.adapter(agent), catalog.sources(agent)) for agent in behind]
        texts.update(found, progress=progress)
        texts.record(behind)
    current = texts.states().keys() - (stale.keys() - behind.keys())
    return texts, [agent for agent in states if agent in current]
