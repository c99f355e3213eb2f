"""A typed or shown day is always a day in the configured `timezone`."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from builders import uuid_of, write_claude
from cli_process import Cli, copied_home

DAY = "2026-03-02"
MOMENTS = {
    1: datetime(2026, 3, 1, 14, 59, 59, tzinfo=UTC),
    2: datetime(2026, 3, 1, 15, tzinfo=UTC),  # begins in Tokyo
    3: datetime(2026, 3, 2, tzinfo=UTC),
    4: datetime(2026, 3, 2, 8, tzinfo=UTC),  # begins in Los Angeles
    5: datetime(2026, 3, 2, 14, 59, 50, tzinfo=UTC),
    6: datetime(2026, 3, 2, 15, tzinfo=UTC),
    7: datetime(2026, 3, 2, 23, 59, 50, tzinfo=UTC),
    8: datetime(2026, 3, 3, tzinfo=UTC),
    9: datetime(2026, 3, 3, 7, 59, 50, tzinfo=UTC),
    10: datetime(2026, 3, 3, 8, tzinfo=UTC),
}
ON_THE_DAY = {
    "UTC": {3, 4, 5, 6, 7},
    "Asia/Tokyo": {2, 3, 4, 5},
    "America/Los_Angeles": {4, 5, 6, 7, 8, 9},
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = copied_home(tmp_path)
    for number, at in MOMENTS.items():
        write_claude(home, number, at=at)
    return home


def set_zone(home: Path, timezone: str) -> None:
    config = home / ".agent-mux"
    config.mkdir()
    (config / "config.json").write_text(json.dumps({"timezone": timezone}))


def check_days(cli: Cli, zone: str) -> None:
    wanted = {f"claude:{uuid_of(number)}" for number in ON_THE_DAY[zone]}
    period = ("--since", DAY, "--until", DAY)
    for _ in ("read", "kept"):
        assert {row[0] for row in cli("list", *period).rows()} == wanted
        assert {each["unifiedId"] for each in cli("list", *period, "--json").json()} == wanted
    found = cli("search", f"since:{DAY}", f"until:{DAY}", "--json").json()
    assert {each["unifiedId"] for each in found} == wanted
    found = cli("search", "hello", *period, "--json").json()
    assert {each["unifiedId"] for each in found} == wanted
    breakdowns = cli("cost", "--by", "day", *period, "--json").json()["breakdowns"]
    assert {day: group["sessionCount"] for day, group in breakdowns.items()} == {DAY: len(wanted)}


@pytest.mark.parametrize("here", ["UTC", "Asia/Tokyo", "America/Los_Angeles"])
def test_without_settings_a_day_is_one_of_utc_wherever_the_machine_is(
    home: Path, here: str
) -> None:
    check_days(Cli(home, {"TZ": here}), "UTC")


@pytest.mark.parametrize("here", ["UTC", "Europe/Berlin"])
@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/Los_Angeles"])
def test_a_day_is_one_of_the_zone_of_the_settings(home: Path, here: str, zone: str) -> None:
    set_zone(home, zone)
    check_days(Cli(home, {"TZ": here}), zone)


def test_until_the_last_possible_day_equals_no_bound(home: Path) -> None:
    cli = Cli(home)
    result = cli("list", "--until", "9999-12-31")
    assert (result.code, result.out) == (0, cli("list").out)
