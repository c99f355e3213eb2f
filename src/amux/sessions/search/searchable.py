"""The sessions that a search examines: the fields that filters and ranking need, and the messages.

A searchable session is either an assembled session or a row of the index. Both compute their parts
on request, so that a session costs nothing until a part of it is needed.
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
    """The fields that filters and ranking use; a `SessionSummary` has all of them."""

    @property
    def agent(self) -> str:
        """The agent that wrote the session."""
        ...

    @property
    def unified_id(self) -> str:
        """The agent and the session id."""
        ...

    @property
    def title(self) -> str:
        """The title."""
        ...

    @property
    def created_at(self) -> datetime:
        """The time of the first record."""
        ...

    @property
    def updated_at(self) -> datetime:
        """The time of the last record."""
        ...

    @property
    def cwd(self) -> str | None:
        """The directory in which the session was started."""
        ...

    @property
    def models(self) -> tuple[str, ...]:
        """Every model that the session used."""
        ...

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags that the user gave the session."""
        ...

    @property
    def starred(self) -> bool:
        """Whether the user starred the session."""
        ...


class SearchableSession(Protocol):
    """A session that a search can find."""

    @property
    def fields(self) -> SessionFields:
        """The fields that are available without reading messages."""
        ...

    @property
    def sort_key(self) -> bytes:
        """The key that orders sessions which are otherwise equal (`AssembledSession.sort_key`)."""
        ...

    @property
    def usd(self) -> float:
        """The cost; -1 if it is not known."""
        ...

    @property
    def keys(self) -> Sequence[int] | None:
        """The `text_unit_key` of each of its message sources; None if one of them is not whole."""
        ...

    def summary(self) -> SessionSummary:
        """Return the summary that the report contains."""
        ...

    def message_sources(self) -> Sequence[MessageSources]:
        """Return the message sources of the session itself, then those of its sub-agents."""
        ...


class AssembledSearchable:
    """A searchable session in memory; see `SearchableSession`."""

    keys: Sequence[int] | None = None

    def __init__(
        self, assembly: Assembly, session: AssembledSession, costs: CostCalculator
    ) -> None:
        self._assembly = assembly
        self._session = session
        self._costs = costs

    @property
    def fields(self) -> SessionFields:
        """The summary, which has all fields."""
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
        """The key that orders sessions which are otherwise equal."""
        return self._session.sort_key

    @property
    def usd(self) -> float:
        """The cost; -1 if it is not known."""
        cost = self._summary.cost
        return -1.0 if cost is None else cost.total_usd

    def summary(self) -> SessionSummary:
        """Return the summary that the report contains."""
        return self._summary

    def message_sources(self) -> Sequence[MessageSources]:
        """Return the message sources of the session itself, then those of its sub-agents."""
        members = self._session.with_children()
        return [message_sources(self._assembly, member) for member in members]


def searchable_sessions(
    assemblies: Iterable[Assembly], costs: CostCalculator
) -> Iterator[SearchableSession]:
    """Yield every session that a search can find; sub-agents are part of their parents."""
    for assembly in assemblies:
        for session in assembly.sessions:
            if session.listed:
                yield AssembledSearchable(assembly, session, costs)
