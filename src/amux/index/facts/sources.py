"""Stores the facts of every source of an agent, and updates them on request.

A source is read again only if its fingerprint or its adapter has changed; an append-only source is
read from its checkpoint. Facts are written in portions, so that an
interrupted update continues where it stopped. Two processes may do the same work; neither damages
the other's result.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec

from amux.adapters import load_builtin
from amux.adapters._base import Adapter, Checkpoint, Fingerprinted, SourceRef
from amux.index.database import IndexDatabase
from amux.index.facts.clusters import Clusters, SourceKeys
from amux.index.facts.stored_source import (
    BuildSingleSourceResult,
    SourceReader,
    StoredCheckpoint,
    StoredSource,
    decode_stored_source,
    line_keys,
    reader_version,
)
from amux.index.pool import work_through, worker_count
from amux.model.facts import Facts
from amux.model.problems import Problem
from amux.reading.fingerprint import UNSETTLED, Fingerprints, total_size

ReportProgress = Callable[[int, int], None]
"""Called with the number of bytes that were read and the number of all bytes to read."""

_PORTION: Final = 256
_ENTRIES: Final = msgspec.msgpack.Decoder(StoredSource)
_WRITE: Final = """
INSERT INTO source (agent, path, size, reader, fingerprint, digest, own, named, content, titled,
  offset) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (agent, path) DO UPDATE SET size = excluded.size, reader = excluded.reader,
  fingerprint = excluded.fingerprint, digest = excluded.digest, own = excluded.own,
  named = excluded.named, content = excluded.content, titled = excluded.titled,
  offset = excluded.offset
"""
# A separate table: scanning all sources must not read all of their facts.
_WRITE_READING: Final = """
INSERT OR REPLACE INTO reading (id, facts, lines, prefix_digest, state)
SELECT id, ?, ?, ?, ? FROM source WHERE agent = ? AND path = ?
"""
_VERSIONS: Final = "id, path, fingerprint, digest"
_LOAD: Final = f"SELECT {_VERSIONS}, facts, lines FROM source JOIN reading USING (id)"  # noqa: S608 - constants


class _SourceState(msgspec.Struct, frozen=True):
    """The columns of a stored source that show whether it is current."""

    id: int
    fingerprint: bytes
    reader: str


class SourceVersion(NamedTuple):
    """Identifies one stored reading of a source."""

    number: int
    path: bytes
    fingerprint: bytes
    digest: bytes

    @property
    def key(self) -> bytes:
        """The part of the version that results depend on."""
        return b"%d %s %s;" % (self.number, self.fingerprint, self.digest)


class SingleSourceResult(NamedTuple):
    """The encoded cluster result of one source, and the reading it was built from."""

    fingerprint: bytes
    digest: bytes
    result: bytes


class LoadedSource(NamedTuple):
    """The facts and problems of a stored source."""

    version: SourceVersion
    facts: tuple[Facts, ...]
    problems: tuple[Problem, ...]


class SourceIndex:
    """The stored sources of one agent."""

    def __init__(self, database: IndexDatabase, agent: str, adapter: Adapter) -> None:
        self._database = database
        self._agent = agent
        self._adapter = adapter
        self._reader = reader_version(adapter)

    def update(
        self,
        sources: Sequence[SourceRef],
        *,
        progress: ReportProgress | None = None,
        build_result: BuildSingleSourceResult | None = None,
        stale: Sequence[SourceRef] | None = None,
    ) -> dict[bytes, SingleSourceResult]:
        """Read new and changed sources (`stale`, if the caller knows them) and delete missing ones.

        Return the result of every source that was read, by path; it is b"" without `build_result`.
        """
        states, fingerprints = self._states(), Fingerprints(self._adapter)
        present = {os.fsencode(source.location) for source in sources}
        gone = [(row.id,) for path, row in states.items() if path not in present]
        if stale is None:
            stale = self._stale(states, sources, fingerprints)
        if gone:
            with self._database.writing() as connection:
                connection.executemany("DELETE FROM reading WHERE id = ?", gone)
                connection.executemany("DELETE FROM source WHERE id = ?", gone)
        reader = SourceReader(self._adapter, build_result=build_result, fingerprints=fingerprints)
        return self._read(reader, stale, progress=progress) if stale else {}

    def stale(self, sources: Sequence[SourceRef]) -> list[SourceRef]:
        """Return the sources that an update would read."""
        return self._stale(self._states(), sources, Fingerprints(self._adapter))

    def stored(self, path: bytes) -> tuple[tuple[Facts, ...], tuple[Problem, ...]] | None:
        """Return the facts and problems of one stored source; None if there is none."""
        with self._database.guarded() as connection:
            row = connection.execute(
                "SELECT facts, lines FROM source JOIN reading USING (id)"
                " WHERE agent = ? AND path = ?",
                (self._agent, path),
            ).fetchone()
            return None if row is None else decode_stored_source(*row)

    def _states(self) -> dict[bytes, _SourceState]:
        with self._database.guarded() as connection:
            rows = connection.execute(
                "SELECT path, id, fingerprint, reader FROM source WHERE agent = ?", (self._agent,)
            )
            return {row[0]: _SourceState(*row[1:]) for row in rows}

    def _stale(
        self,
        states: dict[bytes, _SourceState],
        sources: Sequence[SourceRef],
        fingerprints: Fingerprints,
    ) -> list[SourceRef]:
        def is_current(source: SourceRef) -> bool:
            row = states.get(os.fsencode(source.location))
            return (
                row is not None
                and row.reader == self._reader
                and row.fingerprint != UNSETTLED
                and row.fingerprint == fingerprints.of(source).stored
            )

        return [source for source in sources if not is_current(source)]

    def _read(
        self,
        reader: SourceReader,
        stale: Sequence[SourceRef],
        *,
        progress: ReportProgress | None,
    ) -> dict[bytes, SingleSourceResult]:
        sizes = [total_size((source,)) for source in stale]
        size, done = sum(sizes), 0
        workers = 1 if isinstance(self._adapter, Fingerprinted) else worker_count(size)
        checkpoints = self._checkpoints(stale)
        work = partial(_read_encoded, reader, checkpoints)
        is_builtin = self._adapter is load_builtin(self._agent)
        portable = partial(_read_apart, self._agent, checkpoints) if is_builtin else None
        results: dict[bytes, SingleSourceResult] = {}
        portion: list[tuple[SourceRef, StoredSource]] = []
        missing = dict(enumerate(stale))
        try:
            for number, result in work_through(stale, work, workers=workers, portable=portable):
                source, entry = missing.pop(number), _ENTRIES.decode(result)
                portion.append((source, entry))
                results[os.fsencode(source.location)] = SingleSourceResult(
                    entry.fingerprint, entry.digest, entry.result
                )
                done += sizes[number]
                if progress is not None:
                    progress(done, size)
                if len(portion) >= _PORTION:
                    self._write(portion)
            # A worker died while reading the missing sources; reading them here shows the error.
            entries = map(_ENTRIES.decode, work(0, iter(missing.values())))
            portion.extend(zip(missing.values(), entries, strict=True))
        finally:
            self._write(portion)
        return results

    def _checkpoints(self, stale: Sequence[SourceRef]) -> dict[bytes, StoredCheckpoint]:
        wanted = {os.fsencode(source.location) for source in stale}
        with self._database.guarded() as connection:
            rows = connection.execute(
                "SELECT path, offset, prefix_digest, state FROM source JOIN reading USING (id)"
                " WHERE agent = ? AND reader = ? AND offset > 0",
                (self._agent, self._reader),
            )
            return {
                path: StoredCheckpoint(Checkpoint(offset=offset, state=state), prefix_digest)
                for path, offset, prefix_digest, state in rows
                if path in wanted
            }

    def _write(self, portion: list[tuple[SourceRef, StoredSource]]) -> None:
        rows = [
            (
                self._agent, os.fsencode(source.location), entry.size, self._reader,
                entry.fingerprint, entry.digest, entry.keys.own, entry.keys.named,
                entry.keys.content, entry.keys.titled, entry.offset,
            )
            for source, entry in portion
        ]  # fmt: skip
        readings = [
            (entry.facts, entry.lines, entry.prefix_digest, entry.state, *row[:2])
            for row, (_, entry) in zip(rows, portion, strict=True)
        ]
        portion.clear()
        if rows:
            with self._database.writing() as connection:
                connection.executemany(_WRITE, rows)
                connection.executemany(_WRITE_READING, readings)

    def clusters(self) -> Clusters:
        """Return the clusters of sources that affect each other."""
        clusters = Clusters()
        titled: list[tuple[int, bytes]] = []
        with self._database.guarded() as connection:
            rows = connection.execute(
                "SELECT id, own, named, content, titled FROM source WHERE agent = ?", (self._agent,)
            )
            for number, *fields in rows:
                keys = SourceKeys(*fields)
                clusters.add(number, keys)
                if keys.titled:
                    titled.append((number, keys.titled))
            if titled:
                for number, lines in titled:
                    clusters.add_notes(number, lines)
                readings = connection.execute(
                    "SELECT id, lines FROM source JOIN reading USING (id) WHERE agent = ?",
                    (self._agent,),
                )
                for number, lines in readings:
                    clusters.add_lines(number, line_keys(lines))
        return clusters

    def versions(self) -> dict[int, SourceVersion]:
        """Return the version of every stored source by number."""
        with self._database.guarded() as connection:
            rows = connection.execute(
                f"SELECT {_VERSIONS} FROM source WHERE agent = ?",  # noqa: S608 - constants
                (self._agent,),
            )
            return {row[0]: SourceVersion(*row) for row in rows}

    def load_all(self) -> Iterator[LoadedSource]:
        """Yield all stored sources by ascending number."""
        last = 0
        while True:
            with self._database.guarded() as connection:
                rows = connection.execute(
                    f"{_LOAD} WHERE agent = ? AND id > ? ORDER BY id LIMIT ?",
                    (self._agent, last, _PORTION),
                ).fetchall()
            for row in rows:
                with self._database.guarded():
                    loaded = _loaded(row)
                yield loaded
            if not rows:
                return
            last = rows[-1][0]

    def load(self, numbers: Sequence[int]) -> list[LoadedSource | None]:
        """Return some stored sources in the given order; None for one that was deleted."""
        with self._database.reading() as connection:
            rows = [
                connection.execute(f"{_LOAD} WHERE id = ?", (number,)).fetchone()
                for number in numbers
            ]
            return [None if row is None else _loaded(row) for row in rows]


def _loaded(row: Sequence[Any]) -> LoadedSource:
    return LoadedSource(SourceVersion(*row[:-2]), *decode_stored_source(*row[-2:]))


def _read_encoded(
    reader: SourceReader,
    stored: dict[bytes, StoredCheckpoint],
    worker: int,
    sources: Iterator[SourceRef],
) -> Generator[bytes]:
    del worker
    for source in sources:
        entry = reader.stored_source(source, stored.get(os.fsencode(source.location)))
        yield msgspec.msgpack.encode(entry)


def _read_apart(
    agent: str,
    stored: dict[bytes, StoredCheckpoint],
    worker: int,
    sources: Iterator[SourceRef],
) -> Generator[bytes]:
    """Read sources in a spawned worker, without building results: rates may not be pickled."""
    adapter = load_builtin(agent)
    if adapter is not None:
        yield from _read_encoded(SourceReader(adapter), stored, worker, sources)
