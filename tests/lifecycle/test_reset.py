"""Reset policies: deadlines to the second, in local time, per platform and type of chat."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from child_processes import child_env
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st

from amux.errors import ErrorCode, ValidationError
from amux.lifecycle.message_source import SessionSource
from amux.lifecycle.reset import (
    ResetMode,
    ResetOutcome,
    ResetPolicy,
    ResetPolicySet,
    next_hour,
    zone_of,
)
from amux.rollout.threads import ThreadSummary

BERLIN = ZoneInfo("Europe/Berlin")
SECOND = timedelta(seconds=1)
NOON = datetime(2026, 6, 10, 12, tzinfo=UTC)
TELEGRAM = SessionSource("telegram", "1")


def local(text: str, zone: ZoneInfo = BERLIN, fold: int = 0) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=zone, fold=fold)


def thread(last: datetime | None) -> ThreadSummary:
    return ThreadSummary(
        thread_id="t", created_at=NOON, updated_at=NOON, head=1, last_message_at=last
    )


# Values


def test_the_modes_and_defaults_are_those_of_the_specification() -> None:
    assert list(ResetMode) == ["daily", "idle", "both", "none"]
    policy = ResetPolicy()
    assert msgspec.structs.asdict(policy) == {
        "mode": "both",
        "at_hour": 4,
        "idle_minutes": 1440,
        "notify": True,
        "notify_exclude_platforms": ("api_server", "webhook"),
        "max_work_hours": 24,
        "timezone": None,
    }
    assert policy.mode is ResetMode.BOTH
    assert ResetPolicy("idle").mode is ResetMode.IDLE


def test_a_policy_survives_json() -> None:
    policy = ResetPolicy(mode="idle", idle_minutes=240, timezone="Europe/Berlin")
    text = msgspec.json.encode(policy)
    assert msgspec.json.decode(text) == {
        "mode": "idle",
        "at_hour": 4,
        "idle_minutes": 240,
        "notify": True,
        "notify_exclude_platforms": ["api_server", "webhook"],
        "max_work_hours": 24,
        "timezone": "Europe/Berlin",
    }
    assert msgspec.json.decode(text, type=ResetPolicy) == policy


@pytest.mark.parametrize(
    ("name", "values", "lowest", "highest"),
    [
        ("at_hour", [-1, 24, 4.0, True, "4", None], 0, 23),
        ("idle_minutes", [0, -5, 52_560_001, 1.5, True], 1, 52_560_000),
        ("max_work_hours", [-1, 52_560_001, 0.5], 0, 52_560_000),
    ],
)
def test_values_out_of_range_are_refused(
    name: str, values: list[Any], lowest: int, highest: int
) -> None:
    for value in values:
        with pytest.raises(ValidationError) as caught:
            ResetPolicy(**{name: value})
        assert caught.value.code is ErrorCode.VALIDATION_ERROR
        assert caught.value.fields == (name,)
        assert caught.value.message == (
            f"`{name}` must be a whole number from {lowest} to {highest}, not `{value!r}`"
        )
    for value in (lowest, highest):
        fields: dict[str, Any] = {name: value}
        assert getattr(ResetPolicy(**fields), name) == value


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(ValidationError) as caught:
        ResetPolicy(mode="weekly")
    assert caught.value.fields == ("mode",)
    assert caught.value.message == "`weekly` is not a mode of a reset policy"
    assert caught.value.hint == "use daily, idle, both, none"


@pytest.mark.parametrize("name", ["Mars/Base", "", "../etc/passwd", "/etc/passwd", "Europe"])
def test_an_unknown_zone_is_refused(name: str) -> None:
    for make in (lambda: ResetPolicy(timezone=name), lambda: ResetPolicySet(zone=name)):
        with pytest.raises(ValidationError) as caught:
            make()
        assert caught.value.fields == ("timezone",)
        assert caught.value.message == f"there is no time zone `{name}`"
        assert caught.value.hint == "use a name such as UTC"
    assert zone_of("Europe/Berlin") is BERLIN


@pytest.mark.parametrize("argument", ["last_message_at", "now"])
def test_times_without_a_zone_are_refused(argument: str) -> None:
    times: dict[str, Any] = {"last_message_at": NOON, "now": NOON}
    times[argument] = NOON.replace(tzinfo=None)
    with pytest.raises(ValidationError) as caught:
        ResetPolicy().due(**times)
    assert caught.value.fields == (argument,)
    assert caught.value.message == f"`{argument}` must have a time zone"
    assert caught.value.hint == "use datetime.now(UTC), or astimezone() for a local time"


# Idle


@pytest.mark.parametrize("mode", ["idle", "both"])
def test_idle_is_due_to_the_second(mode: str) -> None:
    policy = ResetPolicy(mode=mode, idle_minutes=30, at_hour=0)
    end = NOON + timedelta(minutes=30)
    assert policy.due(NOON, end - SECOND, zone=UTC) is None
    assert policy.due(NOON, end, zone=UTC) == "idle"
    assert policy.due(NOON, end + SECOND, zone=UTC) == "idle"


def test_the_default_silence_is_a_day() -> None:
    policy = ResetPolicy(mode="idle")
    assert policy.due(NOON, NOON + timedelta(days=1) - SECOND) is None
    assert policy.due(NOON, NOON + timedelta(days=1)) == "idle"


def test_idle_does_not_look_at_the_clock_on_the_wall() -> None:
    before = local("2026-03-28T12:00")
    policy = ResetPolicy(mode="idle")
    assert policy.due(before, local("2026-03-29T12:59:59"), zone=BERLIN) is None
    assert policy.due(before, local("2026-03-29T13:00"), zone=BERLIN) == "idle"


def test_now_is_the_present_by_default() -> None:
    now = datetime.now(UTC)
    policy = ResetPolicy(mode="idle", idle_minutes=60)
    assert policy.due(now - timedelta(minutes=30)) is None
    assert policy.due(now - timedelta(minutes=61)) == "idle"


def test_a_clock_that_was_set_back_resets_nothing() -> None:
    assert ResetPolicy().due(NOON, NOON - timedelta(days=400)) is None


# Daily


@pytest.mark.parametrize(
    ("last", "now", "reason"),
    [
        ("2026-06-10T03:59:00", "2026-06-10T04:01:00", "daily"),
        ("2026-06-10T03:59:59", "2026-06-10T04:00:00", "daily"),
        ("2026-06-10T03:58:00", "2026-06-10T03:59:59", None),
        ("2026-06-10T04:00:00", "2026-06-10T04:00:00", None),
        ("2026-06-10T04:00:00", "2026-06-11T03:59:59", None),
        ("2026-06-10T04:00:00", "2026-06-11T04:00:00", "daily"),
        ("2026-06-10T04:01:00", "2026-06-10T23:59:00", None),
        ("2026-06-10T23:59:00", "2026-06-11T00:01:00", None),
        ("2026-06-10T23:59:00", "2026-06-11T03:59:59", None),
        ("2026-06-10T23:59:00", "2026-06-11T04:00:00", "daily"),
        ("2026-06-10T00:01:00", "2026-06-10T04:00:00", "daily"),
        ("2026-06-10T12:00:00", "2027-06-10T12:00:00", "daily"),
        ("2026-12-31T23:59:00", "2027-01-01T04:00:00", "daily"),
    ],
)
def test_daily_is_due_when_the_local_hour_was_crossed(
    last: str, now: str, reason: str | None
) -> None:
    policy = ResetPolicy(mode="daily")
    assert policy.due(local(last), local(now), zone=BERLIN) == reason
    in_utc = (local(last).astimezone(UTC), local(now).astimezone(UTC))
    assert policy.due(*in_utc, zone=BERLIN) == reason
    own = ResetPolicy(mode="daily", timezone="Europe/Berlin")
    assert own.due(*in_utc, zone=ZoneInfo("Asia/Tokyo")) == reason


@pytest.mark.parametrize(
    ("hour", "last", "now"),
    [
        (0, "2026-06-10T23:59:59", "2026-06-11T00:00:00"),
        (23, "2026-06-10T22:59:59", "2026-06-10T23:00:00"),
    ],
)
def test_every_hour_of_the_day_can_be_chosen(hour: int, last: str, now: str) -> None:
    policy = ResetPolicy(mode="daily", at_hour=hour)
    assert policy.due(local(last), local(now) - SECOND, zone=BERLIN) is None
    assert policy.due(local(last), local(now), zone=BERLIN) == "daily"
    assert policy.due(local(now), local(now) + timedelta(hours=23), zone=BERLIN) is None


@pytest.mark.parametrize(
    ("zone", "hour", "after", "expected"),
    [
        # an hour that the clocks skip begins at the end of the gap
        ("Europe/Berlin", 2, "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z"),
        ("Europe/Berlin", 2, "2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"),
        ("Europe/Berlin", 3, "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z"),
        ("Australia/Lord_Howe", 2, "2026-10-03T12:00:00Z", "2026-10-03T15:30:00Z"),
        # an hour that occurs twice counts when it occurs first
        ("Europe/Berlin", 2, "2026-10-24T12:00:00Z", "2026-10-25T00:00:00Z"),
        ("Europe/Berlin", 2, "2026-10-25T00:00:00Z", "2026-10-26T01:00:00Z"),
        ("Europe/Berlin", 2, "2026-10-25T00:30:00Z", "2026-10-26T01:00:00Z"),
        # days of 23 and of 25 hours
        ("Europe/Berlin", 4, "2026-03-28T03:00:00Z", "2026-03-29T02:00:00Z"),
        ("Europe/Berlin", 4, "2026-10-24T02:00:00Z", "2026-10-25T03:00:00Z"),
        # a day that did not exist: the hours of two days are one
        ("Pacific/Apia", 4, "2011-12-29T15:00:00Z", "2011-12-30T14:00:00Z"),
        ("Pacific/Apia", 4, "2011-12-30T14:00:00Z", "2011-12-31T14:00:00Z"),
        # the local day is not that of UTC
        ("Pacific/Honolulu", 20, "2026-06-11T05:00:00Z", "2026-06-11T06:00:00Z"),
        ("Pacific/Kiritimati", 4, "2026-06-10T13:59:59Z", "2026-06-10T14:00:00Z"),
        # the clocks went from 0:01 back to 23:01 of the day before
        ("America/St_Johns", 0, "2007-11-04T02:29:59Z", "2007-11-04T02:30:00Z"),
        ("America/St_Johns", 0, "2007-11-04T02:30:00Z", "2007-11-05T03:30:00Z"),
        ("America/St_Johns", 0, "2007-11-04T03:00:00Z", "2007-11-05T03:30:00Z"),
    ],
)
def test_days_on_which_the_clocks_change(zone: str, hour: int, after: str, expected: str) -> None:
    found = next_hour(datetime.fromisoformat(after), hour, ZoneInfo(zone))
    assert found == datetime.fromisoformat(expected)
    assert found.tzinfo is UTC


def test_an_hour_that_occurs_twice_resets_once() -> None:
    policy = ResetPolicy(mode="daily", at_hour=2, timezone="Europe/Berlin")
    first, second = local("2026-10-25T02:30"), local("2026-10-25T02:30", fold=1)
    assert policy.due(local("2026-10-25T01:59"), first) == "daily"
    assert policy.due(first, second) is None
    assert policy.due(second, local("2026-10-25T23:00")) is None


def test_an_hour_that_does_not_exist_resets_once() -> None:
    policy = ResetPolicy(mode="daily", at_hour=2, timezone="Europe/Berlin")
    assert policy.due(local("2026-03-29T01:59"), local("2026-03-29T03:00")) == "daily"
    assert policy.due(local("2026-03-29T03:00"), local("2026-03-29T23:00")) is None


@given(
    st.datetimes(NOON.replace(year=1990, tzinfo=None), NOON.replace(year=2036, tzinfo=None)),
    st.integers(0, 23),
    st.sampled_from(["Europe/Berlin", "America/St_Johns", "Pacific/Apia", "Asia/Kathmandu", "UTC"]),
)
@drawn(200)
def test_the_next_hour_is_within_the_next_two_days(when: datetime, hour: int, zone: str) -> None:
    after = when.replace(tzinfo=UTC)
    found = next_hour(after, hour, ZoneInfo(zone))
    assert after < found <= after + timedelta(hours=48)
    shown = found.astimezone(ZoneInfo(zone))
    assert (shown.hour, shown.minute) == (hour, 0) or shown.utcoffset() != (
        found - SECOND
    ).astimezone(ZoneInfo(zone)).utcoffset(), "another time is shown only at the end of a gap"


def test_without_a_zone_the_machine_decides() -> None:
    """The same moments are one day in Tokyo and two days in Berlin."""
    code = (
        "from datetime import *; from amux.lifecycle.reset import ResetPolicy;"
        "at = lambda hour: datetime(2026, 3, 29, hour, 30, tzinfo=UTC);"
        "print(ResetPolicy(mode='daily').due(at(1), at(2)))"
    )
    for zone, printed in (("Europe/Berlin", "daily"), ("Asia/Tokyo", "None")):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=child_env(TZ=zone),
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == printed


# Both, and never


def test_the_deadline_that_came_first_is_the_reason() -> None:
    policy = ResetPolicy(mode="both", at_hour=4, idle_minutes=60, timezone="UTC")
    much_later = NOON + timedelta(days=3)
    assert policy.due(NOON, much_later) == "idle"
    night = NOON.replace(hour=3, minute=30)
    assert policy.due(night, much_later) == "daily"
    assert policy.due(night, night + timedelta(minutes=29)) is None
    assert policy.due(night, night + timedelta(minutes=30)) == "daily"
    assert policy.due(NOON.replace(hour=3), NOON.replace(hour=4)) == "daily", "at the same moment"
    assert policy.deadlines(NOON) == [
        (NOON + timedelta(hours=1), "idle"),
        (NOON.replace(day=11, hour=4), "daily"),
    ]


def test_one_mode_does_not_do_the_work_of_the_other() -> None:
    last, now = NOON.replace(hour=3, minute=59), NOON.replace(hour=4, minute=1)
    assert ResetPolicy(mode="idle", timezone="UTC").due(last, now) is None
    later = NOON + timedelta(hours=5)
    assert ResetPolicy(mode="daily", idle_minutes=1, timezone="UTC").due(NOON, later) is None


def test_none_never_resets() -> None:
    policy = ResetPolicy(mode="none")
    assert policy.due(NOON, NOON + timedelta(days=3653)) is None
    assert policy.deadlines(NOON) == []


# Which policy


def test_the_platform_comes_before_the_type_and_the_type_before_the_default() -> None:
    default, slack, group = (
        ResetPolicy(),
        ResetPolicy(mode="idle", idle_minutes=240),
        ResetPolicy(mode="daily"),
    )
    policies = ResetPolicySet(default, {"Slack": slack}, {"group": group})
    assert policies.policy_for("slack", "group") is slack
    assert policies.policy_for("SLACK") is slack
    assert policies.policy_for("telegram", "group") is group
    assert policies.policy_for("telegram", "dm") is default
    assert policies.policy_for("telegram") is default
    assert policies.policy_for(None, "group") is group
    assert policies.policy_for(None) is default
    named_none = ResetPolicySet(default, {"none": slack})
    assert named_none.policy_for(None) is default
    assert policies.default is default
    assert policies.by_type == {"group": group}


def test_the_local_platform_is_never_reset_unless_a_policy_says_so() -> None:
    for name in ("local", "cli"):
        assert ResetPolicySet(ResetPolicy(mode="daily")).policy_for(name).mode == "none"
    own = ResetPolicy(mode="idle")
    assert ResetPolicySet(by_platform={"cli": own}).policy_for("local") is own
    with_slack = ResetPolicySet(by_platform={"slack": own})
    assert with_slack.by_platform == {"local": ResetPolicy(mode="none"), "slack": own}
    assert ResetPolicySet().default == ResetPolicy()


def test_an_unknown_type_of_chat_has_no_policy() -> None:
    with pytest.raises(ValidationError) as caught:
        ResetPolicySet(by_type={"broadcast": ResetPolicy()})
    assert caught.value.fields == ("by_type",)
    assert caught.value.message == "`broadcast` is not the type of a chat"
    assert caught.value.hint == "use dm, group, channel, thread"


# Outcomes


def test_a_check_says_everything_about_a_reset() -> None:
    now = NOON + timedelta(days=2)
    policies = ResetPolicySet(ResetPolicy(mode="idle", idle_minutes=240), now=lambda: now)
    assert policies.check(thread(NOON), TELEGRAM) == ResetOutcome(
        reset=True,
        reason="idle",
        deferred=False,
        notice=(
            "This conversation was reset after 4 hours without a message. "
            "I no longer see the earlier messages; they can still be searched."
        ),
        source=TELEGRAM,
        thread_id="t",
        last_message_at=NOON,
        at=now,
    )
    fresh = NOON + SECOND
    assert policies.check(thread(NOON), TELEGRAM, now=fresh) == ResetOutcome(
        source=TELEGRAM, thread_id="t", last_message_at=NOON, at=fresh
    )
    assert ResetOutcome() == ResetOutcome(
        reset=False,
        reason=None,
        deferred=False,
        notice=None,
        source=None,
        thread_id=None,
        last_message_at=None,
        at=None,
    )


def test_the_clock_of_a_set_is_the_present_by_default() -> None:
    before = datetime.now(UTC)
    at = ResetPolicySet().check(thread(NOON), TELEGRAM).at
    assert at is not None
    assert before <= at <= datetime.now(UTC)


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (ResetPolicy(mode="idle", idle_minutes=90), "after 90 minutes without a message. "),
        (ResetPolicy(mode="idle", idle_minutes=1), "after 1 minute without a message. "),
        (ResetPolicy(mode="idle", idle_minutes=60), "after 1 hour without a message. "),
        (ResetPolicy(mode="idle", idle_minutes=59), "after 59 minutes without a message. "),
        (ResetPolicy(mode="idle"), "after 24 hours without a message. "),
        (ResetPolicy(mode="daily"), "at 04:00. "),
        (ResetPolicy(mode="daily", at_hour=23), "at 23:00. "),
    ],
)
def test_the_notice_names_the_cause(policy: ResetPolicy, words: str) -> None:
    outcome = ResetPolicySet(policy).check(thread(NOON), TELEGRAM, now=NOON + timedelta(days=9))
    assert outcome.notice == (
        f"This conversation was reset {words}"
        "I no longer see the earlier messages; they can still be searched."
    )


@pytest.mark.parametrize(
    ("platform", "policy", "told"),
    [
        ("telegram", ResetPolicy(), True),
        ("unheard_of", ResetPolicy(), True),
        ("api_server", ResetPolicy(), False),
        ("webhook", ResetPolicy(), False),
        ("telegram", ResetPolicy(notify=False), False),
        ("telegram", ResetPolicy(notify_exclude_platforms=("Telegram",)), False),
        ("webhook", ResetPolicy(notify_exclude_platforms=()), True),
        ("local", ResetPolicy(notify_exclude_platforms=("cli",)), False),
    ],
)
def test_users_are_told_of_a_reset_except_on_excluded_platforms(
    platform: str, policy: ResetPolicy, told: bool
) -> None:
    seen: list[ResetOutcome] = []
    policies = ResetPolicySet(by_platform={platform: policy})
    source = SessionSource(platform, "1")
    outcome = policies.check(thread(NOON), source, now=NOON + timedelta(days=2), notify=seen.append)
    assert outcome.reset
    assert seen == ([outcome] if told else [])
    assert (outcome.notice is not None) is told


def test_a_check_uses_the_policy_of_the_type_of_chat() -> None:
    policies = ResetPolicySet(by_type={"group": ResetPolicy(mode="none")})
    later = NOON + timedelta(days=9)
    group = SessionSource("telegram", "1", chat_type="group")
    assert not policies.check(thread(NOON), group, now=later).reset
    assert policies.check(thread(NOON), TELEGRAM, now=later).reset


def test_nothing_is_told_when_nothing_is_reset() -> None:
    seen: list[ResetOutcome] = []
    ResetPolicySet().check(thread(NOON), TELEGRAM, now=NOON + SECOND, notify=seen.append)
    assert seen == []


def test_nothing_resets_without_a_source_or_without_messages() -> None:
    later = NOON + timedelta(days=3653)
    policies = ResetPolicySet(now=lambda: later)
    plain = ResetOutcome(thread_id="t", at=later)
    assert policies.check(thread(NOON), None) == plain
    empty = ResetOutcome(thread_id="t", source=TELEGRAM, at=later)
    assert policies.check(thread(None), TELEGRAM) == empty


@pytest.mark.parametrize(
    ("age", "hours", "deferred"),
    [
        (timedelta(hours=1), 24, True),
        (timedelta(hours=24) - SECOND, 24, True),
        (timedelta(hours=24), 24, False),
        (timedelta(hours=2), 1, False),
        (timedelta(0), 0, False),
    ],
)
def test_active_work_defers_a_reset_up_to_an_age(
    age: timedelta, hours: int, deferred: bool
) -> None:
    now = NOON + timedelta(days=9)
    seen: list[ResetOutcome] = []
    policies = ResetPolicySet(ResetPolicy(mode="idle", max_work_hours=hours))
    outcome = policies.check(
        thread(NOON), TELEGRAM, now=now, working_since=now - age, notify=seen.append
    )
    assert (outcome.reset, outcome.deferred) == (not deferred, deferred)
    assert outcome.reason == "idle"
    assert len(seen) == (not deferred)


def test_the_age_of_work_is_measured_in_real_time() -> None:
    """The night has an hour less than the clocks say."""
    begun, now = local("2026-03-28T12:00"), local("2026-03-29T12:59:59")
    policies = ResetPolicySet(ResetPolicy(mode="idle", idle_minutes=1))
    assert policies.check(thread(begun), TELEGRAM, now=now, working_since=begun).deferred
    later = now + SECOND
    assert not policies.check(thread(begun), TELEGRAM, now=later, working_since=begun).deferred
    with pytest.raises(ValidationError) as caught:
        policies.check(thread(begun), TELEGRAM, now=now, working_since=begun.replace(tzinfo=None))
    assert caught.value.fields == ("working_since",)


def test_work_defers_nothing_that_is_not_due() -> None:
    outcome = ResetPolicySet().check(thread(NOON), TELEGRAM, now=NOON + SECOND, working_since=NOON)
    assert (outcome.reset, outcome.deferred, outcome.reason) == (False, False, None)


def test_the_zone_of_a_set_is_that_of_policies_without_one() -> None:
    last, now = datetime(2026, 6, 10, 1, 59, tzinfo=UTC), datetime(2026, 6, 10, 2, 1, tzinfo=UTC)
    daily = ResetPolicy(mode="daily")
    for zone, reset in (("Europe/Berlin", True), (BERLIN, True), ("Asia/Tokyo", False)):
        policies = ResetPolicySet(daily, zone=zone)
        assert policies.check(thread(last), TELEGRAM, now=now).reset is reset
    own = ResetPolicy(mode="daily", timezone="Asia/Tokyo")
    assert not ResetPolicySet(own, zone=BERLIN).check(thread(last), TELEGRAM, now=now).reset
