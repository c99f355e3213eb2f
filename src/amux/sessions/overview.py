"""The first look: which agents are here, their last sessions, what the week cost."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from amux.index.reading import total_size
from amux.model.options import CostAggregationOptions, SessionListOptions
from amux.model.problems import Problem, in_order
from amux.model.reports import AgentStatus, Overview
from amux.model.session import SessionSummary
from amux.sessions.cost import CostReport
from amux.sessions.costing import Coster
from amux.sessions.days import local_day
from amux.sessions.listing import sort_sessions
from amux.sessions.parts import Joined
from amux.sessions.reader import SessionReader
from amux.sessions.rows import moment_at
from amux.sessions.spans import time_span
from amux.sessions.views import summarize

if TYPE_CHECKING:
    from amux.index.census import Counted

RECENT = 5
_LAST: Final = SessionListOptions(sort="updated", limit=RECENT)

_Read = tuple["_Seen", Sequence[SessionSummary], Sequence[Problem]]


class _Seen:
    """What the sessions of one agent come to."""

    def __init__(self) -> None:
        self.count = 0
        self.size = 0
        self.oldest: datetime | None = None
        self.newest: datetime | None = None
        self.version: str | None = None
        self._last = b""  # the tie of the session that changed last; of several the first

    @classmethod
    def kept(cls, counted: Counted) -> _Seen:
        """As the index has it."""
        seen = cls()
        seen.count, seen.size, seen.version = counted.sessions, counted.size, counted.version
        if counted.oldest is not None and counted.newest is not None:
            seen.oldest, seen.newest = moment_at(counted.oldest), moment_at(counted.newest)
        return seen

    def add(self, session: Joined) -> None:
        """One session after the other."""
        created, updated = time_span(session)
        self.count += 1
        if self.oldest is None or created < self.oldest:
            self.oldest = created
        is_first = updated == self.newest and session.tie < self._last
        if self.newest is None or updated > self.newest or is_first:
            self.newest, self.version = updated, session.facts.version
            self._last = session.tie


class _Recent:
    """The sessions that changed last; only these are summarized."""

    def __init__(self) -> None:
        self._last: list[tuple[datetime, bytes, Joined]] = []

    def add(self, session: Joined) -> None:
        """Look at one more."""
        if session.archived:
            return
        _, updated = time_span(session)
        if len(self._last) == RECENT and updated < self._last[-1][0]:
            return
        self._last.append((updated, session.tie, session))
        self._last.sort(key=itemgetter(1))
        self._last.sort(key=itemgetter(0), reverse=True)
        del self._last[RECENT:]

    @property
    def sessions(self) -> list[Joined]:
        """At most so many as are shown."""
        return [session for _, _, session in self._last]


def agent_statuses(reader: SessionReader, agent: str | None = None) -> tuple[AgentStatus, ...]:
    """Each known agent, or one, and what it has here."""
    names = [name for name in reader.registry.names() if agent in (None, name)]
    with reader.turn:
        return tuple(_status(reader, name, _look_at(reader, name)) for name in names)


def _look_at(reader: SessionReader, name: str) -> _Seen:
    counted = reader.catalogue.census(name, reader.coster)
    return _read(reader, name)[0] if counted is None else _Seen.kept(counted)


def _read(reader: SessionReader, name: str, report: CostReport | None = None) -> _Read:
    """All sessions of an agent, looked at one by one."""
    seen, recent, coster = _Seen(), _Recent(), reader.coster
    problems = [*coster.problems]
    sources = reader.library.sources(name)
    seen.size = total_size(sources)
    for assembly in reader.catalogue.assemblies(name, sources=sources):
        problems += assembly.problems
        if report is not None:
            report.add_assembly(assembly)
        for session in assembly.everyone():
            if session.listed and session.kind != "subagent":
                seen.add(session)
                recent.add(session)
    return seen, [_summary(session, coster) for session in recent.sessions], problems


def make_overview(reader: SessionReader, *, now: datetime) -> Overview:
    """A week is seven days, today included; it has what was spent on them."""
    names, coster = reader.registry.names(), reader.coster
    first_day = local_day(now, reader.zone) - timedelta(days=6)
    report = CostReport(coster, CostAggregationOptions(), reader.zone, first_day=first_day)
    statuses: list[AgentStatus] = []
    recent: list[SessionSummary] = []
    problems: list[Problem] = []
    for name in names:
        with reader.turn, reader.catalogue.one_look():
            seen, last, found = _glance(reader, name, report)
        problems += found
        by_name = sorted([*recent, *last], key=lambda summary: summary.unified_id)
        recent = sort_sessions(by_name, "updated", descending=True)[:RECENT]
        statuses.append(_status(reader, name, seen))
    report.add_lost_runs()
    return Overview(
        agents=tuple(statuses),
        recent=tuple(recent),
        week=report.summary(),
        problems=in_order(problems),
    )


def _glance(reader: SessionReader, name: str, report: CostReport) -> _Read:
    """What there is of an agent and what it spent: from the index, else in one pass."""
    catalogue = reader.catalogue
    counted = catalogue.census(name, reader.coster)
    if counted is None:
        return _read(reader, name, report)
    catalogue.spend((name,), report)
    last = catalogue.list_report((name,), _LAST, reader.coster)
    return _Seen.kept(counted), last.sessions, last.problems


def _summary(session: Joined, coster: Coster) -> SessionSummary:
    cost, tags = coster.cost_of(session), coster.tags_of(session)
    return summarize(session, cost, tags, starred=coster.is_starred(session))


def _status(reader: SessionReader, name: str, seen: _Seen) -> AgentStatus:
    info = reader.registry.require(name).info
    return AgentStatus(
        name=name,
        label=info.label,
        tier=info.tier,
        session_persistence=info.capabilities.session_persistence,
        can_resume=info.capabilities.can_resume,
        can_fork=info.capabilities.can_fork,
        records_usage=info.capabilities.records_usage,
        roots=tuple(root.as_posix() for root in reader.library.roots(name)),
        session_count=seen.count,
        bytes=seen.size,
        oldest=seen.oldest,
        newest=seen.newest,
        version=seen.version,
        evidence=info.evidence,
    )
