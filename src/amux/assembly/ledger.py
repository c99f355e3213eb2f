"""Cells: what one session spent on one model on one day, as a plain value.

A cost report is a sum over cells, so a report over many sessions needs their cells and none of
their calls. A cell holds for the sessions as they were read, one list of prices, one run index and
one time zone. Tags are not in it: they belong to the session's id and may change any day.

Sums over the cells of a session equal the sums over its calls, to the nano-USD. A billed call of no
session is a cell of its own, whose `created_at` is the time of the call. A session of which no
spending is known still has a cell: it is a session all the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, tzinfo
from typing import Any, Final, Literal

import msgspec

from amux.assembly.assemble import Assembly
from amux.assembly.cost import (
    CostCalculator,
    SessionCost,
    call_spans,
    gaps_of,
    local_day,
    sum_tokens,
)
from amux.assembly.session import AssembledSession, SourceSession, time_span, unique_aliases
from amux.assembly.summary import cwd_of, primary_model
from amux.model.ids import unified_id
from amux.model.incomplete import UNPRICED_MODEL
from amux.model.problems import Problem
from amux.model.usage import Call, Tokens

UNKNOWN_MODEL = "unknown"

_LARGEST = 2**63 - 1

EntryKind = Literal["spent", "unspent", "unrecorded"]
"""What a cell says of its session. `spent`: it spent this. `unspent`: it spent nothing of its own.
`unrecorded`: nothing tells of any spending. Without any the model is the one that it names first.
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
    nusd: int = 0  # the known part
    unpriced_calls: int = 0
    unpriced_input: int = 0
    unpriced_output: int = 0

    def add_calls(self, calls: Sequence[Call], shares: Sequence[int | None]) -> None:
        """Count some calls and what each has cost; None: no price is known."""
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
        """Count what was recorded for no call."""
        self.input += tokens.input
        self.cache_read += tokens.cache_read
        self.cache_write += tokens.cache_write
        self.cache_write_1h += tokens.cache_write_1h
        self.output += tokens.output
        self.nusd += nusd
        if tokens.thinking is not None:
            self.thinking = (self.thinking or 0) + tokens.thinking

    def add(self, other: SpendTotals) -> None:
        """Count what was summed before."""
        self.calls += other.calls
        self.input += other.input
        self.cache_read += other.cache_read
        self.cache_write += other.cache_write
        self.cache_write_1h += other.cache_write_1h
        self.output += other.output
        self.nusd += other.nusd
        self.unpriced_calls += other.unpriced_calls
        self.unpriced_input += other.unpriced_input
        self.unpriced_output += other.unpriced_output
        if other.thinking is not None:
            self.thinking = (self.thinking or 0) + other.thinking

    def as_arguments(self) -> dict[str, Any]:
        """Return the figures as keyword arguments of an entry, none larger than 64 bits.

        A damaged log may claim any number; no bill exceeds what 64 bits can hold.
        """
        found = {name: getattr(self, name) for name in SpendTotals.__struct_fields__}
        return {name: value and min(value, _LARGEST) for name, value in found.items()}

    @property
    def tokens(self) -> Tokens:
        """The tokens alone."""
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
    created_at: datetime  # when the session began: what `since` and `until` choose by
    cwd: str | None
    day: str  # ISO date in the zone of the report
    model: str
    kind: EntryKind = "spent"
    reasons: tuple[str, ...] = ()  # why the figures are a lower bound, beyond a missing price
    alias: str | None = None  # what names the session alone, where another one has its id

    @property
    def address(self) -> str | None:
        """The unified id that means no other session."""
        return self.session if self.alias is None else unified_id(self.agent, self.alias)

    @property
    def names(self) -> tuple[str, ...]:
        """The agent's own ids of the session, the one it shares first; of none nothing."""
        if self.session is None:
            return ()
        own = self.session.removeprefix(f"{self.agent}:")
        return (own,) if self.alias is None else (own, self.alias)


@dataclass(slots=True, frozen=True)
class _About:
    """What all cells of one session have in common."""

    agent: str
    session: str | None
    created_at: datetime
    cwd: str | None
    reasons: tuple[str, ...]
    alias: str | None = None

    def entry(self, spent: SpendTotals, day: date, model: str) -> LedgerEntry:
        return LedgerEntry(
            agent=self.agent,
            session=self.session,
            created_at=self.created_at,
            cwd=self.cwd,
            day=day.isoformat(),
            model=model,
            reasons=self.reasons,
            alias=self.alias,
            **spent.as_arguments(),
        )


def ledger_entries(
    assembly: Assembly, coster: CostCalculator, zone: tzinfo
) -> Iterator[LedgerEntry]:
    """The cells of all sessions of one agent, and those of its calls without a session."""
    aliases = unique_aliases(assembly.sessions)
    for session in assembly.sessions:
        yield from session_entries(session, coster, zone, alias=aliases.get(session))
    for loose in assembly.unattributed:
        yield from _unattributed_entries(loose, coster, zone)


def session_entries(
    session: AssembledSession, coster: CostCalculator, zone: tzinfo, *, alias: str | None = None
) -> list[LedgerEntry]:
    """All that one session spent, its sub-agents included."""
    created, _ = time_span(session)
    cost = coster.cost_of(session)
    about = _About(
        agent=session.agent,
        session=unified_id(session.agent, session.session_id),
        created_at=created,
        cwd=cwd_of(session),
        reasons=reasons_of(session, cost),
        alias=alias,
    )
    totals: dict[tuple[str, date], SpendTotals] = {}
    if cost is not None:
        _add_calls(totals, cost.calls, cost.shares, created=created, zone=zone)
        if has_extra(cost):
            key = (primary_model(session) or UNKNOWN_MODEL, local_day(created, zone))
            totals.setdefault(key, SpendTotals()).add_amount(cost.extra_tokens, cost.extra_nusd)
    cells = [about.entry(spent, day, model) for (model, day), spent in totals.items()]
    if cells:
        return cells
    nothing = about.entry(
        SpendTotals(), local_day(created, zone), primary_model(session) or UNKNOWN_MODEL
    )
    return [msgspec.structs.replace(nothing, kind="unrecorded" if cost is None else "unspent")]


def has_extra(cost: SessionCost) -> bool:
    """Whether something was recorded for the session that belongs to none of its calls."""
    return bool(cost.extra_nusd or cost.extra_tokens.total)


def reasons_of(session: AssembledSession, cost: SessionCost | None) -> tuple[str, ...]:
    """Why its figures are a lower bound; a missing price is known from the calls themselves."""
    gaps = gaps_of(session.with_children()) if cost is None else cost.incomplete
    return tuple(reason for reason in gaps if reason != UNPRICED_MODEL)


def _add_calls(
    totals: dict[tuple[str, date], SpendTotals],
    calls: Sequence[Call],
    shares: Sequence[int | None],
    *,
    created: datetime,
    zone: tzinfo,
) -> None:
    for run in call_spans(calls, zone, created=created):
        spent = totals.setdefault((run.model or UNKNOWN_MODEL, run.day), SpendTotals())
        spent.add_calls(calls[run.calls], shares[run.calls])


def _unattributed_entries(
    loose: AssembledSession, coster: CostCalculator, zone: tzinfo
) -> Iterator[LedgerEntry]:
    """Calls of no session have no beginning to be chosen by: each moment is a cell."""
    created, _ = time_span(loose)
    reasons = gaps_of([loose])
    totals: dict[tuple[str, datetime], SpendTotals] = {}
    for call in loose.calls:
        key = (call.model or UNKNOWN_MODEL, call.at or created)
        totals.setdefault(key, SpendTotals()).add_calls([call], [coster.price(loose, call)])
    for (model, at), spent in totals.items():
        about = _About(loose.agent, None, at, cwd_of(loose), reasons)
        yield about.entry(spent, local_day(at, zone), model)


_OF_WHOLE_SOURCES: Final = frozenset({"unreadable", "unknown-format", "decoder-missing"})


class Spending(msgspec.Struct, frozen=True, array_like=True):
    """What the sessions of one agent, or some of them, spent."""

    entries: list[LedgerEntry]
    session_ids: tuple[str, ...] = ()  # of sub-agents too: runs of other sessions are lost
    problems: tuple[Problem, ...] = ()  # of sources that tell nothing of what they hold


def spending_of(assembly: Assembly, coster: CostCalculator, zone: tzinfo) -> Spending:
    """All that is known."""
    return Spending(
        list(ledger_entries(assembly, coster, zone)),
        tuple(dict.fromkeys(session.session_id for session in assembly.all_sessions())),
        unread_sources(assembly),
    )


def unread_sources(assembly: Assembly) -> tuple[Problem, ...]:
    """The problems because of which sources tell nothing of what they hold.

    A source that tells of calls does tell something. How much it says besides depends on what it
    was read for.
    """
    told = {
        problem for part in _parts(assembly) if part.facts.calls for problem in part.facts.problems
    }
    return tuple(
        problem
        for problem in assembly.problems
        if problem.code in _OF_WHOLE_SOURCES and problem not in told
    )


def _parts(assembly: Assembly) -> Iterator[SourceSession]:
    for session in (*assembly.all_sessions(), *assembly.unattributed):
        yield from session.sources


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
