"""Updates the index before it is read.

Every method may raise IndexUnavailableError; the caller then reads the sources instead.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from datetime import UTC, tzinfo
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from amux.assembly.assemble import Assembly
from amux.assembly.cost import CostCalculator
from amux.index.agent_index import AgentIndex
from amux.index.errors import IndexUnavailableError, TextIndexDamagedError, TextIndexError
from amux.index.freshness import Freshness, WatchedPaths
from amux.index.indexer_lock import IndexerLock
from amux.index.result_environment import ResultEnvironment
from amux.index.rows.query import find_names, find_paths, find_summaries
from amux.index.rows.results import AgentCounts, ResultIndex, agent_counts, indexed_bytes
from amux.index.rows.session_row import decode_problems, make_result, report_of, wanted_rows
from amux.index.rows.stored_session import (
    NamedSession,
    StoredSession,
    StoredSessions,
    named_sessions,
)
from amux.index.snapshot_cache import SnapshotCache
from amux.model.options import SessionListOptions
from amux.model.problems import Problem
from amux.model.reports import ListReport
from amux.reading.fingerprint import state_of_roots, total_size
from amux.reading.selection import leaves_out
from amux.reading.snapshot import take_snapshot
from amux.reading.sources import SourceCatalog

if TYPE_CHECKING:
    from amux.adapters._base import SourceRef
    from amux.index.database import IndexDatabase
    from amux.index.facts.sources import ReportProgress
    from amux.index.freshness import Kind, TakeSnapshot
    from amux.index.text.update import TextDatabase

INLINE_UPDATE_BYTES = 4 << 20
FULL_INDEX_BYTES = 128 << 20
MAX_ATTEMPTS = 5  # while other processes write
_CONTENDED = "other processes keep changing it"


class _StaleAgents(NamedTuple):
    """The agents whose rows may be out of date.

    `before` is `IndexDatabase.foreign_changes` before that was checked; None if there is no index.
    """

    before: tuple[int, int] | None
    agents: Sequence[AgentIndex]

    def size(self) -> int:
        """Return how many bytes have to be read."""
        return sum(index.stale_bytes() for index in self.agents)


class IndexUpdater:
    """The index of one home. `progress` is called while sources are read."""

    def __init__(
        self,
        catalog: SourceCatalog,
        database: IndexDatabase,
        environment: ResultEnvironment,
        *,
        zone: tzinfo = UTC,
        max_age: float = 0.0,
    ) -> None:
        self.database = database
        self.environment = environment
        self.snapshots = SnapshotCache(max_age)
        self.progress: ReportProgress | None = None
        self.text_error: str | None = None  # why the text index cannot be used
        self.has_postponed = False  # a list did without rows: too much had to be indexed
        self._catalog = catalog
        self._zone = zone  # in which days begin
        self._stored_sessions = StoredSessions()

    def sources(
        self, agent: str, sources: Sequence[SourceRef], costs: CostCalculator
    ) -> AgentIndex:
        """Return the index of one agent, updated."""
        index = AgentIndex(self._catalog, self.database, agent, sources)
        self._rebuild(index, "sessions", costs)
        return index

    def assembly_of(
        self, agent: str, session_id: str, *, sources: Sequence[SourceRef]
    ) -> Assembly | None:
        """Return a session and all that affects it; None if reading it directly is faster."""
        if not self.database.exists():
            return None
        index = AgentIndex(self._catalog, self.database, agent, sources)
        if not index.update_if_small(INLINE_UPDATE_BYTES):
            return None
        return index.assembly_of(session_id)

    def payloads(self, agent: str, kind: Kind, costs: CostCalculator) -> list[bytes]:
        """Return the encoded results of one kind of all clusters of an agent."""
        return self._update_results(agent, kind, costs)

    def agent_totals(self, agent: str, costs: CostCalculator) -> AgentCounts:
        """Return the number and the time span of an agent's sessions."""
        with self._current_rows((agent,), costs):
            return agent_counts(self.database, agent)

    def update_rows(self, agents: Sequence[str], costs: CostCalculator) -> None:
        """Update the rows of some agents."""
        self._update_rows(self._stale_agents(agents), costs)

    def list_rows(
        self, agents: Sequence[str], options: SessionListOptions, costs: CostCalculator
    ) -> ListReport | None:
        """Return a list from rows; None if selecting sources is faster than indexing all of them.

        Such an index is built by a question that needs all of it (a report, a search, `index
        update`) or by the background indexer.
        """
        can_select = leaves_out(options)
        if can_select and not self.database.exists() and self._exceeds_full_index(agents):
            self.has_postponed = True
            return None
        stale = self._stale_agents(agents)
        if can_select and self.database.exists() and stale.size() > FULL_INDEX_BYTES:
            self.has_postponed = True
            return None
        with self._current_rows(agents, costs, stale) as problems:
            if not self.database.exists():
                return ListReport(sessions=())
            rows, hidden = find_summaries(self.database, wanted_rows(agents, options))
            return report_of(rows, hidden, problems, costs)

    def update_texts(self, agents: Iterable[str]) -> tuple[TextDatabase, list[str]] | None:
        """Update the text index; return it with the agents whose texts it holds.

        None if it cannot be used: it is then not tried again by this process, and a damaged one is
        deleted. The rows of the agents must be up to date.
        """
        from amux.index.text.update import update_texts

        if self.text_error is not None or not self.database.exists():
            return None
        try:
            return update_texts(
                self._catalog, self.database, self.environment, agents, progress=self.progress
            )
        except TextIndexError as error:
            self.text_error = str(error)
            if isinstance(error, TextIndexDamagedError):
                self.database.remove_texts()
            return None

    def needs_indexer(self) -> bool:
        """Return whether the background indexer has much to do, without examining any source.

        It has if a list did without rows, or if this process has written rows of many sources whose
        texts are missing or were left incomplete by an indexer.
        """
        database = self.database
        if self.has_postponed or not database.has_grown:
            return self.has_postponed
        last = IndexerLock(database.path).record()
        has_texts = database.sizes()[1] > 0 and (last is None or last.result == "complete")
        return not has_texts and indexed_bytes(database) > FULL_INDEX_BYTES

    def store_environment(self, agents: Sequence[str], costs: CostCalculator) -> None:
        """Store the environment and the names of all agents, for the fast list."""
        if self.database.exists():
            self.environment.save(self.database, agents, costs)

    def session_named(self, agents: Sequence[str], text: str) -> NamedSession | None:
        """Return the only session with a name that begins with a text, if rows are sure of it.

        None if there is none or several, if several have its id, if rows are not up to date, or if
        the path of another source has the text: it may be a session that no row shows.
        """
        if not self.database.exists() or not text.isprintable():
            return None
        with self.database.reading():
            found = named_sessions(find_names(self.database, agents, text)) or ()
            named = [each for each in found if any(name.startswith(text) for name in each.names)]
            if len(named) != 1:
                return None
            (session,) = named
            same = named_sessions(find_names(self.database, (session.agent,), session.names[0]))
            if sum(each.names[0] == session.names[0] for each in same or ()) != 1:
                return None  # only assembling the sessions with this id tells them apart
            paths = find_paths(self.database, agents, text)
            is_elsewhere = any(agent != session.agent for agent, _ in paths)
            if is_elsewhere or (session.names[0] != text and len(paths) > 1):
                return None
            freshness = self._freshness("sessions", take_snapshot=self.snapshots.state)
            return session if freshness.is_valid(agents, self._catalog.env) else None

    def session_names(
        self, agents: Sequence[str], costs: CostCalculator
    ) -> tuple[list[NamedSession], list[Problem]] | None:
        """Return the names and titles of all sessions, and the problems of reading them.

        None if the index lacks so much that reading it takes as long as without an index, or if it
        does not hold every name unchanged.
        """
        if not self.database.exists():
            return None
        stale = self._stale_agents(agents)
        if stale.size() > FULL_INDEX_BYTES:
            return None
        with self._current_rows(agents, costs, stale) as payloads:
            sessions = named_sessions(find_names(self.database, agents))
            return None if sessions is None else (sessions, [*decode_problems(payloads)])

    def sessions(
        self, agents: Sequence[str], costs: CostCalculator
    ) -> tuple[Sequence[StoredSession], list[Problem]]:
        """Return the rows of some agents to be searched, and the problems of reading them."""
        with self._current_rows(agents, costs) as payloads:
            if not self.database.exists():
                return [], []
            rows = self._stored_sessions.sessions(self.database, agents, costs)
            return rows, [*decode_problems(payloads)]

    def _stale_agents(self, agents: Sequence[str]) -> _StaleAgents:
        before = self.database.foreign_changes() if self.database.exists() else None
        stale = [index for agent in agents if (index := self._stale(agent))]
        if before is None and any(index.has_sources for index in stale):
            before = self.database.foreign_changes()
        return _StaleAgents(before, stale)

    def _stale(self, agent: str) -> AgentIndex | None:
        freshness = self._freshness("sessions", take_snapshot=self.snapshots.state)
        if self.database.exists() and freshness.is_valid((agent,), self._catalog.env):
            return None
        return AgentIndex(self._catalog, self.database, agent)

    def _adapter_snapshot(self, agent: str, paths: WatchedPaths) -> bytes:
        own = state_of_roots(self._catalog.adapter(agent), paths.roots)
        return own + take_snapshot((), paths.files) if own else b""

    def _exceeds_full_index(self, agents: Sequence[str]) -> bool:
        """Return whether the sources of these agents are large; stop counting when they are."""
        size = 0
        for agent in agents:
            for source in self._catalog.sources(agent):
                size += total_size((source,))
                if size > FULL_INDEX_BYTES:
                    return True
        return False

    @contextmanager
    def _current_rows(
        self, agents: Sequence[str], costs: CostCalculator, stale: _StaleAgents | None = None
    ) -> Generator[list[bytes]]:
        """Update the rows of some agents and hold a transaction in which they are current.

        The value is their encoded problems. The update is repeated if other processes write
        meanwhile.
        """
        for _ in range(MAX_ATTEMPTS):
            stale = stale or self._stale_agents(agents)
            self._update_rows(stale, costs)
            if not self.database.exists():
                yield []
                return
            with self.database.reading():
                if self.database.foreign_changes() == stale.before:
                    yield self._freshness("sessions").payloads(agents)
                    return
            stale = None
        raise IndexUnavailableError(_CONTENDED)

    def _update_rows(self, stale: _StaleAgents, costs: CostCalculator) -> None:
        # Agents with sources come first: they create the index. Then the others are recorded as
        # empty. If no agent has sources, no index is created.
        for index in sorted(stale.agents, key=lambda index: not index.has_sources):
            self._update_results(index.agent, "sessions", costs, index)

    def _update_results(
        self, agent: str, kind: Kind, costs: CostCalculator, index: AgentIndex | None = None
    ) -> list[bytes]:
        """Return the payloads of one kind, updated if necessary."""
        for _ in range(MAX_ATTEMPTS):
            if index is None and self.database.exists():
                with self.database.reading():
                    index = self._stale(agent)
                    if index is None:
                        return self._freshness(kind).payloads((agent,))
            index = index or AgentIndex(self._catalog, self.database, agent)
            payloads = self._rebuild(index, kind, costs)
            if payloads is not None:
                return payloads
            index = None
        raise IndexUnavailableError(_CONTENDED)

    def _rebuild(self, index: AgentIndex, kind: Kind, costs: CostCalculator) -> list[bytes] | None:
        """Update all results, record their snapshot and return the payloads of one kind.

        Return None if another process changed them.
        """
        if not index.has_sources and not self.database.exists():
            return []  # an index without sources is not created
        agent, environment = index.agent, self.environment.fingerprint()
        build = partial(make_result, costs=costs, zone=self._zone)
        index.update(build, progress=self.progress)
        versions = index.update_results(environment, self.environment.runs_of(agent), build)
        self.snapshots.clear()
        freshness = self._freshness(kind)
        with self.database.writing():
            expected = {cluster: (own, environment) for cluster, own in versions.items()}
            if ResultIndex(self.database, agent).versions() != expected:
                return None  # another process has replaced some of them
            if environment != self.environment.fingerprint():  # another thread has changed a price
                return None
            if index.snapshot:  # else a record that is still there is that of equal results
                paths = WatchedPaths(index.roots, index.files, index.env)
                freshness.record(agent, index.snapshot, paths)
            return freshness.payloads((agent,))

    def _freshness(self, kind: Kind, *, take_snapshot: TakeSnapshot | None = None) -> Freshness:
        return Freshness(
            self.database,
            kind,
            self.environment.fingerprint_for,
            take_snapshot=take_snapshot,
            adapter_snapshot=self._adapter_snapshot,
        )
