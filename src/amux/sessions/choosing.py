"""Which sessions of a database a list has to read, told by the database's own table of sessions.

A list that ends after some sessions, or begins at a day, need not read what it cannot show. What
is left out is left out by exactly the rules of `listing`, so that the list and its counts are equal
to those of a list that reads everything. Whatever the table does not tell is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, NamedTuple

from amux.adapters._base import Adapter, Outline, Queryable, SourceRef
from amux.model.options import SessionListOptions
from amux.model.problems import Problem
from amux.sessions.assemble import Assembly, assemble
from amux.sessions.filters import in_span, same_place
from amux.sessions.library import read_facts, take_facts
from amux.sessions.parts import Part
from amux.sessions.views import forward_slashes


class Unread(NamedTuple):
    """How many sessions fit that were not read: sub-agents, archived ones, those further on."""

    children: int = 0
    archived: int = 0
    more: int = 0

    def plus(self, other: Unread) -> Unread:
        """Of two agents together."""
        return Unread(*(one + two for one, two in zip(self, other, strict=True)))


NOTHING_UNREAD: Final = Unread()


def choose_sessions(
    adapter: Adapter, sources: Sequence[SourceRef], options: SessionListOptions
) -> tuple[Assembly, Unread] | None:
    """The sessions a list may show, and counts of the others; None when all have to be read."""
    if not isinstance(adapter, Queryable) or not _leaves_out(options):
        return None
    alone = len(sources) == 1
    outlines = [adapter.outlines(source, alone=alone) for source in sources]
    if not any(outlines):
        return None
    return _Choice(adapter, sources, outlines).read(adapter, options)


def _leaves_out(options: SessionListOptions) -> bool:
    return _limit(options) is not None or any((options.since, options.until, options.cwd))


def _limit(options: SessionListOptions) -> int | None:
    """After how many sessions nothing more is shown, if the table of sessions can tell.

    It does not know the models, the cost or the last change of a session; tags lie elsewhere.
    """
    return None if options.sort != "date" or _asks_for_more(options) else options.limit


def _asks_for_more(options: SessionListOptions) -> bool:
    """Whether there are filters that no outline can answer."""
    return options.model is not None or bool(options.tags) or options.starred


class _Choice:
    """Sources of one agent, some of them with outlines of their sessions."""

    def __init__(
        self,
        adapter: Adapter,
        sources: Sequence[SourceRef],
        outlines: Sequence[Sequence[Outline] | None],
    ) -> None:
        self._sources = sources
        self._outlines = outlines
        self._known = list(chain.from_iterable(filter(None, outlines)))
        self._problems: list[Problem] = []
        self._parts: list[list[Part]] = [[] for _ in sources]
        for source, told, parts in zip(sources, outlines, self._parts, strict=True):
            if told is None:
                read_facts(adapter, source, parts, self._problems)

    def read(self, adapter: Queryable, options: SessionListOptions) -> tuple[Assembly, Unread]:
        """Read what may be shown and all that it needs."""
        chosen = self._with_needs(
            chain(self._unclear(), (one.session_id for one in self._shown(options)))
        )
        for source, told, parts in zip(self._sources, self._outlines, self._parts, strict=True):
            ids = [one.session_id for one in told or () if one.session_id in chosen]
            if ids:
                found = adapter.read_chosen(source, chosen=ids)
                take_facts(found, source, parts, self._problems)
        agent = self._sources[0].agent
        assembly = assemble(agent, chain.from_iterable(self._parts), self._problems)
        left = (one for one in self._known if one.session_id not in chosen and _fits(one, options))
        counts = Counter(_place(one, options) for one in left)
        return assembly, Unread(*(counts[place] for place in Unread._fields))

    def _unclear(self) -> Iterator[str]:
        """Sessions about which more than one table has a say."""
        times = Counter(one.session_id for one in self._known)
        yield from (id for id, count in times.items() if count > 1)
        yield from (one.session_id for one in self._known if one.created_at is None)
        for part in chain.from_iterable(self._parts):
            yield from _names(part)

    def _shown(self, options: SessionListOptions) -> list[Outline]:
        """In the order of the list, as far as it goes."""
        fitting = [one for one in self._known if _fits(one, options)]
        if not _asks_for_more(options):  # else it takes a reading to count what is hidden
            fitting = [one for one in fitting if _place(one, options) == "more"]
        by_id = sorted(fitting, key=lambda one: one.session_id)
        shown = sorted(by_id, key=_began, reverse=options.sort_direction == "desc")
        return shown[: _limit(options)]

    def _with_needs(self, ids: Iterable[str]) -> set[str]:
        needs: dict[str, list[str]] = {}
        for one in self._known:
            needs.setdefault(one.session_id, []).extend(one.needs)
        chosen: set[str] = set()
        waiting = list(ids)
        while waiting:
            id = waiting.pop()
            if id not in chosen:
                chosen.add(id)
                waiting.extend(needs.get(id, ()))
        return chosen


def _names(part: Part) -> Iterator[str]:
    """Every session a part of another source speaks of."""
    facts = part.facts
    prefix = None if facts.prefix is None else facts.prefix.of
    noted = (note.session_id for note in facts.notes)
    named = (facts.session_id, *facts.aliases, facts.parent, prefix, *facts.children, *noted)
    yield from filter(None, named)


def _fits(outline: Outline, options: SessionListOptions) -> bool:
    """Whether the filters let a session through, as far as its outline can tell."""
    if outline.created_at is None:
        return False  # it is read, and then judged
    cwd = None if outline.cwd is None else forward_slashes(outline.cwd)
    return in_span(outline.created_at, options.since, options.until) and same_place(
        cwd, options.cwd
    )


def _place(outline: Outline, options: SessionListOptions) -> str:
    """Where a list counts a session that it does not show; "more": it is only too far down."""
    if outline.is_subagent and not options.include_children:
        return "children"
    return "archived" if outline.archived and not options.include_archived else "more"


def _began(outline: Outline) -> float:
    return 0.0 if outline.created_at is None else outline.created_at.timestamp()
