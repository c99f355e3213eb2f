"""A clock that stands still until a test moves it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

START = datetime(2026, 3, 2, 12, tzinfo=UTC)
"""A Monday at noon."""


class Clock:
    """Returns its `time` when it is called."""

    def __init__(self, time: datetime = START) -> None:
        self.time = time

    def __call__(self) -> datetime:
        return self.time

    def advance(self, **amount: float) -> datetime:
        """Move the time by `days`, `hours`, `minutes` or `seconds`; return it."""
        self.time += timedelta(**amount)
        return self.time
