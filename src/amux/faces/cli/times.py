"""Times as people read them; `amux.model.when` reads what they type.

What is shown is relative while that is shorter and clearer, then a local date; machines get RFC
3339 in UTC.
"""

from __future__ import annotations

from datetime import UTC, datetime

_MINUTE, _HOUR = 60, 3600

TIMES_HELP = "7d, 24h, 30m, 1w, today, yesterday, 2026-11-01 or 2026-11-01T09:30Z"


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
