"""Everything that is read goes through here: agents, library, prices and run index together.

Any thread may ask. What the index has a part in is answered in turns; messages are read from the
sources afterwards, and keep nobody waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING, TypeVar, get_args

from msgspec.structs import replace

from amux.assembly.assemble import Assembly
from amux.assembly.cost import CostCalculator
from amux.assembly.session import AssembledSession
from amux.assembly.summary import full_session
from amux.errors import AmuxError, SessionNotFoundError, ValidationError
from amux.index.errors import IndexChangedError, IndexUnavailableError
from amux.model.cost import CostSummary
from amux.model.message import SessionMessage
from amux.model.options import (
    CostAggregationOptions,
    Direction,
    GroupBy,
    ListSort,
    SearchRole,
    SearchSort,
    SessionListOptions,
    SessionQuery,
    group_names,
)
from amux.model.reports import ListReport
from amux.model.session import Session
from amux.reading.registry import AdapterRegistry
from amux.reading.sources import SourceCatalog
from amux.reading.unreadable import damaged, find_read_error
from amux.sessions.catalogue import SessionCatalog
from amux.sessions.find import find_session
from amux.sessions.options import check_choice, check_limit, check_moment

if TYPE_CHECKING:
    from amux.model.reports import CostExplanation, SearchReport
    from amux.sessions.search.search import Search

Options = TypeVar("Options", SessionListOptions, SessionQuery, CostAggregationOptions)


class SessionService:
    """What the manager and the client share: everything read goes through here."""

    def __init__(
        self,
        registry: AdapterRegistry,
        library: SourceCatalog,
        coster: CostCalculator,
        *,
        catalogue: SessionCatalog | None = None,
        zone: tzinfo = UTC,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.registry = registry
        self.library = library
        self.catalogue = catalogue or SessionCatalog(registry, library)
        self._coster = coster
        self.zone = zone
        self.now = now

    @property
    def coster(self) -> CostCalculator:
        """Prices, runs and annotations, as they are now; it stays like that."""
        coster = self._coster.refreshed()
        self._coster = coster
        return coster

    @property
    def lock(self) -> AbstractContextManager[object]:
        """To be held while the catalogue is asked, until the answer is complete."""
        return self.catalogue.lock

    def list_report(self, agents: Sequence[str] | None, options: SessionListOptions) -> ListReport:
        """A list over some agents (None: all), with what it leaves out."""
        options = _checked_list(options, self.zone)
        for name in agents or ():
            if not self.registry.knows(name):
                self.registry.require(name)  # says whom there is
        names = self.registry.names() if agents is None else agents
        with self.lock:
            return self.catalogue.list_report(names, options, self.coster)

    def search_report(self, query: SessionQuery) -> SearchReport:
        """A search, with what could not be read."""
        from amux.sessions.search.search import Search

        search = Search(_checked_query(query, self.zone), now=self.now(), zone=self.zone)
        with self.lock:
            report = self._run(search)
        return replace(report, notes=(*report.notes, *self._unknown_agents(search)))

    def _run(self, search: Search, *, may_ask_again: bool = True) -> SearchReport:
        """Through the index, once more if it was changed meanwhile; else directly."""
        names = [name for name in self.catalogue.names() if search.wants(name)]
        by_words = bool(search.query.terms)
        try:
            return search.run(self.catalogue.search_scope(names, self.coster, by_words=by_words))
        except IndexUnavailableError as error:
            asks_again = may_ask_again and isinstance(error, IndexChangedError)
            if not asks_again and not self.catalogue.give_up_index(str(error)):
                raise
            return self._run(search, may_ask_again=False)

    def _unknown_agents(self, search: Search) -> Iterator[str]:
        for agent in search.query.filters.named_agents():
            if not self.registry.knows(agent):
                known = ", ".join(self.registry.names())
                yield f"no agent is called `{agent}`; known: {known}"

    def open(self, agent: str, session_id: str) -> tuple[Assembly, AssembledSession]:
        """The session behind an id or unique prefix, with everything that bears on it."""
        found = find_session(self.registry, self.library, session_id, agent=agent)
        native_id = found.ref.native_session_id
        with self.lock:
            assembly = found.assembly or self.catalogue.assembly_for(agent, native_id)
        session = assembly.find(native_id)
        if session is None or not session.attributed:
            raise self._missing(agent, session_id, assembly)
        return assembly, session

    def _missing(self, agent: str, session_id: str, assembly: Assembly) -> AmuxError:
        problem = find_read_error(self.library, agent, session_id)
        if problem is not None or assembly.problems:
            return damaged(agent, session_id, problem or assembly.problems[0])
        return SessionNotFoundError(
            f"{agent} has no session `{session_id}`",
            hint=f"`amux list {agent}` shows what there is",
        )

    def header(self, assembly: Assembly, session: AssembledSession) -> Session:
        """The session without its messages; sub-agents complete."""
        return self._view(assembly, session, (), self.coster)

    def _whole(
        self, assembly: Assembly, session: AssembledSession, coster: CostCalculator
    ) -> Session:
        return self._view(assembly, session, self.library.messages(assembly, session), coster)

    def _view(
        self,
        assembly: Assembly,
        session: AssembledSession,
        messages: Iterable[SessionMessage],
        coster: CostCalculator,
    ) -> Session:
        return full_session(
            session,
            messages,
            cost=coster.cost_of(session),
            tags=coster.tags_of(session),
            starred=coster.is_starred(session),
            notes=coster.notes_of(session),
            children=tuple(self._whole(assembly, child, coster) for child in session.children),
        )

    def get(self, agent: str, session_id: str) -> Session:
        """One whole session."""
        assembly, session = self.open(agent, session_id)
        return self._whole(assembly, session, self.coster)

    def stream(self, agent: str, session_id: str) -> tuple[Session, Iterator[SessionMessage]]:
        """The session without messages, and the messages as they are read."""
        assembly, session = self.open(agent, session_id)
        return self.header(assembly, session), self.library.messages(assembly, session)

    def explain(self, agent: str, session_id: str) -> CostExplanation:
        """Why the session costs what it costs."""
        from amux.sessions.cost.explain import explain_cost

        _, session = self.open(agent, session_id)
        return explain_cost(session, self.coster)

    def total_cost(self, options: CostAggregationOptions) -> CostSummary:
        """Cost over all sessions that fit; zeros when none does."""
        from amux.sessions.cost.report import CostReport

        options = _checked_cost(options, self.zone)
        names = self.registry.names() if options.agent is None else (options.agent,)
        with self.lock:
            report = CostReport(self.coster, options, self.zone)
            self.catalogue.add_spending(
                [name for name in names if self.registry.knows(name)], report
            )
        report.add_lost_runs()
        return report.summary()


def _checked_list(options: SessionListOptions, zone: tzinfo) -> SessionListOptions:
    check_choice(options.sort, get_args(ListSort), "sort")
    check_choice(options.sort_direction, get_args(Direction), "sort_direction")
    return replace(_with_checked_span(options, zone), limit=check_limit(options.limit))


def _checked_query(query: SessionQuery, zone: tzinfo) -> SessionQuery:
    check_choice(query.sort, get_args(SearchSort), "sort")
    for role in query.roles or ():
        check_choice(role, get_args(SearchRole), "role")
    limit, hits = check_limit(query.limit), check_limit(query.hits, "hits")
    return replace(_with_checked_span(query, zone), limit=limit, hits=hits)


def _checked_cost(options: CostAggregationOptions, zone: tzinfo) -> CostAggregationOptions:
    names = group_names(options.group_by)
    for position, name in enumerate(names):
        check_choice(name, get_args(GroupBy), "group_by")
        if name in names[:position]:
            raise ValidationError(f"group_by names `{name}` twice", fields=("group_by",))
    return replace(_with_checked_span(options, zone), group_by=names or None)


def _with_checked_span(options: Options, zone: tzinfo) -> Options:
    return replace(
        options,
        since=check_moment(options.since, "since", zone=zone),
        until=check_moment(options.until, "until", zone=zone, end_of_day=True),
    )
