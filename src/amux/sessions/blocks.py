"""Blocks: spending in windows of a few hours, like the usage limits of subscription plans.

A block begins at the full hour (UTC) of its first call and lasts a whole number of hours, five by
default. The first call after its end begins the next block, so hours without calls belong to no
block. Each agent has its own blocks, because each has its own limits.

Blocks begin and end at full hours, so they are sums over hours, and memory grows with the hours
worked, not with the calls. Runs without a session are left out: the times of their calls are
unknown.

A session whose spending was not recorded begins no block, but the block in which the session began
is a lower bound. So are all blocks of an agent with unreadable sources.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta

from amux.assembly.ledger import HourEntry, HourlySpending, SpendTotals, hourly_spending
from amux.errors import ValidationError
from amux.index.codec import decode_hours
from amux.model.cost import BlockProjection, BurnRate, CostBlock
from amux.model.incomplete import UNPRICED_MODEL, UNREADABLE_SOURCE
from amux.model.options import BlockOptions
from amux.model.problems import Problem, in_order
from amux.model.reports import BlockReport
from amux.model.usage import NANO
from amux.sessions.options import check_moment
from amux.sessions.service import SessionService

LONGEST_BLOCK = 168

_SHORTEST_SPAN = timedelta(minutes=1)
_LAST_MOMENT = datetime.max.replace(tzinfo=UTC)


def find_blocks(service: SessionService, options: BlockOptions, *, now: datetime) -> BlockReport:
    """Return the blocks of one agent or of all, oldest first; none for an unknown agent."""
    length = _checked_length(options.hours)
    since = check_moment(options.since, "since", zone=service.zone)
    until = check_moment(options.until, "until", zone=service.zone, end_of_day=True)
    names = service.registry.names() if options.agent is None else (options.agent,)
    found: list[CostBlock] = []
    problems: list[Problem] = []
    with service.lock:
        for name in names:
            if service.registry.knows(name):
                spent = _spending_of(service, name)
                found.extend(_blocks(name, spent, length, model=options.model, now=now))
                problems += spent.problems
    overlapping = [
        block
        for block in found
        if (since is None or block.end > since) and (until is None or block.start <= until)
    ]
    blocks = tuple(sorted(overlapping, key=lambda block: (block.start, block.agent)))
    return BlockReport(blocks, in_order(problems))


def _checked_length(hours: object) -> timedelta:
    if isinstance(hours, bool) or not isinstance(hours, int) or not 1 <= hours <= LONGEST_BLOCK:
        raise ValidationError(
            f"`{hours}` is not the length of a block",
            fields=("hours",),
            hint=f"give a whole number of hours from 1 to {LONGEST_BLOCK}",
        )
    return timedelta(hours=hours)


def _spending_of(service: SessionService, agent: str) -> HourlySpending:
    costs = service.costs
    found: Iterable[HourlySpending] | None = service.stored_results(agent, "hours", decode_hours)
    if found is None:
        found = (hourly_spending(assembly, costs) for assembly in service.assemblies(agent))
    hours: list[HourEntry] = []
    problems: list[Problem] = []
    for each in found:
        hours += each.hours
        problems += each.problems
    return HourlySpending(hours, tuple(problems))


def _blocks(
    agent: str, spending: HourlySpending, length: timedelta, *, model: str | None, now: datetime
) -> Iterator[CostBlock]:
    gaps = [each for each in spending.hours if each.is_gap and model in (None, each.model)]
    unread = {UNREADABLE_SOURCE} if spending.problems else set[str]()
    for start, spent in _windows((each for each in spending.hours if not each.is_gap), length):
        chosen = [each for each in spent if model in (None, each.model)]
        if chosen:
            end = _later(start, length)
            missing = unread.union(*(gap.reasons for gap in gaps if start <= gap.first_at < end))
            yield _block(agent, chosen, start=start, end=end, now=now, missing=missing)


def _windows(
    hours: Iterable[HourEntry], length: timedelta
) -> Iterator[tuple[datetime, list[HourEntry]]]:
    start: datetime | None = None
    spent: list[HourEntry] = []
    for hour in sorted(hours, key=lambda each: each.first_at):
        if start is None or hour.begin >= _later(start, length):
            if start is not None:
                yield start, spent
            start, spent = hour.begin, []
        spent.append(hour)
    if start is not None:
        yield start, spent


def _later(moment: datetime, length: timedelta) -> datetime:
    try:
        return moment + length
    except OverflowError:  # a wrong clock may record the year 9999
        return _LAST_MOMENT


def _block(
    agent: str,
    hours: Sequence[HourEntry],
    *,
    start: datetime,
    end: datetime,
    now: datetime,
    missing: set[str],
) -> CostBlock:
    spent = SpendTotals()
    for each in hours:
        spent.add(each)
    first_at = min(each.first_at for each in hours)
    last_at = max(each.last_at for each in hours)
    rate = _burn_rate(spent, last_at - first_at)
    is_active = start <= now < end
    reasons = missing.union(*(each.reasons for each in hours))
    if spent.unpriced_calls:
        reasons.add(UNPRICED_MODEL)
    return CostBlock(
        agent=agent,
        start=start,
        end=end,
        active=is_active,
        first_at=first_at,
        last_at=last_at,
        call_count=spent.calls,
        session_count=len({each.session for each in hours} - {None}),
        total_usd=spent.nusd / NANO,
        input_tokens=spent.input,
        output_tokens=spent.output,
        thinking_tokens=spent.thinking or 0,
        cached_tokens=spent.cache_read,
        cache_write_tokens=spent.cache_write,
        models=tuple(sorted({each.model for each in hours})),
        burn_rate=rate,
        projection=_projection(spent, rate, end - now) if is_active and rate else None,
        incomplete=tuple(sorted(reasons)),
    )


def _burn_rate(spent: SpendTotals, span: timedelta) -> BurnRate | None:
    """Return the average between the first and the last call; None if that is under a minute."""
    if span < _SHORTEST_SPAN:
        return None
    return BurnRate(
        tokens_per_minute=spent.tokens.total / (span / timedelta(minutes=1)),
        usd_per_hour=spent.nusd / NANO / (span / timedelta(hours=1)),
    )


def _projection(spent: SpendTotals, rate: BurnRate, remaining: timedelta) -> BlockProjection:
    minutes, hours = remaining / timedelta(minutes=1), remaining / timedelta(hours=1)
    return BlockProjection(
        remaining_minutes=int(minutes),
        total_tokens=round(spent.tokens.total + rate.tokens_per_minute * minutes),
        total_usd=spent.nusd / NANO + rate.usd_per_hour * hours,
    )
