"""The first look: which agents are here, their last sessions, what the week cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from operator import itemgetter

from amux.adapters._base import Persistence, SourceRef
from amux.model.base import Model
from amux.model.cost import CostSummary
from amux.model.ids import unified_id
from amux.model.options import CostAggregationOptions
from amux.model.session import SessionSummary
from amux.sessions.cost import CostReport
from amux.sessions.costing import Coster
from amux.sessions.listing import sort_sessions
from amux.sessions.parts import Joined
from amux.sessions.reader import SessionReader
from amux.sessions.views import summarize, time_span

RECENT = 5


class AgentStatus(Model, frozen=True, kw_only=True):
    """One agent on this machine."""

    name: str
    label: str
    tier: str
    session_persistence: Persistence
    can_resume: bool
    can_fork: bool
    records_usage: bool
    roots: tuple[str, ...]
    session_count: int
    bytes: int
    oldest: datetime | None = None
    newest: datetime | None = None
    version: str | None = None  # last seen in its sessions
    evidence: str = ""


class Overview(Model, frozen=True, kw_only=True):
    """What `amux` alone shows."""

    agents: tuple[AgentStatus, ...]
    recent: tuple[SessionSummary, ...]
    week: CostSummary


class _Seen:
    """What the sessions of one agent come to, one after the other."""

    def __init__(self, sources: Sequence[SourceRef]) -> None:
        self.sources = sources  # looked for once
        self.count = 0
        self.oldest: datetime | None = None
        self.newest: datetime | None = None
        self.version: str | None = None

    def add(self, session: Joined) -> None:
        created, updated = time_span(session)
        self.count += 1
        if self.oldest is None or created < self.oldest:
            self.oldest = created
        if self.newest is None or updated > self.newest:
            self.newest, self.version = updated, session.facts.version


def agent_statuses(reader: SessionReader, agent: str | None = None) -> tuple[AgentStatus, ...]:
    """Each known agent, or one, and what it has here."""
    names = [name for name in reader.registry.names() if agent in (None, name)]
    return tuple(_look_at(reader, name) for name in names)


def _look_at(reader: SessionReader, name: str) -> AgentStatus:
    seen = _Seen(reader.library.sources(name))
    for assembly in reader.catalogue.assemblies(name, sources=seen.sources):
        for session in assembly.sessions:
            if session.listed:
                seen.add(session)
    return _status(reader, name, seen)


def make_overview(reader: SessionReader, *, since: datetime) -> Overview:
    """One pass over everything; the week is counted by the calls made in it."""
    statuses: list[AgentStatus] = []
    recent = _Recent()
    coster = reader.coster
    report = CostReport(coster, CostAggregationOptions(since=since), reader.zone, by_call=True)
    for name in reader.registry.names():
        seen = _Seen(reader.library.sources(name))
        for assembly in reader.catalogue.assemblies(name, sources=seen.sources):
            report.add_assembly(assembly)
            for session in assembly.sessions:
                if session.listed:
                    seen.add(session)
                    recent.add(session)
        statuses.append(_status(reader, name, seen))
    report.add_lost_runs()
    summaries = (_summary(session, coster) for session in recent.sessions)
    last = sort_sessions(summaries, "updated", descending=True)
    return Overview(agents=tuple(statuses), recent=tuple(last), week=report.summary())


class _Recent:
    """The sessions that changed last; only these are summarized."""

    def __init__(self) -> None:
        self._last: list[tuple[float, str, Joined]] = []

    def add(self, session: Joined) -> None:
        """Look at one more."""
        if session.archived:
            return
        rank = -time_span(session)[1].timestamp()
        if len(self._last) == RECENT and rank > self._last[-1][0]:
            return
        self._last.append((rank, unified_id(session.agent, session.session_id), session))
        self._last.sort(key=itemgetter(0, 1))
        del self._last[RECENT:]

    @property
    def sessions(self) -> list[Joined]:
        """At most so many as are shown."""
        return [session for _, _, session in self._last]


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
        bytes=_size(seen.sources),
        oldest=seen.oldest,
        newest=seen.newest,
        version=seen.version,
        evidence=info.evidence,
    )


def _size(sources: Iterable[SourceRef]) -> int:
    """Bytes of all sources; one that vanished meanwhile counts nothing."""
    size = 0
    for source in sources:
        try:
            size += source.path.stat().st_size
        except OSError:
            continue
    return size
