"""The order of hits: how much of the query a session holds, and how long ago it was.

Relevance is BM25 over the sessions that fit, without a penalty for long ones, times recency. How
often a session has a term is in how many of its hits: that is known of every session without a look
at it. Relevance lies between 0 and 1, with the best at 1; of equals the newer comes first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from heapq import nlargest, nsmallest
from typing import Final

from amux.model.options import SearchSort
from amux.sessions.findings import Finding
from amux.sessions.lookup import Told
from amux.sessions.terms import Term

HALF_LIFE: Final = timedelta(days=180)
OLDEST: Final = 0.25
"""No session counts less for its age than this."""

_SATURATION: Final = 1.5
_LEAST: Final = 1e-6
_DIGITS: Final = 6
_ROUNDED_BY: Final = 2e-6
_OLD: Final = 2.0  # half-lives until a session counts the least
Order = tuple[float, float, str]


def recency(updated_at: datetime, now: datetime) -> float:
    """1 for now, half of it after half a year, never less than a quarter."""
    age = max(0.0, (now - updated_at) / HALF_LIFE)
    return max(OLDEST, math.exp2(-age))


class Ranking:
    """Sessions that fit, of those that were looked at.

    `told` are known by numbers alone: a finding is made of those that come first.
    """

    def __init__(
        self, findings: Sequence[Finding], told: Told | None, looked_at: int, *, now: datetime
    ) -> None:
        self._told = told
        self._found = [finding for finding in findings if finding.is_match]
        self.count = len(self._found) + (0 if told is None else len(told.hits))
        rarity = _rarity(self._found, told, looked_at)
        told_scores = {} if told is None else _told_scores(told, rarity, now)
        scores = [
            _score(finding, rarity) * recency(finding.subject.traits.updated_at, now)
            for finding in self._found
        ]
        best = max(max(scores, default=0.0), max(told_scores.values(), default=0.0)) or 1.0
        for finding, score in zip(self._found, scores, strict=True):
            finding.relevance = _relevance(score, best)
        self._told_scores = told_scores
        self._best = best

    def first(self, limit: int | None, *, sort: SearchSort, room: int | None) -> list[Finding]:
        """The first of those that fit, in order; `room` is how many hits are shown of each."""
        found = [*self._found, *self._chosen(limit, sort, room)]
        order = _ORDERS[sort]
        return sorted(found, key=order) if limit is None else nsmallest(limit, found, key=order)

    def _chosen(self, limit: int | None, sort: SearchSort, room: int | None) -> Iterator[Finding]:
        """Of those that are known by numbers, all that may be among the first."""
        scores, told = self._told_scores, self._told
        if told is None:
            return
        least = 0.0
        if limit is not None and sort == "relevance":
            # Relevance is rounded: what comes a little behind the last may be its equal.
            least = min(nlargest(limit, scores.values()), default=0.0) - _ROUNDED_BY * self._best
        for place, score in scores.items():
            if score >= least:
                finding = told.finding(place, room)
                finding.relevance = _relevance(score, self._best)
                yield finding


def _by_relevance(finding: Finding) -> Order:
    traits = finding.subject.traits
    return -finding.relevance, -traits.created_at.timestamp(), traits.unified_id


def _by_cost(finding: Finding) -> Order:
    return -finding.subject.usd, 0.0, finding.subject.traits.unified_id


def _by_date(finding: Finding) -> Order:
    traits = finding.subject.traits
    return -traits.created_at.timestamp(), 0.0, traits.unified_id


_ORDERS: Final[dict[SearchSort, Callable[[Finding], Order]]] = {
    "relevance": _by_relevance,
    "cost": _by_cost,
    "date": _by_date,
}


def _relevance(score: float, best: float) -> float:
    return max(_LEAST, round(score / best, _DIGITS))


def _told_scores(told: Told, rarity: Mapping[Term, float], now: datetime) -> dict[int, float]:
    """As `_score` and `recency`, for many."""
    scores = dict.fromkeys(told.hits, 0.0)
    for term, held in told.weights.items():
        rare = rarity.get(term, 0.0)
        for place, weight in held.items():
            scores[place] += rare * (weight / (weight + _SATURATION))
    updated, exp2 = told.updated, math.exp2
    for place, score in scores.items():
        age = (now - updated[place]) / HALF_LIFE
        freshness = 1.0 if age <= 0.0 else OLDEST if age >= _OLD else exp2(-age)
        scores[place] = max(_LEAST, score) * freshness
    return scores


def _score(finding: Finding, rarity: Mapping[Term, float]) -> float:
    """How much of the query it holds; the same for all where no term is held by any."""
    if not rarity:
        return 1.0
    held = 0.0
    for term, weight in finding.weights.items():
        held += rarity[term] * (weight / (weight + _SATURATION))  # the tenth says less
    return max(_LEAST, held)


def _rarity(findings: Sequence[Finding], told: Told | None, looked_at: int) -> dict[Term, float]:
    """Inverse document frequency of each term: how few of the sessions that fit have it."""
    holders: dict[Term, int] = {}
    if told is not None:
        holders = {term: len(held) for term, held in told.weights.items() if held}
    for finding in findings:
        for term in finding.weights:
            holders[term] = holders.get(term, 0) + 1
    return {
        term: math.log(1 + (looked_at - count + 0.5) / (count + 0.5))
        for term, count in holders.items()
    }
