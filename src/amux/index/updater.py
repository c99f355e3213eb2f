"""What the index keeps of sessions, brought up to date before it is given.

Everything here may raise IndexUnavailableError; whoever asks reads the sources instead.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from amux.assembly.assemble import Assembly
from amux.assembly.cost import CostCalculator
from amux.index.agent_index import AgentIndex, BuildResult
from amux.index.errors import (
    IndexUnavailableError,
    TextIndexDamagedError,
    TextIndexError,
)
from amux.index.facts.stored_source import Depth
from amux.index.freshness import Freshness, WatchedPaths
from amux.index.result_environment import ResultEnvironment
from amux.index.rows.query import AgentCounts, agent_counts
from amux.index.rows.results import ClusterResult, ResultIndex
from amux.index.rows.session_row import decode_problems, make_rows, report_of, wanted_rows
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
    from amux.index.rows.stored_session import StoredSession, StoredSessions
    from amux.index.text.update import TextDatabase

INLINE_UPDATE_BYTES = 4 << 20
FULL_INDEX_BYTES = 128 << 20
MAX_ATTEMPTS = 5  # while other processes write
_CONTENDED = "other processes keep changing it"


class _StaleAgents(NamedTuple):
    """Agents whose results have to be looked at; None: they still hold.

    `before` is what other processes had written into the index until then.
    """

    before: tuple[int, int] | None
    stale: Mapping[str, AgentIndex | None]


class IndexUpdater:
    """The index of one home. `watch` is told how far reading has come."""

    def __init__(
        self,
        catalog: SourceCatalog,
        database: IndexDatabase,
        environment: ResultEnvironment,
        *,
        max_age: float = 0.0,
    ) -> None:
        self.database = database
        self.environment = environment
        self.snapshots = SnapshotCache(max_age)
        self.progress: ReportProgress | None = None
        self.text_error: str | None = None  # why the text index cannot be used
        self._catalog = catalog
        self._shelf: StoredSessions | None = None

    def sources(self, agent: str, sources: Sequence[SourceRef], *, usage_only: bool) -> AgentIndex:
        """The sources of one agent, read as far as needed."""
        indexed = AgentIndex(self._catalog, self.database, agent, sources)
        if indexed.has_sources or self.database.exists():
            indexed.update(Depth.USAGE if usage_only else Depth.FACTS, watch=self.progress)
        return indexed

    def assembly_of(
        self, agent: str, session_id: str, *, sources: Sequence[SourceRef]
    ) -> Assembly | None:
        """One session with all that bears on it; None: it is read sooner without the index."""
        if not self.database.exists():
            return None
        indexed = AgentIndex(self._catalog, self.database, agent, sources)
        if not indexed.update_if_small(INLINE_UPDATE_BYTES):
            return None
        return indexed.assembly_of(session_id)

    def payloads(self, agent: str, kind: Kind, encode: Callable[[Assembly], bytes]) -> list[bytes]:
        """What the sessions of an agent come to, still encoded."""

        def make(assembly: Assembly) -> ClusterResult:
            return ClusterResult(payload=encode(assembly))

        return self._update_results(agent, kind, make)

    def agent_totals(self, agent: str, costs: CostCalculator) -> AgentCounts:
        """How many sessions an agent has."""
        with self._current_rows((agent,), costs):
            return agent_counts(self.database, agent)

    def update_rows(self, agents: Sequence[str], costs: CostCalculator) -> None:
        """Bring the rows of some agents up to date."""
        self._update_rows(self._stale_agents(agents), costs)

    def list_rows(
        self, agents: Sequence[str], options: SessionListOptions, costs: CostCalculator
    ) -> ListReport | None:
        """A list of rows; None when so much would have to be indexed first that a choice is sooner.

        Such an index is made by whoever needs all of it: a report, a search, `index update`.
        """
        from amux.index.rows.query import find_summaries

        can_choose = leaves_out(options)
        if can_choose and not self.database.exists() and self._exceeds_full_index(agents):
            return None
        look = self._stale_agents(agents)
        if can_choose and self.database.exists() and _needs_full_index(look.stale.values()):
            return None
        with self._current_rows(agents, costs, look) as problems:
            if not self.database.exists():
                return ListReport(sessions=())
            rows, omitted = find_summaries(self.database, wanted_rows(agents, options))
            return report_of(rows, omitted, problems, costs)

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
                self._catalog, self.database, self.environment, agents, watch=self.progress
            )
        except TextIndexError as error:
            self.text_error = str(error)
            if isinstance(error, TextIndexDamagedError):
                self.database.remove_texts()
            return None

    def store_environment(self, agents: Sequence[str], costs: CostCalculator) -> None:
        """Store the environment and the names of all agents, for the fast list."""
        if self.database.exists():
            self.environment.save(self.database, agents, costs)

    def sessions(
        self, agents: Sequence[str], costs: CostCalculator
    ) -> tuple[Sequence[StoredSession], list[Problem]]:
        """The rows of some agents to be searched, and the problems met."""
        from amux.index.rows.stored_session import StoredSessions

        self._shelf = self._shelf or StoredSessions()
        with self._current_rows(agents, costs) as payloads:
            rows = (
                self._shelf.sessions(self.database, agents, costs) if self.database.exists() else []
            )
            return rows, [*decode_problems(payloads)]

    def _stale_agents(self, agents: Sequence[str]) -> _StaleAgents:
        """Which rows of some agents have to be looked at, and a state of the index before that."""
        before = self.database.foreign_changes() if self.database.exists() else None
        stale = {agent: self._stale(agent, "sessions") for agent in agents}
        if before is None and any(each is not None and each.has_sources for each in stale.values()):
            before = self.database.foreign_changes()
        return _StaleAgents(before, stale)

    def _stale(self, agent: str, kind: Kind) -> AgentIndex | None:
        answers = self._freshness(kind, look=self.snapshots.state)
        if self.database.exists() and answers.is_valid((agent,), self._catalog.env):
            return None
        return self._indexed(agent)

    def _adapter_snapshot(self, agent: str, places: WatchedPaths) -> bytes:
        """The state of an agent as its adapter tells it, to be compared with that of its rows."""
        below = state_of_roots(self._catalog.adapter(agent), places.roots)
        return below + take_snapshot((), places.files) if below else b""

    def _exceeds_full_index(self, agents: Sequence[str]) -> bool:
        """Whether the sources of these agents are large; looks no further than it has to."""
        size = 0
        for agent in agents:
            for source in self._catalog.sources(agent):
                size += total_size((source,))
                if size > FULL_INDEX_BYTES:
                    return True
        return False

    @contextmanager
    def _current_rows(
        self, agents: Sequence[str], costs: CostCalculator, look: _StaleAgents | None = None
    ) -> Generator[list[bytes]]:
        """A state of the index in which the rows of some agents are up to date; problems met.

        Other processes may write while these are brought up to date: then it is done again.
        """
        for _ in range(MAX_ATTEMPTS):
            look = look or self._stale_agents(agents)
            self._update_rows(look, costs)
            if not self.database.exists():
                yield []
                return
            with self.database.reading():
                if self.database.foreign_changes() == look.before:
                    yield self._freshness("sessions").payloads(agents)
                    return
            look = None
        raise IndexUnavailableError(_CONTENDED)

    def _update_rows(self, look: _StaleAgents, costs: CostCalculator) -> None:
        def make(assembly: Assembly) -> ClusterResult:
            return make_rows(assembly, costs)

        waiting = [(agent, indexed) for agent, indexed in look.stale.items() if indexed is not None]
        # Who has nothing is noted as well, unless nobody has anything.
        for agent, indexed in sorted(waiting, key=lambda pair: not pair[1].has_sources):
            self._update_results(agent, "sessions", make, indexed)

    def _update_results(
        self, agent: str, kind: Kind, make: BuildResult, indexed: AgentIndex | None = None
    ) -> list[bytes]:
        """Results of one kind, up to date: what is kept besides rows."""
        for _ in range(MAX_ATTEMPTS):
            if indexed is None and self.database.exists():
                with self.database.reading():
                    indexed = self._stale(agent, kind)
                    if indexed is None:
                        return self._freshness(kind).payloads((agent,))
            made = self._rebuild(kind, make, indexed or self._indexed(agent))
            if made is not None:
                return made
            indexed = None
        raise IndexUnavailableError(_CONTENDED)

    def _rebuild(self, kind: Kind, make: BuildResult, indexed: AgentIndex) -> list[bytes] | None:
        """The same, brought up to date; None: another process has changed them meanwhile.

        What they rest on is noted, for the quick way next time.
        """
        if not indexed.has_sources and not self.database.exists():
            return []  # nobody is here: leave no trace of having looked
        agent, basis = indexed.agent, self.environment.fingerprint()
        depth = Depth.FACTS if kind == "sessions" else Depth.USAGE
        indexed.update(depth, watch=self.progress, make=make)
        members = indexed.update_results(kind, basis, self.environment.runs_of(agent), make)
        self.snapshots.clear()
        answers = self._freshness(kind)
        with self.database.writing():
            if not ResultIndex(self.database, agent, kind).are_current(members, basis):
                return None
            if basis != self.environment.fingerprint():  # another thread has changed a price
                return None
            answers.record(
                agent, indexed.snapshot, roots=indexed.roots, files=indexed.files, env=indexed.env
            )
            return answers.payloads((agent,))

    def _freshness(self, kind: Kind, *, look: TakeSnapshot | None = None) -> Freshness:
        environment = self.environment.fingerprint_for
        return Freshness(self.database, kind, environment, look=look, ask=self._adapter_snapshot)

    def _indexed(self, agent: str) -> AgentIndex:
        return AgentIndex(self._catalog, self.database, agent)


def _needs_full_index(stale: Iterable[AgentIndex | None]) -> bool:
    return sum(one.stale_bytes(Depth.FACTS) for one in stale if one is not None) > FULL_INDEX_BYTES
