"""The order of hits: how much of the query a session holds, and how long ago it was.

Relevance is BM25 over the sessions that fit, without a penalty for long ones, times recency. How
often a session has a term is in how many of its hits: that is known of every session without a look
at it. Relevance lies between 0 and 1, with the best at 1; of equals the newer comes first,
then what a list would put first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final

from amux.model.options import SearchSort
from amux.sessions.search.foremost import DIGITS, MIN_SCORE, indexed_scores, term_weight
from amux.sessions.search.hits import SessionHits
from amux.sessions.search.lookup import IndexedHits
from amux.sessions.search.query.terms import Term
from amux.sessions.search.recency import recency

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
