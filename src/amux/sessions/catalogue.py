"""Many sessions at once: through the index where there is one, else directly. Answers are equal.

Built-in agents are indexed, and those of other packages whose adapters declare it: what an adapter
makes of a file may otherwise change without notice. An index that fails on the way is left alone
from then on.

Who asks anything here holds `turn` until the answer is complete: much of what is given, a search's
holdings above all, looks into the index later.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from functools import reduce
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from amux.adapters import external_names
from amux.adapters._base import SkippedCounts, SourceRef
from amux.assembly.assemble import Assembly
from amux.assembly.cost import CostCalculator
from amux.index.errors import IndexUnavailableError
from amux.index.snapshot_cache import GenerationCache
from amux.model.options import SessionListOptions
from amux.model.problems import Problem
from amux.model.reports import ListReport
from amux.reading.registry import AdapterRegistry
from amux.reading.selection import (
    NOTHING_SKIPPED,
    AgentSelection,
    FullRead,
    last_shown,
    select_sessions,
)
from amux.reading.sources import SourceCatalog
from amux.sessions.list import list_sessions

if TYPE_CHECKING:
    from amux.assembly.ledger import Spending
    from amux.index.database import IndexDatabase
    from amux.index.facts.sources import ReportProgress
    from amux.index.freshness import Kind
    from amux.index.result_environment import ResultEnvironment
    from amux.index.rows.query import AgentCounts
    from amux.index.rows.stored_session import StoredSession
    from amux.index.updater import IndexUpdater
    from amux.sessions.cost.report import CostReport
    from amux.sessions.search.indexed_hits import IndexedHitFinder, SessionsByUnit, TextCandidates
    from amux.sessions.search.search import SearchScope
    from amux.sessions.search.searchable import SearchableSession
    from amux.sessions.search.text_keeper import TextKeeper

T = TypeVar("T")


class SessionCatalog:
    """All sessions of all agents."""

    def __init__(
        self,
        registry: AdapterRegistry,
        library: SourceCatalog,
        *,
        store: IndexDatabase | None = None,
        environment: ResultEnvironment | None = None,
        max_age: float = 0.0,
    ) -> None:
        self._registry = registry
        self._library = library
        # Who reads the sources directly shares nothing, and need not wait.
        self.lock: AbstractContextManager[object] = nullcontext() if store is None else store.lock
        self.index_error: str | None = None  # why the index is not used, if it was given up
        self._updater: IndexUpdater | None = None
        self._texts: TextKeeper | None = None
        self._scope_cache: GenerationCache[SearchScope] = GenerationCache()
        self._sessions_by_unit: SessionsByUnit | None = None
        self._external_agents: tuple[int, tuple[str, ...]] | None = None
        if store is not None and environment is not None:
            from amux.index.updater import IndexUpdater

            self._updater = IndexUpdater(library, store, environment, max_age=max_age)

    def names(self) -> tuple[str, ...]:
        """All agents; what packages offer is looked for as often as files are looked at."""
        if self._updater is None or not self._updater.snapshots.is_enabled:
            return self._registry.names()
        generation = self._updater.snapshots.generation()
        if self._external_agents is None or self._external_agents[0] != generation:
            self._external_agents = generation, external_names()
        return self._registry.names(self._external_agents[1])

    def set_progress(self, watch: ReportProgress | None) -> None:
        """Be told how far reading for the index has come."""
        keeper = self._updater
        if keeper is not None:
            keeper.progress = watch

    @contextmanager
    def one_snapshot(self) -> Generator[None]:
        """Within it files are looked at once, however many questions are asked."""
        if self._updater is None:
            yield
            return
        with self._updater.snapshots.frozen():
            yield

    def assemblies(
        self,
        agent: str,
        *,
        usage_only: bool = False,
        sources: Sequence[SourceRef] | None = None,
    ) -> Iterator[Assembly]:
        """All sessions of an agent, in portions that do not bear on each other.

        `sources`, if they have been looked for already.
        """
        found = self._library.sources(agent) if sources is None else sources
        indexed = self.from_index(
            (agent,), lambda keeper: keeper.sources(agent, found, usage_only=usage_only)
        )
        if indexed is None:
            yield self._library.assemble_sources(agent, found)
        else:
            yield from indexed.assemblies()

    def assembly_for(self, agent: str, session_id: str) -> Assembly:
        """One session with all that bears on it; the index helps if it is almost up to date.

        Of a database the index knows everything or nothing, so that is asked itself.
        """
        sources = self._library.sources(agent)
        found = self._library.queried_assembly(
            agent, session_id, sources=sources
        ) or self.from_index(
            (agent,), lambda keeper: keeper.assembly_of(agent, session_id, sources=sources)
        )
        return found or self._library.assembly_for(agent, session_id, sources=sources)

    def list_report(
        self, agents: Sequence[str], options: SessionListOptions, coster: CostCalculator
    ) -> ListReport:
        """The summaries that fit, sorted, and counts of those left out."""
        # Tags and stars are a person's and not in the rows.
        has_rows = all(map(self._is_indexed, agents)) and not (options.tags or options.starred)
        if self._updater is not None and not has_rows:
            each = (self.assemblies(agent) for agent in agents)
            return list_sessions(chain.from_iterable(each), options, coster)
        report = self.from_index(agents, lambda keeper: keeper.list_rows(agents, options, coster))
        if report is None:
            return self._list_directly(agents, options, coster)
        self._store_environment(agents, coster)
        return report

    def search_scope(
        self, agents: Sequence[str], coster: CostCalculator, *, by_words: bool
    ) -> SearchScope:
        """All sessions of some agents to be searched, and who knows which of them hold a word."""
        if self._updater is None or not self._updater.snapshots.is_enabled:
            return self._build_search_scope(agents, coster, by_words=by_words)
        return self._scope_cache.get(
            self._updater,
            (tuple(agents), coster, by_words),
            lambda: self._build_search_scope(agents, coster, by_words=by_words),
        )

    def _build_search_scope(
        self, agents: Sequence[str], coster: CostCalculator, *, by_words: bool
    ) -> SearchScope:
        from amux.sessions.search.search import SearchScope
        from amux.sessions.search.searchable import searchable_sessions

        kept = [name for name in agents if self._is_indexed(name)]
        found = self.from_index(kept, lambda keeper: keeper.sessions(kept, coster))
        rows, known = found or ((), list[Problem]())
        others = agents if found is None else [name for name in agents if name not in kept]
        assemblies = [each for name in others for each in self.assemblies(name)]
        subjects: list[SearchableSession] = [*rows, *searchable_sessions(assemblies, coster)]
        problems = (*known, *(each for assembly in assemblies for each in assembly.problems))
        texts = self.text_candidates(kept) if by_words and found is not None else None
        return SearchScope(
            self._library,
            subjects,
            lambda: (*problems, *coster.problems),
            texts,
            texts,
            None if texts is None else self._hit_finder(rows, subjects[len(rows) :], texts),
        )

    def _hit_finder(
        self,
        rows: Sequence[StoredSession],
        others: Sequence[SearchableSession],
        texts: TextCandidates,
    ) -> IndexedHitFinder:
        """Which sessions are worth a look; what that takes is kept as long as the rows are."""
        from amux.sessions.search.indexed_hits import IndexedHitFinder, SessionsByUnit

        if self._sessions_by_unit is None or not self._sessions_by_unit.is_of(rows, texts.units):
            self._sessions_by_unit = SessionsByUnit(rows, texts.units)
        return IndexedHitFinder(self._sessions_by_unit, others, texts)

    def give_up_index(self, reason: str) -> bool:
        """Do without the index from now on, since it has failed; whether there was one."""
        if self._updater is None:
            return False
        self._updater, self.index_error = None, reason
        return True

    def update_rows(self, coster: CostCalculator) -> None:
        """Make the rows of all sessions now rather than when they are needed."""
        names = [name for name in self._registry.names() if self._is_indexed(name)]
        self.from_index(names, lambda keeper: keeper.update_rows(names, coster))
        self._store_environment(names, coster)

    def text_candidates(self, agents: Sequence[str]) -> TextCandidates | None:
        """Who knows which messages hold a word, brought up to date; None: look at all of them.

        To be asked after the rows of these agents were brought up to date.
        """
        from amux.sessions.search.text_keeper import TextKeeper

        def ask(keeper: IndexUpdater) -> TextCandidates | None:
            self._texts = self._texts or TextKeeper(self._library, keeper)
            found = self._texts.candidates(agents)
            self.index_error = self._texts.trouble
            return found

        return self.from_index(agents, ask)

    def add_spending(self, agents: Sequence[str], report: CostReport) -> None:
        """Add all that was spent to a report."""
        for agent in agents:
            kept = self._stored_spending(agent, report)
            if kept is None:
                for assembly in self.assemblies(agent, usage_only=True):
                    report.add_assembly(assembly)
            else:
                for spending in kept:
                    report.add_spending(agent, spending)

    def _stored_spending(self, agent: str, report: CostReport) -> list[Spending] | None:
        """What the index says was spent; None when it cannot be asked."""
        from amux.index.codec import decode_spending, pack

        def encode(some: Assembly) -> bytes:
            return pack(report.spending_of(some))

        return self.stored_results(agent, "spending", encode, decode_spending)

    def stored_results(
        self,
        agent: str,
        kind: Kind,
        encode: Callable[[Assembly], bytes],
        decode: Callable[[bytes], Iterable[T]],
    ) -> list[T] | None:
        """What the sessions of an agent come to, from the index; None when it cannot be asked."""

        def ask(keeper: IndexUpdater) -> list[T]:
            payloads = keeper.payloads(agent, kind, encode)
            with keeper.store.guarded():
                return [value for payload in payloads for value in decode(payload)]

        return self.from_index((agent,), ask)

    def agent_totals(self, agent: str, coster: CostCalculator) -> AgentCounts | None:
        """How many sessions an agent has, from the index; None when it cannot be asked."""
        return self.from_index((agent,), lambda keeper: keeper.agent_totals(agent, coster))

    def from_index(
        self, agents: Sequence[str], question: Callable[[IndexUpdater], T | None]
    ) -> T | None:
        """The answer of the index; None when there is none or it does not know all the agents."""
        if self._updater is None or not all(map(self._is_indexed, agents)):
            return None
        try:
            return question(self._updater)
        except IndexUnavailableError as error:
            self.give_up_index(str(error))
            return None

    def _store_environment(self, agents: Sequence[str], coster: CostCalculator) -> None:
        """Store the environment for the fast list, which lists all agents if all are indexed."""
        names = self._registry.names()
        all_indexed = self._registry.is_as_installed and all(map(self._is_indexed, names))
        known = names if all_indexed else ()
        self.from_index(agents, lambda keeper: keeper.store_environment(known, coster))

    def _list_directly(
        self, agents: Sequence[str], options: SessionListOptions, coster: CostCalculator
    ) -> ListReport:
        """Without an index only that is read which can be in the answer.

        First the beginnings of all sessions are looked at, so that of every agent no more is read
        than the list has room for.
        """
        selections: list[AgentSelection | FullRead] = []
        bound: datetime | None = None
        for agent in agents:
            sources = self._library.sources(agent, cwd=options.cwd)
            adapter = self._library.adapter(agent)
            selections.append(select_sessions(adapter, sources, options, bound=bound))
            bound = last_shown((at for each in selections for at in each.began), options)
        read = [selection.read(bound) for selection in selections]
        unread = reduce(SkippedCounts.plus, (left for _, left in read), NOTHING_SKIPPED)
        return list_sessions((found for found, _ in read), options, coster, unread=unread)

    def _is_indexed(self, agent: str) -> bool:
        return self._registry.is_indexable(agent)
