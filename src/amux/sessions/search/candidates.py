"""Candidates: the messages that may match a query. This is the interface to an index.

A search asks for candidates once per agent and query, then once per session. Without an index every
message of every session is a candidate, except where an agent has a full-text index of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from amux.reading.message_locations import MessageLocations
from amux.reading.sources import SourceCatalog
from amux.sessions.search.query.grammar import Query
from amux.sessions.search.query.terms import Term
from amux.sessions.search.searchable import SearchableSession

_WORD: Final = re.compile("[a-z0-9_]{3,}")  # a trigram index finds nothing shorter


class MessageCandidates(NamedTuple):
    """The messages of one session, without its sub-agents, that may match.

    `numbers` count from 1 in reading order; None means all messages. No message that matches is
    missing. If `exact`, every candidate matches, filters included, so that nothing has to be read:
    `numbers` is then not None, `weights` is the number of candidates that contain each term, and
    `spoken` returns those that match without tool text (None: all). `locations` returns where the
    messages are.
    """

    numbers: Collection[int] | None = None
    exact: bool = False
    weights: Mapping[Term, float] = MappingProxyType({})
    spoken: Callable[[], Collection[int]] | None = None
    locations: Callable[[], MessageLocations | None] | None = None


ALL: Final = MessageCandidates()
NONE: Final = MessageCandidates(numbers=())

CandidatesOf = Callable[[SearchableSession], Sequence[MessageCandidates]]
"""Returns the candidates of a session, one item for each of its message sources, in their order."""


class Candidates(Protocol):
    """A provider of candidates."""

    def candidates_for(self, agent: str, query: Query) -> CandidatesOf:
        """Return the function that has the candidates of each session of an agent.

        Titles are not considered. The candidates include every message that matches the terms of
        the query and its filters of messages; they may ignore either, unless they are exact.
        """
        ...


class NativeCandidates:
    """All messages; for sessions in a database whose agent has an index, those the index names."""

    def __init__(self, catalog: SourceCatalog) -> None:
        self._catalog = catalog

    def candidates_for(self, agent: str, query: Query) -> CandidatesOf:
        """See `Candidates`."""
        named = self._sessions_in_native_index(agent, query)
        if named is None:
            return all_messages

        def candidates_of(session: SearchableSession) -> Sequence[MessageCandidates]:
            # The index covers only sessions in the database, not files beside it.
            are_possible = (
                any(
                    each.session_id in named or each.source.session_id is not None
                    for each in sources.slices
                )
                for sources in session.message_sources()
            )
            return [ALL if is_possible else NONE for is_possible in are_possible]

        return candidates_of

    def _sessions_in_native_index(self, agent: str, query: Query) -> set[str] | None:
        """Return the session ids that the agent's own index finds; None if any may match."""
        found: set[str] = set()
        for alternative in query.alternatives:
            # Only ASCII words: the agent's index folds other characters differently, and it may
            # store other separators between the words.
            words = [
                word
                for term in alternative.wanted
                if term.kind != "regex"
                for word in _WORD.findall(term.text)
            ]
            sessions = self._catalog.native_search(agent, words) if words else None
            if sessions is None:
                return None
            found |= sessions
        return found


def all_messages(session: SearchableSession) -> Sequence[MessageCandidates]:
    """Return every message of a session as a candidate."""
    return [ALL for _ in session.message_sources()]
