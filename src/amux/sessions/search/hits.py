"""The hits of a query in one session, and how many of them contain each term."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import itemgetter
from typing import Final, NamedTuple

from amux.model.message import Role, SessionMessage
from amux.model.session import SearchHit
from amux.reading.message_locations import MessageLocations
from amux.sessions.search.match import WINDOW, MatchState, passages, spoken_texts
from amux.sessions.search.query.grammar import Query
from amux.sessions.search.query.terms import Term
from amux.sessions.search.searchable import SearchableSession
from amux.sessions.search.snippets import Excerpt, find_excerpt

TITLE_HITS: Final = 5.0
"""The number of messages that a title counts as."""


class HitLocation(NamedTuple):
    """The message, and the sub-agent if any, that contains a text.

    `number` is None if the message is not known.
    """

    number: int | None = None
    role: Role | None = None
    at: datetime | None = None
    session_id: str | None = None


SpokenNumbers = Callable[[], Collection[int]]
"""Returns the numbers of the messages that match without the text of tools."""


class PendingHits(NamedTuple):
    """Hits whose messages have not been read yet.

    `position` is the list index of their message sources. `locations` is None if the locations of
    the messages are not known. `spoken` is None if all of the hits match without tool text.
    """

    position: int
    numbers: Collection[int]  # in ascending order
    locations: MessageLocations | None = None
    spoken: SpokenNumbers | None = None


_OrderedHit = tuple[int, SearchHit]
"""A hit, and its position among all hits that were added."""


# These take a quarter of the time of `dict[Term, float]` and its like.
def _no_weights() -> dict[Term, float]:
    return {}


def _no_terms() -> set[Term]:
    return set()


def _no_hits() -> list[_OrderedHit]:
    return []


@dataclass(slots=True)
class SessionHits:
    """The hits in one session.

    `weights` is the number of hits that contain each term, where the title counts as several;
    `present` are all terms that the session contains anywhere. The report shows up to `max_hits`
    hits (None: all): the first spoken ones, then the first in tool text.
    """

    session: SearchableSession
    max_hits: int | None
    relevance: float = 0.0
    weights: dict[Term, float] = field(default_factory=_no_weights)
    present: set[Term] = field(default_factory=_no_terms)
    is_match: bool = False
    is_in_title: bool = False
    is_from_index: bool = False  # its pending hits must be fetched from the index
    snippet: str | None = None
    hit_count: int = 0
    pending: Sequence[PendingHits] = ()
    _spoken: list[_OrderedHit] = field(default_factory=_no_hits)
    _others: list[_OrderedHit] = field(default_factory=_no_hits)

    @property
    def shown(self) -> list[SearchHit]:
        """The hits to show, in their order; at least the first one, for its snippet."""
        most = None if self.max_hits is None else max(self.max_hits, 1)
        chosen = [*self._spoken, *self._others][:most]
        return [hit for _, hit in (sorted(chosen, key=itemgetter(0)) if self._others else chosen)]

    def add_weights(self, weights: Mapping[Term, float]) -> None:
        """Add the numbers of further hits that contain each term."""
        self.present.update(weights)
        for term, weight in weights.items():
            self.weights[term] = self.weights.get(term, 0.0) + weight

    def add_match(self, state: MatchState, location: HitLocation) -> None:
        """Count a message that matches, and add its hit if there is room for one more."""
        self.is_match = True
        self.hit_count += 1
        self.add_weights(dict.fromkeys(state.found, 1.0))
        hits = self._spoken if state.is_spoken else self._others
        if self.max_hits is None or len(hits) < max(self.max_hits, 1):
            self.add_hit(state.excerpt(), location, is_spoken=hits is self._spoken)

    def add_hit(self, excerpt: Excerpt, location: HitLocation, *, is_spoken: bool) -> None:
        """Add a hit; hits must be added in their order."""
        hit = SearchHit(
            snippet=excerpt.text,
            message_number=location.number,
            role=location.role,
            at=location.at,
            session_id=location.session_id,
            ranges=excerpt.ranges,
        )
        order = len(self._spoken) + len(self._others)
        (self._spoken if is_spoken else self._others).append((order, hit))


def excerpt_of(message: SessionMessage, query: Query) -> Excerpt | None:
    """Return the text around the wanted terms; None if the message does not match after all."""
    texts = spoken_texts(message) if query.said_only else [each.text for each in passages(message)]
    has_choice = len(query.alternatives) > 1 or not query.terms
    if has_choice or sum(map(len, texts)) > WINDOW:
        state = MatchState(query)
        for text in texts:
            state.add(text)
        return state.excerpt() if state.is_match else None
    # There is one alternative: a message that matches contains all terms.
    excerpts = (find_excerpt(text, query.terms) for text in texts)
    return next((each for each in excerpts if each is not None), None)
