"""Which hits of a session are shown: its first and its best.

A hit may be known by a bound of its score alone. It is decoded only if it can be among the best.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from amux.sessions.findings import CONSIDERED, Place
from amux.sessions.matching import Tally


class Hit(NamedTuple):
    """A message that fits, and where it stands."""

    tally: Tally
    place: Place


class Candidate(NamedTuple):
    """A hit, or how to get it, and what it scores at most. None: it is none after all."""

    source: Hit | Callable[[], Hit | None]
    bound: float = math.inf

    def hit(self) -> Hit | None:
        """The hit."""
        return self.source if isinstance(self.source, Hit) else self.source()


class _Best:
    """The best of some hits: by score, of equals the earlier."""

    def __init__(self, room: int) -> None:
        self.hits: dict[int, Hit] = {}
        self._room = room
        self._ranks: list[tuple[float, int]] = []  # score, and the place turned round; best first

    def can_hold(self, bound: float, place: int) -> bool:
        """Whether a hit that scores no more than this may be among the best."""
        full = len(self._ranks) >= self._room
        return not full or (self._room > 0 and (bound, -place) > self._ranks[-1])

    def add(self, place: int, hit: Hit) -> None:
        self.hits[place] = hit
        self._ranks.append((hit.tally.score, -place))
        self._ranks.sort(reverse=True)
        del self._ranks[self._room :]

    def places(self) -> set[int]:
        return {-place for _, place in self._ranks}


def worth_showing(candidates: Iterable[Candidate], room: int | None) -> Iterable[Hit]:
    """The first and the best, in order: of the others no excerpt need be cut."""
    if room is None:
        return (hit for each in candidates if (hit := each.hit()) is not None)
    return _first_and_best(islice(candidates, CONSIDERED), room)


def _first_and_best(candidates: Iterator[Candidate], room: int) -> Iterator[Hit]:
    best = _Best(room)
    first: int | None = None
    waiting: list[tuple[float, int, Candidate]] = []
    for place, candidate in enumerate(candidates):
        if first is None:
            hit = candidate.hit()
            if hit is not None:
                first = place
                best.add(place, hit)
        else:
            waiting.append((-candidate.bound, place, candidate))
    for bound, place, candidate in sorted(waiting, key=lambda each: each[:2]):
        if not best.can_hold(-bound, place):
            break
        hit = candidate.hit()
        if hit is not None:
            best.add(place, hit)
    if first is not None:
        yield from (best.hits[place] for place in sorted({first, *best.places()}))
