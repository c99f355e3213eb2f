"""The factor by which the age of a session reduces its score.

The factors of many sessions are computed for one moment and cached for a while. Until then they
are upper bounds, and all exact factors are at least the cached ones times one common factor.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from math import exp2
from typing import Final

HALF_LIFE: Final = timedelta(days=180)
OLDEST: Final = 0.25
"""The smallest factor, which the oldest sessions have."""

_EPOCH: Final = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
_MICROSECOND: Final = timedelta(microseconds=1)
_HALF_LIFE: Final = HALF_LIFE // _MICROSECOND
_OLD: Final = 2.0  # half-lives until the smallest factor is reached
_CACHE_LIFETIME: Final = timedelta(hours=1) // _MICROSECOND


def recency(updated_at: datetime, now: datetime) -> float:
    """Return 1 for a session that changed now, 0.5 after half a year, and at least 0.25."""
    return _of_age((now - updated_at) // _MICROSECOND)


def _of_age(microseconds: int) -> float:
    age = microseconds / _HALF_LIFE
    return 1.0 if age <= 0.0 else OLDEST if age >= _OLD else exp2(-age)


class Recency:
    """The recency of many sessions, given their last changes in microseconds since 1970."""

    def __init__(self, changed: Sequence[int]) -> None:
        self._changed = changed
        self._cached: tuple[int, list[float]] | None = None

    def at_most(self, now: datetime) -> tuple[list[float], float]:
        """Return an upper bound for each session, and the factor that bounds how far it is off."""
        moment, cached = (now - _EPOCH) // _MICROSECOND, self._cached
        if cached is None or not 0 <= moment - cached[0] <= _CACHE_LIFETIME:
            cached = moment, [_of_age(moment - changed) for changed in self._changed]
            self._cached = cached
        return cached[1], exp2((cached[0] - moment) / _HALF_LIFE)

    def of(self, positions: Iterable[int], now: datetime) -> list[float]:
        """Return the exact recency of the sessions at some positions."""
        moment = (now - _EPOCH) // _MICROSECOND
        return [_of_age(moment - self._changed[position]) for position in positions]
