"""Candidates from the text index: the messages that hold the words of a query.

For words, prefixes and plain phrases the index is sure; what it is not sure of is read. It knows
messages by source and number, so a conversation that lies in several sources is read as a whole
when any of them has a candidate.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from amux.index.errors import TextIndexDamagedError
from amux.index.rows.stored_session import StoredSession, keys_of
from amux.index.text.engine import (
    TABLES,
    UNIT_SHIFT,
    UNPLACED_TEXT,
    Documents,
    Table,
    TextIndex,
    in_order,
    units_of,
)
from amux.index.text.plan import TermKind
from amux.index.text.update import TextDatabase
from amux.index.updater import IndexUpdater
from amux.reading.message_locations import MessageLocations
from amux.reading.sources import SourceCatalog
from amux.sessions.search.candidates import (
    ALL,
    NONE,
    Candidates,
    CandidatesOf,
    MessageCandidates,
    NativeCandidates,
    all_messages,
)
from amux.sessions.search.hits import TITLE_HITS, PendingHits, Said, SessionHits
from amux.sessions.search.query.grammar import Query
from amux.sessions.search.query.groups import Alternative
from amux.sessions.search.query.regex import needed_text
from amux.sessions.search.query.terms import Term, is_word
from amux.sessions.search.recency import Recency
from amux.sessions.search.searchable import SearchableSession
from amux.sessions.search.titles import Titles

_ORDINAL = (1 << UNIT_SHIFT) - 1
_NONE: frozenset[int] = frozenset()
_MAX_CACHED_LOCATIONS = 256  # units, of a kilobyte each for the most part
_LOCATIONS_PER_QUERY = 500  # SQLite takes no more than 999 parameters in old versions


@dataclass(frozen=True)
class TextAnswer:
    """What the index says of one query."""

    fitting: list[int]  # documents, in order
    unsure: frozenset[int]  # units with a document that may not fit
    holders: Mapping[Term, list[int]]  # which of them have a term

    def has(self, unit: int) -> bool:
        """Whether any message of a unit fits."""
        return bool(_count(self.fitting, unit))

    def numbers(self, unit: int, most: int | None = None) -> list[int]:
        """The numbers of a unit's first fitting messages, in order; they count from 1."""
        if most is None:
            first, end = _span(self.fitting, unit)
            return [(key & _ORDINAL) + 1 for key in self.fitting[first:end]]
        first = bisect_left(self.fitting, unit << UNIT_SHIFT)
        some = self.fitting[first : first + most]
        return [(key & _ORDINAL) + 1 for key in some if key >> UNIT_SHIFT == unit]

    def has_unplaced_text(self, unit: int) -> bool:
        """Whether a text fits that is too long to be held, of any message of a unit."""
        key = unit << UNIT_SHIFT | UNPLACED_TEXT
        at = bisect_left(self.fitting, key)
        return self.fitting[at : at + 1] == [key]

    def weights(self, unit: int) -> dict[Term, float]:
        """How many of a unit's fitting messages have each term."""
        counts = {term: _count(own, unit) for term, own in self.holders.items()}
        return {term: float(count) for term, count in counts.items() if count}


def _span(documents: list[int], unit: int) -> tuple[int, int]:
    """Where those of a unit begin and end."""
    first = bisect_left(documents, unit << UNIT_SHIFT)
    return first, bisect_left(documents, (unit + 1) << UNIT_SHIFT, first)


def _count(documents: list[int], unit: int) -> int:
    first, end = _span(documents, unit)
    return end - first


class TextCandidates:
    """Proposes what the text index holds, for the agents whose texts are in it."""

    def __init__(
        self,
        database: TextDatabase,
        agents: Iterable[str],
        others: Candidates,
        *,
        discard: Callable[[], None],
    ) -> None:
        self._database = database
        self._index = database.index
        self.units = {agent: database.units(agent) for agent in agents}
        self._others = others  # for agents whose texts are not in the index
        self._discard = discard  # what is damaged
        self._location_cache: dict[int, MessageLocations | None] = {}
        self._asked: tuple[Query, TextAnswer | None] | None = None
        self._asked_in_words: tuple[Query, TextAnswer | None] | None = None

    def candidates_for(self, agent: str, query: Query) -> CandidatesOf:
        """See `Candidates`."""
        units = self.units.get(agent)
        if units is None:
            return self._others.candidates_for(agent, query)
        answer = self.answer(query)
        if answer is None:
            return all_messages
        may_be_sure = not query.filters.of_messages

        def list_unit(unit: int) -> MessageCandidates:
            is_sure = may_be_sure and unit not in answer.unsure
            said, spots = self._said(query, unit), partial(self._locations_of, unit)
            return _listed(answer, unit, is_sure=is_sure, said=said, spots=spots)

        def shortlists(subject: SearchableSession) -> Sequence[MessageCandidates]:
            keys = subject.keys
            if keys is None:
                return list(_of_conversations(subject, units, list_unit, answer))
            return [list_unit(units.get(key, 0)) for key in keys]

        return shortlists

    def pending(
        self, query: Query, rooms: Iterable[tuple[SearchableSession, int | None]]
    ) -> list[list[PendingHits]]:
        """The fitting messages of some sessions of which the index is sure, and where they lie.

        Of each session as many as there is room for, and all where there is a choice.
        """
        answer = self.answer(query)
        if answer is None:
            return [[] for _ in rooms]
        found = [
            self._fitting(answer, subject, room if query.said_only else None)
            for subject, room in rooms
        ]
        spots = self._locations([unit for some in found for _, unit, _ in some])
        return [
            [
                PendingHits(place, numbers, spots.get(unit), self._said(query, unit))
                for place, unit, numbers in some
            ]
            for some in found
        ]

    def _fitting(
        self, answer: TextAnswer, subject: SearchableSession, room: int | None
    ) -> list[tuple[int, int, list[int]]]:
        """The conversations of a session with a fitting message, their units, the first numbers."""
        left = None if room is None else max(room, 1)
        units = self.units[subject.fields.agent]
        found: list[tuple[int, int, list[int]]] = []
        for place, key in enumerate(subject.keys or ()):
            unit = units.get(key, 0)
            if numbers := answer.numbers(unit, left):
                found.append((place, unit, numbers))
                left = None if left is None else left - len(numbers)
                if left == 0:
                    break
        return found

    def _locations_of(self, unit: int) -> MessageLocations | None:
        return self._locations((unit,)).get(unit)

    def _locations(self, units: Sequence[int]) -> Mapping[int, MessageLocations | None]:
        """Where messages lie; some is kept, since the same sessions are shown again and again."""
        spots = self._location_cache
        missing = [unit for unit in units if unit not in spots]
        if missing:
            with self._guarded():
                for start in range(0, len(missing), _LOCATIONS_PER_QUERY):
                    some = missing[start : start + _LOCATIONS_PER_QUERY]
                    spots |= dict.fromkeys(some) | self._database.locations(some)
            if len(spots) > _MAX_CACHED_LOCATIONS:
                self._location_cache = {}
        return spots

    def words(self) -> Iterator[str]:
        """Every word that somebody said."""
        spoken: tuple[Table, ...] = ("spoken",)
        with self._guarded():
            yield from (word for word, _ in self._index.vocabulary(tables=spoken))

    def held(self, query: Query) -> set[Term]:
        """The terms of a query that occur anywhere."""
        with self._guarded():
            return {
                term
                for term in query.terms
                if self._index.documents(*_kind_of(term), tables=_tables(query)).ids != []
            }

    def answer(self, query: Query) -> TextAnswer | None:
        """What the index says of a query; None: any document may fit."""
        if self._asked is None or self._asked[0] is not query:
            with self._guarded():
                self._asked = (query, _ask(self._index, query))
        return self._asked[1]

    def _said(self, query: Query, unit: int) -> Said | None:
        """Which messages of a unit fit without tool text, when somebody wants to know."""
        if query.said_only:
            return None

        def numbers() -> Collection[int]:
            answer = self._answer_in_words(query)
            return () if answer is None else answer.numbers(unit)

        return numbers

    def _answer_in_words(self, query: Query) -> TextAnswer | None:
        if self._asked_in_words is None or self._asked_in_words[0] is not query:
            with self._guarded():
                answer = _ask(self._index, replace(query, said_only=True))
            self._asked_in_words = (query, answer)
        return self._asked_in_words[1]

    @contextmanager
    def _guarded(self) -> Generator[None]:
        try:
            yield
        except TextIndexDamagedError:
            self._discard()
            raise


def text_candidates(
    updater: IndexUpdater, catalog: SourceCatalog, agents: Sequence[str]
) -> TextCandidates | None:
    """Update the text index; return its candidates, or None if it cannot be used.

    The rows of the agents must be up to date.
    """
    found = updater.update_texts(agents)
    if found is None:
        return None
    texts, indexed = found
    others = NativeCandidates(catalog)
    return TextCandidates(texts, indexed, others, discard=updater.database.remove_texts)


def _of_conversations(
    subject: SearchableSession,
    units: Mapping[int, int],
    list_unit: Callable[[int], MessageCandidates],
    answer: TextAnswer,
) -> Iterator[MessageCandidates]:
    for conversation in subject.message_sources():
        numbers = [units.get(key, 0) for key in keys_of(subject.fields.agent, conversation)]
        if conversation.is_whole:
            yield list_unit(numbers[0])
        else:
            yield ALL if any(map(answer.has, numbers)) else NONE


def _listed(
    answer: TextAnswer,
    unit: int,
    *,
    is_sure: bool,
    said: Said | None,
    spots: Callable[[], MessageLocations | None],
) -> MessageCandidates:
    """What may fit of a unit; 0 is none, and is that of a session without texts."""
    numbers = answer.numbers(unit)
    if not numbers:
        return NONE
    if answer.has_unplaced_text(unit):
        return ALL
    return MessageCandidates(numbers, is_sure, answer.weights(unit), said, spots)


def _ask(index: TextIndex, query: Query) -> TextAnswer | None:
    """None: any document may fit."""
    together = _ask_at_once(index, query)
    if together is not None:
        return TextAnswer(together, _NONE, dict.fromkeys(query.terms, together))
    tables = _tables(query)
    found = {term: _documents(index, term, tables) for term in query.all_terms}
    # What is not wanted may stand in a part of a message that filters leave out.
    excludes = not query.filters.of_messages
    alternatives = [_of_alternative(each, found, excludes=excludes) for each in query.alternatives]
    known = [each for each in alternatives if each is not None]
    if len(known) < len(alternatives):
        return None
    fitting = in_order([ids for ids, _ in known])
    unsure = set[int]().union(*(some for _, some in known))
    if len(known) > 1 and any(found[term].ids is None for term in query.terms):
        unsure.update(fitting)  # which of them have the term, nobody knows
    return TextAnswer(
        fitting,
        frozenset(key >> UNIT_SHIFT for key in unsure.intersection(fitting)) if unsure else _NONE,
        {term: _holders(found[term], fitting, known) for term in query.terms},
    )


def _documents(index: TextIndex, term: Term, tables: tuple[Table, ...]) -> Documents:
    """The documents that may have a term; of an expression, those with what every match has."""
    needed = needed_text(term.text) if term.kind == "regex" else None
    if needed is None:
        return index.documents(*_kind_of(term), tables=tables)
    ids = index.documents("word", needed, tables=tables).ids
    return Documents(ids, set(ids or ()))


def _tables(query: Query) -> tuple[Table, ...]:
    return ("spoken",) if query.said_only else TABLES


def _ask_at_once(index: TextIndex, query: Query) -> list[int] | None:
    """The documents with several words, where one question will do."""
    is_simple = len(query.alternatives) == 1 and not query.unwanted and len(query.terms) > 1
    if not (is_simple and query.said_only):
        return None
    return index.documents_with_all(map(_kind_of, query.terms), table="spoken")


def _holders(documents: Documents, fitting: list[int], alternatives: Sequence[object]) -> list[int]:
    """The fitting documents that have a term; of one alternative, all of them."""
    if len(alternatives) == 1 or documents.ids is None:
        return fitting
    return sorted(set(documents.ids).intersection(fitting))


def _of_alternative(
    alternative: Alternative, found: dict[Term, Documents], *, excludes: bool
) -> tuple[list[int], set[int]] | None:
    """Documents with all wanted terms and surely none of the unwanted; None: any may be one.

    Unless it `excludes`, those with unwanted terms are among them: they have to be looked at.
    """
    wanted = [found[term] for term in alternative.wanted]
    known = sorted((each.ids for each in wanted if each.ids is not None), key=len)
    if not known:
        return None
    ids = known[0] if len(known) == 1 else sorted(set(known[0]).intersection(*known[1:]))
    unsure = set[int]().union(*(documents.unsure for documents in wanted))
    if len(known) < len(wanted):
        unsure.update(ids)
    for term in alternative.unwanted if excludes else ():
        documents = found[term]
        if documents.ids is None:
            unsure.update(ids)
            continue
        gone = {key for key in documents.ids if key & _ORDINAL < UNPLACED_TEXT} - documents.unsure
        ids = [key for key in ids if key not in gone]
        unsure |= documents.unsure
    return ids, unsure


def _kind_of(term: Term) -> tuple[TermKind, str]:
    """The term as the index knows it."""
    if term.kind == "text":
        return ("word" if is_word(term.text) else "literal"), term.text
    return term.kind, term.text


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
