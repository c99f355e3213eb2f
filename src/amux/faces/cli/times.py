"""Times as people type and read them.

A day typed without a time zone is a day where the person is. What is shown is relative while that
is shorter and clearer, then a local date; machines get RFC 3339 in UTC.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta

_RELATIVE = re.compile(r"(\d+)\s*(m|min|h|d|w)")
_UNITS = {"m": "minutes", "min": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DAY_ONLY = re.compile(r"\d{4}-?\d{2}-?\d{2}|\d{4}-?W\d{2}(-?\d)?")
_MINUTE, _HOUR = 60, 3600

TIMES_HELP = "7d, 24h, 30m, 1w, today, yesterday, 2026-11-01 or 2026-11-01T09:30Z"


def parse_when(text: str, *, now: datetime, is_end: bool = False) -> datetime:
    """A moment as UTC; a whole day means its begin, or its last moment when `is_end`.

    Raises ValueError for anything that is no time.
    """
    words = text.strip().lower()
    try:
        return _parse(words, now.astimezone(), is_end=is_end).astimezone(UTC)
    except (OverflowError, OSError) as error:
        raise ValueError(f"`{text}` is out of range") from error


def _parse(words: str, now: datetime, *, is_end: bool) -> datetime:
    if words == "now":
        return now
    if words in ("today", "yesterday"):
        day = now.date() - timedelta(days=words == "yesterday")
        return _edge(datetime.combine(day, time()), is_end=is_end)
    if match := _RELATIVE.fullmatch(words):
        return now - timedelta(**{_UNITS[match[2]]: int(match[1])})
    moment = datetime.fromisoformat(words.upper())
    if _DAY_ONLY.fullmatch(words.upper()):
        return _edge(moment, is_end=is_end)
    return moment


def _edge(day: datetime, *, is_end: bool) -> datetime:
    if not is_end:
        return day.astimezone()
    return (day + timedelta(days=1)).astimezone() - timedelta(microseconds=1)


def ago(moment: datetime, *, now: datetime) -> str:
    """The time for people: relative within a day, else the local date."""
    local, here = moment.astimezone(), now.astimezone()
    seconds = (here - local).total_seconds()
    days = (here.date() - local.date()).days
    if seconds < 0 or days > 1:  # a clock that runs ahead is shown as it is
        return local.strftime("%Y-%m-%d")
    if seconds < _MINUTE:
        return "just now"
    if seconds < _HOUR:
        return f"{int(seconds // _MINUTE)} min ago"
    return f"{int(seconds // _HOUR)} h ago" if days == 0 else "yesterday"


def rfc3339(moment: datetime) -> str:
    """The time for machines: UTC with a `Z`."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
