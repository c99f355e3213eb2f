"""The order of hits: how much of the query a session holds, and how long ago it was.

Relevance is BM25 over the sessions that fit, without a penalty for long ones, times recency. How
often a session has a term is in how many of its hits: that is known of every session without a look
at it. Relevance lies between 0 and 1, with the best at 1; of equals the newer comes first,
then what a list would put first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from heapq import nlargest
from itertools import compress, repeat
from typing import Final

from amux.model.options import SearchSort
from amux.sessions.search.hits import SessionHits
from amux.sessions.search.indexed_hits import IndexedHits
from amux.sessions.search.query.terms import Term
from amux.sessions.search.recency import recency

MIN_SCORE: Final = 1e-6
"""What a session is worth at least that fits at all."""

DIGITS: Final = 6
"""Of relevance, which is a share of the best."""

_SATURATION: Final = 1.5
_ROUNDED_BY: Final = 2e-6  # what comes so little behind another may be its equal

Scores = dict[int, float]
"""How much of the query sessions hold, by their places."""


def term_weight(weights: Iterable[float], rarities: Iterable[float]) -> float:
    """What so much of each term is worth, given how rare these are."""
    worth = 0.0
    for weight, rarity in zip(weights, rarities, strict=False):
        worth += rarity * (weight / (weight + _SATURATION))  # the tenth says less
    return max(MIN_SCORE, worth)


def indexed_scores(
    told: IndexedHits, rarities: Sequence[float], now: datetime, limit: int | None
) -> list[tuple[int, float]]:
    """Sessions with their scores, as far as they may be among the first.

    `rarities` are those of the terms in the order of the counts.
    """
    if limit is None:
        held = _with_titles(_message_scores(told, rarities), told, rarities)
    else:
        bounds = told.recency.at_most(now)
        some = _above_cutoff(told.hits, rarities, *bounds, limit) if told.is_uniform else None
        held = _with_titles(
            _message_scores(told, rarities) if some is None else some, told, rarities
        )
        held = _top_candidates(held, *bounds, limit)
    recencies = told.recency.of(held, now)
    return [(place, held[place] * own) for place, own in zip(held, recencies, strict=True)]


def _above_cutoff(
    hits: Mapping[int, int],
    rarities: Sequence[float],
    recencies: Sequence[float],
    shrunk: float,
    limit: int,
) -> Scores:
    """Those that may be among the first for messages alone, which all have all terms."""
    worth = {count: term_weight(repeat(count), rarities) for count in set(hits.values())}
    of_messages, of_age = map(worth.__getitem__, hits.values()), map(recencies.__getitem__, hits)
    most = list(map(float.__mul__, of_messages, of_age))
    best = max(MIN_SCORE, sum(rarities))  # a title may be worth more than any message
    least = min(nlargest(limit, most), default=0.0) * shrunk - _ROUNDED_BY * best
    chosen = compress(hits, map(least.__le__, most))
    return {place: worth[hits[place]] for place in chosen}


def _message_scores(told: IndexedHits, rarities: Sequence[float]) -> Scores:
    """What the messages of all sessions are worth: many have as much of each term."""
    of_terms = (map(own.get, told.hits, repeat(0)) for own in told.counts.values())
    counts = [*zip(*of_terms, strict=True)]
    worth = {each: term_weight(each, rarities) for each in set(counts)}
    return dict(zip(told.hits, map(worth.__getitem__, counts), strict=True))


def _with_titles(held: Scores, told: IndexedHits, rarities: Sequence[float]) -> Scores:
    """The same with what titles hold, which few do."""
    for place, weights in told.titled_weights():
        held[place] = term_weight(weights, rarities)
    return held


def _top_candidates(held: Scores, recencies: Sequence[float], shrunk: float, limit: int) -> Scores:
    """Those that may be among the first, judged by what they count for their age at most."""
    most = {place: score * recencies[place] for place, score in held.items()}
    best = max(most.values(), default=0.0)
    least = min(nlargest(limit, most.values()), default=0.0) * shrunk - _ROUNDED_BY * best
    return {place: held[place] for place, own in most.items() if own >= least}


Order = tuple[float, float, bytes]


class Ranking:
    """Sessions that fit, of those that were looked at.

    `told` are known by numbers alone: a finding is made of those that come first.
    """

    def __init__(
        self,
        findings: Sequence[SessionHits],
        told: IndexedHits | None,
        looked_at: int,
        *,
        now: datetime,
    ) -> None:
        self._told = told
        self._now = now
        self._found = [finding for finding in findings if finding.is_match]
        self.count = len(self._found) + (0 if told is None else len(told.hits))
        self._rarity = _rarity(self._found, told, looked_at)

    def first(self, limit: int | None, *, sort: SearchSort, room: int | None) -> list[SessionHits]:
        """The first of those that fit, in order; `room` is how many hits are shown of each."""
        scored = [
            (finding, _score(finding, self._rarity) * self._recency(finding))
            for finding in self._found
        ]
        if self._told is not None:
            rarities = [self._rarity.get(term, 0.0) for term in self._told.counts]
            most = limit if sort == "relevance" else None
            of_told = indexed_scores(self._told, rarities, self._now, most)
            scored += [(self._told.session_hits(place, room), score) for place, score in of_told]
        best = max([score for _, score in scored], default=0.0) or 1.0
        for finding, score in scored:
            finding.relevance = max(MIN_SCORE, round(score / best, DIGITS))
        return sorted([finding for finding, _ in scored], key=_ORDERS[sort])[:limit]

    def _recency(self, finding: SessionHits) -> float:
        return recency(finding.session.fields.updated_at, self._now)


def _by_relevance(finding: SessionHits) -> Order:
    traits = finding.session.fields
    return -finding.relevance, -traits.created_at.timestamp(), finding.session.sort_key


def _by_cost(finding: SessionHits) -> Order:
    return -finding.session.usd, 0.0, finding.session.sort_key


def _by_date(finding: SessionHits) -> Order:
    subject = finding.session
    return -subject.fields.created_at.timestamp(), 0.0, subject.sort_key


_ORDERS: Final[dict[SearchSort, Callable[[SessionHits], Order]]] = {
    "relevance": _by_relevance,
    "cost": _by_cost,
    "date": _by_date,
}


def _score(finding: SessionHits, rarity: Mapping[Term, float]) -> float:
    """How much of the query it holds; the same for all where no term is held by any."""
    if not rarity:
        return 1.0
    return term_weight(finding.weights.values(), map(rarity.__getitem__, finding.weights))


def _rarity(
    findings: Sequence[SessionHits], told: IndexedHits | None, looked_at: int
) -> dict[Term, float]:
    """Inverse document frequency of each term: how few of the sessions that fit have it."""
    holders: dict[Term, int] = {}
    if told is not None:
        held = ((term, told.holders(term)) for term in told.counts)
        holders = {term: count for term, count in held if count}
    for finding in findings:
        for term in finding.weights:
            holders[term] = holders.get(term, 0) + 1
    return {
        term: math.log(1 + (looked_at - count + 0.5) / (count + 0.5))
        for term, count in holders.items()
    }
