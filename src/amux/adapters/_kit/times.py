"""Times as agents write them, to aware UTC. What is no time is None, never an exception."""

from __future__ import annotations

from datetime import UTC, datetime

_SECONDS_BELOW = 1e11  # larger numbers are milliseconds (1e11 s is the year 5138)
_MILLIS_BELOW = 1e14  # larger ones are microseconds
_TIMES_BELOW = 1e18  # past the year 9999 in microseconds; JSON holds integers no float can


def parse_time(value: str | float | None) -> datetime | None:
    """ISO 8601 text, or Unix seconds, milliseconds or microseconds."""
    if isinstance(value, str):
        return _parse_text(value)
    if value is None or isinstance(value, bool) or not 0 < value < _TIMES_BELOW:  # nor NaN
        return None
    seconds = value
    if value >= _MILLIS_BELOW:
        seconds = value / 1e6
    elif value >= _SECONDS_BELOW:
        seconds = value / 1e3
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return None


def _parse_text(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text.strip())
        if moment.tzinfo is UTC:
            return moment
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def to_millis(moment: datetime | None) -> int:
    """Unix milliseconds; 0 for None, as a trace wants it."""
    return 0 if moment is None else round(moment.timestamp() * 1000)
