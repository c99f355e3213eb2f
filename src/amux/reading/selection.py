"""Selects the sessions that a list must read, with the help of the adapter.

A list with a limit or a filter need not read the sessions it cannot show. They are skipped by
exactly the rules of `sessions.list`, so the list and its counts equal those of a full read. Sources
that an adapter cannot select from are read whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

from amux.adapters._base import (
    Adapter,
    ListFilter,
    Selection,
    Selective,
    SkippedCounts,
    SourceRef,
)
from amux.assembly.assemble import Assembly
from amux.assembly.session import time_span
from amux.assembly.summary import cwd_of
from amux.model.list_filter import in_span, same_directory
from amux.model.options import SessionListOptions
from amux.reading.facts import CollectedFacts

NOTHING_SKIPPED: Final = SkippedCounts()


class AgentSelection:
    """The sessions of one agent that a list may show, selected by the adapter and then read.

    `began` has the start times of sessions that are shown unless others precede them.
    """

    def __init__(self, adapter: Selective, selection: Selection, facts: CollectedFacts) -> None:
        self._adapter = adapter
        self._selection = selection
        self._facts = facts
        self.began = selection.began()

    def read(self, bound: datetime | None) -> tuple[Assembly, SkippedCounts]:
        """Read the sessions up to `bound`; return them with the counts of the skipped ones."""
        selected = self._selection.first(bound)
        while selected:
            selected = self._selection.more(self._facts.add_selected(self._adapter, selected))
        return self._facts.assembly(), self._selection.skipped()


class FullRead:
    """All sessions of an agent, for adapters that cannot select."""

    def __init__(self, assembly: Assembly, options: SessionListOptions) -> None:
        self._assembly = assembly
        self.began = [*_shown_times(assembly, options)] if _limit(options) else []

    def read(self, bound: datetime | None) -> tuple[Assembly, SkippedCounts]:
        """Return all sessions, which have been read already."""
        del bound
        return self._assembly, NOTHING_SKIPPED


def select_sessions(
    adapter: Adapter,
    sources: Sequence[SourceRef],
    options: SessionListOptions,
    *,
    bound: datetime | None = None,
) -> AgentSelection | FullRead:
    """Return the sessions an agent may show in a list that other agents fill up to `bound`."""
    facts = CollectedFacts(adapter.info.name, sources)
    selectable: list[SourceRef] = []
    if isinstance(adapter, Selective) and leaves_out(options):
        selectable = [source for source in sources if adapter.can_select(source)]
    locations = {source.location for source in selectable}
    for source in sources:
        if source.location not in locations:
            facts.add_source(adapter, source)
    if isinstance(adapter, Selective) and selectable:
        named = frozenset(facts.names())
        selection = adapter.select(selectable, _filter_of(options, bound=bound, named=named))
        if selection is not None:
            return AgentSelection(adapter, selection, facts)
    for source in selectable:
        facts.add_source(adapter, source)
    return FullRead(facts.assembly(), options)


def leaves_out(options: SessionListOptions) -> bool:
    """Return whether such a list can skip sessions."""
    return _limit(options) is not None or any((options.since, options.until, options.cwd))


def _limit(options: SessionListOptions) -> int | None:
    """Return the limit of the list if it can be applied before reading, else None.

    It cannot if the order or a filter depends on what only a read or the annotations tell.
    """
    return None if options.sort != "date" or _needs_full_read(options) else options.limit


def _needs_full_read(options: SessionListOptions) -> bool:
    """Return whether a filter needs full reads, also of hidden sessions to count them."""
    return options.model is not None or bool(options.tags) or options.starred


def last_shown(began: Iterable[datetime], options: SessionListOptions) -> datetime | None:
    """Return the start time of the last session within the limit; None if there are fewer."""
    limit = _limit(options)
    if not limit:
        return None
    in_order = sorted(began, reverse=options.sort_direction == "desc")
    return in_order[limit - 1] if len(in_order) >= limit else None


def _shown_times(assembly: Assembly, options: SessionListOptions) -> Iterator[datetime]:
    for session in assembly.all_sessions():
        is_hidden = (session.kind == "subagent" and not options.include_children) or (
            session.archived and not options.include_archived
        )
        if session.listed and not is_hidden and same_directory(cwd_of(session), options.cwd):
            began, _ = time_span(session)
            if in_span(began, options.since, options.until):
                yield began


def _filter_of(
    options: SessionListOptions, *, bound: datetime | None, named: frozenset[str]
) -> ListFilter:
    needs_full_read = _needs_full_read(options)
    return ListFilter(
        since=options.since,
        until=options.until,
        cwd=options.cwd,
        children=options.include_children or needs_full_read,
        archived=options.include_archived or needs_full_read,
        descending=options.sort_direction == "desc",
        limit=_limit(options),
        bound=bound,
        named=named,
    )
