"""`list`: enumerate, filter, sort, cut. The oracle is a second, naive listing in this file."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, get_args

import pytest
from builders import (
    CAPTURES,
    LARGE,
    SMALL,
    START,
    ClaudeSession,
    SharedHome,
    open_client,
    uuid_of,
    write_claude,
    write_codex,
    write_runs,
)

from amux.errors import AgentNotFoundError, ValidationError
from amux.model.options import Direction, ListSort, SessionListOptions
from amux.model.session import SessionSummary
from amux.model.usage import Tokens
from amux.testing import Capture

ALL_CAPTURES = pytest.mark.parametrize("capture", CAPTURES, ids=lambda capture: capture.name)
EVERYTHING = SessionListOptions(limit=None, include_children=True, include_archived=True)


def ids(sessions: list[SessionSummary]) -> list[str]:
    return [session.session_id for session in sessions]


def numbers(sessions: list[SessionSummary]) -> list[int]:
    return [int(session.session_id[:8], 16) for session in sessions]


@ALL_CAPTURES
def test_a_summary_says_what_the_whole_session_says(
    capture: Capture, shared_home: SharedHome
) -> None:
    client = open_client(shared_home(capture))
    report = client.list_report((capture.agent,), EVERYTHING)
    assert report.sessions
    assert all("messages" not in summary.to_dict() for summary in report.sessions)
    for summary in report.sessions:
        session = client.sessions.get(capture.agent, summary.session_id)
        assert summary.message_count == len(session.messages)
        shared = set(SessionSummary.__struct_fields__) & set(type(session).__struct_fields__)
        for field in shared - {"raw"}:
            assert getattr(summary, field) == getattr(session, field), field


@ALL_CAPTURES
def test_a_copied_home_with_new_file_times_keeps_its_dates(
    capture: Capture, tmp_path: Path
) -> None:
    home = capture.copy_to(tmp_path)
    dated = {one["session_id"] for one in capture.sessions if one.get("created_between")}
    before = open_client(home).list_report((capture.agent,), EVERYTHING).sessions
    for path in home.rglob("*"):
        os.utime(path, (1, 1))
    after = open_client(home).list_report((capture.agent,), EVERYTHING).sessions
    created = {summary.session_id: summary.created_at for summary in after}
    assert len(created) == len(before)
    for summary in before:
        if summary.session_id in dated:
            assert created[summary.session_id] == summary.created_at


def test_an_unknown_agent_is_an_error_with_the_known_ones(home: Path) -> None:
    with pytest.raises(AgentNotFoundError, match="`nope`") as caught:
        open_client(home).sessions.list("nope")
    assert caught.value.code == "AGENT_NOT_FOUND"
    assert "claude" in (caught.value.hint or "")


def test_the_newest_hundred_of_many_come_newest_first(home: Path) -> None:
    for number in range(150):
        write_claude(home, number, at=START + timedelta(minutes=number * 7 % 150))
    listed = open_client(home).sessions.list("claude")
    assert len(listed) == 100
    newest = sorted((START + timedelta(minutes=n) for n in range(150)), reverse=True)[:100]
    assert [session.created_at for session in listed] == newest


def test_the_defaults_are_those_of_the_specification() -> None:
    defaults = SessionListOptions()
    assert (defaults.since, defaults.until, defaults.model, defaults.tags) == (None,) * 4
    assert (defaults.limit, defaults.sort, defaults.sort_direction) == (100, "date", "desc")
    assert (defaults.cwd, defaults.include_children, defaults.include_archived) == (
        None,
        False,
        False,
    )


@pytest.fixture
def varied(home: Path) -> Path:
    """Twelve sessions that differ in everything a list can filter and sort by."""
    for number in range(12):
        write_claude(
            home,
            number,
            at=START + timedelta(hours=number * 5 % 12),
            turns=1 + number % 3,
            model=(SMALL, LARGE)[number % 2],
            tokens=Tokens(input=1000 * (number * 7 % 12)),
            cwd=("/src/app", "/src/lib", "/home/x")[number % 3],
        )
    write_runs(
        home,
        *(
            {"sessionId": uuid_of(number), "tags": tags}
            for number, tags in enumerate([["a"], ["b"], ["a", "b"], ["c"], [], ["a"]])
        ),
    )
    return home


FILTERS: dict[str, tuple[dict[str, Any], Callable[[SessionSummary], bool]]] = {
    "none": ({}, lambda _: True),
    "since": (
        {"since": START + timedelta(hours=4)},
        lambda s: s.created_at >= START + timedelta(hours=4),
    ),
    "until": (
        {"until": START + timedelta(hours=6)},
        lambda s: s.created_at <= START + timedelta(hours=6),
    ),
    "model": ({"model": LARGE}, lambda s: s.model == LARGE),
    "tags": ({"tags": ["a", "c"]}, lambda s: bool({"a", "c"} & set(s.tags))),
    "cwd": ({"cwd": "/src/lib"}, lambda s: s.cwd == "/src/lib"),
}
KEYS: dict[str, Callable[[SessionSummary], Any]] = {
    "date": lambda s: s.created_at,
    "updated": lambda s: s.updated_at,
    "turns": lambda s: s.turn_count,
    "cost": lambda s: -1 if s.cost is None else s.cost.total_usd,
}


@pytest.mark.no_cover
@pytest.mark.parametrize("direction", get_args(Direction))
@pytest.mark.parametrize("sort", get_args(ListSort))
def test_filter_then_sort_then_cut_in_every_combination(
    sort: ListSort, direction: Direction, varied: Path
) -> None:
    sessions = open_client(varied).sessions
    everyone = sorted(sessions.list("claude", limit=None), key=lambda s: s.unified_id)
    assert len(everyone) == 12
    for (one, other), limit in itertools.product(
        itertools.combinations(FILTERS.values(), 2), (0, 1, 3, 100)
    ):
        fitting = [s for s in everyone if one[1](s) and other[1](s)]
        fitting.sort(key=KEYS[sort], reverse=direction == "desc")
        found = sessions.list(
            "claude", sort=sort, sort_direction=direction, limit=limit, **one[0], **other[0]
        )
        assert found == fitting[:limit]


def test_sorting_by_cost_considers_all_sessions_before_the_limit(home: Path) -> None:
    for number in range(120):
        dear = number == 3
        write_claude(
            home,
            number,
            at=START + timedelta(minutes=number),
            tokens=Tokens(output=5000 if dear else 10),
        )
    found = open_client(home).sessions.list("claude", sort="cost", limit=1)
    assert numbers(found) == [3]


def test_equal_sessions_are_ordered_by_id_in_both_directions(home: Path) -> None:
    for number in (5, 2, 9, 4):
        write_claude(home, number)
    sessions = open_client(home).sessions
    for sort in get_args(ListSort):
        assert numbers(sessions.list("claude", sort=sort)) == [2, 4, 5, 9]
        assert numbers(sessions.list("claude", sort=sort, sort_direction="asc")) == [2, 4, 5, 9]


def test_sessions_without_a_cost_come_last_when_sorted_by_cost(home: Path) -> None:
    ClaudeSession(home, uuid_of(1)).prompt("only asked").write()
    write_claude(home, 2, model="m-free", tokens=Tokens(input=5))
    write_claude(home, 3, tokens=Tokens(input=5))
    assert numbers(open_client(home).sessions.list("claude", sort="cost")) == [3, 2, 1]


def test_bounds_on_creation_are_inclusive(home: Path) -> None:
    write_claude(home, 1, at=START)
    sessions = open_client(home).sessions
    tick = timedelta(milliseconds=1)
    assert numbers(sessions.list("claude", since=START, until=START)) == [1]
    assert sessions.list("claude", since=START + tick) == []
    assert sessions.list("claude", until=START - tick) == []


@pytest.mark.parametrize(
    "moment",
    [
        START,
        START.astimezone(timezone(timedelta(hours=9))),
        START.replace(tzinfo=None),
        "2026-03-01T10:00:00Z",
        "2026-03-01T12:00:00+02:00",
        "2026-03-01T10:00:00",
    ],
)
def test_a_moment_may_be_given_in_any_zone_and_spelling(moment: datetime | str, home: Path) -> None:
    write_claude(home, 1, at=START)
    write_claude(home, 2, at=START + timedelta(seconds=1))
    sessions = open_client(home).sessions
    assert numbers(sessions.list("claude", until=moment)) == [1]
    assert numbers(sessions.list("claude", since=moment)) == [2, 1]


@pytest.mark.parametrize("day", [date(2026, 3, 1), "2026-03-01"])
def test_a_date_means_the_whole_day(day: date | str, home: Path) -> None:
    for number, at in enumerate(
        [
            datetime(2026, 2, 28, 23, 59, 59, 999000, UTC),
            datetime(2026, 3, 1, tzinfo=UTC),
            datetime(2026, 3, 1, 23, 59, 59, 999000, UTC),
            datetime(2026, 3, 2, tzinfo=UTC),
        ]
    ):
        write_claude(home, number, at=at)
    sessions = open_client(home).sessions
    assert numbers(sessions.list("claude", since=day, until=day)) == [2, 1]
    assert numbers(sessions.list("claude", until=day)) == [2, 1, 0]


@pytest.mark.parametrize("day", [date(2026, 3, 1), "2026-03-01"])
def test_a_date_is_one_of_the_zone_of_the_settings(day: date | str, home: Path) -> None:
    for number, at in enumerate(
        [
            datetime(2026, 2, 28, 14, 59, 59, 999000, UTC),
            datetime(2026, 2, 28, 15, tzinfo=UTC),
            datetime(2026, 3, 1, 14, 59, 59, 999000, UTC),
            datetime(2026, 3, 1, 15, tzinfo=UTC),
        ]
    ):
        write_claude(home, number, at=at)
    sessions = open_client(home, timezone="Asia/Tokyo").sessions
    assert numbers(sessions.list("claude", since=day, until=day)) == [2, 1]
    assert numbers(sessions.search("hello", since=day, until=day, sort="date")) == [2, 1]
    assert sessions.total_cost(since=day, until=day).session_count == 2


@pytest.mark.parametrize("moment", [START.replace(tzinfo=None), "2026-03-01T10:00:00"])
def test_a_moment_without_a_zone_is_one_of_the_zone_of_the_settings(
    moment: datetime | str, home: Path
) -> None:
    write_claude(home, 1, at=START - timedelta(hours=9))
    write_claude(home, 2, at=START)
    sessions = open_client(home, timezone="Asia/Tokyo").sessions
    assert numbers(sessions.list("claude", until=moment)) == [1]


def test_a_day_on_which_clocks_are_put_back_has_25_hours(home: Path) -> None:
    """In Havana the first hour of that day comes twice, so it has 25."""
    write_claude(home, 1, at=datetime(2026, 11, 1, 4, tzinfo=UTC))
    write_claude(home, 2, at=datetime(2026, 11, 2, 4, 59, 59, tzinfo=UTC))
    write_claude(home, 3, at=datetime(2026, 11, 2, 5, tzinfo=UTC))
    sessions = open_client(home, timezone="America/Havana").sessions
    day = date(2026, 11, 1)
    assert numbers(sessions.list("claude", since=day, until=day)) == [2, 1]


@pytest.mark.parametrize("text", ["yesterday-ish", "2026-13-01", "", "0001-01-01T00:00:00+14:00"])
def test_an_invalid_date_is_refused(text: str, home: Path) -> None:
    with pytest.raises(ValidationError) as caught:
        open_client(home).sessions.list("claude", since=text)
    assert caught.value.fields == ("since",)


def test_an_options_object_and_keywords_say_the_same(varied: Path) -> None:
    sessions = open_client(varied).sessions
    options = SessionListOptions(model=LARGE, sort="cost", limit=3)
    assert sessions.list("claude", options) == sessions.list(
        "claude", model=LARGE, sort="cost", limit=3
    )
    assert len(sessions.list("claude", options, limit=2)) == 2, "a keyword is the last word"


def test_naive_times_in_an_options_object_are_utc(home: Path) -> None:
    write_claude(home, 1, at=START)
    naive = START.replace(tzinfo=None)
    options = SessionListOptions(since=naive, until=naive)
    assert numbers(open_client(home).sessions.list("claude", options)) == [1]


def test_a_session_with_two_models_is_found_by_each(home: Path) -> None:
    ClaudeSession(home, uuid_of(1)).prompt("a").reply(model=SMALL).prompt("b").reply(
        model=LARGE
    ).write()
    sessions = open_client(home).sessions
    for model, count in ((SMALL, 1), (LARGE, 1), ("m-other", 0)):
        assert len(sessions.list("claude", model=model)) == count


def test_tags_come_from_runs_and_one_of_them_is_enough(varied: Path) -> None:
    sessions = open_client(varied).sessions
    tags = {n: s.tags for s in sessions.list("claude") for n in numbers([s])}
    assert [tags[n] for n in range(7)] == [("a",), ("b",), ("a", "b"), ("c",), (), ("a",), ()]
    assert sorted(numbers(sessions.list("claude", tags=["b", "c"]))) == [1, 2, 3]


@pytest.mark.parametrize("limit", [None, "all"])
def test_no_limit_means_everything(limit: str | None, home: Path) -> None:
    for number in range(101):
        write_codex(home, number)
    assert len(open_client(home).sessions.list("codex", limit=limit)) == 101


@pytest.mark.parametrize("limit", [-1, 1.5, "ten", True])
def test_a_limit_that_is_no_count_is_refused(limit: Any, home: Path) -> None:
    with pytest.raises(ValidationError) as caught:
        open_client(home).sessions.list("claude", limit=limit)
    assert caught.value.fields == ("limit",)


@pytest.mark.parametrize("field", ["sort", "sort_direction"])
def test_an_unknown_order_is_refused(field: str, home: Path) -> None:
    given: dict[str, Any] = {field: "sideways"}
    with pytest.raises(ValidationError, match="sideways") as caught:
        open_client(home).sessions.list("claude", **given)
    assert caught.value.fields == (field,)
