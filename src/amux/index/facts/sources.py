"""What every source said when it was last read, brought up to date on request.

A source is read again only when its stamp, its adapter or the depth asked for has changed; an
append-only one from where it was left. What has been read is kept in portions, so that an
interrupted update goes on where it stopped. Two processes may do the same work; neither spoils the
other's.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec

from amux.adapters._base import Adapter, Checkpoint, Fingerprinted, SourceRef
from amux.index.database import IndexDatabase
from amux.index.facts.clusters import Clusters, SourceKeys
from amux.index.facts.stored_source import (
    BuildSingleSourceResult,
    Depth,
    SourceReader,
    StoredCheckpoint,
    StoredSource,
    decode_stored_source,
    line_keys,
    reader_version,
)
from amux.index.pool import core_count, work_through
from amux.index.rows.query import SUBAGENT
from amux.model.facts import Facts
from amux.model.problems import Problem
from amux.reading.fingerprint import UNSETTLED, Fingerprints, total_size

ReportProgress = Callable[[int, int], None]
"""Told how many of how many bytes are done."""

_PORTION: Final = 256
_WORTH_SHARING: Final = 8 << 20
_ENTRIES: Final = msgspec.msgpack.Decoder(StoredSource)
_WRITE: Final = """
INSERT INTO source (agent, path, size, maker, stamp, digest, depth, own, named, content, noted,
  offset) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (agent, path) DO UPDATE SET size = excluded.size, maker = excluded.maker,
  stamp = excluded.stamp, digest = excluded.digest, depth = excluded.depth, own = excluded.own,
  named = excluded.named, content = excluded.content, noted = excluded.noted,
  offset = excluded.offset
-- Another process may have read more of the same file meanwhile.
WHERE depth <= excluded.depth OR stamp != excluded.stamp OR maker != excluded.maker
"""
# Apart, so that looking through all sources does not turn over everything they said.
_WRITE_READING: Final = """
INSERT OR REPLACE INTO reading (id, facts, lines, edge, state)
SELECT id, ?, ?, ?, ? FROM source WHERE agent = ? AND path = ? AND depth = ? AND digest = ?
"""
_VERSIONS: Final = "id, path, depth, stamp, digest"


class KnownSource(msgspec.Struct, frozen=True):
    """A kept source as far as it is needed to see whether it still holds."""

    id: int
    stamp: bytes
    maker: str
    depth: int


class SourceVersion(NamedTuple):
    """What is kept of a source, told apart from what was or will be kept of it."""

    number: int
    path: bytes
    depth: int
    stamp: bytes
    digest: bytes

    @property
    def key(self) -> bytes:
        """All of it that results depend on."""
        return b"%d %s %s;" % (self.number, self.stamp, self.digest)


class SingleSourceResult(NamedTuple):
    """What came of a source by itself, and which reading of it that was."""

    stamp: bytes
    digest: bytes
    result: bytes


class LoadedSource(NamedTuple):
    """What a source said."""

    version: SourceVersion
    facts: tuple[Facts, ...]
    problems: tuple[Problem, ...]


class SourceIndex:
    """The sources of one agent in the index."""

    def __init__(self, database: IndexDatabase, agent: str, adapter: Adapter) -> None:
        self._database = database
        self._agent = agent
        self._adapter = adapter
        self._maker = reader_version(adapter)  # facts of another version of an adapter do not count

    def update(
        self,
        sources: Sequence[SourceRef],
        depth: Depth,
        *,
        watch: ReportProgress | None = None,
        alone: BuildSingleSourceResult | None = None,
        stale: Sequence[SourceRef] | None = None,
    ) -> dict[bytes, SingleSourceResult]:
        """Read what is new or has changed (`stale`, if that was looked at), forget what is gone.

        Of every source that was read: what comes of it by itself, if that is asked for.
        """
        known, fingerprints = self._known(), Fingerprints(self._adapter)
        present = {os.fsencode(source.location) for source in sources}
        gone = [row.id for path, row in known.items() if path not in present]
        if stale is None:
            stale = self._stale(known, sources, depth, fingerprints)
        deep = [source for source in stale if self._had_full_read(known, source)]
        if gone:
            with self._database.writing() as connection:
                numbers = [(number,) for number in gone]
                connection.executemany("DELETE FROM reading WHERE id = ?", numbers)
                connection.executemany("DELETE FROM source WHERE id = ?", numbers)
        reader = SourceReader(self._adapter, alone=alone, fingerprints=fingerprints)
        if depth is Depth.FACTS or not deep:
            return self._read(reader, stale, depth, watch=watch)
        # What a list has needed once, the next list will need again.
        shallow = [source for source in stale if not self._had_full_read(known, source)]
        results = self._read(reader, deep, Depth.FACTS, watch=watch)
        return results | self._read(reader, shallow, depth, watch=watch)

    def stale(self, sources: Sequence[SourceRef], depth: Depth) -> list[SourceRef]:
        """The sources that an update would read."""
        return self._stale(self._known(), sources, depth, Fingerprints(self._adapter))

    def stale_bytes(self, sources: Sequence[SourceRef], depth: Depth) -> int:
        """How many bytes of sources would be read by an update."""
        return total_size(self.stale(sources, depth))

    def counts(self) -> tuple[int, int, int]:
        """How many sources are kept, and how many sessions and sub-agents are listed of them."""
        with self._database.guarded() as connection:
            (sources,) = connection.execute(
                "SELECT count(*) FROM source WHERE agent = ?", (self._agent,)
            ).fetchone()
            sessions, subagents = connection.execute(
                "SELECT count(*), coalesce(sum(hidden & ? != 0), 0) FROM session WHERE agent = ?",
                (SUBAGENT, self._agent),
            ).fetchone()
        return sources, sessions - subagents, subagents

    def stored(self, path: bytes) -> tuple[Depth, tuple[Facts, ...], tuple[Problem, ...]] | None:
        """What is kept of one source, and how deep it was read."""
        with self._database.guarded() as connection:
            row = connection.execute(
                "SELECT depth, facts, lines FROM source JOIN reading USING (id)"
                " WHERE agent = ? AND path = ?",
                (self._agent, path),
            ).fetchone()
            return None if row is None else (Depth(row[0]), *decode_stored_source(row[1], row[2]))

    def deepen(self, sources: Sequence[SourceRef]) -> None:
        """Read some sources to full depth, whatever is known of them."""
        fingerprints = Fingerprints(self._adapter)
        wanting = self._stale(self._known(), sources, Depth.FACTS, fingerprints)
        reader = SourceReader(self._adapter, fingerprints=fingerprints)
        self._read(reader, wanting, Depth.FACTS, watch=None)

    def _known(self) -> dict[bytes, KnownSource]:
        with self._database.guarded() as connection:
            rows = connection.execute(
                "SELECT path, id, stamp, maker, depth FROM source WHERE agent = ?", (self._agent,)
            )
            return {row[0]: KnownSource(*row[1:]) for row in rows}

    def _stale(
        self,
        known: dict[bytes, KnownSource],
        sources: Sequence[SourceRef],
        depth: Depth,
        fingerprints: Fingerprints,
    ) -> list[SourceRef]:
        def is_current(source: SourceRef) -> bool:
            row = known.get(os.fsencode(source.location))
            return (
                row is not None
                and row.depth >= depth
                and row.maker == self._maker
                and row.stamp != UNSETTLED
                and row.stamp == fingerprints.of(source).stored
            )

        return [source for source in sources if not is_current(source)]

    @staticmethod
    def _had_full_read(known: dict[bytes, KnownSource], source: SourceRef) -> bool:
        row = known.get(os.fsencode(source.location))
        return row is not None and row.depth >= Depth.FACTS

    def _read(
        self,
        reader: SourceReader,
        stale: Sequence[SourceRef],
        depth: Depth,
        *,
        watch: ReportProgress | None,
    ) -> dict[bytes, SingleSourceResult]:
        if not stale:
            return {}
        sizes = [total_size((source,)) for source in stale]
        size, done = sum(sizes), 0
        can_share = size > _WORTH_SHARING and not isinstance(self._adapter, Fingerprinted)
        workers = core_count() if can_share else 1
        work = partial(_read_encoded, reader, depth, self._checkpoints(stale, depth))
        results: dict[bytes, SingleSourceResult] = {}
        portion: list[tuple[SourceRef, StoredSource]] = []
        missing = dict(enumerate(stale))
        try:
            for number, result in work_through(stale, work, workers=workers):
                source, entry = missing.pop(number), _ENTRIES.decode(result)
                portion.append((source, entry))
                alone = SingleSourceResult(entry.fingerprint, entry.digest, entry.result)
                results[os.fsencode(source.location)] = alone
                done += sizes[number]
                if watch is not None:
                    watch(done, size)
                if len(portion) >= _PORTION:
                    self._write(portion)
            # A worker has died over what is still missing; here its error is seen.
            portion.extend((source, _ENTRIES.decode(work(source))) for source in missing.values())
        finally:
            self._write(portion)
        return results

    def _checkpoints(
        self, stale: Sequence[SourceRef], depth: Depth
    ) -> dict[bytes, StoredCheckpoint]:
        """Where the sources were left, of those that can be read on at this depth."""
        wanted = {os.fsencode(source.location) for source in stale}
        with self._database.guarded() as connection:
            rows = connection.execute(
                "SELECT path, offset, edge, state FROM source JOIN reading USING (id)"
                " WHERE agent = ? AND maker = ? AND depth = ? AND offset > 0",
                (self._agent, self._maker, depth),
            )
            return {
                path: StoredCheckpoint(Checkpoint(offset=offset, state=state), edge)
                for path, offset, edge, state in rows
                if path in wanted
            }

    def _write(self, portion: list[tuple[SourceRef, StoredSource]]) -> None:
        rows = [
            (
                self._agent, os.fsencode(source.location), entry.size, self._maker,
                entry.fingerprint, entry.digest, entry.depth,
                entry.links.own, entry.links.named, entry.links.content, entry.links.noted,
                entry.offset,
            )
            for source, entry in portion
        ]  # fmt: skip
        readings = [
            (
                entry.facts,
                entry.lines,
                entry.prefix_digest,
                entry.state,
                *row[:2],
                entry.depth,
                entry.digest,
            )
            for row, (_, entry) in zip(rows, portion, strict=True)
        ]
        portion.clear()
        if rows:
            with self._database.writing() as connection:
                connection.executemany(_WRITE, rows)
                connection.executemany(_WRITE_READING, readings)

    def clusters(self, depth: Depth) -> Clusters:
        """Which sources bear on each other; by titles of each other's lines only at full depth."""
        clusters = Clusters()
        noted: list[tuple[int, bytes]] = []
        with self._database.guarded() as connection:
            rows = connection.execute(
                "SELECT id, own, named, content, noted FROM source WHERE agent = ?", (self._agent,)
            )
            for number, *keys in rows:
                links = SourceKeys(*keys)
                clusters.add(number, links)
                if links.noted:
                    noted.append((number, links.noted))
            if noted and depth is Depth.FACTS:
                for number, keys in noted:
                    clusters.add_notes(number, keys)
                lines = connection.execute(
                    "SELECT id, lines FROM source JOIN reading USING (id) WHERE agent = ?",
                    (self._agent,),
                )
                for number, kept in lines:
                    clusters.add_lines(number, line_keys(kept))
        return clusters

    def versions(self) -> dict[int, SourceVersion]:
        """Of every source: a mark that changes whenever what is kept of it does."""
        with self._database.guarded() as connection:
            rows = connection.execute(
                f"SELECT {_VERSIONS} FROM source WHERE agent = ?",  # noqa: S608 - names of our own
                (self._agent,),
            )
            return {row[0]: SourceVersion(*row) for row in rows}

    def load_all(self) -> Iterator[LoadedSource]:
        """What every source said, in the order they were kept."""
        last = 0
        while rows := self._rows_after(last):
            for *marked, facts, lines in rows:
                with self._database.guarded():
                    decoded = decode_stored_source(facts, lines)
                yield LoadedSource(SourceVersion(*marked), *decoded)
            last = rows[-1][0]

    def _rows_after(self, last: int) -> list[Any]:
        with self._database.guarded() as connection:
            return connection.execute(
                f"SELECT {_VERSIONS}, facts, lines FROM source JOIN reading USING (id)"  # noqa: S608 - names of our own
                " WHERE agent = ? AND id > ?"
                " ORDER BY id LIMIT ?",
                (self._agent, last, _PORTION),
            ).fetchall()

    def load(self, numbers: Sequence[int]) -> list[LoadedSource | None]:
        """What some sources said, in the order asked for; None: it was forgotten meanwhile."""
        loaded: list[LoadedSource | None] = []
        with self._database.reading() as connection:
            for number in numbers:
                row: tuple[Any, ...] | None = connection.execute(
                    f"SELECT {_VERSIONS}, facts, lines FROM source JOIN reading USING (id)"  # noqa: S608 - likewise
                    " WHERE id = ?",
                    (number,),
                ).fetchone()
                if row is None:
                    loaded.append(None)
                else:
                    loaded.append(
                        LoadedSource(SourceVersion(*row[:-2]), *decode_stored_source(*row[-2:]))
                    )
        return loaded


def _read_encoded(
    reader: SourceReader, depth: Depth, left: dict[bytes, StoredCheckpoint], source: SourceRef
) -> bytes:
    entry = reader.stored_source(source, depth, left.get(os.fsencode(source.location)))
    return msgspec.msgpack.encode(entry)
