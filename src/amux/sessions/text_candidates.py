"""Candidates from the text index: the messages that hold the words of a query.

For words, prefixes and plain phrases the index is sure; what it is not sure of is read. It knows
messages by source and number, so a conversation that lies in several sources is read as a whole
when any of them has a candidate.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from amux.index.texts import LOOSE, TITLE, UNIT_SHIFT, Documents, Table, TextIndex
from amux.index.texts_sync import TextStore
from amux.index.texts_terms import TermKind
from amux.sessions.assemble import Assembly
from amux.sessions.candidates import ALL, NONE, Candidates, Propose, Shortlist
from amux.sessions.parts import Joined
from amux.sessions.query import Alternative, Query
from amux.sessions.terms import Term

_ORDINAL = (1 << UNIT_SHIFT) - 1


@dataclass(frozen=True, slots=True)
class _Answer:
    """What the index says of one query: documents by unit, and which of them it is not sure of."""

    by_unit: dict[int, list[int]] | None  # None: any may fit
    unsure: frozenset[int]  # units
    holds: dict[Term, dict[int, int]]  # how many documents of a unit hold a term


class TextCandidates:
    """Proposes what the text index holds; for sessions it does not know, everything."""

    def __init__(self, store: TextStore, agents: Iterable[str], others: Candidates) -> None:
        self._index = store.index
        self._units = {agent: store.units(agent) for agent in agents}
        self._others = others  # for agents whose texts are not in the index
        self._asked: tuple[Query, _Answer] | None = None

    def propose(self, assembly: Assembly, query: Query) -> Propose:
        """See `Candidates`."""
        units = self._units.get(assembly.agent)
        if units is None:
            return self._others.propose(assembly, query)
        answer = self._answer(query)
        by_unit = answer.by_unit
        if by_unit is None:
            return lambda _: ALL
        may_be_sure = not query.filters.of_messages

        def shortlist(session: Joined) -> Shortlist:
            chain = assembly.conversation(session)
            keys = [(os.fsencode(part.source.path), part.facts.session_id) for part, _ in chain]
            numbers = [units.get(key) for key in keys]
            if None in numbers:
                return ALL
            if not any(unit in by_unit for unit in numbers):
                return NONE
            if len(chain) > 1 or chain[0][1] is not None:
                return ALL
            return _listed(answer, by_unit, numbers[0] or 0, may_be_sure=may_be_sure)

        return shortlist

    def words(self) -> Iterator[str]:
        """Every word that somebody said."""
        spoken: tuple[Table, ...] = ("spoken",)
        return (word for word, _ in self._index.vocabulary(tables=spoken))

    def _answer(self, query: Query) -> _Answer:
        if self._asked is None or self._asked[0] is not query:
            self._asked = (query, _ask(self._index, query))
        return self._asked[1]


def _listed(
    answer: _Answer, by_unit: dict[int, list[int]], unit: int, *, may_be_sure: bool
) -> Shortlist:
    ordinals = by_unit[unit]
    if max(ordinals) >= TITLE:
        return ALL  # a text that is too long to be held, of one of its messages
    return Shortlist(
        numbers=[ordinal + 1 for ordinal in ordinals],
        exact=may_be_sure and unit not in answer.unsure,
        weights={term: float(held[unit]) for term, held in answer.holds.items() if unit in held},
    )


def _ask(index: TextIndex, query: Query) -> _Answer:
    found = {term: _documents(index, term) for term in (*query.terms, *query.unwanted)}
    fitting: set[int] = set()
    unsure: set[int] = set()
    for alternative in query.alternatives:
        some = _of_alternative(alternative, found)
        if some is None:
            return _Answer(None, frozenset(), {})
        fitting |= some[0]
        unsure |= some[1]
    by_unit: dict[int, list[int]] = {}
    for key in fitting:
        by_unit.setdefault(key >> UNIT_SHIFT, []).append(key & _ORDINAL)
    units = frozenset(key >> UNIT_SHIFT for key in unsure & fitting)
    return _Answer(by_unit, units, {term: _counts(found[term]) for term in query.terms})


def _of_alternative(
    alternative: Alternative, found: dict[Term, Documents]
) -> tuple[set[int], set[int]] | None:
    """Documents with all wanted terms and surely none of the unwanted; None: any may be one."""
    wanted = [found[term] for term in alternative.wanted]
    known = [documents.ids for documents in wanted if documents.ids is not None]
    if not known:
        return None
    ids: set[int] = known[0].intersection(*known[1:])
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


def _documents(index: TextIndex, term: Term) -> Documents:
    return index.documents(*_kind_of(term))


def _kind_of(term: Term) -> tuple[TermKind, str]:
    """The term as the index knows it."""
    if term.kind == "text":
        plain = all(character.isalnum() or character == "_" for character in term.text)
        return ("word" if plain else "literal"), term.text
    return term.kind, term.text


def _counts(documents: Documents) -> dict[int, int]:
    counts: dict[int, int] = {}
    for key in documents.ids or ():
        unit = key >> UNIT_SHIFT
        counts[unit] = counts.get(unit, 0) + 1
    return counts
