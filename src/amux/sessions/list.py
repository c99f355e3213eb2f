"""`list`: read, filter, sort and only then cut to the limit.

The order matters: a list sorted by cost must contain the most expensive session.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import reduce
from operator import itemgetter

from amux.adapters._base import SkippedCounts
from amux.assembly.assemble import Assembly
from amux.assembly.cost import CostCalculator
from amux.assembly.session import AssembledSession
from amux.assembly.summary import summarize
from amux.model.list_filter import has_any_tag, in_span, same_directory, used_model
from amux.model.options import SessionListOptions
from amux.model.problems import Problem
from amux.model.reports import ListReport
from amux.model.session import SessionSummary
from amux.reading.selection import (
    NOTHING_SKIPPED,
    AgentSelection,
    FullRead,
    last_shown,
    select_sessions,
)
from amux.reading.sources import SourceCatalog


def list_directly(
    catalog: SourceCatalog,
    agents: Sequence[str],
    options: SessionListOptions,
    costs: CostCalculator,
) -> ListReport:
    """Return the list without an index; read only the sources of sessions that may be shown.

    The heads of the sources of all agents are read first, so that no more sessions of each agent
    are read than the list can show.
    """
    selections: list[AgentSelection | FullRead] = []
    bound: datetime | None = None
    for agent in agents:
        sources = catalog.sources(agent, cwd=options.cwd)
        selections.append(select_sessions(catalog.adapter(agent), sources, options, bound=bound))
        bound = last_shown((at for each in selections for at in each.began), options)
    read = [selection.read(bound) for selection in selections]
    skipped = reduce(SkippedCounts.plus, (counts for _, counts in read), NOTHING_SKIPPED)
    return list_sessions((found for found, _ in read), options, costs, unread=skipped)


def list_sessions(
    assemblies: Iterable[Assembly],
    options: SessionListOptions,
    costs: CostCalculator,
    *,
    unread: SkippedCounts = NOTHING_SKIPPED,
) -> ListReport:
    """Return the matching summaries, sorted, and the counts of those hidden by default.

    `unread` counts sessions that match but were not read, because the list cannot show them.
    """
    found: list[tuple[bytes, SessionSummary]] = []
    problems: list[Problem] = []
    children, archived = unread.children, unread.archived
    for assembly in assemblies:
        problems.extend(assembly.problems)
        for session in assembly.all_sessions():
            if not session.listed or not _matches(summary := summary_of(session, costs), options):
                continue
            if session.kind == "subagent" and not options.include_children:
                children += 1
            elif session.archived and not options.include_archived:
                archived += 1
            else:
                found.append((session.sort_key, summary))
    found.sort(key=itemgetter(0))
    each = (summary for _, summary in found)
    shown = sort_sessions(each, options.sort, descending=options.sort_direction == "desc")
    limit = len(shown) if options.limit is None else options.limit
    return ListReport(
        sessions=tuple(shown[:limit]),
        hidden_children=children,
        hidden_archived=archived,
        truncated=max(0, len(shown) + unread.more - limit),
        problems=(*problems, *costs.annotations.problems),
    )


def summary_of(session: AssembledSession, costs: CostCalculator) -> SessionSummary:
    """Return the summary of a session with its cost, tags and star."""
    cost, tags = costs.cost_of(session), costs.tags_of(session)
    return summarize(session, cost, tags, starred=costs.is_starred(session))


def _matches(summary: SessionSummary, options: SessionListOptions) -> bool:
    return (
        in_span(summary.created_at, options.since, options.until)
        and used_model(summary, options.model)
        and has_any_tag(summary.tags, options.tags)
        and same_directory(summary.cwd, options.cwd)
        and (summary.starred or not options.starred)
    )


def sort_sessions(
    sessions: Iterable[SessionSummary], sort: str, *, descending: bool
) -> list[SessionSummary]:
    """Sort by one field; sessions with equal values keep their order in both directions."""

    def rank(summary: SessionSummary) -> float | datetime:
        match sort:
            case "cost":
                return -1.0 if summary.cost is None else summary.cost.total_usd
            case "turns":
                return summary.turn_count
            case "updated":
                return summary.updated_at
            case _:
                return summary.created_at

    return sorted(sessions, key=rank, reverse=descending)
