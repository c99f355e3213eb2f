"""The order of hits: how much of the query a session holds, and how long ago it was.

Relevance is BM25 over sessions, without a penalty for long ones, times recency. It lies between 0
and 1, with the best at 1; of equals the newer comes first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from amux.model.options import SearchSort
from amux.sessions.findings import Finding
from amux.sessions.listing import sort_sessions
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


def rank(findings: Sequence[Finding], *, now: datetime, sort: SearchSort) -> list[Finding]:
    """Those that fit, in order, their summaries with a relevance.

    `findings` are all sessions that were looked at: how rare a term is depends on the others too.
    """
    rarity = _rarity(findings)
    found = [finding for finding in findings if finding.is_match]
    scores = [
        _score(finding, rarity) * recency(finding.summary.updated_at, now) for finding in found
    ]
    best = max(scores, default=1.0)
    for finding, score in zip(found, scores, strict=True):
        relevance = max(_LEAST, round(score / best, 6))
        finding.summary = msgspec.structs.replace(finding.summary, relevance_score=relevance)
    return _sorted(found, sort)


def _sorted(found: list[Finding], sort: SearchSort) -> list[Finding]:
    summaries = [finding.summary for finding in found]
    owners = {id(finding.summary): finding for finding in found}  # equal ids may exist twice
    if sort == "relevance":
        newest_first = sort_sessions(summaries, "date", descending=True)
        ordered = sorted(newest_first, key=lambda summary: -(summary.relevance_score or 0.0))
    else:
        ordered = sort_sessions(summaries, sort, descending=True)
    return [owners[id(summary)] for summary in ordered]


def _score(finding: Finding, rarity: dict[Term, float]) -> float:
    """How much of the query it holds; the same for all where no term is held by any."""
    if not rarity:
        return 1.0
    held = sum(rarity[term] * saturated(weight) for term, weight in finding.weights.items())
    return max(_LEAST, held)


def _rarity(findings: Sequence[Finding]) -> dict[Term, float]:
    """Inverse document frequency of each term over the sessions that were looked at."""
    holders: dict[Term, int] = {}
    for finding in findings:
        for term in finding.weights:
            holders[term] = holders.get(term, 0) + 1
    return {
        term: math.log(1 + (len(findings) - count + 0.5) / (count + 0.5))
        for term, count in holders.items()
    }
