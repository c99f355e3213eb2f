"""Ledger entries: the spending of one session on one model in one day or hour.

A cost report is a sum of entries, so it needs no calls. An entry is valid for the sessions as they
were read, one price list, one run index and one time zone. It has no tags: they belong to the id of
the session and can change at any time.

The entries of a session add up to the sum of its calls, to the nano-USD. Billed calls of no session
have entries of their own, whose `created_at` is the time of the call. A session without known
spending still has one entry, so that reports count it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, tzinfo
from functools import partial
from typing import Any, Literal

import msgspec

from amux.assembly.assemble import SOURCE_FAILURES, Assembly
from amux.assembly.cost import (
    CostCalculator,
    SessionCost,
    call_spans,
    day_limits,
    full_hour,
    gaps_of,
    hour_limits,
    local_day,
    why_unknown,
)
from amux.assembly.session import AssembledSession, time_span, unique_aliases
from amux.assembly.summary import cwd_of, primary_model
from amux.model.ids import unified_id
from amux.model.incomplete import UNPRICED_MODEL
from amux.model.problems import Problem
from amux.model.usage import NO_CALLS, NO_MODEL, Call, Purpose, Tokens, named_model, sum_tokens

_LARGEST = 2**63 - 1

EntryKind = Literal["spent", "unspent", "unrecorded", "uncalled"]
"""`spent`: the session spent this. `unspent`: it spent nothing itself. `unrecorded`: a model was
called, but its cost is not recorded. `uncalled`: nothing shows that a model was called. All but the
first have the day on which the session began; the middle two have its primary model.
"""


class SpendTotals(msgspec.Struct, kw_only=True, array_like=True, gc=False):
    """A sum of spending: calls, tokens and money. All figures are integers."""

    calls: int = 0
    input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write_1h: int = 0
    output: int = 0
    thinking: int | None = None
    nusd: int = 0  # sum of the known prices
    unpriced_calls: int = 0
    unpriced_input: int = 0
    unpriced_output: int = 0

    def add_calls(self, calls: Sequence[Call], shares: Sequence[int | None]) -> None:
        """Add calls and the cost of each; None: no price is known."""
        self.calls += len(calls)
        known = [share for share in shares if share is not None]
        self.add_amount(sum_tokens(calls), sum(known))
        if len(known) < len(calls):
            pairs = zip(calls, shares, strict=True)
            unpriced = sum_tokens(call for call, share in pairs if share is None)
            self.unpriced_calls += len(calls) - len(known)
            self.unpriced_input += unpriced.input
            self.unpriced_output += unpriced.output

    def add_amount(self, tokens: Tokens, nusd: int) -> None:
        """Add an amount that is recorded for no single call."""
        self.input += tokens.input
        self.cache_read += tokens.cache_read
        self.cache_write += tokens.cache_write
        self.cache_write_1h += tokens.cache_write_1h
        self.output += tokens.output
        self.nusd += nusd
        if tokens.thinking is not None:
            self.thinking = (self.thinking or 0) + tokens.thinking

    def add(self, other: SpendTotals) -> None:
        """Add another sum."""
        self.calls += other.calls
        self.add_amount(other.tokens, other.nusd)
        self.unpriced_calls += other.unpriced_calls
        self.unpriced_input += other.unpriced_input
        self.unpriced_output += other.unpriced_output

    def as_arguments(self) -> dict[str, Any]:
        """Return the figures as keyword arguments of an entry, none larger than 64 bits.

        A damaged log may contain any number; no bill exceeds 64 bits.
        """
        figures = {name: getattr(self, name) for name in SpendTotals.__struct_fields__}
        return {name: value and min(value, _LARGEST) for name, value in figures.items()}

    @property
    def tokens(self) -> Tokens:
        """Return the tokens."""
        return Tokens(
            input=self.input,
            cache_read=self.cache_read,
            cache_write=self.cache_write,
            cache_write_1h=self.cache_write_1h,
            output=self.output,
            thinking=self.thinking,
        )


class LedgerEntry(SpendTotals, kw_only=True, array_like=True, gc=False):
    """The spending of one session, sub-agents included, on one model on one day."""

    agent: str
    session: str | None  # unified id; None: billed calls of no session
    created_at: datetime  # when the session began, for the filters `since` and `until`
    cwd: str | None
    day: str  # ISO date in the zone of the report
    model: str
    kind: EntryKind = "spent"
    reasons: tuple[str, ...] = ()  # why the figures are not exact, beyond a missing price
    alias: str | None = None  # unique name, if another session has the same id
    purpose: Purpose = "main"  # of calls of no session
    is_native: bool = False  # the agent recorded the amount; only of calls of no session

    @property
    def address(self) -> str | None:
        """Return a unified id that no other session has."""
        return self.session if self.alias is None else unified_id(self.agent, self.alias)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the native id of the session, then its alias; empty for calls of no session."""
        if self.session is None:
            return ()
        own = self.session.removeprefix(f"{self.agent}:")
        return (own,) if self.alias is None else (own, self.alias)


def ledger_entries(
    assembly: Assembly, costs: CostCalculator, zone: tzinfo
) -> Iterator[LedgerEntry]:
    """Yield the entries of all sessions of one agent and of its calls without a session."""
    aliases = unique_aliases(assembly.sessions)
    for session in assembly.sessions:
        yield from session_entries(session, costs, zone, alias=aliases.get(session))
    for session in assembly.unattributed:
        yield from _unattributed_entries(session, costs, zone)


def session_entries(
    session: AssembledSession, costs: CostCalculator, zone: tzinfo, *, alias: str | None = None
) -> list[LedgerEntry]:
    """Return the entries of one session, sub-agents included."""
    created, _ = time_span(session)
    cost = costs.cost_of(session)
    cwd, reasons = cwd_of(session), _reasons(session, cost)
    kind: EntryKind = "spent"
    totals: dict[tuple[str, date], SpendTotals] = {}
    if cost is not None:
        limits = partial(day_limits, zone=zone)
        for model, first, calls in call_spans(cost.calls, limits, created=created):
            key = (model or NO_MODEL, local_day(first, zone))
            spent = totals.setdefault(key, SpendTotals())
            spent.add_calls(cost.calls[calls], cost.shares[calls])
        if _has_extra(cost):
            key = (primary_model(session) or NO_MODEL, local_day(created, zone))
            totals.setdefault(key, SpendTotals()).add_amount(cost.extra_tokens, cost.extra_nusd)
    if not totals:
        model = primary_model(session)
        if not reasons and (cost is None or model is None):
            kind, model = "uncalled", NO_CALLS
        else:
            kind = "unrecorded" if cost is None else "unspent"
        totals[model or NO_MODEL, local_day(created, zone)] = SpendTotals()
    return [
        LedgerEntry(
            agent=session.agent,
            session=unified_id(session.agent, session.session_id),
            created_at=created,
            cwd=cwd,
            day=day.isoformat(),
            model=model,
            kind=kind,
            reasons=reasons,
            alias=alias,
            **spent.as_arguments(),
        )
        for (model, day), spent in totals.items()
    ]


def _has_extra(cost: SessionCost) -> bool:
    """Return whether the session has a recorded amount that belongs to no single call."""
    return bool(cost.extra_nusd or cost.extra_tokens.total)


def _reasons(session: AssembledSession, cost: SessionCost | None) -> tuple[str, ...]:
    """Return why the figures are not exact; missing prices are counted by the totals."""
    gaps = why_unknown(session) if cost is None else cost.incomplete
    return tuple(reason for reason in gaps if reason != UNPRICED_MODEL)


def _unattributed_entries(
    session: AssembledSession, costs: CostCalculator, zone: tzinfo
) -> Iterator[LedgerEntry]:
    """Yield one entry per moment and model: such calls can only be filtered by their own time."""
    created, _ = time_span(session)
    cwd, reasons = cwd_of(session), gaps_of([session])
    totals: dict[tuple[str, datetime, Purpose, bool], SpendTotals] = {}
    for call in session.calls:
        model, is_native = named_model(call.model) or NO_MODEL, call.native_nusd is not None
        key = (model, call.at or created, call.purpose, is_native)
        totals.setdefault(key, SpendTotals()).add_calls([call], [costs.price(session, call)])
    for (model, at, purpose, is_native), spent in totals.items():
        yield LedgerEntry(
            agent=session.agent,
            session=None,
            created_at=at,
            cwd=cwd,
            day=local_day(at, zone).isoformat(),
            model=model,
            reasons=reasons,
            purpose=purpose,
            is_native=is_native,
            **spent.as_arguments(),
        )


class Spending(msgspec.Struct, frozen=True, array_like=True):
    """The spending of sessions of one agent by day."""

    entries: list[LedgerEntry]
    session_ids: tuple[str, ...] = ()  # with sub-agents; a run of any other id has lost its session
    problems: tuple[Problem, ...] = ()  # of sources that cannot be read at all


def spending_of(assembly: Assembly, costs: CostCalculator, zone: tzinfo) -> Spending:
    """Return the spending of all sessions of an assembly, by day."""
    return Spending(
        list(ledger_entries(assembly, costs, zone)),
        tuple(dict.fromkeys(session.session_id for session in assembly.all_sessions())),
        unread_sources(assembly),
    )


def unread_sources(assembly: Assembly) -> tuple[Problem, ...]:
    """Return the problems that made whole sources unreadable.

    A source with calls is not one of them: the part with its usage could be read.
    """
    sessions = (*assembly.all_sessions(), *assembly.unattributed)
    parts = [part for session in sessions for part in session.sources if part.facts.calls]
    excused = {problem for part in parts for problem in part.facts.problems}
    return tuple(
        problem
        for problem in assembly.problems
        if problem.code in SOURCE_FAILURES and problem not in excused
    )


class HourEntry(SpendTotals, kw_only=True, array_like=True, gc=False):
    """The spending of one session, sub-agents included, on one model in one hour."""

    session: str | None  # a unified id that no other session has; None: calls of no session
    model: str
    first_at: datetime  # the first and last call within the hour
    last_at: datetime
    reasons: tuple[str, ...] = ()  # why the figures are not exact, beyond a missing price
    is_gap: bool = False  # no known spending, only the reasons

    @property
    def begin(self) -> datetime:
        """Return the start of the hour."""
        return full_hour(self.first_at)


class HourlySpending(msgspec.Struct, frozen=True, array_like=True):
    """The spending of sessions of one agent by hour."""

    hours: list[HourEntry]
    problems: tuple[Problem, ...] = ()  # of sources that cannot be read at all


def hourly_spending(assembly: Assembly, costs: CostCalculator) -> HourlySpending:
    """Return the spending of all sessions of an assembly, by hour."""
    aliases = unique_aliases(assembly.sessions)
    hours: list[HourEntry] = []
    for session in assembly.sessions:
        name = unified_id(session.agent, aliases.get(session, session.session_id))
        hours += _session_hours(session, name, costs)
    for session in assembly.unattributed:
        created, _ = time_span(session)
        builder = _HourBuilder(None, gaps_of([session]))
        for call in session.calls:
            entry = builder.at(call.model, call.at or created)
            entry.add_calls([call], [costs.price(session, call)])
        hours += builder.entries()
    return HourlySpending(hours, unread_sources(assembly))


def _session_hours(session: AssembledSession, name: str, costs: CostCalculator) -> list[HourEntry]:
    cost = costs.cost_of(session)
    created, _ = time_span(session)
    reasons = _reasons(session, cost)
    builder = _HourBuilder(name, reasons)
    if cost is not None:
        for model, _, span in call_spans(cost.calls, hour_limits, created=created):
            calls = cost.calls[span]
            times = [call.at or created for call in calls]
            builder.at(model, min(times))
            builder.at(model, max(times)).add_calls(calls, cost.shares[span])
        if _has_extra(cost):
            entry = builder.at(primary_model(session), created)
            entry.add_amount(cost.extra_tokens, cost.extra_nusd)
    entries = builder.entries()
    if not entries and reasons:
        builder.at(primary_model(session), created).is_gap = True
        entries = builder.entries()
    return entries


class _HourBuilder:
    """Sums the spending of one session by hour and model."""

    def __init__(self, session: str | None, reasons: tuple[str, ...]) -> None:
        self._session, self._reasons = session, reasons
        self._entries: dict[tuple[datetime, str], HourEntry] = {}

    def at(self, model: str | None, at: datetime) -> HourEntry:
        """Return the entry for a model and the hour of a time."""
        moment = at if at.tzinfo is UTC else at.astimezone(UTC)
        model = named_model(model) or NO_MODEL
        key = (full_hour(moment), model)
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = HourEntry(
                session=self._session,
                model=model,
                first_at=moment,
                last_at=moment,
                reasons=self._reasons,
            )
        entry.first_at = min(entry.first_at, moment)
        entry.last_at = max(entry.last_at, moment)
        return entry

    def entries(self) -> list[HourEntry]:
        """Return all entries, no figure larger than 64 bits."""
        found = self._entries.values()
        return [msgspec.structs.replace(entry, **entry.as_arguments()) for entry in found]
