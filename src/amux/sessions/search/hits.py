"""What a search has found in one session: how much of the query it holds, and its first hits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import itemgetter
from typing import Final, NamedTuple

from amux.model.message import Role, SessionMessage
from amux.model.session import SearchHit
from amux.reading.message_locations import MessageLocations
from amux.sessions.search.match import WINDOW, MatchState, passages, said_in
from amux.sessions.search.query.grammar import Query
from amux.sessions.search.query.terms import Term
from amux.sessions.search.searchable import SearchableSession
from amux.sessions.search.snippets import Excerpt, find_excerpt

TITLE_HITS: Final = 5.0
"""As how many messages a title counts."""


class HitLocation(NamedTuple):
    """Where a text stands: in which message of which sub-agent. No number: nobody knows."""

    number: int | None = None
    role: Role | None = None
    at: datetime | None = None
    session_id: str | None = None


Said = Callable[[], Collection[int]]
"""Numbers of messages that fit without tool text, when somebody wants to know."""


class PendingHits(NamedTuple):
    """Hits that are known without a look at the source: of which conversation, which messages.

    `spots` are where they lie, if anybody knows; `said` tells which of them are no tool text: all
    of them where it is None.
    """

    position: int
    numbers: Collection[int]  # in order
    locations: MessageLocations | None = None
    said: Said | None = None


_Shown = tuple[int, SearchHit]
"""A hit, and which of those that were noted it is."""


# These take a quarter of the time of `dict[Term, float]` and its like.
def _no_weights() -> dict[Term, float]:
    return {}


def _no_terms() -> set[Term]:
    return set()


def _no_hits() -> list[_Shown]:
    return []


@dataclass(slots=True)
class SessionHits:
    """What a session holds of the query.

    `weights` is in how many of its hits each term is, the title counting as several; `held` are all
    terms it has anywhere. Of its hits `room` are shown (None: all): the first that were said, then
    the first in tool text.
    """

    session: SearchableSession
    room: int | None
    relevance: float = 0.0
    weights: dict[Term, float] = field(default_factory=_no_weights)
    held: set[Term] = field(default_factory=_no_terms)
    is_match: bool = False
    is_in_title: bool = False
    is_from_index: bool = False  # its messages are known to who told of it
    snippet: str | None = None
    hit_count: int = 0
    pending: Sequence[PendingHits] = ()
    _said: list[_Shown] = field(default_factory=_no_hits)
    _others: list[_Shown] = field(default_factory=_no_hits)

    @property
    def shown(self) -> list[SearchHit]:
        """The hits that are shown, in their order; at least the first one, for its snippet."""
        room = None if self.room is None else max(self.room, 1)
        chosen = [*self._said, *self._others][:room]
        return [hit for _, hit in (sorted(chosen, key=itemgetter(0)) if self._others else chosen)]

    def hold(self, weights: Mapping[Term, float]) -> None:
        """Add to how many hits have each term."""
        self.held.update(weights)
        for term, weight in weights.items():
            self.weights[term] = self.weights.get(term, 0.0) + weight

    def match(self, tally: MatchState, place: HitLocation) -> None:
        """A message fits."""
        self.is_match = True
        self.hit_count += 1
        self.hold(dict.fromkeys(tally.found, 1.0))
        known = self._said if tally.is_said else self._others
        if self.room is None or len(known) < max(self.room, 1):
            self.show(tally.excerpt(), place, is_said=known is self._said)

    def show(self, excerpt: Excerpt, place: HitLocation, *, is_said: bool) -> None:
        """Note one more hit; they come in order."""
        hit = SearchHit(
            snippet=excerpt.text,
            message_number=place.number,
            role=place.role,
            at=place.at,
            session_id=place.session_id,
            ranges=excerpt.ranges,
        )
        order = len(self._said) + len(self._others)
        (self._said if is_said else self._others).append((order, hit))


def excerpt_of(message: SessionMessage, query: Query) -> Excerpt | None:
    """The words around what was wanted; None: the message does not fit after all."""
    texts = said_in(message) if query.said_only else [each.text for each in passages(message)]
    has_choice = len(query.alternatives) > 1 or not query.terms
    if has_choice or sum(map(len, texts)) > WINDOW:
        return _weighed(texts, query)
    for text in texts:
        excerpt = find_excerpt(text, query.terms)
        if excerpt is not None:
            return excerpt  # it holds all of the terms
    return None


def _weighed(texts: list[str], query: Query) -> Excerpt | None:
    tally = MatchState(query)
    for text in texts:
        tally.add(text)
    return tally.excerpt() if tally.is_match else None
