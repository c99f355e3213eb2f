"""Answers every question about sessions: from the index if there is one, else from the sources.

Both ways give the same answer. Indexable agents are indexed: the built-in ones, and those of other
packages that declare it. An index that fails is not used again by this process.

Any thread may ask. Callers hold `lock` until they have consumed the result: some results, such as a
search scope, read from the index lazily. Messages are read from the sources without the lock.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime, tzinfo
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from amux.adapters import external_names
from amux.adapters._base import SourceRef
from amux.annotations.events import Annotations
from amux.assembly.assemble import Assembly
from amux.assembly.cost import CostCalculator
from amux.assembly.session import AssembledSession
from amux.assembly.summary import full_session
from amux.errors import SessionNotFoundError
from amux.index.errors import IndexChangedError, IndexUnavailableError
from amux.index.snapshot_cache import GenerationCache
from amux.model.cost import CostSummary
from amux.model.message import SessionMessage
from amux.model.options import CostAggregationOptions, SessionListOptions, SessionQuery
from amux.model.outline import SessionOutline
from amux.model.problems import Problem
from amux.model.reports import ListReport
from amux.model.session import Session
from amux.reading.registry import AdapterRegistry
from amux.reading.sources import SourceCatalog
from amux.reading.unreadable import damaged, find_read_error
from amux.sessions.find import Found, find_session
from amux.sessions.list import list_directly, list_sessions
from amux.sessions.options import checked_cost, checked_list, checked_query

if TYPE_CHECKING:
    from amux.index.freshness import Kind
    from amux.index.rows.results import AgentCounts
    from amux.index.rows.stored_session import NamedSession
    from amux.index.updater import IndexUpdater
    from amux.model.reports import CostExplanation, SearchReport
    from amux.sessions.cost.report import CostReport
    from amux.sessions.search.indexed_hits import SessionsByUnit, TextCandidates
    from amux.sessions.search.search import Search, SearchScope
    from amux.sessions.search.searchable import SearchableSession

T = TypeVar("T")


class SessionService:
    """All sessions of all agents. Without an `updater` there is no index."""

    def __init__(
        self,
        registry: AdapterRegistry,
        catalog: SourceCatalog,
        costs: CostCalculator,
        *,
        updater: IndexUpdater | None = None,
        annotations: Callable[[], Annotations] = Annotations,
        zone: tzinfo = UTC,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.registry = registry
        self.catalog = catalog
        self.zone = zone
        self.now = now
        # Without an index, threads share nothing and need not wait for each other.
        self.lock: AbstractContextManager[object] = (
            nullcontext() if updater is None else updater.database.lock
        )
        self.index_error: str | None = None  # why the index is no longer used
        self._updater = updater
        self._costs = costs
        self._annotations = annotations
        self._scope_cache: GenerationCache[SearchScope] = GenerationCache()
        self._sessions_by_unit: SessionsByUnit | None = None
        self._external_agents: tuple[int, tuple[str, ...]] | None = None

    @property
    def costs(self) -> CostCalculator:
        """The cost calculator with the current annotations."""
        self._costs = self._costs.with_annotations(self._annotations())
        return self._costs

    def set_progress(self, progress: Callable[[int, int], None] | None) -> None:
        """Set a callback that is called with `(done, total)` bytes while sources are indexed."""
        if self._updater is not None:
            self._updater.progress = progress

    @contextmanager
    def one_snapshot(self) -> Generator[None]:
        """Within this context, the files of an agent are examined once for all questions."""
        if self._updater is None:
            yield
            return
        with self._updater.snapshots.frozen():
            yield

    def list_report(self, agents: Sequence[str] | None, options: SessionListOptions) -> ListReport:
        """Return the list over some agents (None: all), and counts of what it leaves out."""
        options = checked_list(options, self.zone)
        for name in agents or ():
            if not self.registry.knows(name):
                self.registry.require(name)  # raises an error that names the known agents
        names = self.registry.names() if agents is None else agents
        with self.lock:
            return self.list_agents(names, options)

    def list_agents(self, agents: Sequence[str], options: SessionListOptions) -> ListReport:
        """Return the list over known agents, with options that were checked."""
        costs = self.costs
        # Tags and stars belong to the user and are not stored in the rows.
        has_rows = all(map(self.registry.is_indexable, agents)) and not (
            options.tags or options.starred
        )
        if self._updater is not None and not has_rows:
            each = (self.assemblies(agent) for agent in agents)
            return list_sessions(chain.from_iterable(each), options, costs)
        report = self.from_index(agents, lambda updater: updater.list_rows(agents, options, costs))
        if report is None:
            return list_directly(self.catalog, agents, options, costs)
        self._store_environment(agents)
        return report

    def search_report(self, query: SessionQuery) -> SearchReport:
        """Return the hits of a query, and the problems met on the way."""
        from amux.sessions.search.search import Search

        search = Search(checked_query(query, self.zone), now=self.now(), zone=self.zone)
        with self.lock:
            report = self._run(search)
        unknown = [
            f"no agent is called `{agent}`; known: {', '.join(self.registry.names())}"
            for agent in search.query.filters.named_agents()
            if not self.registry.knows(agent)
        ]
        return replace(report, notes=(*report.notes, *unknown))

    def _run(self, search: Search, *, may_retry: bool = True) -> SearchReport:
        """Run a search on the index; once more if the index was changed, else on the sources."""
        names = [name for name in self._names() if search.wants(name)]
        try:
            return search.run(self.search_scope(names, by_words=bool(search.query.terms)))
        except IndexUnavailableError as error:
            retries = may_retry and isinstance(error, IndexChangedError)
            if not retries and not self.give_up_index(str(error)):
                raise
            return self._run(search, may_retry=False)

    def _names(self) -> tuple[str, ...]:
        """Return all agents; installed packages are examined as often as files are."""
        if self._updater is None or not self._updater.snapshots.is_enabled:
            return self.registry.names()
        generation = self._updater.snapshots.generation()
        if self._external_agents is None or self._external_agents[0] != generation:
            self._external_agents = generation, external_names()
        return self.registry.names(self._external_agents[1])

    def search_scope(self, agents: Sequence[str], *, by_words: bool) -> SearchScope:
        """Return the sessions of some agents to be searched, with their candidates for words."""
        costs = self.costs
        if self._updater is None or not self._updater.snapshots.is_enabled:
            return self._build_search_scope(agents, costs, by_words=by_words)
        return self._scope_cache.get(
            self._updater,
            (tuple(agents), costs, by_words),
            lambda: self._build_search_scope(agents, costs, by_words=by_words),
        )

    def _build_search_scope(
        self, agents: Sequence[str], costs: CostCalculator, *, by_words: bool
    ) -> SearchScope:
        from amux.sessions.search.search import SearchScope
        from amux.sessions.search.searchable import searchable_sessions

        indexed = [name for name in agents if self.registry.is_indexable(name)]
        found = self.from_index(indexed, lambda updater: updater.sessions(indexed, costs))
        rows, stored = found or ((), list[Problem]())
        others = agents if found is None else [name for name in agents if name not in indexed]
        assemblies = [each for name in others for each in self.assemblies(name)]
        sessions: list[SearchableSession] = [*rows, *searchable_sessions(assemblies, costs)]
        problems = (*stored, *(each for assembly in assemblies for each in assembly.problems))
        texts = self.text_candidates(indexed) if by_words and found is not None else None
        finder = None
        if texts is not None:
            from amux.sessions.search.indexed_hits import IndexedHitFinder, SessionsByUnit

            lookup = self._sessions_by_unit  # reused while the rows are equal
            if lookup is None or not lookup.is_of(rows, texts.units):
                lookup = self._sessions_by_unit = SessionsByUnit(rows, texts.units)
            finder = IndexedHitFinder(lookup, sessions[len(rows) :], texts)
        return SearchScope(
            self.catalog,
            sessions,
            lambda: (*problems, *costs.annotations.problems),
            texts,
            texts,
            finder,
        )

    def text_candidates(self, agents: Sequence[str]) -> TextCandidates | None:
        """Update the text index; return its candidates, or None if every message is a candidate.

        The rows of these agents must be up to date.
        """
        from amux.sessions.search.indexed_hits import text_candidates

        def ask(updater: IndexUpdater) -> TextCandidates | None:
            found = text_candidates(updater, self.catalog, agents)
            self.index_error = updater.text_error
            return found

        return self.from_index(agents, ask)

    def find(self, ref: str, *, agent: str | None = None, by_title: bool = False) -> Found:
        """Return the one session that `ref` names; see `find_session`."""
        with self.lock:
            return find_session(
                self.registry, self.catalog, ref, stored=self, agent=agent, by_title=by_title
            )

    def session_named(self, agents: Sequence[str], text: str) -> NamedSession | None:
        """Return the session that a text names by the index alone; None if it is not sure."""
        return self.from_index(agents, lambda updater: updater.session_named(agents, text))

    def session_names(
        self, agents: Sequence[str]
    ) -> tuple[list[NamedSession], list[Problem]] | None:
        """Return the names of all sessions, with an index that lacks little; else None."""
        costs = self.costs
        return self.from_index(agents, lambda updater: updater.session_names(agents, costs))

    def open(self, agent: str, session_id: str) -> tuple[Assembly, AssembledSession]:
        """Return the session with an id or unique prefix, and the assembly that contains it."""
        found = self.find(session_id, agent=agent)
        native_id = found.ref.native_session_id
        with self.lock:
            assembly = found.assembly or self._assembly_for(agent, native_id)
        session = assembly.find(native_id)
        if session is None or not session.attributed:
            sources = self.catalog.sources(agent)
            problem = find_read_error(self.catalog, agent, session_id, sources=sources)
            if problem is not None or assembly.problems:
                raise damaged(agent, session_id, problem or assembly.problems[0])
            raise SessionNotFoundError(
                f"{agent} has no session `{session_id}`",
                hint=f"`amux list {agent}` shows what there is",
            )
        return assembly, session

    def _assembly_for(self, agent: str, session_id: str) -> Assembly:
        """Return an assembly of one session and everything that affects it.

        A database is queried directly; the index is used if it is almost up to date.
        """
        sources = self.catalog.sources(agent)
        return (
            self.catalog.queried_assembly(agent, session_id, sources=sources)
            or self.from_index(
                (agent,), lambda updater: updater.assembly_of(agent, session_id, sources=sources)
            )
            or self.catalog.assembly_for(agent, session_id, sources=sources)
        )

    def get(self, agent: str, session_id: str) -> Session:
        """Return one whole session."""
        assembly, session = self.open(agent, session_id)
        return self._view(assembly, session, self.catalog.messages(assembly, session), self.costs)

    def stream(self, agent: str, session_id: str) -> tuple[Session, Iterator[SessionMessage]]:
        """Return the session without its messages, and an iterator that reads them.

        The sub-agents of the session have their messages.
        """
        assembly, session = self.open(agent, session_id)
        header = self._view(assembly, session, (), self.costs)
        return header, self.catalog.messages(assembly, session)

    def outline(self, agent: str, session_id: str) -> SessionOutline:
        """Return a session and its sub-agents, without messages, which are read on demand."""
        assembly, session = self.open(agent, session_id)
        return self._outline(assembly, session)

    def _outline(self, assembly: Assembly, session: AssembledSession) -> SessionOutline:
        return SessionOutline(
            self._described(session, (), self.costs),
            partial(self.catalog.messages, assembly, session),
            tuple(self._outline(assembly, child) for child in session.children),
        )

    def _view(
        self,
        assembly: Assembly,
        session: AssembledSession,
        messages: Iterable[SessionMessage],
        costs: CostCalculator,
    ) -> Session:
        children = tuple(
            self._view(assembly, child, self.catalog.messages(assembly, child), costs)
            for child in session.children
        )
        return self._described(session, messages, costs, children)

    @staticmethod
    def _described(
        session: AssembledSession,
        messages: Iterable[SessionMessage],
        costs: CostCalculator,
        children: tuple[Session, ...] = (),
    ) -> Session:
        return full_session(
            session,
            messages,
            cost=costs.cost_of(session),
            tags=costs.tags_of(session),
            starred=costs.is_starred(session),
            notes=costs.annotations.notes(session),
            children=children,
        )

    def explain(self, agent: str, session_id: str) -> CostExplanation:
        """Return how the cost of a session comes about."""
        from amux.sessions.cost.explain import explain_cost

        _, session = self.open(agent, session_id)
        return explain_cost(session, self.costs)

    def total_cost(self, options: CostAggregationOptions) -> CostSummary:
        """Return the cost of all sessions that match; zeros if none does."""
        from amux.sessions.cost.report import CostReport

        options = checked_cost(options, self.zone)
        names = self.registry.names() if options.agent is None else (options.agent,)
        with self.lock:
            report = CostReport(self.costs, options, self.zone)
            self.add_spending([name for name in names if self.registry.knows(name)], report)
        report.add_lost_runs()
        return report.summary()

    def add_spending(self, agents: Sequence[str], report: CostReport) -> None:
        """Add the spending of some agents to a report."""
        from amux.index.codec import decode_spending

        for agent in agents:
            stored = self.stored_results(agent, "spending", decode_spending)
            if stored is None:
                for assembly in self.assemblies(agent):
                    report.add_assembly(assembly)
            else:
                for spending in stored:
                    report.add_spending(agent, spending)
        self._store_environment(agents)

    def assemblies(
        self, agent: str, *, sources: Sequence[SourceRef] | None = None
    ) -> Iterator[Assembly]:
        """Yield all sessions of an agent in assemblies that do not affect each other.

        `sources` are its sources, if they have been listed already.
        """
        found = self.catalog.sources(agent) if sources is None else sources
        costs = self.costs
        indexed = self.from_index((agent,), lambda updater: updater.sources(agent, found, costs))
        if indexed is None:
            yield self.catalog.assemble_sources(agent, found)
        else:
            yield from indexed.assemblies()

    def agent_counts(self, agent: str) -> AgentCounts | None:
        """Return the number of sessions of an agent from the index; None without an index."""
        costs = self.costs
        return self.from_index((agent,), lambda updater: updater.agent_totals(agent, costs))

    def stored_results(
        self, agent: str, kind: Kind, decode: Callable[[bytes], T]
    ) -> list[T] | None:
        """Return the stored results of an agent, updated; None without an index."""
        costs = self.costs

        def ask(updater: IndexUpdater) -> list[T]:
            payloads = updater.payloads(agent, kind, costs)
            with updater.database.guarded():
                return [*map(decode, payloads)]

        return self.from_index((agent,), ask)

    def update_rows(self) -> None:
        """Update the rows of all sessions now instead of when they are needed."""
        names, costs = [*filter(self.registry.is_indexable, self.registry.names())], self.costs
        self.from_index(names, lambda updater: updater.update_rows(names, costs))
        self._store_environment(names)

    @property
    def needs_indexer(self) -> bool:
        """Whether the answers so far have left much to the background indexer."""
        return bool(self.from_index((), lambda updater: updater.needs_indexer()))

    def from_index(
        self, agents: Sequence[str], question: Callable[[IndexUpdater], T | None]
    ) -> T | None:
        """Return the answer of the index; None if it fails or does not hold all of the agents."""
        if self._updater is None or not all(map(self.registry.is_indexable, agents)):
            return None
        try:
            return question(self._updater)
        except IndexUnavailableError as error:
            self.give_up_index(str(error))
            return None

    def give_up_index(self, reason: str) -> bool:
        """Stop using the index, because it failed; return whether it was in use."""
        if self._updater is None:
            return False
        self._updater, self.index_error = None, reason
        return True

    def _store_environment(self, agents: Sequence[str]) -> None:
        """Store the environment for the fast list, which lists all agents if all are indexed."""
        names, costs = self.registry.names(), self.costs
        all_indexed = self.registry.is_as_installed and all(map(self.registry.is_indexable, names))
        listed = names if all_indexed else ()
        self.from_index(agents, lambda updater: updater.store_environment(listed, costs))
