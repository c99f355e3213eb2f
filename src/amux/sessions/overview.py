"""The first look: which agents are here, their last sessions, what the week cost."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from amux.assembly.cost import CostCalculator, local_day
from amux.assembly.session import AssembledSession, time_span
from amux.assembly.summary import summarize
from amux.index.rows.session_row import moment_at
from amux.model.options import CostAggregationOptions, SessionListOptions
from amux.model.problems import Problem, in_order
from amux.model.reports import AgentStatus, Overview
from amux.model.session import SessionSummary
from amux.reading.fingerprint import total_size
from amux.sessions.cost.report import CostReport
from amux.sessions.list import sort_sessions
from amux.sessions.service import SessionService

if TYPE_CHECKING:
    from amux.index.rows.results import AgentCounts

RECENT = 5
_LAST: Final = SessionListOptions(sort="updated", limit=RECENT)

_Read = tuple["AgentTotals", Sequence[SessionSummary], Sequence[Problem]]


class AgentTotals:
    """What the sessions of one agent come to."""

    def __init__(self) -> None:
        self.count = 0
        self.size = 0
        self.oldest: datetime | None = None
        self.newest: datetime | None = None
        self.version: str | None = None
        self._last = b""  # the tie of the session that changed last; of several the first

    @classmethod
    def kept(cls, counted: AgentCounts) -> AgentTotals:
        """As the index has it."""
        seen = cls()
        seen.count, seen.size, seen.version = counted.sessions, counted.size, counted.version
        if counted.oldest is not None and counted.newest is not None:
            seen.oldest, seen.newest = moment_at(counted.oldest), moment_at(counted.newest)
        return seen

    def add(self, session: AssembledSession) -> None:
        """One session after the other."""
        created, updated = time_span(session)
        self.count += 1
        if self.oldest is None or created < self.oldest:
            self.oldest = created
        is_first = updated == self.newest and session.sort_key < self._last
        if self.newest is None or updated > self.newest or is_first:
            self.newest, self.version = updated, session.facts.version
            self._last = session.sort_key


class RecentSessions:
    """The sessions that changed last; only these are summarized."""

    def __init__(self) -> None:
        self._last: list[tuple[datetime, bytes, AssembledSession]] = []

    def add(self, session: AssembledSession) -> None:
        """Look at one more."""
        if session.archived:
            return
        _, updated = time_span(session)
        if len(self._last) == RECENT and updated < self._last[-1][0]:
            return
        self._last.append((updated, session.sort_key, session))
        self._last.sort(key=itemgetter(1))
        self._last.sort(key=itemgetter(0), reverse=True)
        del self._last[RECENT:]

    @property
    def sessions(self) -> list[AssembledSession]:
        """At most so many as are shown."""
        return [session for _, _, session in self._last]


def agent_statuses(service: SessionService, agent: str | None = None) -> tuple[AgentStatus, ...]:
    """Each known agent, or one, and what it has here."""
    names = [name for name in service.registry.names() if agent in (None, name)]
    with service.lock:
        return tuple(_status(service, name, _look_at(service, name)) for name in names)


def _look_at(service: SessionService, name: str) -> AgentTotals:
    counted = service.agent_counts(name)
    return _read(service, name)[0] if counted is None else AgentTotals.kept(counted)


def _read(service: SessionService, name: str, report: CostReport | None = None) -> _Read:
    """All sessions of an agent, looked at one by one."""
    seen, recent, costs = AgentTotals(), RecentSessions(), service.costs
    problems = [*costs.annotations.problems]
    sources = service.catalog.sources(name)
    seen.size = total_size(sources)
    for assembly in service.assemblies(name, sources=sources):
        problems += assembly.problems
        if report is not None:
            report.add_assembly(assembly)
        for session in assembly.all_sessions():
            if session.listed and session.kind != "subagent":
                seen.add(session)
                recent.add(session)
    return seen, [_summary(session, costs) for session in recent.sessions], problems


def make_overview(service: SessionService, *, now: datetime) -> Overview:
    """A week is seven days, today included; it has what was spent on them."""
    names, costs = service.registry.names(), service.costs
    first_day = local_day(now, service.zone) - timedelta(days=6)
    report = CostReport(costs, CostAggregationOptions(), service.zone, first_day=first_day)
    statuses: list[AgentStatus] = []
    recent: list[SessionSummary] = []
    problems: list[Problem] = []
    for name in names:
        with service.lock, service.one_snapshot():
            seen, last, found = _from_index(service, name, report)
        problems += found
        by_name = sorted([*recent, *last], key=lambda summary: summary.unified_id)
        recent = sort_sessions(by_name, "updated", descending=True)[:RECENT]
        statuses.append(_status(service, name, seen))
    report.add_lost_runs()
    return Overview(
        agents=tuple(statuses),
        recent=tuple(recent),
        week=report.summary(),
        problems=in_order(problems),
    )


def _from_index(service: SessionService, name: str, report: CostReport) -> _Read:
    """What there is of an agent and what it spent: from the index, else in one pass."""
    counted = service.agent_counts(name)
    if counted is None:
        return _read(service, name, report)
    service.add_spending((name,), report)
    last = service.list_agents((name,), _LAST)
    return AgentTotals.kept(counted), last.sessions, last.problems


def _summary(session: AssembledSession, costs: CostCalculator) -> SessionSummary:
    cost, tags = costs.cost_of(session), costs.tags_of(session)
    return summarize(session, cost, tags, starred=costs.is_starred(session))


def _status(service: SessionService, name: str, seen: AgentTotals) -> AgentStatus:
    info = service.registry.require(name).info
    return AgentStatus(
        name=name,
        label=info.label,
        tier=info.tier,
        session_persistence=info.capabilities.session_persistence,
        can_resume=info.capabilities.can_resume,
        can_fork=info.capabilities.can_fork,
        records_usage=info.capabilities.records_usage,
        roots=tuple(root.as_posix() for root in service.catalog.roots(name)),
        session_count=seen.count,
        bytes=seen.size,
        oldest=seen.oldest,
        newest=seen.newest,
        version=seen.version,
        evidence=info.evidence,
    )
