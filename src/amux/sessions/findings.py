"""What a search has found in one session: how much of the query it holds, and its best hits."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from heapq import heappop, heappush
from typing import Final, NamedTuple, Protocol

from amux.index.texts_spots import Spots
from amux.model.message import Role
from amux.model.session import SearchHit
from amux.sessions.matching import Tally
from amux.sessions.snippets import Excerpt
from amux.sessions.subjects import Subject
from amux.sessions.terms import Term

CONSIDERED: Final = 50
"""Hits of one session among which the best are chosen: it may have thousands."""

ENOUGH: Final = 8_000
"""Characters of such hits: behind them no more are considered than have to be shown."""


class Allowance:
    """How many hits of a session are considered, given how many of them are shown."""

    __slots__ = ("_length", "_room", "_seen")

    def __init__(self, room: int | None) -> None:
        self._room = room
        self._seen = 0
        self._length = 0

    @property
    def is_used_up(self) -> bool:
        """Whether no further hit is considered."""
        if self._room is None or self._seen < self._room:
            return False
        return self._seen >= CONSIDERED or self._length >= ENOUGH

    def use(self, length: int) -> None:
        """A hit of so many characters is considered."""
        self._seen += 1
        self._length += length


class Place(NamedTuple):
    """Where a text stands: in which message of which sub-agent. No number: nobody knows."""

    number: int | None = None
    role: Role | None = None
    at: datetime | None = None
    session_id: str | None = None


class Found(Protocol):
    """A hit as far as it is shown."""

    @property
    def score(self) -> float:
        """How good it is, compared with others of the same session."""
        ...

    def excerpt(self) -> Excerpt:
        """The words around what was wanted."""
        ...


class Unread(NamedTuple):
    """Hits that are known without a look at the source: of which conversation, which messages.

    `spots` are where they lie, if anybody knows.
    """

    place: int
    numbers: Collection[int]
    spots: Spots | None = None


@dataclass(slots=True)
class Finding:
    """What a session holds of the query.

    `weights` is in how many of its hits each term is, the title counting as several; `held` are all
    terms it has anywhere. Of its first hits (see `Allowance`) the best `room` are kept; None: all.
    """

    subject: Subject
    room: int | None
    relevance: float = 0.0
    weights: dict[Term, float] = field(default_factory=dict[Term, float])
    held: set[Term] = field(default_factory=set[Term])
    is_match: bool = False
    is_in_title: bool = False
    is_told: bool = False  # its messages are known to who told of it
    snippet: str | None = None
    hit_count: int = 0
    unread: Sequence[Unread] = ()
    _allowance: Allowance | None = None
    _seen: int = 0
    _best: list[tuple[float, int, SearchHit]] = field(
        default_factory=list[tuple[float, int, SearchHit]]
    )

    @property
    def hits(self) -> tuple[SearchHit, ...]:
        """The best hits, in the order in which they stand in the session."""
        in_order = sorted(self._best, key=lambda one: -one[1])
        return tuple(hit for _, _, hit in in_order)

    def hold(self, weights: Mapping[Term, float]) -> None:
        """Add to how many hits have each term."""
        self.held.update(weights)
        for term, weight in weights.items():
            self.weights[term] = self.weights.get(term, 0.0) + weight

    def match(self, tally: Tally, place: Place) -> None:
        """A message fits."""
        self.is_match = True
        self.hit_count += 1
        self.hold(dict.fromkeys(tally.weights, 1.0))
        self._allowance = self._allowance or Allowance(self.room)
        if self.snippet is None or not self._allowance.is_used_up:
            self._allowance.use(tally.length)
            self.show(tally, place)

    def show(self, found: Found, place: Place) -> None:
        """Keep a hit if it is among the best; of equals the earlier one."""
        self._seen += 1
        room = self.room
        rank = (found.score, -self._seen)
        is_kept = room is None or len(self._best) < room or (room > 0 and rank > self._best[0][:2])
        if not is_kept and self.snippet is not None:
            return
        hit = _hit(found, place)
        self.snippet = hit.snippet if self.snippet is None else self.snippet
        if is_kept:
            heappush(self._best, (*rank, hit))
        if room is not None and len(self._best) > room:
            heappop(self._best)


def _hit(found: Found, place: Place) -> SearchHit:
    excerpt = found.excerpt()
    return SearchHit(
        snippet=excerpt.text,
        message_number=place.number,
        role=place.role,
        at=place.at,
        session_id=place.session_id,
        ranges=excerpt.ranges,
    )
