"""The overview: which agents are installed, their latest sessions, and the cost of the week."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from amux.assembly.cost import local_day
from amux.assembly.session import AssembledSession, time_span
from amux.index.rows.session_row import moment_at
from amux.model.options import CostAggregationOptions, SessionListOptions
from amux.model.problems import Problem, in_order
from amux.model.reports import AgentStatus, Overview
from amux.model.session import SessionSummary
from amux.reading.fingerprint import total_size
from amux.sessions.cost.report import CostReport
from amux.sessions.list import sort_sessions, summary_of
from amux.sessions.service import SessionService

if TYPE_CHECKING:
    from amux.index.rows.results import AgentCounts

RECENT = 5
_LATEST: Final = SessionListOptions(sort="updated", limit=RECENT)

_AgentOverview = tuple["AgentTotals", Sequence[SessionSummary], Sequence[Problem]]


@dataclass(slots=True)
class AgentTotals:
    """Number, size and time span of an agent's sessions, and its version."""

    count: int = 0
    size: int = 0
    oldest: datetime | None = None
    newest: datetime | None = None
    version: str | None = None
    _newest_key: bytes = b""  # sort key of the newest session; the smallest of several

    @classmethod
    def from_counts(cls, counts: AgentCounts) -> AgentTotals:
        """Return the totals that the index has counted."""
        totals = cls(counts.sessions, counts.size, version=counts.version)
        if counts.oldest is not None and counts.newest is not None:
            totals.oldest, totals.newest = moment_at(counts.oldest), moment_at(counts.newest)
        return totals

    def add(self, session: AssembledSession) -> None:
        """Count one session."""
        created, updated = time_span(session)
        self.count += 1
        if self.oldest is None or created < self.oldest:
            self.oldest = created
        is_first = updated == self.newest and session.sort_key < self._newest_key
        if self.newest is None or updated > self.newest or is_first:
            self.newest, self.version = updated, session.facts.version
            self._newest_key = session.sort_key


class RecentSessions:
    """The latest `RECENT` sessions among those added, newest first."""

    def __init__(self) -> None:
        self._dated: list[tuple[datetime, bytes, AssembledSession]] = []

    def add(self, session: AssembledSession) -> None:
        """Add a session unless it is archived or older than those found before."""
        _, updated = time_span(session)
        is_full = len(self._dated) == RECENT
        if session.archived or (is_full and updated < self._dated[-1][0]):
            return
        self._dated.append((updated, session.sort_key, session))
        self._dated.sort(key=itemgetter(1))
        self._dated.sort(key=itemgetter(0), reverse=True)
        del self._dated[RECENT:]

    @property
    def sessions(self) -> list[AssembledSession]:
        """The sessions without their sort keys."""
        return [session for _, _, session in self._dated]


def agent_statuses(service: SessionService, agent: str | None = None) -> tuple[AgentStatus, ...]:
    """Return the status of one agent or of all, with the totals of its sessions."""
    names = [name for name in service.registry.names() if agent in (None, name)]
    with service.lock:
        return tuple(_status(service, name, _totals(service, name)) for name in names)


def _totals(service: SessionService, name: str) -> AgentTotals:
    counts = service.agent_counts(name)
    return _from_sources(service, name)[0] if counts is None else AgentTotals.from_counts(counts)


def make_overview(service: SessionService, *, now: datetime) -> Overview:
    """Return the overview. The week is today and the six days before it."""
    first_day = local_day(now, service.zone) - timedelta(days=6)
    report = CostReport(service.costs, CostAggregationOptions(), service.zone, first_day=first_day)
    statuses: list[AgentStatus] = []
    recent: list[SessionSummary] = []
    problems: list[Problem] = []
    for name in service.registry.names():
        with service.lock, service.one_snapshot():
            totals, latest, found = _from_index(service, name, report)
        problems += found
        by_name = sorted([*recent, *latest], key=lambda summary: summary.unified_id)
        recent = sort_sessions(by_name, "updated", descending=True)[:RECENT]
        statuses.append(_status(service, name, totals))
    report.add_lost_runs()
    return Overview(
        agents=tuple(statuses),
        recent=tuple(recent),
        week=report.summary(),
        problems=in_order(problems),
    )


def _from_index(service: SessionService, name: str, report: CostReport) -> _AgentOverview:
    """Read an agent's part of the overview from the index, or without one from its sources."""
    counts = service.agent_counts(name)
    if counts is None:
        return _from_sources(service, name, report)
    service.add_spending((name,), report)
    latest = service.list_agents((name,), _LATEST)
    return AgentTotals.from_counts(counts), latest.sessions, latest.problems


def _from_sources(
    service: SessionService, name: str, report: CostReport | None = None
) -> _AgentOverview:
    """Read all sessions of an agent in one pass, and add their spending to a report."""
    totals, recent, costs = AgentTotals(), RecentSessions(), service.costs
    problems = [*costs.annotations.problems]
    sources = service.catalog.sources(name)
    totals.size = total_size(sources)
    for assembly in service.assemblies(name, sources=sources):
        problems += assembly.problems
        if report is not None:
            report.add_assembly(assembly)
        for session in assembly.all_sessions():
            if session.listed and session.kind != "subagent":
                totals.add(session)
                recent.add(session)
    return totals, [summary_of(session, costs) for session in recent.sessions], problems


def _status(service: SessionService, name: str, totals: AgentTotals) -> AgentStatus:
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
        session_count=totals.count,
        bytes=totals.size,
        oldest=totals.oldest,
        newest=totals.newest,
        version=totals.version,
        evidence=info.evidence,
    )
