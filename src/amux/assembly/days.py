"""Calls by day: whose day it is depends on the zone, and zones change their clocks.

Calls come in order, so most have the model and the day of the one before: a report works through
runs of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from typing import NamedTuple

from amux.model.usage import Call


def local_day(at: datetime, zone: tzinfo) -> date:
    """The day of a moment in a zone; a broken clock at the end of all days keeps its own."""
    try:
        return (at if at.tzinfo is zone else at.astimezone(zone)).date()
    except OverflowError:
        return at.date()


class CallSpan(NamedTuple):
    """Calls in a row of one model on one day."""

    model: str | None
    day: date
    calls: slice


def call_spans(calls: Sequence[Call], zone: tzinfo, *, created: datetime) -> Iterator[CallSpan]:
    """All calls, run by run; one without a time is taken for one of when its session began."""
    if not calls:
        return
    start, model, first = 0, calls[0].model, calls[0].at or created
    begin, end = _limits(first, zone)
    for number, call in enumerate(calls):
        at = call.at or created
        if call.model != model or not begin <= at < end:
            if number > start:
                yield CallSpan(model, local_day(first, zone), slice(start, number))
            start, model, first = number, call.model, at
            begin, end = _limits(at, zone)
    yield CallSpan(model, local_day(first, zone), slice(start, len(calls)))


def _limits(at: datetime, zone: tzinfo) -> tuple[datetime, datetime]:
    """Between which moments the day lasts; nothing on a day when the clocks are changed."""
    try:
        local = at.astimezone(zone)
        offset = local.utcoffset() or timedelta()
        midnight = datetime.combine(local.date(), time(), UTC) - offset
        ends = (midnight, midnight + timedelta(days=1))
        if isinstance(zone, timezone) or all(
            end.astimezone(zone).utcoffset() == offset for end in ends
        ):
            return ends
    except OverflowError:
        pass
    return at, at
