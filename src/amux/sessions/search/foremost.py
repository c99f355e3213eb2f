"""Which sessions come first of those that are known by numbers alone, and what each is worth.

Sessions are many and few are shown: what all of them have to go through is short. It tells who
cannot be among the first; only the others are weighed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from heapq import nlargest
from itertools import compress, repeat
from typing import Final

from amux.sessions.search.lookup import IndexedHits

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
