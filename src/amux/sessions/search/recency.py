"""How much a session counts for its age: less as time goes by, but never nothing.

One function says it. Of many sessions it is said for a moment and kept for a while: until then all
of them shrink, and none by more than the same factor.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from math import exp2
from typing import Final

HALF_LIFE: Final = timedelta(days=180)
OLDEST: Final = 0.25
"""No session counts less for its age than this."""

_EPOCH: Final = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
_MICROSECOND: Final = timedelta(microseconds=1)
_HALF_LIFE: Final = HALF_LIFE // _MICROSECOND
_OLD: Final = 2.0  # half-lives until a session counts the least
_KEPT: Final = timedelta(hours=1) // _MICROSECOND


def recency(updated_at: datetime, now: datetime) -> float:
    """1 for now, half of it after half a year, never less than a quarter."""
    return _of_age((now - updated_at) // _MICROSECOND)


def _of_age(microseconds: int) -> float:
    age = microseconds / _HALF_LIFE
    return 1.0 if age <= 0.0 else OLDEST if age >= _OLD else exp2(-age)


class Recency:
    """The same for many sessions, given when each last changed, in microseconds since 1970."""

    def __init__(self, changed: Sequence[int]) -> None:
        self._changed = changed
        self._noted: tuple[int, list[float]] | None = None

    def at_most(self, now: datetime) -> tuple[list[float], float]:
        """What each session counts at most, and the factor that it has not shrunk below."""
        moment, noted = (now - _EPOCH) // _MICROSECOND, self._noted
        if noted is None or not 0 <= moment - noted[0] <= _KEPT:
            noted = moment, [_of_age(moment - changed) for changed in self._changed]
            self._noted = noted
        return noted[1], exp2((noted[0] - moment) / _HALF_LIFE)

    def of(self, places: Iterable[int], now: datetime) -> list[float]:
        """What the sessions of some places count."""
        moment = (now - _EPOCH) // _MICROSECOND
        return [_of_age(moment - self._changed[place]) for place in places]
