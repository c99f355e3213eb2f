"""Blocks: spending in windows of a few hours, as plans with such limits are used up.

A block begins at the full hour (UTC) of its first call and lasts a whole number of hours, five
unless told otherwise. The first call after its end begins the next one, so hours without calls
belong to no block. Each agent has blocks of its own, as each has limits of its own.

Calls are summed by hour and model before there are blocks: blocks begin and end at full hours. So
memory grows with the hours worked, not with the calls. What was recorded for a session without a
call counts when the session began. Runs whose session is gone are left out: nobody knows when they
called.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from amux.errors import ValidationError
from amux.model.cost import BlockProjection, BurnRate, CostBlock
from amux.model.ids import unified_id
from amux.model.usage import NANO
from amux.sessions.assemble import Assembly
from amux.sessions.cells import UNKNOWN_MODEL, Tally, has_extra, reasons_of
from amux.sessions.costing import UNPRICED, Coster, gaps_of
from amux.sessions.filters import Moment, check_moment
from amux.sessions.parts import Joined
from amux.sessions.reader import SessionReader
from amux.sessions.spans import time_span
from amux.sessions.views import primary_model

BLOCK_HOURS = 5
LONGEST_BLOCK = 168

_SHORTEST_SPAN = timedelta(minutes=1)
_LAST_MOMENT = datetime.max.replace(tzinfo=UTC)


@dataclass(slots=True, frozen=True)
class BlockOptions:
    """Which blocks are wanted. `model` chooses calls; the windows stay those of all calls."""

    agent: str | None = None
    model: str | None = None
    since: Moment = None
    until: Moment = None
    hours: int = BLOCK_HOURS


@dataclass(slots=True)
class _Slice:
    """What was spent on one model within one hour."""

    model: str
    first_at: datetime
    last_at: datetime
    tally: Tally = field(default_factory=Tally)
    sessions: set[str] = field(default_factory=set[str])
    reasons: set[str] = field(default_factory=set[str])

    def mark(self, at: datetime, session: str | None, reasons: Sequence[str]) -> Tally:
        """Note who spent when and how certain that is; the figures are the caller's."""
        self.first_at = min(self.first_at, at)
        self.last_at = max(self.last_at, at)
        if session is not None:
            self.sessions.add(session)
        self.reasons.update(reasons)
        return self.tally


def find_blocks(
    reader: SessionReader, options: BlockOptions, *, now: datetime
) -> tuple[CostBlock, ...]:
    """The blocks of one agent or of all, oldest first; none for an unknown agent."""
    length = _checked_length(options.hours)
    since = check_moment(options.since, "since")
    until = check_moment(options.until, "until", end_of_day=True)
    names = reader.registry.names() if options.agent is None else (options.agent,)
    found: list[CostBlock] = []
    for name in names:
        if reader.registry.knows(name):
            hours = _Hours(reader.coster)
            for assembly in reader.catalogue.assemblies(name, usage_only=options.model is None):
                hours.add_assembly(assembly)
            found.extend(hours.blocks(name, length, model=options.model, now=now))
    kept = [block for block in found if _reaches_into(block, since, until)]
    return tuple(sorted(kept, key=lambda block: (block.start, block.agent)))


def _checked_length(hours: object) -> timedelta:
    if isinstance(hours, bool) or not isinstance(hours, int) or not 1 <= hours <= LONGEST_BLOCK:
        raise ValidationError(
            f"`{hours}` is no length of a block",
            fields=("hours",),
            hint=f"give a whole number of hours from 1 to {LONGEST_BLOCK}",
        )
    return timedelta(hours=hours)


def _reaches_into(block: CostBlock, since: datetime | None, until: datetime | None) -> bool:
    return (since is None or block.end > since) and (until is None or block.start <= until)


class _Hours:
    """The spending of one agent, by hour and model."""

    def __init__(self, coster: Coster) -> None:
        self._coster = coster
        self._slices: dict[datetime, dict[str, _Slice]] = {}

    def add_assembly(self, assembly: Assembly) -> None:
        for session in assembly.sessions:
            self._add_session(session)
        for loose in assembly.unattributed:
            created, _ = time_span(loose)
            reasons = gaps_of([loose])
            for call in loose.calls:
                tally = self._slice(call.model, call.at or created, None, reasons)
                tally.add_call(call.tokens, self._coster.price(loose, call))

    def blocks(
        self, agent: str, length: timedelta, *, model: str | None, now: datetime
    ) -> Iterator[CostBlock]:
        for start, slices in self._windows(length):
            chosen = [each for each in slices if model in (None, each.model)]
            if chosen:
                yield _block(agent, chosen, start=start, end=_later(start, length), now=now)

    def _windows(self, length: timedelta) -> Iterator[tuple[datetime, list[_Slice]]]:
        start: datetime | None = None
        slices: list[_Slice] = []
        for hour in sorted(self._slices):
            if start is None or hour >= _later(start, length):
                if start is not None:
                    yield start, slices
                start, slices = hour, []
            slices.extend(self._slices[hour].values())
        if start is not None:
            yield start, slices

    def _add_session(self, session: Joined) -> None:
        cost = self._coster.cost_of(session)
        if cost is None:
            return
        created, _ = time_span(session)
        name = unified_id(session.agent, session.session_id)
        reasons = reasons_of(session, cost)
        for call, share in zip(cost.calls, cost.shares, strict=True):
            tally = self._slice(call.model, call.at or created, name, reasons)
            tally.add_call(call.tokens, share)
        if has_extra(cost):
            tally = self._slice(primary_model(session), created, name, reasons)
            tally.add_amount(cost.extra_tokens, cost.extra_nusd)

    def _slice(
        self, model: str | None, at: datetime, session: str | None, reasons: Sequence[str]
    ) -> Tally:
        moment = at if at.tzinfo is UTC else at.astimezone(UTC)
        hour = moment.replace(minute=0, second=0, microsecond=0)
        models = self._slices.setdefault(hour, {})
        name = model or UNKNOWN_MODEL
        found = models.get(name)
        if found is None:
            found = models[name] = _Slice(name, moment, moment)
        return found.mark(moment, session, reasons)


def _later(moment: datetime, length: timedelta) -> datetime:
    try:
        return moment + length
    except OverflowError:  # a broken clock at the end of all days
        return _LAST_MOMENT


def _block(
    agent: str, slices: Sequence[_Slice], *, start: datetime, end: datetime, now: datetime
) -> CostBlock:
    tally = Tally()
    for each in slices:
        tally.add_sum(each.tally)
    first_at = min(each.first_at for each in slices)
    last_at = max(each.last_at for each in slices)
    rate = _burn_rate(tally, last_at - first_at)
    is_active = start <= now < end
    return CostBlock(
        agent=agent,
        start=start,
        end=end,
        active=is_active,
        first_at=first_at,
        last_at=last_at,
        call_count=tally.calls,
        session_count=len(set[str]().union(*(each.sessions for each in slices))),
        total_usd=tally.nusd / NANO,
        input_tokens=tally.input,
        output_tokens=tally.output,
        thinking_tokens=tally.thinking or 0,
        cached_tokens=tally.cache_read,
        cache_write_tokens=tally.cache_write,
        models=tuple(sorted({each.model for each in slices})),
        burn_rate=rate,
        projection=_projection(tally, rate, end - now) if is_active and rate else None,
        incomplete=_incomplete(tally, slices),
    )


def _incomplete(tally: Tally, slices: Iterable[_Slice]) -> tuple[str, ...]:
    reasons = set[str]().union(*(each.reasons for each in slices))
    return tuple(sorted(reasons | {UNPRICED} if tally.unpriced_calls else reasons))


def _burn_rate(tally: Tally, span: timedelta) -> BurnRate | None:
    """The average over the time between the first and the last call; none for a moment."""
    if span < _SHORTEST_SPAN:
        return None
    return BurnRate(
        tokens_per_minute=tally.tokens.total / (span / timedelta(minutes=1)),
        usd_per_hour=tally.nusd / NANO / (span / timedelta(hours=1)),
    )


def _projection(tally: Tally, rate: BurnRate, remaining: timedelta) -> BlockProjection:
    minutes, hours = remaining / timedelta(minutes=1), remaining / timedelta(hours=1)
    return BlockProjection(
        remaining_minutes=int(minutes),
        total_tokens=round(tally.tokens.total + rate.tokens_per_minute * minutes),
        total_usd=tally.nusd / NANO + rate.usd_per_hour * hours,
    )
