"""From documents and titles to the sessions they belong to.

A search need not ask every session whether the index has something of it: it begins with what the
index has.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

from amux.model.words import fold
from amux.sessions.kept import KeptSession
from amux.sessions.query import Query
from amux.sessions.subjects import Subject
from amux.sessions.terms import Term

Units = Mapping[str, Mapping[int, int]]
"""The units of an agent's texts, by place (`place_key`)."""


class Lookup:
    """Sessions by the units that their messages are in, and by their titles."""

    def __init__(self, sessions: Sequence[KeptSession], units: Units) -> None:
        self._sessions = sessions
        self._units = units
        self._of_unit: dict[int, KeptSession] = {}
        self._unknown: list[KeptSession] = []  # has to be asked itself
        for session in sessions:
            own, keys = units.get(session.agent), session.keys
            if own is None or keys is None:
                self._unknown.append(session)
                continue
            for key in keys:
                unit = own.get(key)
                if unit is not None:
                    self._of_unit[unit] = session
        folded = [fold(session.title) for session in sessions]
        self._titles = "\n".join(folded)
        self._begins = [0, *accumulate(len(title) + 1 for title in folded)]

    def is_of(self, sessions: Sequence[KeptSession], units: Units) -> bool:
        """Whether it was made of these: lists are made anew whenever something has changed."""
        return (
            self._sessions is sessions
            and self._units.keys() == units.keys()
            and all(self._units[agent] is units[agent] for agent in units)
        )

    def found(self, units: Iterable[int], terms: Iterable[Term]) -> dict[int, KeptSession]:
        """Sessions with these units, with these terms in the title, and those it cannot tell."""
        of_unit = self._of_unit
        sessions = {id(each): each for each in self._unknown}
        for unit in units:
            session = of_unit.get(unit)
            if session is not None:
                sessions[id(session)] = session
        for term in terms:
            for position in self._titled(term):
                session = self._sessions[position]
                sessions[id(session)] = session
        return sessions

    def _titled(self, term: Term) -> Iterator[int]:
        """The places of titles that hold the first word of a term; all that hold it are among."""
        word = term.text.split()[0]
        at = self._titles.find(word)
        while at >= 0:
            place = bisect_right(self._begins, at) - 1
            yield place
            at = self._titles.find(word, self._begins[place + 1])


class Worth:
    """Which sessions a query can find; `others` are never left out."""

    def __init__(
        self,
        lookup: Lookup,
        others: Sequence[Subject],
        units_with: Callable[[Query], Collection[int] | None],
    ) -> None:
        self._lookup = lookup
        self._others = others
        self._units_with = units_with

    def __call__(self, query: Query) -> Sequence[Subject] | None:
        """The sessions worth a look; None: all of them."""
        if any(term.kind == "regex" for term in query.terms):
            return None
        units = self._units_with(query)
        if units is None:
            return None
        return [*self._lookup.found(units, query.terms).values(), *self._others]
