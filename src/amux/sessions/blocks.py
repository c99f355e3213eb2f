"""Blocks: spending in windows of a few hours, as plans with such limits are used up.

A block begins at the full hour (UTC) of its first call and lasts a whole number of hours, five
unless told otherwise. The first call after its end begins the next one, so hours without calls
belong to no block. Each agent has blocks of its own, as each has limits of its own.

Blocks begin and end at full hours, so they are sums over hours, and memory grows with the hours
worked, not with the calls. Runs whose session is gone are left out: nobody knows when they called.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from amux.errors import ValidationError
from amux.model.cost import BlockProjection, BurnRate, CostBlock
from amux.model.usage import NANO
from amux.sessions.cells import Tally
from amux.sessions.costing import UNPRICED
from amux.sessions.filters import Moment, check_moment
from amux.sessions.hours import Hour, assembly_hours, decode_hours, encode_hours
from amux.sessions.reader import SessionReader

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


def find_blocks(
    reader: SessionReader, options: BlockOptions, *, now: datetime
) -> tuple[CostBlock, ...]:
    """The blocks of one agent or of all, oldest first; none for an unknown agent."""
    length = _checked_length(options.hours)
    since = check_moment(options.since, "since", zone=reader.zone)
    until = check_moment(options.until, "until", zone=reader.zone, end_of_day=True)
    names = reader.registry.names() if options.agent is None else (options.agent,)
    found: list[CostBlock] = []
    with reader.turn:
        for name in names:
            if reader.registry.knows(name):
                hours = _hours_of(reader, name, usage_only=options.model is None)
                found.extend(_blocks(name, hours, length, model=options.model, now=now))
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


def _hours_of(reader: SessionReader, agent: str, *, usage_only: bool) -> Iterator[Hour]:
    """What an agent's sessions spent, hour by hour."""
    coster = reader.coster
    kept = None
    if usage_only:
        kept = reader.catalogue.kept(
            agent, "hours", lambda some: encode_hours(assembly_hours(some, coster)), decode_hours
        )
    if kept is not None:
        yield from kept
        return
    for assembly in reader.catalogue.assemblies(agent, usage_only=usage_only):
        yield from assembly_hours(assembly, coster)


def _blocks(
    agent: str, hours: Iterable[Hour], length: timedelta, *, model: str | None, now: datetime
) -> Iterator[CostBlock]:
    for start, spent in _windows(hours, length):
        chosen = [each for each in spent if model in (None, each.model)]
        if chosen:
            yield _block(agent, chosen, start=start, end=_later(start, length), now=now)


def _windows(hours: Iterable[Hour], length: timedelta) -> Iterator[tuple[datetime, list[Hour]]]:
    start: datetime | None = None
    spent: list[Hour] = []
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
    except OverflowError:  # a broken clock at the end of all days
        return _LAST_MOMENT


def _block(
    agent: str, hours: Sequence[Hour], *, start: datetime, end: datetime, now: datetime
) -> CostBlock:
    tally = Tally()
    for each in hours:
        tally.add_sum(each)
    first_at = min(each.first_at for each in hours)
    last_at = max(each.last_at for each in hours)
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
        session_count=len({each.session for each in hours} - {None}),
        total_usd=tally.nusd / NANO,
        input_tokens=tally.input,
        output_tokens=tally.output,
        thinking_tokens=tally.thinking or 0,
        cached_tokens=tally.cache_read,
        cache_write_tokens=tally.cache_write,
        models=tuple(sorted({each.model for each in hours})),
        burn_rate=rate,
        projection=_projection(tally, rate, end - now) if is_active and rate else None,
        incomplete=_incomplete(tally, hours),
    )


def _incomplete(tally: Tally, hours: Iterable[Hour]) -> tuple[str, ...]:
    reasons = set[str]().union(*(each.reasons for each in hours))
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
