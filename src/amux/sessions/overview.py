"""The first look: which agents are here, their last sessions, what the week cost."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from amux.adapters._base import Persistence, SourceRef
from amux.model.base import Model
from amux.model.cost import CostSummary
from amux.model.options import CostAggregationOptions
from amux.model.session import SessionSummary
from amux.sessions.assemble import Assembly
from amux.sessions.cost import CostReport
from amux.sessions.listing import sort_sessions
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


def agent_statuses(reader: SessionReader, agent: str | None = None) -> tuple[AgentStatus, ...]:
    """Each known agent (or the one that is named) and what it has here."""
    names = [name for name in reader.registry.names() if agent in (None, name)]
    return tuple(_status(reader, name, *_read(reader, name)) for name in names)


def make_overview(reader: SessionReader, *, since: datetime) -> Overview:
    """One pass over everything; the week is counted by the calls made in it."""
    statuses: list[AgentStatus] = []
    recent: list[SessionSummary] = []
    report = CostReport(
        reader.coster, CostAggregationOptions(since=since), reader.zone, by_call=True
    )
    for name in reader.registry.names():
        assembly, sources = _read(reader, name)
        statuses.append(_status(reader, name, assembly, sources))
        report.add_assembly(assembly)
        for session in assembly.sessions:
            if session.listed and not session.archived:
                cost, tags = reader.coster.cost_of(session), reader.coster.tags_of(session)
                recent.append(summarize(session, cost, tags))
    report.add_lost_runs()
    newest = sort_sessions(recent, "updated", descending=True)[:RECENT]
    return Overview(agents=tuple(statuses), recent=tuple(newest), week=report.summary())


def _read(reader: SessionReader, name: str) -> tuple[Assembly, list[SourceRef]]:
    """All sessions of an agent and the sources they come from, which are looked for once."""
    sources = reader.library.sources(name)
    return reader.library.assemble_sources(name, sources), sources


def _status(
    reader: SessionReader, name: str, assembly: Assembly, sources: Iterable[SourceRef]
) -> AgentStatus:
    info = reader.registry.require(name).info
    listed = [session for session in assembly.sessions if session.listed]
    spans = [time_span(session) for session in listed]
    latest = max(listed, key=lambda session: time_span(session)[1], default=None)
    return AgentStatus(
        name=name,
        label=info.label,
        tier=info.tier,
        session_persistence=info.capabilities.session_persistence,
        can_resume=info.capabilities.can_resume,
        can_fork=info.capabilities.can_fork,
        records_usage=info.capabilities.records_usage,
        roots=tuple(root.as_posix() for root in reader.library.roots(name)),
        session_count=len(listed),
        bytes=_size(sources),
        oldest=min((span[0] for span in spans), default=None),
        newest=max((span[1] for span in spans), default=None),
        version=None if latest is None else latest.facts.version,
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
