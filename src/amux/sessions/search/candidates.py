"""Which messages are worth a look: the place where an index comes in.

A search asks its candidates once per agent and query, then once per session. Without an index every
message of every session is a candidate, except where an agent keeps a full-text index of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from amux.assembly.session import MessageSources
from amux.reading.message_locations import MessageLocations
from amux.reading.sources import SourceCatalog
from amux.sessions.search.query.grammar import Query
from amux.sessions.search.query.terms import Term
from amux.sessions.search.searchable import SearchableSession

_LOOKED_UP: Final = re.compile("[a-z0-9_]{3,}")  # an index of parts of words finds nothing shorter


class MessageCandidates(NamedTuple):
    """Messages of one session, sub-agents not included, that may fit.

    `numbers` count from 1 as the session's messages are read; None: all of them. No message that
    fits is missing. With `exact` every one of them fits, filters included, so that nothing need be
    read to know it: `numbers` is then no None, `weights` says in how many of them each term is, for
    ranking, and `said` which of them fit without tool text (None: all). `spots` is where they lie.
    """

    numbers: Collection[int] | None = None
    exact: bool = False
    weights: Mapping[Term, float] = MappingProxyType({})
    said: Callable[[], Collection[int]] | None = None
    locations: Callable[[], MessageLocations | None] | None = None


ALL: Final = MessageCandidates()
NONE: Final = MessageCandidates(numbers=())

CandidatesOf = Callable[[SearchableSession], Sequence[MessageCandidates]]
"""What may fit of a session: a list for each of its conversations, in their order."""


class Candidates(Protocol):
    """Who knows which messages may fit a query."""

    def candidates_for(self, agent: str, query: Query) -> CandidatesOf:
        """The function that has shortlists for each session of an agent.

        Titles are not its business. The shortlists may leave out nothing that fits the words of
        the query and its filters of messages; they may ignore either, unless they are exact.
        """
        ...


class NativeCandidates:
    """Everything; but for sessions in a database whose agent has an index, those it names."""

    def __init__(self, catalog: SourceCatalog) -> None:
        self._catalog = catalog

    def candidates_for(self, agent: str, query: Query) -> CandidatesOf:
        """See `Candidates`."""
        named = self._named(agent, query)
        if named is None:
            return all_messages

        def shortlist(conversation: MessageSources) -> MessageCandidates:
            # An index speaks only for what lies in the database, not for files beside it.
            is_possible = any(
                each.session_id in named or each.source.session_id is not None
                for each in conversation.slices
            )
            return ALL if is_possible else NONE

        return lambda subject: [shortlist(each) for each in subject.message_sources()]

    def _named(self, agent: str, query: Query) -> set[str] | None:
        """Sessions worth a look, by the agent's own index; None: look at all."""
        found: set[str] = set()
        for alternative in query.alternatives:
            keys = [key for term in alternative.wanted for key in _keys(term)]
            if not keys:
                return None
            sessions = self._catalog.native_search(agent, keys)
            if sessions is None:
                return None
            found |= sessions
        return found


def all_messages(subject: SearchableSession) -> Sequence[MessageCandidates]:
    """Everything may fit."""
    return [ALL for _ in subject.message_sources()]


def _keys(term: Term) -> Sequence[str]:
    """Words that occur wherever the term does, and that a foreign index can look up.

    Only ASCII: what folding does to other characters is not what that index does. Only words: what
    stands between them may be written otherwise where it is stored.
    """
    return () if term.kind == "regex" else _LOOKED_UP.findall(term.text)
