from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amux.faces.cli.figures import ago, rfc3339
from amux.model.when import parse_when

NOW = datetime(2026, 11, 15, 18, 30, tzinfo=UTC)


@pytest.fixture(autouse=True)
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "begin", "end"),
    [
        ("now", "2026-11-15T18:30:00Z", "2026-11-15T18:30:00Z"),
        ("24h", "2026-11-14T18:30:00Z", "2026-11-14T18:30:00Z"),
        ("7d", "2026-11-08T18:30:00Z", "2026-11-08T18:30:00Z"),
        ("1w", "2026-11-08T18:30:00Z", "2026-11-08T18:30:00Z"),
        ("30m", "2026-11-15T18:00:00Z", "2026-11-15T18:00:00Z"),
        (" 90 min ", "2026-11-15T17:00:00Z", "2026-11-15T17:00:00Z"),
        ("today", "2026-11-14T23:00:00Z", "2026-11-15T22:59:59.999999Z"),
        ("Yesterday", "2026-11-13T23:00:00Z", "2026-11-14T22:59:59.999999Z"),
        ("2026-11-01", "2026-10-31T23:00:00Z", "2026-11-01T22:59:59.999999Z"),
        ("20261101", "2026-10-31T23:00:00Z", "2026-11-01T22:59:59.999999Z"),
        ("2026-10-25", "2026-10-24T22:00:00Z", "2026-10-25T22:59:59.999999Z"),  # 25 hours long
        ("2026-11-01T09:30", "2026-11-01T08:30:00Z", "2026-11-01T08:30:00Z"),
        ("2026-11-01t09:30z", "2026-11-01T09:30:00Z", "2026-11-01T09:30:00Z"),
        ("2026-11-01T09:30:15.25+05:30", "2026-11-01T04:00:15.250000Z", None),
    ],
)
def test_times_are_parsed_from_dates_words_and_durations(
    text: str, begin: str, end: str | None
) -> None:
    assert rfc3339(parse_when(text, now=NOW)) == begin
    assert rfc3339(parse_when(text, now=NOW, is_end=True)) == (end or begin)


@pytest.mark.parametrize(
    "text", ["", "gestern", "7", "d", "-7d", "7y", "2026-13-01", "2026-02-30", "9" * 12 + "w"]
)
def test_an_invalid_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        parse_when(text, now=NOW)


@pytest.mark.parametrize(
    ("text", "begin", "end"),
    [
        ("today", "2026-11-15T15:00:00Z", "2026-11-16T14:59:59.999999Z"),
        ("2026-11-01", "2026-10-31T15:00:00Z", "2026-11-01T14:59:59.999999Z"),
        ("2026-11-01T09:30", "2026-11-01T00:30:00Z", "2026-11-01T00:30:00Z"),
        ("2026-11-01T09:30Z", "2026-11-01T09:30:00Z", "2026-11-01T09:30:00Z"),
    ],
)
def test_the_configured_time_zone_determines_the_day(text: str, begin: str, end: str) -> None:
    tokyo = ZoneInfo("Asia/Tokyo")
    assert rfc3339(parse_when(text, now=NOW, zone=tokyo)) == begin
    assert rfc3339(parse_when(text, now=NOW, zone=tokyo, is_end=True)) == end


@given(st.text(max_size=20))
def test_any_text_is_a_utc_time_or_refused(text: str) -> None:
    try:
        moment = parse_when(text, now=NOW)
    except ValueError:
        return
    assert moment.utcoffset() == timedelta(0)


@pytest.mark.parametrize(
    ("moment", "words"),
    [
        (NOW, "just now"),
        (NOW - timedelta(seconds=59), "just now"),
        (NOW - timedelta(minutes=12), "12 min ago"),
        (NOW - timedelta(hours=3), "3 h ago"),
        (NOW - timedelta(hours=22), "yesterday"),
        (NOW - timedelta(hours=50), "2026-11-13"),
        (NOW + timedelta(days=2), "2026-11-17"),
        (datetime(1999, 12, 31, 23, 30, tzinfo=UTC), "2000-01-01"),
    ],
)
def test_a_date_is_relative_while_it_is_near(moment: datetime, words: str) -> None:
    assert ago(moment, now=NOW) == words
