"""From documents and titles to the sessions they belong to.

A search need not ask every session whether the index has something of it: it begins with what the
index has. Of most sessions that is all that ranking needs, and no more is made of them than a few
numbers until it is clear that they are shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from amux.index.rows.stored_session import StoredSession
from amux.index.text.engine import UNIT_SHIFT, units_of
from amux.sessions.search.hits import TITLE_HITS, SessionHits
from amux.sessions.search.indexed_hits import TextAnswer, TextCandidates
from amux.sessions.search.query.grammar import Query
from amux.sessions.search.query.terms import Term
from amux.sessions.search.recency import Recency
from amux.sessions.search.searchable import SearchableSession
from amux.sessions.search.titles import Titles

Units = Mapping[str, Mapping[int, int]]
"""The units of an agent's texts, by place (`place_key`)."""

_NOBODY: Final = -1  # whose a unit is that belongs to no session here, or to several


class SessionsByUnit:
    """Sessions by the units that their messages are in, and by their titles.

    A session is known by its place among all of them.
    """

    def __init__(self, sessions: Sequence[StoredSession], units: Units) -> None:
        self.sessions = sessions
        self._units = units
        self.of_unit: dict[int, int] = {}
        self.unknown: set[int] = set()  # these have to be asked themselves
        for place, session in enumerate(sessions):
            own, keys = units.get(session.agent), session.keys
            if own is None or keys is None:
                self.unknown.add(place)
                continue
            for unit in filter(None, map(own.get, keys)):
                other = self.of_unit.setdefault(unit, place)
                if other != place:  # a sub-agent of both
                    self.unknown |= {other, place}
        if not self.unknown.isdisjoint(self.of_unit.values()):
            self.of_unit = {u: n for u, n in self.of_unit.items() if n not in self.unknown}
        self._places = [_NOBODY] * (max(self.of_unit, default=0) + 1)
        for unit, place in self.of_unit.items():
            self._places[unit] = place
        self.recency = Recency([session.last_change for session in sessions])
        self._titles = Titles(session.title for session in sessions)

    def is_of(self, sessions: Sequence[StoredSession], units: Units) -> bool:
        """Whether it was made of these: lists are made anew whenever something has changed."""
        return (
            self.sessions is sessions
            and self._units.keys() == units.keys()
            and all(self._units[agent] is units[agent] for agent in units)
        )

    def count(self, documents: Sequence[int]) -> dict[int, int]:
        """How many of some documents, which are in order, each session has."""
        places = self._places
        if documents and (beyond := (documents[-1] >> UNIT_SHIFT) + 1 - len(places)) > 0:
            places = places + [_NOBODY] * beyond
        units = map(UNIT_SHIFT.__rrshift__, documents)
        found = Counter(map(places.__getitem__, units))
        found.pop(_NOBODY, None)
        return found

    def titled(self, term: Term) -> set[int]:
        """The sessions whose titles hold a term; no expression."""
        return self._titles.holding(term)

    def is_in_title(self, term: Term, place: int) -> bool:
        """Whether the title of a session holds a term."""
        if term.kind == "regex":
            return term.count(self.sessions[place].title, "") > 0
        return term.find(self._titles.folded(place)) is not None


class IndexedHits:
    """Sessions that fit for sure, with all that ranking needs of them, by their places.

    `hits` is how many messages fit: none where it is the title alone. `counts` is how many of these
    have each term: all of them, if it `is_uniform`. `titled` are those of the sessions whose titles
    have it, `held` are terms in any title, `rest` has to be looked at.
    """

    def __init__(
        self, lookup: SessionsByUnit, texts: TextCandidates, query: Query, answer: TextAnswer
    ) -> None:
        self.sessions = lookup.sessions
        self.recency = lookup.recency
        self.held: set[Term] = set()
        self._lookup = lookup
        self._texts = texts
        self._query = query
        self._fitting_titles: set[int] = set()
        of_unit = lookup.of_unit
        in_doubt = units_of(answer.fitting) if query.filters.of_messages else answer.unsure
        doubted = {of_unit[unit] for unit in in_doubt if unit in of_unit}
        self._left_out = doubted | lookup.unknown
        self.hits = lookup.count(answer.fitting)
        self.counts: dict[Term, dict[int, int]] = {
            term: self.hits if own is answer.fitting else lookup.count(own)
            for term, own in answer.holders.items()
        }
        self.is_uniform = all(own is answer.fitting for own in answer.holders.values())
        self.titled: dict[Term, set[int]] = {}
        for place in doubted:
            self._forget(place)
        self.rest: list[SearchableSession] = [self.sessions[place] for place in self._left_out]

    def restrict(self, admitted: Collection[SearchableSession]) -> None:
        """Leave only sessions that pass the filters."""
        ids = set(map(id, admitted))
        for place in [n for n in self.hits if id(self.sessions[n]) not in ids]:
            self._forget(place)
        self._left_out.update(n for n, each in enumerate(self.sessions) if id(each) not in ids)
        self.rest = [subject for subject in self.rest if id(subject) in ids]

    def _forget(self, place: int) -> None:
        self.hits.pop(place, None)
        for counted in self.counts.values():
            counted.pop(place, None)

    def add_titles(self) -> None:
        """Count what titles hold. One that fits is a hit, unless messages are asked for."""
        query, lookup = self._query, self._lookup
        titled = {term: lookup.titled(term) - self._left_out for term in query.terms}
        self.held.update(term for term, places in titled.items() if places)
        for each in () if query.filters.of_messages else query.alternatives:
            first, *others = (titled[term] for term in each.wanted)
            self._fitting_titles.update(
                place
                for place in first.intersection(*others)
                if not any(lookup.is_in_title(term, place) for term in each.unwanted)
            )
        if alone := [place for place in self._fitting_titles if place not in self.hits]:
            self.hits = {**self.hits, **dict.fromkeys(alone, 0)}
        self.titled = {term: self.hits.keys() & places for term, places in titled.items()}

    def titled_weights(self) -> Iterator[tuple[int, list[float]]]:
        """How much the sessions hold of each term that have any in the title."""
        held = [(own, self.titled.get(term, set[int]())) for term, own in self.counts.items()]
        for place in set[int]().union(*self.titled.values()):
            yield place, [own.get(place, 0) + TITLE_HITS * (place in some) for own, some in held]

    def holders(self, term: Term) -> int:
        """How many of the sessions have a term."""
        counted = self.counts[term]
        return len(counted) + sum(place not in counted for place in self.titled.get(term, ()))

    def session_hits(self, place: int, room: int | None) -> SessionHits:
        """What was found in one of the sessions; its messages are read when they are shown."""
        hit_count = self.hits[place]
        return SessionHits(
            self.sessions[place],
            room,
            is_match=True,
            is_in_title=place in self._fitting_titles,
            is_from_index=hit_count > 0,
            hit_count=hit_count,
        )

    def prepare(self, findings: Iterable[SessionHits]) -> None:
        """Find out where the messages of some of the sessions lie that are shown."""
        told = [finding for finding in findings if finding.is_from_index]
        rooms = ((finding.session, finding.room) for finding in told)
        for finding, own in zip(told, self._texts.pending(self._query, rooms), strict=True):
            finding.pending = own


class IndexedHitFinder:
    """Knows which sessions a query can find; `others` are no rows and have to be looked at."""

    def __init__(
        self, lookup: SessionsByUnit, others: Sequence[SearchableSession], texts: TextCandidates
    ) -> None:
        self._lookup = lookup
        self._others = others
        self._texts = texts

    def __call__(self, query: Query) -> IndexedHits | None:
        """What can be told of a query; None: every session has to be looked at."""
        if not query.needs_words or any(term.kind == "regex" for term in query.terms):
            return None
        answer = self._texts.answer(query)
        if answer is None:
            return None
        told = IndexedHits(self._lookup, self._texts, query, answer)
        told.rest.extend(self._others)
        return told
