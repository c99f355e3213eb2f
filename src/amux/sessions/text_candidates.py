"""Candidates from the text index: the messages that hold the words of a query.

For words, prefixes and plain phrases the index is sure; what it is not sure of is read. It knows
messages by source and number, so a conversation that lies in several sources is read as a whole
when any of them has a candidate.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property

from amux.index.faults import IndexUnavailableError
from amux.index.texts import LOOSE, TABLES, UNIT_SHIFT, Documents, Table, TextIndex, units_of
from amux.index.texts_errors import IndexDamagedError, IndexUnusableError
from amux.index.texts_spots import Spots
from amux.index.texts_sync import TextStore
from amux.index.texts_terms import TermKind
from amux.sessions.candidates import ALL, NONE, Candidates, Propose, Shortlist, propose_all
from amux.sessions.findings import Unread
from amux.sessions.kept import keys_of
from amux.sessions.query import Query
from amux.sessions.query_groups import Alternative
from amux.sessions.subjects import Subject
from amux.sessions.terms import Term

_ORDINAL = (1 << UNIT_SHIFT) - 1
_SPOTS_AT_ONCE = 500  # SQLite takes no more than 999 parameters in old versions


@dataclass(frozen=True)
class TextAnswer:
    """What the index says of one query."""

    fitting: set[int]  # documents
    unsure: frozenset[int]  # units with a document that may not fit
    counts: Mapping[int, int]  # how many fitting documents a unit has
    holds: Mapping[Term, Mapping[int, int]]  # how many of these have a term
    runs: tuple[list[int], ...] = ()  # the fitting documents in order, if somebody has that already

    def numbers(self, unit: int) -> list[int]:
        """The numbers of a unit's fitting messages, in order; they count from 1."""
        found: set[int] = set()
        for run in self._runs:
            first = bisect_left(run, unit << UNIT_SHIFT)
            found.update(run[first : bisect_left(run, (unit + 1) << UNIT_SHIFT, first)])
        return [(key & _ORDINAL) + 1 for key in sorted(found)]

    @cached_property
    def _runs(self) -> tuple[list[int], ...]:
        return self.runs or (sorted(self.fitting),)


class _Numbers(Collection[int]):
    """The numbers of a unit's fitting messages; how many is known before which."""

    __slots__ = ("_answer", "_unit")

    def __init__(self, answer: TextAnswer, unit: int) -> None:
        self._answer = answer
        self._unit = unit

    def __len__(self) -> int:
        return self._answer.counts[self._unit]

    def __iter__(self) -> Iterator[int]:
        return iter(self._answer.numbers(self._unit))

    def __contains__(self, number: object) -> bool:
        return number in self._answer.numbers(self._unit)


class TextCandidates:
    """Proposes what the text index holds, for the agents whose texts are in it."""

    def __init__(
        self,
        store: TextStore,
        agents: Iterable[str],
        others: Candidates,
        *,
        discard: Callable[[], None],
    ) -> None:
        self._store = store
        self._index = store.index
        self.units = {agent: store.units(agent) for agent in agents}
        self._others = others  # for agents whose texts are not in the index
        self._discard = discard  # what is damaged
        self._asked: tuple[Query, TextAnswer | None] | None = None
        self._asked_in_words: tuple[Query, TextAnswer | None] | None = None

    def propose(self, agent: str, query: Query) -> Propose:
        """See `Candidates`."""
        units = self.units.get(agent)
        if units is None:
            return self._others.propose(agent, query)
        answer = self.answer(query)
        if answer is None:
            return propose_all
        may_be_sure = not query.filters.of_messages

        def list_unit(unit: int) -> Shortlist:
            is_sure = may_be_sure and unit not in answer.unsure
            return _listed(answer, unit, is_sure=is_sure, said=self._said(query, unit))

        def shortlists(subject: Subject) -> Sequence[Shortlist]:
            keys = subject.keys
            if keys is None:
                return list(_of_conversations(subject, units, list_unit, answer.counts))
            return [list_unit(units.get(key, 0)) for key in keys]

        return shortlists

    def unread(self, query: Query, subjects: Sequence[Subject]) -> list[list[Unread]]:
        """The fitting messages of some sessions of which the index is sure, and where they lie."""
        answer = self.answer(query)
        if answer is None:
            return [[] for _ in subjects]
        places = [list(self._places(answer, subject)) for subject in subjects]
        spots = self._spots([unit for some in places for _, unit in some])
        return [
            [
                Unread(place, _Numbers(answer, unit), spots.get(unit), self._said(query, unit))
                for place, unit in some
            ]
            for some in places
        ]

    def _places(self, answer: TextAnswer, subject: Subject) -> Iterator[tuple[int, int]]:
        """The conversations of a session with a fitting message, and their units."""
        units = self.units[subject.traits.agent]
        for place, key in enumerate(subject.keys or ()):
            unit = units.get(key, 0)
            if unit in answer.counts:
                yield place, unit

    def _spots(self, units: Sequence[int]) -> dict[int, Spots]:
        found: dict[int, Spots] = {}
        with self._guarded():
            for start in range(0, len(units), _SPOTS_AT_ONCE):
                found |= self._store.spots(units[start : start + _SPOTS_AT_ONCE])
        return found

    def words(self) -> Iterator[str]:
        """Every word that somebody said."""
        spoken: tuple[Table, ...] = ("spoken",)
        with self._guarded():
            yield from (word for word, _ in self._index.vocabulary(tables=spoken))

    def answer(self, query: Query) -> TextAnswer | None:
        """What the index says of a query; None: any document may fit."""
        if self._asked is None or self._asked[0] is not query:
            with self._guarded():
                self._asked = (query, _ask(self._index, query))
        return self._asked[1]

    def _said(self, query: Query, unit: int) -> Callable[[], Collection[int]]:
        """Which messages of a unit fit without tool text, when somebody wants to know."""

        def numbers() -> Collection[int]:
            answer = self._answer_in_words(query)
            return () if answer is None else answer.numbers(unit)

        return numbers

    def _answer_in_words(self, query: Query) -> TextAnswer | None:
        if query.said_only:
            return self.answer(query)
        if self._asked_in_words is None or self._asked_in_words[0] is not query:
            with self._guarded():
                answer = _ask(self._index, replace(query, said_only=True))
            self._asked_in_words = (query, answer)
        return self._asked_in_words[1]

    @contextmanager
    def _guarded(self) -> Generator[None]:
        try:
            yield
        except IndexUnusableError as error:
            if isinstance(error, IndexDamagedError):
                self._discard()
            raise IndexUnavailableError(str(error)) from error


def _of_conversations(
    subject: Subject,
    units: Mapping[int, int],
    list_unit: Callable[[int], Shortlist],
    counts: Mapping[int, int],
) -> Iterator[Shortlist]:
    for conversation in subject.conversations():
        numbers = [units.get(key, 0) for key in keys_of(subject.traits.agent, conversation)]
        if conversation.is_whole:
            yield list_unit(numbers[0])
        else:
            yield ALL if any(unit in counts for unit in numbers) else NONE


def _listed(
    answer: TextAnswer, unit: int, *, is_sure: bool, said: Callable[[], Collection[int]]
) -> Shortlist:
    """What may fit of a unit; 0 is none, and is that of a session without texts."""
    if unit not in answer.counts:
        return NONE
    if unit << UNIT_SHIFT | LOOSE in answer.fitting:
        return ALL  # a text that is too long to be held, of one of its messages
    return Shortlist(
        numbers=_Numbers(answer, unit),
        exact=is_sure,
        weights={term: float(held[unit]) for term, held in answer.holds.items() if unit in held},
        said=said,
    )


def _ask(index: TextIndex, query: Query) -> TextAnswer | None:
    """None: any document may fit."""
    tables: tuple[Table, ...] = ("spoken",) if query.said_only else TABLES
    found = {term: index.documents(*_kind_of(term), tables=tables) for term in query.all_terms}
    alternatives = [_of_alternative(each, found) for each in query.alternatives]
    known = [each for each in alternatives if each is not None]
    if len(known) < len(alternatives):
        return None
    fitting = known[0][0].union(*(ids for ids, _ in known[1:])) if len(known) > 1 else known[0][0]
    unsure = set[int]().union(*(some for _, some in known))
    counts = units_of(fitting)
    return TextAnswer(
        fitting,
        frozenset(key >> UNIT_SHIFT for key in unsure & fitting),
        counts,
        {term: _holders(found[term], fitting, counts, known) for term in query.terms},
        next((each.runs for each in found.values() if each.ids is fitting), ()),
    )


def _holders(
    documents: Documents,
    fitting: set[int],
    counts: Mapping[int, int],
    alternatives: Sequence[object],
) -> Mapping[int, int]:
    """How many fitting documents of each unit have a term; of one alternative, all of them."""
    if len(alternatives) == 1 or documents.ids is None:
        return counts
    return units_of(fitting & documents.ids)


def _of_alternative(
    alternative: Alternative, found: dict[Term, Documents]
) -> tuple[set[int], set[int]] | None:
    """Documents with all wanted terms and surely none of the unwanted; None: any may be one."""
    wanted = [found[term] for term in alternative.wanted]
    known = [documents.ids for documents in wanted if documents.ids is not None]
    if not known:
        return None
    ids = min(known, key=len)
    if len(known) > 1 or alternative.unwanted:
        ids = ids.intersection(*known)
    unsure: set[int] = {key for documents in wanted for key in documents.unsure}
    if len(known) < len(wanted):
        unsure |= ids
    for term in alternative.unwanted:
        documents = found[term]
        if documents.ids is None:
            unsure |= ids
            continue
        ids -= {key for key in documents.ids - documents.unsure if key & _ORDINAL < LOOSE}
        unsure |= documents.unsure
    return ids, unsure


def _kind_of(term: Term) -> tuple[TermKind, str]:
    """The term as the index knows it."""
    if term.kind == "text":
        plain = all(character.isalnum() or character == "_" for character in term.text)
        return ("word" if plain else "literal"), term.text
    return term.kind, term.text
