"""Hours: what one session spent on one model within one hour of the clock (UTC).

Windows of whole hours are sums over them, so they need none of the calls. What was recorded for a
session without a call counts when the session began. A session that must have spent something of
which nothing is known has an hour as well: without figures, and with the reasons.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

import msgspec

from amux.assembly.assemble import Assembly
from amux.assembly.cost import CostCalculator, gaps_of
from amux.assembly.ledger import UNKNOWN_MODEL, SpendTotals, has_extra, reasons_of
from amux.assembly.session import AssembledSession, unique_aliases
from amux.assembly.spans import time_span
from amux.assembly.spending import unread_sources
from amux.assembly.summary import primary_model
from amux.model.ids import unified_id
from amux.model.problems import Problem


class HourEntry(SpendTotals, kw_only=True, array_like=True, gc=False):
    """The spending of one session, sub-agents included; `session` None: of calls of none."""

    session: str | None  # a unified id that means no other session
    model: str
    first_at: datetime  # within the hour
    last_at: datetime
    reasons: tuple[str, ...] = ()  # why it is a lower bound, beyond a missing price
    is_gap: bool = False  # nothing but a reason why more was spent than is known

    @property
    def begin(self) -> datetime:
        """The full hour."""
        return full_hour(self.first_at)


class HourlySpending(msgspec.Struct, frozen=True, array_like=True):
    """What the sessions of one agent, or some of them, spent."""

    hours: list[HourEntry]
    problems: tuple[Problem, ...] = ()  # of sources that tell nothing of what they hold


def hourly_spending(assembly: Assembly, coster: CostCalculator) -> HourlySpending:
    """All that is known."""
    return HourlySpending(list(assembly_hours(assembly, coster)), unread_sources(assembly))


def full_hour(moment: datetime) -> datetime:
    """When the hour of a moment began."""
    return moment.replace(minute=0, second=0, microsecond=0)


def assembly_hours(assembly: Assembly, coster: CostCalculator) -> Iterator[HourEntry]:
    """The hours of all sessions of one agent, and those of its calls without a session."""
    aliases = unique_aliases(assembly.sessions)
    for session in assembly.sessions:
        name = unified_id(session.agent, aliases.get(session, session.session_id))
        yield from _session_hours(session, name, coster)
    for loose in assembly.unattributed:
        created, _ = time_span(loose)
        sums = _Sums()
        for call in loose.calls:
            spent = sums.at(call.model, call.at or created)
            spent.add_calls([call], [coster.price(loose, call)])
        yield from sums.hours(None, gaps_of([loose]))


def _session_hours(
    session: AssembledSession, name: str, coster: CostCalculator
) -> Iterator[HourEntry]:
    cost = coster.cost_of(session)
    created, _ = time_span(session)
    reasons = reasons_of(session, cost)
    sums = _Sums()
    if cost is not None:
        for call, share in zip(cost.calls, cost.shares, strict=True):
            sums.at(call.model, call.at or created).add_calls([call], [share])
        if has_extra(cost):
            spent = sums.at(primary_model(session), created)
            spent.add_amount(cost.extra_tokens, cost.extra_nusd)
    if sums:
        yield from sums.hours(name, reasons)
    elif reasons:
        sums.at(primary_model(session), created)
        yield from sums.hours(name, reasons, is_gap=True)


@dataclass(slots=True)
class _Sum:
    first_at: datetime
    last_at: datetime
    spent: SpendTotals = field(default_factory=SpendTotals)


class _Sums:
    """Sums by hour and model."""

    def __init__(self) -> None:
        self._sums: dict[tuple[datetime, str], _Sum] = {}

    def at(self, model: str | None, at: datetime) -> SpendTotals:
        """Where to add what was spent at a time."""
        moment = at if at.tzinfo is UTC else at.astimezone(UTC)
        key = (full_hour(moment), model or UNKNOWN_MODEL)
        found = self._sums.get(key)
        if found is None:
            found = self._sums[key] = _Sum(moment, moment)
        found.first_at = min(found.first_at, moment)
        found.last_at = max(found.last_at, moment)
        return found.spent

    def __bool__(self) -> bool:
        return bool(self._sums)

    def hours(
        self, session: str | None, reasons: tuple[str, ...], *, is_gap: bool = False
    ) -> Iterator[HourEntry]:
        """All sums."""
        for (_, model), one in self._sums.items():
            yield HourEntry(
                session=session,
                model=model,
                first_at=one.first_at,
                last_at=one.last_at,
                reasons=reasons,
                is_gap=is_gap,
                **one.spent.as_arguments(),
            )
