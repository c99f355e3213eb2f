"""Arguments of the read operations: checked, completed, applied."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, tzinfo
from typing import TypeVar

import msgspec

from amux.errors import ValidationError

S = TypeVar("S", bound=msgspec.Struct)

Moment = datetime | date | str | None
Limit = int | str | None

_LAST_MOMENT = time.max.replace(fold=1)  # the second of two where clocks are put back
_EVERYTHING = 1 << 62
"""More than there can be of anything, and still a number for databases, with one added too."""


def merge_options(given: S | None, default: S, **keywords: object) -> S:
    """The options object, with every keyword that was set to something else than its default."""
    base = default if given is None else given
    changed = {name: value for name, value in keywords.items() if value != getattr(default, name)}
    return msgspec.structs.replace(base, **changed)


def check_moment(
    value: Moment, field: str, *, zone: tzinfo, end_of_day: bool = False
) -> datetime | None:
    """An aware UTC time. A date means the whole day: its start, or its end for an upper bound.

    What names no zone is of the given one.
    """
    if value is None:
        return None
    try:
        moment = _parse_iso(value) if isinstance(value, str) else value
        if not isinstance(moment, datetime):
            moment = datetime.combine(moment, _LAST_MOMENT if end_of_day else time.min)
        placed = moment.replace(tzinfo=zone) if moment.tzinfo is None else moment
        return placed.astimezone(UTC)
    except (ValueError, OverflowError):  # in UTC, the year 1 or 9999 may be left
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
    """A whole number from 0 up; None and "all" mean no limit."""
    if limit is None or limit == "all":
        return None
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
        raise ValidationError(
            f"`{limit}` is not a limit",
            fields=(field,),
            hint="give a whole number from 0 up, or `all`",
        )
    return min(limit, _EVERYTHING)


def check_choice(value: str, choices: Sequence[str], field: str) -> None:
    """One of the allowed words."""
    if value not in choices:
        words = ", ".join(f"`{choice}`" for choice in choices)
        raise ValidationError(
            f"`{value}` is not a valid {field}", fields=(field,), hint=f"use one of {words}"
        )
