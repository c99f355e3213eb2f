"""Hits that are known before they are read: which of them are shown, and what of them.

Only where there are more than can be shown have they to be weighed, which means to look through all
they say. Else it is enough to find the first place that fits.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

from amux.model.message import SessionMessage
from amux.sessions.findings import Allowance, Place
from amux.sessions.matching import WINDOW, Tally
from amux.sessions.passages import Passage, passages
from amux.sessions.query import Query
from amux.sessions.snippets import Excerpt, find_excerpt


class Hit:
    """A message that is said to fit, and where it stands."""

    def __init__(self, message: SessionMessage, place: Place, query: Query) -> None:
        self.place = place
        self._query = query
        self._passages: list[Passage] = list(passages(message, said_only=query.said_only))
        self.length = sum(len(passage.text) for passage in self._passages)

    @cached_property
    def tally(self) -> Tally:
        """What it holds of the query."""
        tally = Tally(self._query)
        for passage in self._passages:
            tally.add(passage.text, weight=passage.weight)
        return tally

    def excerpt(self) -> Excerpt | None:
        """The words around what was wanted; None: it does not fit after all."""
        is_weighed = "tally" in self.__dict__
        if is_weighed or len(self._query.alternatives) > 1 or self.length > WINDOW:
            return self.tally.excerpt() if self.tally.is_match else None
        terms = self._query.terms  # it holds all of them
        texts = (passage.text for passage in self._passages)
        return next(filter(None, (find_excerpt(text, terms) for text in texts)), None)


class Shown(NamedTuple):
    """A hit that is shown; `score` is 0 where nobody had to choose."""

    score: float
    place: Place
    cut: Excerpt

    def excerpt(self) -> Excerpt:
        """The words around what was wanted."""
        return self.cut


def choose_shown(hits: Iterable[Hit], room: int | None) -> list[Shown] | None:
    """The first and the best, in order; None when one of them does not fit after all."""
    considered: list[Hit] = []
    allowance = Allowance(room)
    for hit in hits:
        considered.append(hit)
        allowance.use(hit.length)
        if allowance.is_used_up:
            break
    scores = [0.0] * len(considered)
    places: Iterable[int] = range(len(considered))
    if room is not None and len(considered) > room:
        scores = [hit.tally.score for hit in considered]
        best = sorted(places, key=lambda place: -scores[place])[:room]
        places = sorted({0, *best})
    cuts = [(place, considered[place].excerpt()) for place in places]
    shown = [
        Shown(scores[place], considered[place].place, cut) for place, cut in cuts if cut is not None
    ]
    return shown if len(shown) == len(cuts) else None
