"""User-provided times: `7d`, `yesterday`, `2026-11-01`, `2026-11-01T09:30Z`.

A day without a time zone is a day in `zone`, or in the time zone of this machine if that is None.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta, tzinfo

_RELATIVE = re.compile(r"(\d+)\s*(m|min|h|d|w)")
_UNITS = {"m": "minutes", "min": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DAY_ONLY = re.compile(r"\d{4}-?\d{2}-?\d{2}|\d{4}-?W\d{2}(-?\d)?")


def parse_when(
    text: str, *, now: datetime, is_end: bool = False, zone: tzinfo | None = None
) -> datetime:
    """Parse a time and return it in UTC; a day is its first moment, or its last if `is_end`.

    Raises ValueError if the text is not a time.
    """
    words = text.strip().lower()
    try:
        return _parse(words, now.astimezone(zone), is_end=is_end, zone=zone).astimezone(UTC)
    except (OverflowError, OSError) as error:
        raise ValueError(f"`{text}` is out of range") from error


def to_utc(moment: datetime) -> datetime:
    """Return a moment in UTC; without a time zone it is taken as UTC."""
    try:
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError:  # within a day of year 1 or 9999: a broken clock, no offset matters
        return moment.replace(tzinfo=UTC)


def _parse(words: str, now: datetime, *, is_end: bool, zone: tzinfo | None) -> datetime:
    if words == "now":
        return now
    if words in ("today", "yesterday"):
        day = now.date() - timedelta(days=words == "yesterday")
        return _edge(datetime.combine(day, time()), is_end=is_end, zone=zone)
    if match := _RELATIVE.fullmatch(words):
        return now - timedelta(**{_UNITS[match[2]]: int(match[1])})
    moment = datetime.fromisoformat(words.upper())
    if _DAY_ONLY.fullmatch(words.upper()):
        return _edge(moment, is_end=is_end, zone=zone)
    return moment if moment.tzinfo is not None else _placed(moment, zone)


def _edge(day: datetime, *, is_end: bool, zone: tzinfo | None) -> datetime:
    if not is_end:
        return _placed(day, zone)
    if day.date() == date.max:  # no day follows
        return datetime.max.replace(tzinfo=UTC)
    return _placed(day + timedelta(days=1), zone) - timedelta(microseconds=1)


def _placed(moment: datetime, zone: tzinfo | None) -> datetime:
    """Return a moment without a time zone in UTC."""
    return (moment if zone is None else moment.replace(tzinfo=zone)).astimezone(UTC)
