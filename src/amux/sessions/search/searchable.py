"""The sessions that a search looks at: what filters and ranking need of one, and how to go on.

A subject may be a session in memory or a row of the index: what is not asked for is not made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import cached_property
from typing import Protocol

from amux.assembly.assemble import Assembly, message_sources
from amux.assembly.cost import CostCalculator
from amux.assembly.session import AssembledSession, MessageSources
from amux.assembly.summary import summarize
from amux.model.session import SessionSummary


class SessionFields(Protocol):
    """What filters and ranking look at; a summary has it all."""

    @property
    def agent(self) -> str:
        """Who keeps it."""
        ...

    @property
    def unified_id(self) -> str:
        """The agent and the id."""
        ...

    @property
    def title(self) -> str:
        """What it is called."""
        ...

    @property
    def created_at(self) -> datetime:
        """When it began."""
        ...

    @property
    def updated_at(self) -> datetime:
        """When it last changed."""
        ...

    @property
    def cwd(self) -> str | None:
        """Where it was started."""
        ...

    @property
    def models(self) -> tuple[str, ...]:
        """Every model it used."""
        ...

    @property
    def tags(self) -> tuple[str, ...]:
        """Its tags."""
        ...

    @property
    def starred(self) -> bool:
        """Whether a person gave it a star."""
        ...


class SearchableSession(Protocol):
    """A session that may be found."""

    @property
    def fields(self) -> SessionFields:
        """What is known without reading."""
        ...

    @property
    def sort_key(self) -> bytes:
        """What it goes by among equals (`Joined.tie`)."""
        ...

    @property
    def usd(self) -> float:
        """What it cost; -1 when nothing is known."""
        ...

    @property
    def keys(self) -> Sequence[int] | None:
        """The keys (`place_key`) of its conversations, if each is whole; None: ask for these."""
        ...

    def summary(self) -> SessionSummary:
        """What is shown of it."""
        ...

    def message_sources(self) -> Sequence[MessageSources]:
        """Its own conversation first, then those of its sub-agents."""
        ...


class AssembledSearchable:
    """A session in memory."""

    keys: Sequence[int] | None = None

    def __init__(
        self, assembly: Assembly, session: AssembledSession, costs: CostCalculator
    ) -> None:
        self._assembly = assembly
        self._session = session
        self._costs = costs

    @property
    def fields(self) -> SessionFields:
        """See `Subject`."""
        return self._summary

    @cached_property
    def _summary(self) -> SessionSummary:
        costs, session = self._costs, self._session
        return summarize(
            session,
            costs.cost_of(session),
            costs.tags_of(session),
            starred=costs.is_starred(session),
        )

    @property
    def sort_key(self) -> bytes:
        """See `Subject`."""
        return self._session.sort_key

    @property
    def usd(self) -> float:
        """See `Subject`."""
        cost = self._summary.cost
        return -1.0 if cost is None else cost.total_usd

    def summary(self) -> SessionSummary:
        """See `Subject`."""
        return self._summary

    def message_sources(self) -> Sequence[MessageSources]:
        """See `Subject`."""
        members = self._session.with_children()
        return [message_sources(self._assembly, member) for member in members]


def searchable_sessions(
    assemblies: Iterable[Assembly], costs: CostCalculator
) -> Iterator[SearchableSession]:
    """Every session that may be found; sub-agents are part of theirs."""
    for assembly in assemblies:
        for session in assembly.sessions:
            if session.listed:
                yield AssembledSearchable(assembly, session, costs)
