"""A stored bound on the recency of many sessions holds for each of them later."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from amux.sessions.search.recency import OLDEST, Recency, recency

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
START = datetime(2026, 11, 1, tzinfo=UTC)
ages = st.timedeltas(timedelta(days=-2), timedelta(days=500))


@given(
    st.lists(ages, max_size=8),
    st.lists(st.timedeltas(timedelta(hours=-1), timedelta(hours=3)), min_size=1, max_size=5),
)
def test_stored_recency_bounds_hold_as_time_passes(
    before: list[timedelta], steps: list[timedelta]
) -> None:
    times = [START - age for age in before]
    kept = Recency([(time - EPOCH) // timedelta(microseconds=1) for time in times])
    now = START
    for step in steps:
        now += step
        most, factor = kept.at_most(now)
        exact = kept.of(range(len(times)), now)
        assert exact == [recency(time, now) for time in times]
        for own, bound in zip(exact, most, strict=True):
            assert OLDEST <= own <= bound
            assert own >= bound * factor * (1 - 1e-12)
