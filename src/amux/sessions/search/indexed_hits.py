"""Candidates and hits from the text index: the messages that contain the terms of a query.

The index is exact for words, prefixes and plain phrases; any other message that may match is read.
The index identifies messages by source and number, so a session whose messages lie in several
sources is read as a whole if any of them has a candidate.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from amux.index.errors import TextIndexDamagedError
from amux.index.rows.stored_session import StoredSession, keys_of
from amux.index.text.engine import (
    TABLES,
    UNIT_SHIFT,
    UNPLACED_TEXT,
    Documents,
    Table,
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
from amux.sessions.search.hits import TITLE_HITS, PendingHits, SessionHits, SpokenNumbers
from amux.sessions.search.query.grammar import Alternative, Query
from amux.sessions.search.query.regex import needed_text
from amux.sessions.search.query.terms import Term, is_word
from amux.sessions.search.recency import Recency
from amux.sessions.search.searchable import SearchableSession
from amux.sessions.search.titles import Titles

_ORDINAL = (1 << UNIT_SHIFT) - 1
_NONE: frozenset[int] = frozenset()
_MAX_CACHED_LOCATIONS = 256  # text units, most of which take about a kilobyte
_LOCATIONS_PER_QUERY = 500  # old versions of SQLite accept at most 999 parameters


@dataclass(frozen=True)
class TextAnswer:
    """The documents that match one query according to the index."""

    matching: list[int]  # documents, in order
    unsure: frozenset[int]  # text units with a document that may not match
    by_term: Mapping[Term, list[int]]  # the matching documents that contain each term

    def has(self, unit: int) -> bool:
        """Return whether any message of a text unit matches."""
        return bool(_count(self.matching, unit))

    def numbers(self, unit: int, most: int | None = None) -> list[int]:
        """Return the numbers (from 1) of the first matching messages of a text unit, in order."""
        if most is None:
            first, end = _span(self.matching, unit)
            return [(key & _ORDINAL) + 1 for key in self.matching[first:end]]
        first = bisect_left(self.matching, unit << UNIT_SHIFT)
        some = self.matching[first : first + most]
        return [(key & _ORDINAL) + 1 for key in some if key >> UNIT_SHIFT == unit]

    def candidates(self, unit: int) -> MessageCandidates:
        """Return the candidates of a text unit; 0 is the unit of a session without texts."""
        numbers = self.numbers(unit)
        if not numbers:
            return NONE
        if numbers[-1] > UNPLACED_TEXT:  # a text whose message is not recorded
            return ALL
        counts = {term: float(_count(own, unit)) for term, own in self.by_term.items()}
        weights = {term: count for term, count in counts.items() if count}
        return MessageCandidates(numbers, weights=weights)


def _span(documents: list[int], unit: int) -> tuple[int, int]:
    """Return the range of positions of the documents of a text unit."""
    first = bisect_left(documents, unit << UNIT_SHIFT)
    return first, bisect_left(documents, (unit + 1) << UNIT_SHIFT, first)


def _count(documents: list[int], unit: int) -> int:
    first, end = _span(documents, unit)
    return end - first


class TextCandidates:
    """Candidates from the text index, for the agents whose texts it contains."""

    def __init__(
        self,
        database: TextDatabase,
        agents: Iterable[str],
        others: Candidates,
        *,
        discard: Callable[[], None],
    ) -> None:
        self._database = database
        self.units = {agent: database.units(agent) for agent in agents}
        self._others = others  # for agents whose texts are not in the index
        self._discard = discard  # removes a damaged index
        self._location_cache: dict[int, MessageLocations | None] = {}
        self._last_answer: tuple[Query, TextAnswer | None] | None = None
        self._last_spoken_answer: tuple[Query, TextAnswer | None] | None = None

    def candidates_for(self, agent: str, query: Query) -> CandidatesOf:
        """See `Candidates`."""
        units = self.units.get(agent)
        if units is None:
            return self._others.candidates_for(agent, query)
        answer = self.answer(query)
        if answer is None:
            return all_messages
        may_be_sure = not query.filters.of_messages

        def in_unit(unit: int) -> MessageCandidates:
            found = answer.candidates(unit)
            if not found.numbers:
                return found
            return found._replace(
                exact=may_be_sure and unit not in answer.unsure,
                spoken=self._spoken(query, unit),
                locations=lambda: self._locations((unit,)).get(unit),
            )

        def in_sources(session: SearchableSession) -> Iterator[MessageCandidates]:
            for sources in session.message_sources():
                found = [units.get(key, 0) for key in keys_of(agent, sources)]
                if sources.is_whole:
                    yield in_unit(found[0])
                else:
                    yield ALL if any(map(answer.has, found)) else NONE

        def candidates_of(session: SearchableSession) -> Sequence[MessageCandidates]:
            keys = session.keys
            if keys is None:
                return list(in_sources(session))
            return [in_unit(units.get(key, 0)) for key in keys]

        return candidates_of

    def pending(
        self, query: Query, sessions: Iterable[tuple[SearchableSession, int | None]]
    ) -> list[list[PendingHits]]:
        """Return the hits of sessions for which the index is sure, with their locations.

        Each session comes with the number of hits to show. No more are returned than that, unless
        spoken hits have to be selected among them.
        """
        answer = self.answer(query)
        if answer is None:
            return [[] for _ in sessions]
        found = [
            self._matching(answer, session, most if query.said_only else None)
            for session, most in sessions
        ]
        locations = self._locations([unit for some in found for _, unit, _ in some])
        return [
            [
                PendingHits(position, numbers, locations.get(unit), self._spoken(query, unit))
                for position, unit, numbers in some
            ]
            for some in found
        ]

    def _matching(
        self, answer: TextAnswer, session: SearchableSession, most: int | None
    ) -> list[tuple[int, int, list[int]]]:
        """Return the position, text unit and first hits of the message sources with a hit."""
        remaining = None if most is None else max(most, 1)
        units = self.units[session.fields.agent]
        found: list[tuple[int, int, list[int]]] = []
        for position, key in enumerate(session.keys or ()):
            unit = units.get(key, 0)
            if numbers := answer.numbers(unit, remaining):
                found.append((position, unit, numbers))
                remaining = None if remaining is None else remaining - len(numbers)
                if remaining == 0:
                    break
        return found

    def _locations(self, units: Sequence[int]) -> Mapping[int, MessageLocations | None]:
        """Return the message locations of text units; some are cached for repeated queries."""
        locations = self._location_cache
        missing = [unit for unit in units if unit not in locations]
        if missing:
            with self._guarded():
                for start in range(0, len(missing), _LOCATIONS_PER_QUERY):
                    some = missing[start : start + _LOCATIONS_PER_QUERY]
                    locations |= dict.fromkeys(some) | self._database.locations(some)
            if len(locations) > _MAX_CACHED_LOCATIONS:
                self._location_cache = {}
        return locations

    def words(self) -> Iterator[str]:
        """Yield every word outside tool text."""
        spoken: tuple[Table, ...] = ("spoken",)
        with self._guarded():
            yield from (word for word, _ in self._database.vocabulary(tables=spoken))

    def present(self, query: Query) -> set[Term]:
        """Return the terms of a query that occur anywhere."""
        with self._guarded():
            return {
                term
                for term in query.terms
                if self._database.documents(*_index_term(term), tables=_tables(query)).ids != []
            }

    def answer(self, query: Query) -> TextAnswer | None:
        """Return the answer of the index to a query; None if any document may match."""
        if self._last_answer is None or self._last_answer[0] is not query:
            with self._guarded():
                self._last_answer = (query, _ask(self._database, query))
        return self._last_answer[1]

    def _spoken(self, query: Query, unit: int) -> SpokenNumbers | None:
        """Return a function that has the messages of a text unit that match without tool text."""
        if query.said_only:
            return None

        def numbers() -> Collection[int]:
            last = self._last_spoken_answer
            if last is None or last[0] is not query:
                with self._guarded():
                    last = (query, _ask(self._database, replace(query, said_only=True)))
                self._last_spoken_answer = last
            return () if last[1] is None else last[1].numbers(unit)

        return numbers

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


def _ask(index: TextDatabase, query: Query) -> TextAnswer | None:
    """Return the answer of the index to a query; None if any document may match."""
    is_conjunction = len(query.alternatives) == 1 and not query.unwanted and len(query.terms) > 1
    if is_conjunction and query.said_only:  # one table and one alternative: one query suffices
        ids = index.documents_with_all([*map(_index_term, query.terms)], table="spoken")
        if ids is not None:
            return TextAnswer(ids, _NONE, dict.fromkeys(query.terms, ids))
    tables = _tables(query)
    found = {term: _documents(index, term, tables) for term in query.all_terms}
    # An unwanted term may occur in a part of a message that the filters leave out.
    excludes = not query.filters.of_messages
    alternatives = [_matching_one(each, found, excludes=excludes) for each in query.alternatives]
    known = [each for each in alternatives if each is not None]
    if len(known) < len(alternatives):
        return None
    matching = in_order([ids for ids, _ in known])
    unsure = set[int]().union(*(some for _, some in known))
    if len(known) > 1 and any(found[term].ids is None for term in query.terms):
        unsure.update(matching)  # the index cannot find the documents that contain the term

    def containing(term: Term) -> list[int]:
        ids = found[term].ids
        if len(known) == 1 or ids is None:
            return matching
        return sorted(set(ids).intersection(matching))

    return TextAnswer(
        matching,
        frozenset(key >> UNIT_SHIFT for key in unsure.intersection(matching)) if unsure else _NONE,
        {term: containing(term) for term in query.terms},
    )


def _documents(index: TextDatabase, term: Term, tables: tuple[Table, ...]) -> Documents:
    """Return the documents that may contain a term.

    For an expression these are the documents with the text that every match contains.
    """
    needed = needed_text(term.text) if term.kind == "regex" else None
    if needed is None:
        return index.documents(*_index_term(term), tables=tables)
    ids = index.documents("word", needed, tables=tables).ids
    return Documents(ids, set(ids or ()))


def _tables(query: Query) -> tuple[Table, ...]:
    return ("spoken",) if query.said_only else TABLES


def _matching_one(
    alternative: Alternative, found: dict[Term, Documents], *, excludes: bool
) -> tuple[list[int], set[int]] | None:
    """Return the documents that match an alternative and the unsure ones; None if any may match.

    Unless it `excludes`, documents with unwanted terms are included, because they must be read.
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
        sure = {key for key in documents.ids if key & _ORDINAL < UNPLACED_TEXT} - documents.unsure
        ids = [key for key in ids if key not in sure]
        unsure |= documents.unsure
    return ids, unsure


def _index_term(term: Term) -> tuple[TermKind, str]:
    """Return the kind and text by which the index identifies a term."""
    if term.kind == "text":
        return ("word" if is_word(term.text) else "literal"), term.text
    return term.kind, term.text


Units = Mapping[str, Mapping[int, int]]
"""The text units of each agent, by `text_unit_key`."""


class SessionsByUnit:
    """Sessions by the text units of their messages, and by their titles.

    A session is identified by its position among all of them. The sessions in `unresolved` must be
    scanned, because their text units are not known or belong to several sessions.
    """

    def __init__(self, sessions: Sequence[StoredSession], units: Units) -> None:
        self.sessions = sessions
        self._units = units
        self.of_unit: dict[int, int] = {}
        self.unresolved: set[int] = set()
        for position, session in enumerate(sessions):
            own, keys = units.get(session.agent), session.keys
            if own is None or keys is None:
                self.unresolved.add(position)
                continue
            for unit in filter(None, map(own.get, keys)):
                other = self.of_unit.setdefault(unit, position)
                if other != position:  # a sub-agent of both sessions
                    self.unresolved |= {other, position}
        if not self.unresolved.isdisjoint(self.of_unit.values()):
            self.of_unit = {u: n for u, n in self.of_unit.items() if n not in self.unresolved}
        self.recency = Recency([session.last_change for session in sessions])
        self.titles = Titles(session.title for session in sessions)

    def is_of(self, sessions: Sequence[StoredSession], units: Units) -> bool:
        """Return whether it was built from these objects, which are replaced on every change."""
        return (
            self.sessions is sessions
            and self._units.keys() == units.keys()
            and all(self._units[agent] is units[agent] for agent in units)
        )

    def count(self, documents: Sequence[int]) -> dict[int, int]:
        """Return how many of some documents each session contains."""
        found: dict[int, int] = {}
        for unit, count in Counter(map(UNIT_SHIFT.__rrshift__, documents)).items():
            position = self.of_unit.get(unit)
            if position is not None:  # else the unit belongs to no session, or to several
                found[position] = found.get(position, 0) + count
        return found

    def is_in_title(self, term: Term, position: int) -> bool:
        """Return whether the title of a session contains a term."""
        if term.kind == "regex":
            return term.count(self.sessions[position].title, "") > 0
        return term.find(self.titles.folded(position)) is not None


class IndexedHits:
    """Sessions that match according to the index alone, with the numbers that ranking needs.

    Sessions are identified by their positions. `hits` is the number of matching messages (0: only
    the title matches), `counts` the number of these that contain each term: all of them if
    `is_uniform`. `titled` are the sessions whose titles contain a term, `present` the terms in any
    title. The sessions in `unresolved` must be scanned.
    """

    def __init__(
        self, by_unit: SessionsByUnit, texts: TextCandidates, query: Query, answer: TextAnswer
    ) -> None:
        self.sessions = by_unit.sessions
        self.recency = by_unit.recency
        self.present: set[Term] = set()
        self._by_unit = by_unit
        self._texts = texts
        self._query = query
        self._matching_titles: set[int] = set()
        of_unit = by_unit.of_unit
        unsure_units = units_of(answer.matching) if query.filters.of_messages else answer.unsure
        unsure = {of_unit[unit] for unit in unsure_units if unit in of_unit}
        self._excluded = unsure | by_unit.unresolved
        self.hits = by_unit.count(answer.matching)
        self.counts: dict[Term, dict[int, int]] = {
            term: self.hits if own is answer.matching else by_unit.count(own)
            for term, own in answer.by_term.items()
        }
        self.is_uniform = all(own is answer.matching for own in answer.by_term.values())
        self.titled: dict[Term, set[int]] = {}
        self._remove(unsure)
        self.unresolved: list[SearchableSession] = [self.sessions[n] for n in self._excluded]

    def restrict(self, admitted: Collection[SearchableSession]) -> None:
        """Remove the sessions that do not pass the filters."""
        ids = set(map(id, admitted))
        self._remove([n for n in self.hits if id(self.sessions[n]) not in ids])
        self._excluded.update(n for n, each in enumerate(self.sessions) if id(each) not in ids)
        self.unresolved = [session for session in self.unresolved if id(session) in ids]

    def _remove(self, positions: Collection[int]) -> None:
        for counted in (self.hits, *self.counts.values()):
            for position in positions:
                counted.pop(position, None)

    def add_titles(self) -> None:
        """Add the titles; one that matches is a hit, unless the query filters messages."""
        query, by_unit = self._query, self._by_unit
        titled = {term: by_unit.titles.containing(term) - self._excluded for term in query.terms}
        self.present.update(term for term, positions in titled.items() if positions)
        for each in () if query.filters.of_messages else query.alternatives:
            first, *others = (titled[term] for term in each.wanted)
            self._matching_titles.update(
                position
                for position in first.intersection(*others)
                if not any(by_unit.is_in_title(term, position) for term in each.unwanted)
            )
        if alone := [position for position in self._matching_titles if position not in self.hits]:
            self.hits = {**self.hits, **dict.fromkeys(alone, 0)}
        self.titled = {term: self.hits.keys() & positions for term, positions in titled.items()}

    def titled_weights(self) -> Iterator[tuple[int, list[float]]]:
        """Yield the sessions with a term in the title, with the weights of all terms in each."""
        terms = [(own, self.titled.get(term, set[int]())) for term, own in self.counts.items()]
        for n in set[int]().union(*self.titled.values()):
            yield n, [own.get(n, 0) + TITLE_HITS * (n in some) for own, some in terms]

    def session_count(self, term: Term) -> int:
        """Return the number of sessions that contain a term."""
        counted = self.counts[term]
        return len(counted) + sum(n not in counted for n in self.titled.get(term, ()))

    def session_hits(self, position: int, max_hits: int | None) -> SessionHits:
        """Return the hits of one session, without its messages (see `add_pending`)."""
        hit_count = self.hits[position]
        return SessionHits(
            self.sessions[position],
            max_hits,
            is_match=True,
            is_in_title=position in self._matching_titles,
            is_from_index=hit_count > 0,
            hit_count=hit_count,
        )

    def add_pending(self, hits: Iterable[SessionHits]) -> None:
        """Set the pending hits of the sessions that are from the index."""
        indexed = [each for each in hits if each.is_from_index]
        sessions = ((each.session, each.max_hits) for each in indexed)
        for each, own in zip(indexed, self._texts.pending(self._query, sessions), strict=True):
            each.pending = own


class IndexedHitFinder:
    """Finds the sessions that match a query; the sessions in `others` are not in the index."""

    def __init__(
        self, by_unit: SessionsByUnit, others: Sequence[SearchableSession], texts: TextCandidates
    ) -> None:
        self._by_unit = by_unit
        self._others = others
        self._texts = texts

    def __call__(self, query: Query) -> IndexedHits | None:
        """Return the hits of a query; None if every session must be scanned."""
        if not query.needs_words or any(term.kind == "regex" for term in query.terms):
            return None
        answer = self._texts.answer(query)
        if answer is None:
            return None
        hits = IndexedHits(self._by_unit, self._texts, query, answer)
        hits.unresolved.extend(self._others)
        return hits
