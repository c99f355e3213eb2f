"""A list reads what it can show: which sessions these are, the adapter tells.

A list that ends after some sessions, or begins at a day, need not read what it cannot show. What is
left out is left out by exactly the rules of `listing`, so that the list and its counts are equal to
those of a list that reads everything. Whatever an adapter does not tell is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Final

from amux.adapters._base import Adapter, Chosen, Queryable, Question, SourceRef, Unread
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


def choose_sessions(
    adapter: Adapter,
    sources: Sequence[SourceRef],
    options: SessionListOptions,
    *,
    bound: datetime | None = None,
) -> tuple[Assembly, Unread] | None:
    """The sessions a list may show, and counts of the others; None when all have to be read.

    `bound`: others are to be shown already, up to this one.
    """
    if not isinstance(adapter, Queryable) or not leaves_out(options):
        return None
    telling = [source for source in sources if adapter.tells(source)]
    if not telling:
        return None
    reading = _Reading(sources)
    for source in sources:
        if not adapter.tells(source):
            reading.take_whole(adapter, source)
    question = _question(options, bound=bound, named=frozenset(reading.names()))
    choice = adapter.choose(telling, question)
    if choice is None:
        for source in telling:
            reading.take_whole(adapter, source)
        return reading.assembly(), NOTHING_UNREAD
    chosen = choice.first()
    while chosen:
        chosen = choice.more(reading.take_chosen(adapter, chosen))
    return reading.assembly(), choice.unread()


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


def last_shown(assemblies: Iterable[Assembly], options: SessionListOptions) -> datetime | None:
    """When the session began with which a list ends, if it is as long as it may be."""
    limit = _limit(options)
    if not limit:
        return None
    began = sorted(
        (at for one in assemblies for at in _shown_times(one, options)),
        reverse=options.sort_direction == "desc",
    )
    return began[limit - 1] if len(began) >= limit else None


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

    def __init__(self, sources: Sequence[SourceRef]) -> None:
        self._sources = sources
        self._parts: dict[Path, list[Part]] = {}
        self._problems: list[Problem] = []

    def take_whole(self, adapter: Adapter, source: SourceRef) -> None:
        """All of a source."""
        read_facts(adapter, source, self._parts.setdefault(source.path, []), self._problems)

    def take_chosen(self, adapter: Queryable, chosen: Chosen) -> list[tuple[SourceRef, Facts]]:
        """What was chosen of some sources; returns what they say."""
        read: list[tuple[SourceRef, Facts]] = []
        for source, ids in chosen.items():
            parts = self._parts.setdefault(source.path, [])
            take_facts(adapter.read_chosen(source, chosen=ids), source, parts, self._problems)
            read += ((source, part.facts) for part in parts)
        return read

    def names(self) -> Iterator[str]:
        """Every session that was spoken of."""
        for part in chain.from_iterable(self._parts.values()):
            yield from _names(part)

    def assembly(self) -> Assembly:
        """All of it."""
        in_order = (self._parts.get(source.path, ()) for source in self._sources)
        agent = self._sources[0].agent
        return assemble(agent, chain.from_iterable(in_order), self._problems)


def _names(part: Part) -> Iterator[str]:
    """Every session a part speaks of."""
    facts = part.facts
    prefix = None if facts.prefix is None else facts.prefix.of
    noted = (note.session_id for note in facts.notes)
    named = (facts.session_id, *facts.aliases, facts.parent, prefix, *facts.children, *noted)
    yield from filter(None, named)
