"""The texts of all sources, brought up to date: what has changed is forgotten and read again.

Of an append-only source that has grown only what is new is read. One file beside the index, as
disposable as that. A session of a source is a unit; which unit it is, is kept with the stamp the
source had when it was read.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from amux.adapters._base import Adapter, Checkpoint, Fingerprinted, SourceRef
from amux.index.codec import pack, unpack
from amux.index.errors import TextIndexError
from amux.index.facts.stored_source import GROWS_NS, prefix_digest, reader_version
from amux.index.freshness import Freshness
from amux.index.pool import core_count, work_through
from amux.index.rows.stored_session import agents_with_rows, text_unit_key
from amux.index.text.documents import Batch, source_texts, texts_behind
from amux.index.text.engine import PreparedDoc, TextIndex, prepare
from amux.index.text.locations import pack_locations
from amux.index.text.tables import sqlite_errors, transaction
from amux.reading.fingerprint import UNSETTLED, Fingerprints, fingerprint_in, total_size
from amux.reading.message_locations import MessageLocations
from amux.reading.sources import SourceCatalog

CHECKPOINTS_TABLE: Final = """
CREATE TABLE IF NOT EXISTS text_rests (
  agent TEXT NOT NULL, path BLOB NOT NULL, unit INTEGER NOT NULL, offset INTEGER NOT NULL,
  state BLOB NOT NULL, size INTEGER NOT NULL, edge BLOB NOT NULL, PRIMARY KEY (agent, path)
) WITHOUT ROWID;
"""


class TextCheckpoint(NamedTuple):
    """How far a source was read into a unit, the size it had then, and what stood at its edges.

    Messages behind that place are in the unit as well, as far as they were there.
    """

    unit: int
    checkpoint: Checkpoint
    size: int
    prefix_digest: bytes


class TextCheckpoints:
    """The rests in one database, by agent and path."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection

    def of(self, agent: str, path: bytes, maker: str) -> TextCheckpoint | None:
        """Where a source was left by the same maker; None: nowhere."""
        row = self._db.execute(
            "SELECT unit, CAST(offset AS INTEGER), CAST(state AS BLOB), CAST(size AS INTEGER),"
            " CAST(edge AS BLOB) FROM text_rests JOIN text_sources USING (agent, path)"
            " WHERE agent = ? AND path = ? AND maker = ?",
            (agent, path, maker),
        ).fetchone()
        if row is None:
            return None
        unit, offset, state, size, edge = row
        return TextCheckpoint(unit, Checkpoint(offset=offset, state=state), size, edge)

    def write(self, agent: str, path: bytes, rest: TextCheckpoint) -> None:
        """Note where a source was left."""
        checkpoint = rest.checkpoint
        self._db.execute(
            "INSERT OR REPLACE INTO text_rests VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                agent,
                path,
                rest.unit,
                checkpoint.offset,
                checkpoint.state,
                rest.size,
                rest.prefix_digest,
            ),
        )

    def discard(self, agent: str, path: bytes) -> None:
        """It has to be read from its beginning."""
        self._db.execute("DELETE FROM text_rests WHERE agent = ? AND path = ?", (agent, path))


if TYPE_CHECKING:
    from amux.index.database import IndexDatabase
    from amux.index.result_environment import ResultEnvironment

Watch = Callable[[int, int], None]
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS text_sources (
  agent TEXT NOT NULL, path BLOB NOT NULL, stamp BLOB NOT NULL, maker TEXT NOT NULL,
  PRIMARY KEY (agent, path)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS text_members (
  agent TEXT NOT NULL, path BLOB NOT NULL, key INTEGER NOT NULL, unit INTEGER NOT NULL,
  PRIMARY KEY (agent, path, unit)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS text_answers (
  agent TEXT PRIMARY KEY, state BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS text_spots (
  unit INTEGER PRIMARY KEY, path BLOB NOT NULL, mark BLOB NOT NULL, spots BLOB NOT NULL
);
"""
_BULK: Final = 4 << 20
_SAVED_EVERY: Final = 32 << 20
_SHARED_AT_MOST: Final = 8 << 20
"""Larger sources are read here, batch by batch: their texts would not fit into memory twice."""

HAS_TOOLS: Final = True
"""Whether the texts hold what tools were given and said, not only what people and models said."""

_Ready = tuple[str, list[PreparedDoc], bytes]
"""A session, some of its documents as they are added, and where these lie."""

_READY: Final = msgspec.msgpack.Decoder(tuple[list[_Ready], Checkpoint | None])


class _Stale(NamedTuple):
    """A source to be read, and the stamp it has."""

    source: SourceRef
    stamp: bytes
    size: int
    may_grow: bool


class _Progress:
    """How much is done, told to whoever watches."""

    def __init__(self, total: int, watch: Watch | None) -> None:
        self.total = total
        self._watch = watch
        self._done = 0
        self._saved = 0

    def add(self, size: int) -> bool:
        """Note that some more is done; whether it is time to save."""
        self._done += size
        if self._watch is not None:
            self._watch(self._done, self.total)
        is_due = self._done - self._saved > _SAVED_EVERY
        self._saved = self._done if is_due else self._saved
        return is_due


class TextDatabase:
    """The text index of one home and what is in it."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        self.index = TextIndex.open(path)
        self._units_of: dict[str, tuple[tuple[int, ...], dict[int, int]]] = {}
        with sqlite_errors():
            self.index.connection.executescript(_TABLES + CHECKPOINTS_TABLE)
        self._rests = TextCheckpoints(self.index.connection)
        self._is_whole = True  # no source is half written
        self.has_grown = False

    def close(self) -> None:
        """Free the file handle."""
        self.index.close()

    def units(self, agent: str) -> dict[int, int]:
        """Every session of every source of an agent that has texts, by its `place_key`."""
        version = self.version()
        with sqlite_errors():
            if self._units_of.get(agent, ((), {}))[0] != version:
                rows = self.index.connection.execute(
                    "SELECT key, unit FROM text_members WHERE agent = ?", (agent,)
                )
                self._units_of[agent] = version, dict(rows.fetchall())
        return self._units_of[agent][1]

    def locations(self, units: Sequence[int]) -> dict[int, MessageLocations]:
        """Where the messages of some units lie, as far as anybody knows."""
        marks = ", ".join("?" * len(units))
        with sqlite_errors():
            rows = self.index.connection.execute(
                "SELECT unit, CAST(path AS BLOB), CAST(mark AS BLOB), CAST(spots AS BLOB)"  # noqa: S608 - question marks only
                f" FROM text_spots WHERE unit IN ({marks})",
                units,
            )
            return {
                unit: MessageLocations(path, mark, columns) for unit, path, mark, columns in rows
            }

    def version(self) -> tuple[int, int]:
        """Changes whenever anything is written, by this process or another."""
        with sqlite_errors():
            connection = self.index.connection
            (foreign,) = connection.execute("PRAGMA data_version").fetchone()
            return foreign, connection.total_changes

    def agents(self) -> set[str]:
        """Whose texts are here."""
        with sqlite_errors():
            rows = self.index.connection.execute("SELECT agent FROM text_answers")
            return {agent for (agent,) in rows}

    def is_current(self, agent: str, state: bytes) -> bool:
        """Whether the agent's texts were read when its files were in this state."""
        with sqlite_errors():
            row = self.index.connection.execute(
                "SELECT state FROM text_answers WHERE agent = ?", (agent,)
            ).fetchone()
        return bool(state) and row is not None and bytes(row[0]) == state

    def record(self, states: Mapping[str, bytes]) -> None:
        """Note the states that the files of some agents were in before they were read."""
        with sqlite_errors(), transaction(self.index.connection):
            self.index.connection.executemany(
                "INSERT OR REPLACE INTO text_answers VALUES (?, ?)", states.items()
            )

    def current(self, adapter: Adapter, sources: Sequence[SourceRef]) -> int:
        """How many of some sources have their texts here as they are now; changes nothing."""
        known = self._stamps(adapter.info.name, reader_version(adapter))
        return sum(not _is_stale(known, each) for each in _fingerprinted(adapter, sources))

    def update(
        self,
        wanted: Iterable[tuple[Adapter, Sequence[SourceRef]]],
        *,
        watch: Watch | None = None,
    ) -> None:
        """Read the texts of what is new or has changed, forget those of what is gone.

        All agents in one go: what a bulk load has added is put together once, at its end; at the
        end of the next update, if it was interrupted.
        """
        stale = [(adapter, self._stale(adapter, sources)) for adapter, sources in wanted]
        progress = _Progress(_size_of(stale), watch)
        whole = [
            (adapter, [each for each in some if not self._resume_read(adapter, each, progress)])
            for adapter, some in stale
        ]
        if _size_of(whole) <= _BULK and not self.index.is_unfinished:
            for adapter, some in whole:
                self._read(adapter, some, progress, in_bulk=False)
            return
        self.index.begin_bulk()
        try:
            for adapter, some in whole:
                self._read(adapter, some, progress, in_bulk=True)
            self.index.save()
            self._is_whole = False  # from here on there is nothing to keep
            self.index.finish_bulk()
        except BaseException:
            with suppress(TextIndexError):  # what went wrong first is told
                self.index.leave_bulk(keep=self._is_whole)
            raise
        finally:
            self._is_whole = True

    def _stale(self, adapter: Adapter, sources: Sequence[SourceRef]) -> list[_Stale]:
        """What is to be read; the texts of sources that are gone are forgotten."""
        agent = adapter.info.name
        known = self._stamps(agent, reader_version(adapter))
        now = {os.fsencode(each.source.location): each for each in _fingerprinted(adapter, sources)}
        self._discard(agent, known.keys() - now.keys())
        return [each for each in now.values() if _is_stale(known, each)]

    def _stamps(self, agent: str, maker: str) -> dict[bytes, bytes]:
        with sqlite_errors():
            rows = self.index.connection.execute(
                "SELECT path, CASE maker WHEN ? THEN stamp ELSE x'' END FROM text_sources"
                " WHERE agent = ?",
                (maker, agent),
            )
            return dict(rows.fetchall())

    def _is_read(self, adapter: Adapter, stale: _Stale) -> bool:
        """Whether the texts of a source are here as it is now."""
        known = (
            adapter.info.name,
            os.fsencode(stale.source.location),
            stale.stamp,
            reader_version(adapter),
        )
        with sqlite_errors():
            found = self.index.connection.execute(
                "SELECT 1 FROM text_sources"
                " WHERE agent = ? AND path = ? AND stamp = ? AND maker = ?",
                known,
            ).fetchone()
        return found is not None and stale.stamp != UNSETTLED

    def _read(
        self, adapter: Adapter, stale: Sequence[_Stale], progress: _Progress, *, in_bulk: bool
    ) -> None:
        sources = [each.source for each in stale]
        for number, texts, left in _texts(adapter, sources, shared=in_bulk):
            self._replace(adapter, stale[number], texts, left)
            if progress.add(stale[number].size) and in_bulk:
                self.index.save()

    def _resume_read(self, adapter: Adapter, stale: _Stale, progress: _Progress) -> bool:
        """Read only what is new in a source; False: it has to be read as a whole."""
        agent, path = adapter.info.name, os.fsencode(stale.source.location)
        with sqlite_errors():
            rest = self._rests.of(agent, path, reader_version(adapter))
        if rest is None or prefix_digest(stale.source, rest.size) != rest.prefix_digest:
            return False
        texts = texts_behind(adapter, stale.source, rest.checkpoint)
        if texts is None:
            return False
        with sqlite_errors(), transaction(self.index.connection):
            if self._rests.of(agent, path, reader_version(adapter)) != rest:
                return False  # somebody else was quicker
            for _, docs in texts.batches:
                self.index.add(rest.unit, docs)
                spots = pack_locations(docs, self.locations((rest.unit,)).get(rest.unit))
                self._store_locations(rest.unit, stale, spots)
            self._store_source(adapter, stale, texts.checkpoint, unit=rest.unit)
        progress.add(stale.size)
        return True

    def _store_source(
        self, adapter: Adapter, stale: _Stale, checkpoint: Checkpoint | None, *, unit: int
    ) -> None:
        """Note how a source was when it was read, and how far that was."""
        agent, path = adapter.info.name, os.fsencode(stale.source.location)
        self.index.connection.execute(
            "INSERT OR REPLACE INTO text_sources VALUES (?, ?, ?, ?)",
            (agent, path, stale.stamp, reader_version(adapter)),
        )
        size = 0 if checkpoint is None else max(checkpoint.offset, stale.size)  # it may have grown
        edge = prefix_digest(stale.source, size) if size else b""
        if checkpoint is not None and edge:
            self._rests.write(agent, path, TextCheckpoint(unit, checkpoint, size, edge))
        else:
            self._rests.discard(agent, path)

    def _replace(
        self,
        adapter: Adapter,
        stale: _Stale,
        texts: Iterable[_Ready],
        checkpoint: Checkpoint | None,
    ) -> None:
        """Put the texts of a source in the place of those it had; all of them, or none."""
        agent, path = adapter.info.name, os.fsencode(stale.source.location)
        if self._is_read(adapter, stale):
            return  # somebody else was quicker
        units: dict[str, int] = {}
        self._is_whole = False
        self._discard(agent, (path,))
        try:
            self._add(adapter, stale, texts, checkpoint, units)
        except KeyboardInterrupt:
            for unit in units.values():
                self.index.drop(unit)
            self._discard(agent, (path,))
            self._is_whole = True
            raise
        self._is_whole = self.has_grown = True

    def _add(
        self,
        adapter: Adapter,
        stale: _Stale,
        texts: Iterable[_Ready],
        checkpoint: Checkpoint | None,
        units: dict[str, int],
    ) -> None:
        """Add the texts of a source; the number of each session is noted before it is used."""
        agent, source = adapter.info.name, stale.source
        path = os.fsencode(source.location)
        connection = self.index.connection
        with sqlite_errors(), transaction(connection):  # nobody else may take the same number
            (last,) = connection.execute("SELECT coalesce(max(unit), 0) FROM text_units").fetchone()
            for session, docs, spots in texts:
                is_first = session not in units
                unit = units.setdefault(session, last + len(units) + 1)
                self.index.add_prepared(unit, docs)
                if is_first:  # a source that comes in one piece, as scans do
                    self._store_locations(unit, stale, spots)
            is_one = len(units) == 1 and stale.may_grow
            self._store_source(adapter, stale, checkpoint if is_one else None, unit=last + 1)
            connection.executemany(
                "INSERT INTO text_members VALUES (?, ?, ?, ?)",
                [
                    (agent, path, text_unit_key(agent, source.location, session), unit)
                    for session, unit in units.items()
                ],
            )

    def _store_locations(self, unit: int, stale: _Stale, spots: bytes) -> None:
        """Note where messages lie in the file as it was."""
        if spots and stale.source.has_path:
            mark = fingerprint_in(stale.stamp, stale.source.path)
            self.index.connection.execute(
                "INSERT OR REPLACE INTO text_spots VALUES (?, ?, ?, ?)",
                (unit, os.fsencode(stale.source.location), mark, spots),
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
                connection.executemany("DELETE FROM text_spots WHERE unit = ?", rows)
                connection.execute("DELETE FROM text_members WHERE agent = ? AND path = ?", key)
                connection.execute("DELETE FROM text_sources WHERE agent = ? AND path = ?", key)
                self._rests.discard(*key)


def _size_of(stale: Iterable[tuple[Adapter, Sequence[_Stale]]]) -> int:
    return sum(each.size for _, some in stale for each in some)


def _fingerprinted(adapter: Adapter, sources: Iterable[SourceRef]) -> Iterator[_Stale]:
    fingerprints = Fingerprints(adapter)
    for source in sources:
        now = fingerprints.of(source)
        is_in_use = now.changed_ns > time.time_ns() - GROWS_NS
        yield _Stale(source, now.stored, now.size, is_in_use)


def _is_stale(known: Mapping[bytes, bytes], seen: _Stale) -> bool:
    kept = known.get(os.fsencode(seen.source.location))
    return seen.stamp == UNSETTLED or kept != seen.stamp


def _texts(
    adapter: Adapter, sources: Sequence[SourceRef], *, shared: bool
) -> Iterator[tuple[int, Iterable[_Ready], Checkpoint | None]]:
    """The texts of all sources, small ones on all cores."""
    small = [n for n, source in enumerate(sources) if total_size((source,)) <= _SHARED_AT_MOST]
    missing = set(range(len(sources)))
    work = partial(_encoded_texts, adapter, sources)
    can_share = shared and not isinstance(adapter, Fingerprinted)
    for place, result in work_through(small, work, workers=core_count() if can_share else 1):
        missing.discard(small[place])
        yield small[place], *unpack(result, _READY)
    for number in sorted(missing):
        batches, checkpoint = source_texts(adapter, sources[number], tools=HAS_TOOLS)
        yield number, map(_ready, batches), checkpoint


def _encoded_texts(adapter: Adapter, sources: Sequence[SourceRef], number: int) -> bytes:
    batches, checkpoint = source_texts(adapter, sources[number], tools=HAS_TOOLS)
    return pack((list(map(_ready, batches)), checkpoint))


def _ready(batch: Batch) -> _Ready:
    session, docs = batch
    return session, prepare(docs), pack_locations(docs)


def update_texts(
    catalog: SourceCatalog,
    database: IndexDatabase,
    environment: ResultEnvironment,
    agents: Iterable[str],
    *,
    watch: Watch | None,
) -> tuple[TextDatabase, list[str]]:
    """Update the texts of some agents; return them and the agents whose texts are current.

    The rows of these agents must be up to date: the snapshot of the files that was stored with the
    rows says whether the texts are current, so that no adapter is loaded for an agent without
    changes. An agent whose own full-text index is complete has no texts here.
    """
    texts = database.texts()
    freshness = Freshness(database, "sessions", environment.fingerprint_for)
    present = agents_with_rows(database) | texts.agents()
    fingerprint = environment.fingerprint()  # without runs: no text depends on them
    snapshots = {agent: freshness.snapshot(agent) for agent in agents if agent in present}
    states = {agent: found and fingerprint + found for agent, found in snapshots.items()}
    stale = {a: state for a, state in states.items() if not texts.is_current(a, state)}
    behind = {a: state for a, state in stale.items() if not catalog.has_complete_native_index(a)}
    if behind and texts.index.needs_rebuild:  # dead words can only be removed together
        database.remove_texts()
        texts = database.texts()
        behind = {
            a: state for a, state in states.items() if not catalog.has_complete_native_index(a)
        }
    if behind:
        found = [(catalog.adapter(agent), catalog.sources(agent)) for agent in behind]
        texts.update(found, watch=watch)
        texts.record(behind)
    current = texts.agents().difference(stale.keys() - behind.keys())
    return texts, [agent for agent in states if agent in current]
