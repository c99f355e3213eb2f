"""Check the arguments of the read operations and merge them into options objects."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, tzinfo
from typing import TypeVar, get_args

from msgspec.structs import replace

from amux.errors import ValidationError
from amux.model.options import (
    CostAggregationOptions,
    Direction,
    GroupBy,
    ListSort,
    SearchRole,
    SearchSort,
    SessionListOptions,
    SessionQuery,
    group_names,
)

Options = TypeVar("Options", SessionListOptions, SessionQuery, CostAggregationOptions)

Moment = datetime | date | str | None
Limit = int | str | None

_LAST_MOMENT = time.max.replace(fold=1)  # the later one if clocks are put back at midnight
_NO_LIMIT = 1 << 62
"""Larger than any count; a database can store it, even with 1 added."""


def merge_options(given: Options | None, default: Options, **keywords: object) -> Options:
    """Return the options object, overridden by every keyword that differs from its default."""
    base = default if given is None else given
    changed = {name: value for name, value in keywords.items() if value != getattr(default, name)}
    return replace(base, **changed)


def check_moment(
    value: Moment, field: str, *, zone: tzinfo, end_of_day: bool = False
) -> datetime | None:
    """Return an aware UTC time. A date becomes the start of that day, or its end if `end_of_day`.

    A value without a time zone is interpreted in `zone`.
    """
    if value is None:
        return None
    try:
        moment = _parse_iso(value) if isinstance(value, str) else value
        if not isinstance(moment, datetime):
            moment = datetime.combine(moment, _LAST_MOMENT if end_of_day else time.min)
        aware = moment.replace(tzinfo=zone) if moment.tzinfo is None else moment
        return aware.astimezone(UTC)
    except (ValueError, OverflowError):  # UTC may be outside the years 1 to 9999
        raise ValidationError(
            f"`{value}` is not a date",
            fields=(field,),
            hint="write 2026-11-15 or 2026-11-15T10:00:00Z",
        ) from None


def _parse_iso(text: str) -> datetime | date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return datetime.fromisoformat(text)


def check_limit(limit: Limit, field: str = "limit") -> int | None:
    """Return the limit as a whole number of at least 0; None if it is None or "all"."""
    if limit is None or limit == "all":
        return None
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
        raise ValidationError(
            f"`{limit}` is not a limit",
            fields=(field,),
            hint="give a whole number from 0 up, or `all`",
        )
    return min(limit, _NO_LIMIT)


def check_choice(value: str, choices: Sequence[str], field: str) -> None:
    """Raise a ValidationError unless the value is one of the choices."""
    if value not in choices:
        words = ", ".join(f"`{choice}`" for choice in choices)
        raise ValidationError(
            f"`{value}` is not a valid {field}", fields=(field,), hint=f"use one of {words}"
        )


def checked_list(options: SessionListOptions, zone: tzinfo) -> SessionListOptions:
    """Return the options of a list with checked values; dates become moments."""
    check_choice(options.sort, get_args(ListSort), "sort")
    check_choice(options.sort_direction, get_args(Direction), "sort_direction")
    return replace(_with_checked_span(options, zone), limit=check_limit(options.limit))


def checked_query(query: SessionQuery, zone: tzinfo) -> SessionQuery:
    """Return a query with checked values; dates become moments."""
    check_choice(query.sort, get_args(SearchSort), "sort")
    for role in query.roles or ():
        check_choice(role, get_args(SearchRole), "role")
    limit, hits = check_limit(query.limit), check_limit(query.hits, "hits")
    return replace(_with_checked_span(query, zone), limit=limit, hits=hits)


def checked_cost(options: CostAggregationOptions, zone: tzinfo) -> CostAggregationOptions:
    """Return the options of a cost report with checked values; dates become moments."""
    names = group_names(options.group_by)
    for position, name in enumerate(names):
        check_choice(name, get_args(GroupBy), "group_by")
        if name in names[:position]:
            raise ValidationError(f"group_by names `{name}` twice", fields=("group_by",))
    return replace(_with_checked_span(options, zone), group_by=names or None)


def _with_checked_span(options: Options, zone: tzinfo) -> Options:
    return replace(
        options,
        since=check_moment(options.since, "since", zone=zone),
        until=check_moment(options.until, "until", zone=zone, end_of_day=True),
    )
