"""The text index of a home in one or more files, and its update.

The texts of changed sources are discarded and read again; of an append-only source that has grown,
only the new part is read. Much text is read by several processes, each into a file of its own
(a shard); small updates go to the first. All files are beside the index, and as disposable.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from amux.adapters import load_builtin
from amux.adapters._base import Adapter, Fingerprinted, SourceRef
from amux.durable import BINARY, PRIVATE_FILE, try_lock
from amux.index.database import MAX_SHARDS, shard_path
from amux.index.errors import TextIndexBusyError, TextIndexError
from amux.index.freshness import Freshness
from amux.index.pool import work_through, worker_count
from amux.index.rows.stored_session import agents_with_rows
from amux.index.text.engine import MAX_DEAD, TABLES, Documents, Table
from amux.index.text.plan import TermKind
from amux.index.text.shard import StaleSource, TextShard, fill_shard, fingerprinted, is_stale
from amux.index.text.tables import sqlite_errors, transaction
from amux.reading.message_locations import MessageLocations
from amux.reading.sources import SourceCatalog

if TYPE_CHECKING:
    from amux.index.database import IndexDatabase
    from amux.index.facts.sources import ReportProgress
    from amux.index.result_environment import ResultEnvironment

_BULK: Final = 4 << 20
_SHARED_BYTES: Final = 16 << 20
"""Less text than this is read by one process: every query asks all shards."""

_LOCK_WAIT_S: Final = 5.0
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS text_freshness (
  agent TEXT PRIMARY KEY, state BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS text_shards (shard INTEGER PRIMARY KEY, token INTEGER NOT NULL);
"""


class _ProgressReport:
    def __init__(self, total: int, report: ReportProgress | None) -> None:
        self._total = total
        self._report = report
        self._done = 0

    def add(self, size: int) -> None:
        """Report that some more bytes are done."""
        self._done += size
        if self._report is not None:
            self._report(self._done, self._total)


class TextDatabase:
    """The text index of one home.

    The first shard has the states of the files of each agent. They are valid only as long as every
    other shard is as it was when they were stored.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._units_of: dict[str, tuple[object, dict[int, int]]] = {}
        self._openings = 0
        self.shards = self._open()
        self.has_grown = False

    def _open(self) -> list[TextShard]:
        self._openings += 1
        with ExitStack() as opened:
            shards = [
                opened.enter_context(closing(TextShard(self._path, number)))
                for number in self._numbers()
            ]
            with sqlite_errors():
                shards[0].connection.executescript(_TABLES)
            opened.pop_all()
        return shards

    def _numbers(self) -> list[int]:
        return [n for n in range(MAX_SHARDS) if n == 0 or shard_path(self._path, n).exists()]

    def close(self) -> None:
        """Close all files."""
        for shard in self.shards:
            shard.close()

    def units(self, agent: str) -> dict[int, int]:
        """Return the unit of every session in every source of an agent, by `text_unit_key`."""
        version = self.version()
        if self._units_of.get(agent, (None, {}))[0] != version:
            units: dict[int, int] = {}
            for shard in reversed(self.shards):
                units |= shard.units(agent)
            self._units_of[agent] = version, units
        return self._units_of[agent][1]

    def version(self) -> tuple[object, ...]:
        """Return a value that changes whenever this or another process writes."""
        return self._openings, *(shard.version() for shard in self.shards)

    def locations(self, units: Sequence[int]) -> dict[int, MessageLocations]:
        """Return the message locations of some units, as far as they are known."""
        found: dict[int, MessageLocations] = {}
        for shard in self.shards:
            if own := [unit for unit in units if shard.has_unit(unit)]:
                found |= shard.locations(own)
        return found

    def documents(
        self, kind: TermKind, folded: str, *, tables: Collection[Table] = TABLES
    ) -> Documents:
        """Return the documents with a term, to be combined with those of other terms."""
        found = [shard.index.documents(kind, folded, tables=tables) for shard in self.shards]
        ids = [each.ids for each in found if each.ids is not None]
        if len(ids) < len(found):
            return Documents(None, set())
        return Documents(_chained(ids), set[int]().union(*(each.unsure for each in found)))

    def documents_with_all(
        self, terms: Sequence[tuple[TermKind, str]], *, table: Table
    ) -> list[int] | None:
        """Return the documents of a table that contain several terms; None if not certain."""
        found: list[list[int]] = []
        for shard in self.shards:
            ids = shard.index.documents_with_all(terms, table=table)
            if ids is None:
                return None
            found.append(ids)
        return _chained(found)

    def vocabulary(self, *, tables: Collection[Table] = TABLES) -> Iterator[tuple[str, int]]:
        """Yield every whole word and its number of messages; once per table and shard."""
        for shard in self.shards:
            yield from shard.index.vocabulary(tables=tables)

    @property
    def needs_rebuild(self) -> bool:
        """Whether more than a fifth of the documents belong to dropped units."""
        counts = [shard.index.document_counts() for shard in self.shards]
        return sum(dead for dead, _ in counts) > MAX_DEAD * sum(count for _, count in counts)

    def states(self) -> dict[str, bytes]:
        """Return the states of the files of all agents from before their texts were read."""
        self._open_new_shards()
        with sqlite_errors():
            connection = self.shards[0].connection
            if dict(connection.execute("SELECT shard, token FROM text_shards")) != self._tokens():
                return {}  # a shard is missing, or another process is changing it
            rows = connection.execute("SELECT agent, CAST(state AS BLOB) FROM text_freshness")
            return dict(rows.fetchall())

    def _tokens(self) -> dict[int, int]:
        return {shard.number: shard.token() for shard in self.shards[1:]}

    def _open_new_shards(self) -> None:
        """Open all files again if another process has added shards."""
        if [shard.number for shard in self.shards] != self._numbers():
            self.close()
            self.shards = self._open()

    def current(self, adapter: Adapter, sources: Sequence[SourceRef]) -> int:
        """Return how many of some sources have current texts; changes nothing."""
        stored: dict[bytes, bytes] = {}
        for shard in reversed(self.shards):
            stored |= shard.fingerprints(adapter)
        return sum(not is_stale(stored, each) for each in fingerprinted(adapter, sources))

    def update(
        self,
        wanted: Sequence[tuple[Adapter, Sequence[SourceRef]]],
        states: Mapping[str, bytes],
        *,
        progress: ReportProgress | None = None,
    ) -> None:
        """Read the texts of new and changed sources, and discard those of missing ones.

        `states` are those of the files of the agents from before. Raises TextIndexBusyError if
        another process updates the texts.
        """
        with self._exclusively():
            self._open_new_shards()
            first = self.shards[0].connection
            with sqlite_errors():  # valid again when everything is read
                first.executemany("DELETE FROM text_freshness WHERE agent = ?", zip(states))
            self._read_stale(wanted, progress)
            first, tokens = self.shards[0].connection, self._tokens()
            with sqlite_errors(), transaction(first):
                first.executemany(
                    "INSERT OR REPLACE INTO text_freshness VALUES (?, ?)", states.items()
                )
                first.execute("DELETE FROM text_shards")
                first.executemany("INSERT INTO text_shards VALUES (?, ?)", tokens.items())

    @contextmanager
    def _exclusively(self) -> Generator[None]:
        """Hold the lock of all updates, which forked workers share until they end."""
        try:
            path = self._path.with_suffix(".lock")
            descriptor = os.open(path, os.O_CREAT | os.O_RDWR | BINARY, PRIVATE_FILE)
        except OSError as error:
            raise TextIndexError(f"the index cannot be used ({error})") from error
        try:
            deadline = time.monotonic() + _LOCK_WAIT_S
            while not try_lock(descriptor):
                if time.monotonic() > deadline:
                    hint = "try again in a moment"
                    raise TextIndexBusyError("the index is being written to", hint=hint)
                time.sleep(0.01)
            yield
        finally:
            os.close(descriptor)

    def _read_stale(
        self,
        wanted: Iterable[tuple[Adapter, Sequence[SourceRef]]],
        progress: ReportProgress | None,
    ) -> None:
        stale = [item for adapter, sources in wanted for item in self._stale(adapter, sources)]
        report = _ProgressReport(sum(each.size for _, each, _ in stale), progress)
        whole: list[tuple[Adapter, StaleSource]] = []
        for adapter, each, shard in stale:
            if shard is not None and shard.resume_read(adapter, each):
                self.has_grown = True
                report.add(each.size)
                continue
            if shard is not None:
                shard.discard(adapter.info.name, (each.path,))
            whole.append((adapter, each))
        size = sum(each.size for _, each in whole)
        unfinished = [shard for shard in self.shards if shard.index.is_unfinished]
        if size <= _BULK and not unfinished:
            for adapter, each in whole:
                self.shards[0].read(adapter, each)
                self.has_grown = True
                report.add(each.size)
            return
        whole = self._load_in_workers(whole, report)
        for shard in self.shards:
            own = whole if shard.number == 0 else []
            if own or shard.index.is_unfinished:
                for each in shard.load(own):
                    self.has_grown = True
                    report.add(each.size)

    def _stale(
        self, adapter: Adapter, sources: Sequence[SourceRef]
    ) -> Iterator[tuple[Adapter, StaleSource, TextShard | None]]:
        """Yield the sources to be read, each with the shard that has it; discard the others."""
        now = {each.path: each for each in fingerprinted(adapter, sources)}
        stored: dict[bytes, bytes] = {}
        holders: dict[bytes, TextShard] = {}
        for shard in self.shards:
            own = shard.fingerprints(adapter)
            gone = [path for path in own if path not in now or path in holders]
            shard.discard(adapter.info.name, gone)
            for path in own.keys() - gone:
                stored[path], holders[path] = own[path], shard
        for path, each in now.items():
            if is_stale(stored, each):
                yield adapter, each, holders.get(path)

    def _load_in_workers(
        self, whole: list[tuple[Adapter, StaleSource]], report: _ProgressReport
    ) -> list[tuple[Adapter, StaleSource]]:
        """Have several processes read sources into shards; return the sources left to read here."""
        shared = [(adapter.info.name, each) for adapter, each in whole if _can_share(adapter)]
        size = sum(each.size for _, each in shared)
        workers = min(worker_count(size), MAX_SHARDS) if size > _SHARED_BYTES else 1
        if workers == 1:
            return whole
        shared.sort(key=lambda task: -task[1].size)  # so that all workers end at the same time
        work = partial(fill_shard, self._path)
        self.close()  # a forked process must not open a file that its parent has open
        try:
            results = work_through(shared, work, workers=workers, portable=work, first_here=False)
            with closing(results):
                for number, _ in results:
                    self.has_grown = True
                    report.add(shared[number][1].size)
        finally:
            self.shards = self._open()
        done = {
            (adapter.info.name, path)
            for adapter in {id(adapter): adapter for adapter, _ in whole}.values()
            for shard in self.shards
            for path in shard.fingerprints(adapter)
        }
        return [item for item in whole if (item[0].info.name, item[1].path) not in done]


def _can_share(adapter: Adapter) -> bool:
    """Return whether other processes can load an adapter and read its sources."""
    is_builtin = adapter is load_builtin(adapter.info.name)
    return is_builtin and not isinstance(adapter, Fingerprinted)


def _chained(runs: Sequence[list[int]]) -> list[int]:
    """Return the documents of all shards, which are in the order of the shards."""
    return runs[0] if len(runs) == 1 else list(chain.from_iterable(runs))


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
    if behind and texts.needs_rebuild:  # dead words can only be removed together
        database.remove_texts()
        texts = open_texts(database)
        behind = {
            a: state for a, state in states.items() if not catalog.has_complete_native_index(a)
        }
    if behind:
        found = [(catalog.adapter(agent), catalog.sources(agent)) for agent in behind]
        texts.update(found, behind, progress=progress)
    current = texts.states().keys() - (stale.keys() - behind.keys())
    return texts, [agent for agent in states if agent in current]
