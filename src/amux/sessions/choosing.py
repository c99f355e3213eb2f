"""A list reads what it can show: which sessions these are, the adapter tells.

A list that ends after some sessions, or begins at a day, need not read what it cannot show. What is
left out is left out by exactly the rules of `listing`, so that the list and its counts are equal to
those of a list that reads everything. Whatever an adapter does not tell is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import chain
from typing import Final

from amux.adapters._base import (
    Adapter,
    Choice,
    Chosen,
    Queryable,
    Question,
    SourceRef,
    Unread,
)
from amux.model.facts import Facts
from amux.model.options import SessionListOptions
from amux.model.problems import Problem
from amux.sessions.assemble import Assembly, assemble
from amux.sessions.filters import in_span, same_place
from amux.sessions.library import read_facts, take_facts
from amux.sessions.parts import Part
from amux.sessions.spans import time_span
from amux.sessions.views import cwd_of

NOTHING_UNREAD: Final = Unread()


class Selection:
    """The sessions of one agent that a list may show: known by their beginnings, then read.

    `began` tells when those began that are shown for sure, unless others come before them.
    """

    def __init__(self, adapter: Queryable, choice: Choice, reading: _Reading) -> None:
        self._adapter = adapter
        self._choice = choice
        self._reading = reading
        self.began = choice.began()

    def read(self, bound: datetime | None) -> tuple[Assembly, Unread]:
        """The sessions, and counts of the others; what comes behind the `bound` is not shown."""
        chosen = self._choice.first(bound)
        while chosen:
            chosen = self._choice.more(self._reading.take_chosen(self._adapter, chosen))
        return self._reading.assembly(), self._choice.unread()


class Everything:
    """All sessions of an agent, where nothing tells which of them can be shown."""

    def __init__(self, assembly: Assembly, options: SessionListOptions) -> None:
        self._assembly = assembly
        self.began = [*_shown_times(assembly, options)] if _limit(options) else []

    def read(self, bound: datetime | None) -> tuple[Assembly, Unread]:
        """They were read already."""
        del bound
        return self._assembly, NOTHING_UNREAD


def select_sessions(
    adapter: Adapter,
    sources: Sequence[SourceRef],
    options: SessionListOptions,
    *,
    bound: datetime | None = None,
) -> Selection | Everything:
    """What a list may show of an agent. `bound`: others are to be shown already, up to this one."""
    reading = _Reading(adapter.info.name, sources)
    telling: list[SourceRef] = []
    if isinstance(adapter, Queryable) and leaves_out(options):
        telling = [source for source in sources if adapter.tells(source)]
    told = {source.place for source in telling}
    for source in sources:
        if source.place not in told:
            reading.take_whole(adapter, source)
    if isinstance(adapter, Queryable) and telling:
        named = frozenset(reading.names())
        choice = adapter.choose(telling, _question(options, bound=bound, named=named))
        if choice is not None:
            return Selection(adapter, choice, reading)
    for source in telling:
        reading.take_whole(adapter, source)
    return Everything(reading.assembly(), options)


def leaves_out(options: SessionListOptions) -> bool:
    """Whether there is anything that such a list need not read."""
    return _limit(options) is not None or any((options.since, options.until, options.cwd))


def _limit(options: SessionListOptions) -> int | None:
    """After how many sessions nothing more is shown, if that can be told before they are read.

    The models, the cost and the last change of a session cannot; tags lie elsewhere.
    """
    return None if options.sort != "date" or _asks_for_more(options) else options.limit


def _asks_for_more(options: SessionListOptions) -> bool:
    """Whether there are filters that only a reading can answer: also to count what is hidden."""
    return options.model is not None or bool(options.tags) or options.starred


def last_shown(began: Iterable[datetime], options: SessionListOptions) -> datetime | None:
    """When the session began with which a list ends, if it is as long as it may be."""
    limit = _limit(options)
    if not limit:
        return None
    in_order = sorted(began, reverse=options.sort_direction == "desc")
    return in_order[limit - 1] if len(in_order) >= limit else None


def _shown_times(assembly: Assembly, options: SessionListOptions) -> Iterator[datetime]:
    for session in assembly.everyone():
        is_hidden = (session.kind == "subagent" and not options.include_children) or (
            session.archived and not options.include_archived
        )
        if session.listed and not is_hidden and same_place(cwd_of(session), options.cwd):
            began, _ = time_span(session)
            if in_span(began, options.since, options.until):
                yield began


def _question(
    options: SessionListOptions, *, bound: datetime | None, named: frozenset[str]
) -> Question:
    asks_for_more = _asks_for_more(options)
    return Question(
        since=options.since,
        until=options.until,
        cwd=options.cwd,
        children=options.include_children or asks_for_more,
        archived=options.include_archived or asks_for_more,
        descending=options.sort_direction == "desc",
        limit=_limit(options),
        bound=bound,
        named=named,
    )


class _Reading:
    """What was read of one agent; put together in the order of its sources."""

    def __init__(self, agent: str, sources: Sequence[SourceRef]) -> None:
        self._agent = agent
        self._sources = sources
        self._parts: dict[str, list[Part]] = {}
        self._problems: list[Problem] = []

    def take_whole(self, adapter: Adapter, source: SourceRef) -> None:
        """All of a source."""
        read_facts(adapter, source, self._parts.setdefault(source.place, []), self._problems)

    def take_chosen(self, adapter: Queryable, chosen: Chosen) -> list[tuple[SourceRef, Facts]]:
        """What was chosen of some sources; returns what they say."""
        read: list[tuple[SourceRef, Facts]] = []
        for source, ids in chosen.items():
            parts = self._parts.setdefault(source.place, [])
            take_facts(adapter.read_chosen(source, chosen=ids), source, parts, self._problems)
            read += ((source, part.facts) for part in parts)
        return read

    def names(self) -> Iterator[str]:
        """Every session that was spoken of."""
        for part in chain.from_iterable(self._parts.values()):
            yield from _names(part)

    def assembly(self) -> Assembly:
        """All of it."""
        in_order = (self._parts.get(source.place, ()) for source in self._sources)
        return assemble(self._agent, chain.from_iterable(in_order), self._problems)


def _names(part: Part) -> Iterator[str]:
    """Every session a part speaks of."""
    facts = part.facts
    prefix = None if facts.prefix is None else facts.prefix.of
    noted = (note.session_id for note in facts.notes)
    named = (facts.session_id, *facts.aliases, facts.parent, prefix, *facts.children, *noted)
    yield from filter(None, named)
