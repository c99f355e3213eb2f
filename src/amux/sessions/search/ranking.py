"""Orders the sessions with hits by relevance, cost or date.

Relevance is BM25 over the sessions that match, without a penalty for long ones, times recency. The
frequency of a term in a session is the number of its hits that contain the term, because the index
has that number for every session. Relevance lies between 0 and 1, and the best session has 1.
Sessions of equal relevance are ordered by time, the newer first, then as in a list.
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
"""The smallest score of a session that matches."""

DIGITS: Final = 6
"""The number of decimal places of a relevance."""

_SATURATION: Final = 1.5
_ROUNDING: Final = 2e-6  # a score that is lower by less than this may round to the same relevance

Scores = dict[int, float]
"""Scores by the positions of sessions."""


def term_weight(weights: Iterable[float], rarities: Iterable[float]) -> float:
    """Return the score of the numbers of hits with each term, given the rarity of each term."""
    score = 0.0
    for weight, rarity in zip(weights, rarities, strict=False):
        score += rarity * (weight / (weight + _SATURATION))  # each further hit adds less
    return max(MIN_SCORE, score)


def indexed_scores(
    indexed: IndexedHits, rarities: Sequence[float], now: datetime, limit: int | None
) -> list[tuple[int, float]]:
    """Return the positions and scores of the sessions that may be among the first `limit`.

    `rarities` are in the order of `indexed.counts`.
    """
    bounds = None if limit is None else indexed.recency.at_most(now)
    if limit is not None and bounds is not None and indexed.is_uniform:
        scores = _above_cutoff(indexed.hits, rarities, *bounds, limit)
    else:
        scores = _message_scores(indexed, rarities)
    for position, weights in indexed.titled_weights():
        scores[position] = term_weight(weights, rarities)
    if limit is not None and bounds is not None:
        scores = _top_candidates(scores, *bounds, limit)
    recencies = indexed.recency.of(scores, now)
    return [(each, scores[each] * own) for each, own in zip(scores, recencies, strict=True)]


def _above_cutoff(
    hits: Mapping[int, int],
    rarities: Sequence[float],
    recencies: Sequence[float],
    shrunk: float,
    limit: int,
) -> Scores:
    """Return the scores that may be among the first, if every hit contains all terms.

    Titles are not considered.
    """
    by_count = {count: term_weight(repeat(count), rarities) for count in set(hits.values())}
    scores, ages = map(by_count.__getitem__, hits.values()), map(recencies.__getitem__, hits)
    bounds = list(map(float.__mul__, scores, ages))
    best = max(MIN_SCORE, sum(rarities))  # a title may score higher than any message
    least = min(nlargest(limit, bounds), default=0.0) * shrunk - _ROUNDING * best
    return {each: by_count[hits[each]] for each in compress(hits, map(least.__le__, bounds))}


def _message_scores(indexed: IndexedHits, rarities: Sequence[float]) -> Scores:
    """Return the scores of the messages of all sessions; equal counts are computed once."""
    of_terms = (map(own.get, indexed.hits, repeat(0)) for own in indexed.counts.values())
    counts = [*zip(*of_terms, strict=True)]
    by_counts = {each: term_weight(each, rarities) for each in set(counts)}
    return dict(zip(indexed.hits, map(by_counts.__getitem__, counts), strict=True))


def _top_candidates(
    scores: Scores, recencies: Sequence[float], shrunk: float, limit: int
) -> Scores:
    """Return the scores that may be among the first, given upper bounds of the recencies."""
    bounds = {position: score * recencies[position] for position, score in scores.items()}
    best = max(bounds.values(), default=0.0)
    least = min(nlargest(limit, bounds.values()), default=0.0) * shrunk - _ROUNDING * best
    return {position: scores[position] for position, own in bounds.items() if own >= least}


Order = tuple[float, float, bytes]


class Ranking:
    """The sessions that match, of all that were `searched`.

    `SessionHits` of the sessions in `indexed` are created only for those that come first.
    """

    def __init__(
        self,
        hits: Sequence[SessionHits],
        indexed: IndexedHits | None,
        searched: int,
        *,
        now: datetime,
    ) -> None:
        self._indexed = indexed
        self._now = now
        self._found = [each for each in hits if each.is_match]
        self.count = len(self._found) + (0 if indexed is None else len(indexed.hits))
        self._rarity = _rarity(self._found, indexed, searched)

    def first(
        self, limit: int | None, *, sort: SearchSort, max_hits: int | None
    ) -> list[SessionHits]:
        """Return the first sessions in order; up to `max_hits` hits of each will be shown."""
        scored = [(hits, self._score(hits)) for hits in self._found]
        indexed = self._indexed
        if indexed is not None:
            rarities = [self._rarity.get(term, 0.0) for term in indexed.counts]
            most = limit if sort == "relevance" else None
            found = indexed_scores(indexed, rarities, self._now, most)
            scored += [(indexed.session_hits(each, max_hits), score) for each, score in found]
        best = max([score for _, score in scored], default=0.0) or 1.0
        for hits, score in scored:
            hits.relevance = max(MIN_SCORE, round(score / best, DIGITS))
        return sorted([hits for hits, _ in scored], key=_ORDERS[sort])[:limit]

    def _score(self, hits: SessionHits) -> float:
        """Return the score of a scanned session; without any rarity only its age counts."""
        age = recency(hits.session.fields.updated_at, self._now)
        if not self._rarity:
            return age
        weights = hits.weights
        return term_weight(weights.values(), map(self._rarity.__getitem__, weights)) * age


def _created(hits: SessionHits) -> float:
    return hits.session.fields.created_at.timestamp()


_ORDERS: Final[dict[SearchSort, Callable[[SessionHits], Order]]] = {
    "relevance": lambda hits: (-hits.relevance, -_created(hits), hits.session.sort_key),
    "cost": lambda hits: (-hits.session.usd, 0.0, hits.session.sort_key),
    "date": lambda hits: (-_created(hits), 0.0, hits.session.sort_key),
}


def _rarity(
    found: Sequence[SessionHits], indexed: IndexedHits | None, searched: int
) -> dict[Term, float]:
    """Return the inverse document frequency of each term, over the sessions that match."""
    counts: dict[Term, int] = {}
    if indexed is not None:
        counts = {term: count for term in indexed.counts if (count := indexed.session_count(term))}
    for hits in found:
        for term in hits.weights:
            counts[term] = counts.get(term, 0) + 1
    return {
        term: math.log(1 + (searched - count + 0.5) / (count + 0.5))
        for term, count in counts.items()
    }
