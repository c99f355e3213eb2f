"""The order of hits: how much of the query a session holds, and how long ago it was.

Relevance is BM25 over sessions, without a penalty for long ones, times recency. It lies between 0
and 1, with the best at 1; of equals the newer comes first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from heapq import nsmallest
from typing import Final

from amux.model.options import SearchSort
from amux.sessions.findings import Finding
from amux.sessions.matching import saturated
from amux.sessions.terms import Term

HALF_LIFE: Final = timedelta(days=180)
OLDEST: Final = 0.25
"""No session counts less for its age than this."""

_LEAST: Final = 1e-6


def recency(updated_at: datetime, now: datetime) -> float:
    """1 for now, half of it after half a year, never less than a quarter."""
    age = max(0.0, (now - updated_at) / HALF_LIFE)
    return max(OLDEST, math.exp2(-age))


def rank(findings: Sequence[Finding], looked_at: int, *, now: datetime) -> list[Finding]:
    """Those that fit, each with its relevance.

    `findings` are all sessions with any of the terms, of those that were looked at: how rare a term
    is depends on the others too.
    """
    rarity = _rarity(findings, looked_at)
    found = [finding for finding in findings if finding.is_match]
    scores = [
        _score(finding, rarity) * recency(finding.subject.traits.updated_at, now)
        for finding in found
    ]
    best = max(scores, default=1.0)
    for finding, score in zip(found, scores, strict=True):
        finding.relevance = max(_LEAST, round(score / best, 6))
    return found


def first(found: Sequence[Finding], limit: int | None, *, sort: SearchSort) -> list[Finding]:
    """The first of those that fit, in order."""

    def place(finding: Finding) -> tuple[float, float, str]:
        traits = finding.subject.traits
        created = -traits.created_at.timestamp()
        match sort:
            case "relevance":
                return -finding.relevance, created, traits.unified_id
            case "cost":
                return -finding.subject.usd, 0.0, traits.unified_id
            case _:
                return created, 0.0, traits.unified_id

    return sorted(found, key=place) if limit is None else nsmallest(limit, found, key=place)


def _score(finding: Finding, rarity: dict[Term, float]) -> float:
    """How much of the query it holds; the same for all where no term is held by any."""
    if not rarity:
        return 1.0
    held = 0.0
    for term, weight in finding.weights.items():
        held += rarity[term] * saturated(weight)
    return max(_LEAST, held)


def _rarity(findings: Sequence[Finding], looked_at: int) -> dict[Term, float]:
    """Inverse document frequency of each term over the sessions that were looked at."""
    holders: dict[Term, int] = {}
    for finding in findings:
        for term in finding.weights:
            holders[term] = holders.get(term, 0) + 1
    return {
        term: math.log(1 + (looked_at - count + 0.5) / (count + 0.5))
        for term, count in holders.items()
    }
