"""From documents and titles to the sessions they belong to.

A search need not ask every session whether the index has something of it: it begins with what the
index has. Of most sessions that is all that ranking needs, and no more is made of them than a few
numbers until it is clear that they are shown.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

from amux.model.words import fold
from amux.sessions.findings import Finding
from amux.sessions.kept import KeptSession
from amux.sessions.query import Query
from amux.sessions.subjects import Subject
from amux.sessions.terms import Term
from amux.sessions.text_candidates import TextAnswer, TextCandidates

Units = Mapping[str, Mapping[int, int]]
"""The units of an agent's texts, by place (`place_key`)."""


class Lookup:
    """Sessions by the units that their messages are in, and by their titles.

    A session is known by its place among all of them.
    """

    def __init__(self, sessions: Sequence[KeptSession], units: Units) -> None:
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
        self.updated = [session.updated_at for session in sessions]
        folded = [fold(session.title) for session in sessions]
        self._titles = "\n".join(folded)
        self._begins = [0, *accumulate(len(title) + 1 for title in folded)]

    def is_of(self, sessions: Sequence[KeptSession], units: Units) -> bool:
        """Whether it was made of these: lists are made anew whenever something has changed."""
        return (
            self.sessions is sessions
            and self._units.keys() == units.keys()
            and all(self._units[agent] is units[agent] for agent in units)
        )

    def titled(self, terms: Iterable[Term]) -> set[int]:
        """The sessions whose titles may hold one of some terms: no other title does."""
        return {place for term in terms for place in self._with_word(term.text.split()[0])}

    def _with_word(self, word: str) -> Iterator[int]:
        at = self._titles.find(word)
        while at >= 0:
            place = bisect_right(self._begins, at) - 1
            yield place
            at = self._titles.find(word, self._begins[place + 1])


class Told:
    """Sessions that fit for sure, with all that ranking needs of them, by their places.

    `hits` is how many messages fit, `weights` how much a session holds of each term. `titled` and
    `rest` have to be looked at: their titles, and all of them.
    """

    def __init__(
        self, lookup: Lookup, texts: TextCandidates, query: Query, answer: TextAnswer
    ) -> None:
        self.sessions = lookup.sessions
        self.updated = lookup.updated
        self._texts = texts
        self._query = query
        of_unit, counts = lookup.of_unit, answer.counts
        doubted = {of_unit[unit] for unit in answer.unsure if unit in of_unit}
        if query.filters.of_messages:
            doubted = {of_unit[unit] for unit in counts if unit in of_unit}
        self.hits = _by_session(counts, counts, of_unit, doubted)
        self.weights = {
            term: {**self.hits} if held is counts else _by_session(held, counts, of_unit, doubted)
            for term, held in answer.holds.items()
        }
        self.titled = lookup.titled(query.terms).difference(doubted, lookup.unknown)
        self.rest: list[Subject] = [self.sessions[n] for n in {*doubted, *lookup.unknown}]

    def restrict(self, admitted: Collection[Subject]) -> None:
        """Leave only sessions that pass the filters."""
        ids = set(map(id, admitted))
        gone = [n for n in self.hits if id(self.sessions[n]) not in ids]
        for held in (self.hits, *self.weights.values()):
            for place in gone:
                held.pop(place, None)
        self.titled = {n for n in self.titled if id(self.sessions[n]) in ids}
        self.rest = [subject for subject in self.rest if id(subject) in ids]

    def finding(self, place: int, room: int | None) -> Finding:
        """What was found in one of the sessions; its messages are read when they are shown."""
        session = self.sessions[place]
        hit_count = self.hits.get(place, 0)
        finding = Finding(session, room, is_match=hit_count > 0, hit_count=hit_count)
        finding.is_told = finding.is_match
        finding.weights = {t: held[place] for t, held in self.weights.items() if place in held}
        return finding

    def prepare(self, findings: Iterable[Finding]) -> None:
        """Find out where the messages of some of the sessions lie."""
        told = [finding for finding in findings if finding.is_told]
        unread = self._texts.unread(self._query, [finding.subject for finding in told])
        for finding, own in zip(told, unread, strict=True):
            finding.unread = own

    def take(self, place: int, room: int | None) -> Finding:
        """The same, no longer counted here."""
        finding = self.finding(place, room)
        for held in (self.hits, *self.weights.values()):
            held.pop(place, None)
        return finding


class Worth:
    """Knows which sessions a query can find; `others` are no rows and have to be looked at."""

    def __init__(self, lookup: Lookup, others: Sequence[Subject], texts: TextCandidates) -> None:
        self._lookup = lookup
        self._others = others
        self._texts = texts

    def __call__(self, query: Query) -> Told | None:
        """What can be told of a query; None: every session has to be looked at."""
        if not query.needs_words or any(term.kind == "regex" for term in query.terms):
            return None
        answer = self._texts.answer(query)
        if answer is None:
            return None
        told = Told(self._lookup, self._texts, query, answer)
        told.rest.extend(self._others)
        return told


def _by_session(
    counts: Mapping[int, int],
    fitting: Mapping[int, int],
    of_unit: Mapping[int, int],
    doubted: Collection[int],
) -> dict[int, int]:
    """Numbers of units as numbers of sessions, of those that fit for sure."""
    found: dict[int, int] = {}
    for unit, count in counts.items():
        if unit in fitting:
            place = of_unit.get(unit, -1)
            found[place] = found.get(place, 0) + count
    found.pop(-1, None)  # of sessions that are part of another, or of none
    for place in doubted:
        found.pop(place, None)
    return found
