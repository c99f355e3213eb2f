"""Reset policies: when the conversation of a chat begins anew.

A policy names an hour of the local day, a time without messages, or both. Both are deadlines that
follow from the time of the last message, and the conversation is due for a reset from the earlier
deadline on. The policies decide only; `amux.lifecycle.router` writes the boundary into the thread.

A thread that no message source belongs to is never reset, and neither is the local terminal unless
a policy for "local" says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, time, timedelta, tzinfo
from enum import StrEnum
from typing import Any, Final, Literal

import msgspec

from amux.errors import ValidationError
from amux.lifecycle.message_source import (
    ChatType,
    Platform,
    SessionSource,
    platform_name,
)
from amux.rollout.threads import ThreadSummary

ResetReason = Literal["daily", "idle"]

MAX_IDLE_MINUTES: Final = 52_560_000
"""A hundred years."""


class ResetMode(StrEnum):
    """When a conversation is reset: every day, after silence, whichever comes first, or never."""

    DAILY = "daily"
    IDLE = "idle"
    BOTH = "both"
    NONE = "none"


class ResetPolicy(msgspec.Struct, frozen=True):
    """One policy.

    `at_hour` is an hour of the local day and `idle_minutes` a time without messages. The user is
    told of a reset if `notify` is set and the platform is not among `notify_exclude_platforms`.
    Work that began `max_work_hours` ago or earlier does not hold a reset back. `timezone` is the
    IANA name of the zone of `at_hour`; None is the zone of the policy set or of the machine.

    Raises:
        ValidationError: A value is out of its range.
    """

    mode: str = ResetMode.BOTH
    at_hour: int = 4
    idle_minutes: int = 1440
    notify: bool = True
    notify_exclude_platforms: tuple[str, ...] = (
        Platform.API_SERVER.value,
        Platform.WEBHOOK.value,
    )
    max_work_hours: int = 24
    timezone: str | None = None

    def __post_init__(self) -> None:
        """Check the values."""
        try:
            mode = ResetMode(self.mode)
        except ValueError:
            raise ValidationError(
                f"`{self.mode}` is not a mode of a reset policy",
                fields=("mode",),
                hint=f"use {', '.join(ResetMode)}",
            ) from None
        _check_range("at_hour", self.at_hour, 0, 23)
        _check_range("idle_minutes", self.idle_minutes, 1, MAX_IDLE_MINUTES)
        _check_range("max_work_hours", self.max_work_hours, 0, MAX_IDLE_MINUTES)
        if self.timezone is not None:
            zone_of(self.timezone)
        excluded = tuple(platform_name(name) for name in self.notify_exclude_platforms)
        msgspec.structs.force_setattr(self, "mode", mode)
        msgspec.structs.force_setattr(self, "notify_exclude_platforms", excluded)

    def due(
        self,
        last_message_at: datetime,
        now: datetime | None = None,
        *,
        zone: tzinfo | None = None,
    ) -> ResetReason | None:
        """Return why a conversation is due for a reset; None if it is not.

        The reason is the deadline that came first. `now` is the current time by default. A message
        exactly at the hour belongs to the new day. `zone` is used if the policy has no zone.
        """
        moment = datetime.now(UTC) if now is None else now
        deadlines = self.deadlines(last_message_at, zone=zone)
        if not deadlines or _aware("now", moment) < deadlines[0][0]:
            return None
        return deadlines[0][1]

    def deadlines(
        self, last_message_at: datetime, *, zone: tzinfo | None = None
    ) -> list[tuple[datetime, ResetReason]]:
        """Return the times from which a conversation is due, with their reasons, earliest first."""
        last = _aware("last_message_at", last_message_at)
        found: list[tuple[datetime, ResetReason]] = []
        if self.mode in {ResetMode.DAILY, ResetMode.BOTH}:
            own = zone if self.timezone is None else zone_of(self.timezone)
            found.append((next_hour(last, self.at_hour, own), "daily"))
        if self.mode in {ResetMode.IDLE, ResetMode.BOTH}:
            found.append((last + timedelta(minutes=self.idle_minutes), "idle"))
        return sorted(found)

    def notifies(self, platform: str) -> bool:
        """Return whether the users of a platform are told of a reset."""
        return self.notify and platform_name(platform) not in self.notify_exclude_platforms


def _check_range(name: str, value: object, lowest: int, highest: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not lowest <= value <= highest:
        raise ValidationError(
            f"`{name}` must be a whole number from {lowest} to {highest}, not `{value!r}`",
            fields=(name,),
        )


def _aware(name: str, moment: datetime) -> datetime:
    """Return a moment in UTC; raise `ValidationError` if it has no zone."""
    if moment.tzinfo is None:
        raise ValidationError(
            f"`{name}` must have a time zone",
            fields=(name,),
            hint="use datetime.now(UTC), or astimezone() for a local time",
        )
    return moment.astimezone(UTC)


def zone_of(name: str) -> tzinfo:
    """Return the zone with an IANA name; raise `ValidationError` if there is none."""
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError) as error:
        raise ValidationError(
            f"there is no time zone `{name}`", fields=("timezone",), hint="use a name such as UTC"
        ) from error


def next_hour(after: datetime, hour: int, zone: tzinfo | None) -> datetime:
    """Return the first time after a moment at which an hour of the local day begins, in UTC.

    An hour that the clocks skip begins at the end of the gap. An hour that occurs twice counts when
    it occurs first. Without a zone the local time of the machine decides.
    """
    today = after.astimezone(zone).date()
    # the hour of the next day may be over already where clocks are set back across midnight
    days = (today, today + timedelta(days=1), today + timedelta(days=2))
    hours = (datetime.combine(day, time(hour), tzinfo=zone).astimezone(UTC) for day in days)
    return min(each for each in hours if each > after)


class ResetOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to the question whether a conversation is to be reset.

    `reason` is the deadline that passed; with `deferred` work is active and the reset waits.
    `notice` is a text for the user; None if the user is not to be told.
    """

    reset: bool = False
    reason: ResetReason | None = None
    deferred: bool = False
    notice: str | None = None
    source: SessionSource | None = None
    thread_id: str | None = None
    last_message_at: datetime | None = None
    at: datetime | None = None


class ResetPolicySet:
    """Policies by platform and by type of chat. The platform comes before the type."""

    def __init__(
        self,
        default: ResetPolicy | None = None,
        by_platform: Mapping[str, ResetPolicy] | None = None,
        by_type: Mapping[str, ResetPolicy] | None = None,
        *,
        zone: tzinfo | str | None = None,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        """Make a set; `zone` is that of policies without one, and `now` is the clock."""
        given = {platform_name(name): each for name, each in (by_platform or {}).items()}
        self.default = ResetPolicy() if default is None else default
        self.by_platform = {Platform.LOCAL.value: ResetPolicy(mode=ResetMode.NONE), **given}
        self.by_type = {_type_name(name): each for name, each in (by_type or {}).items()}
        self.zone = zone_of(zone) if isinstance(zone, str) else zone
        self._now = now or (lambda: datetime.now(UTC))

    def policy_for(self, platform: str | None, chat_type: str | None = None) -> ResetPolicy:
        """Return the policy of a platform, else that of a type of chat, else the default."""
        own = None if platform is None else self.by_platform.get(platform_name(platform))
        if own is None and chat_type is not None:
            own = self.by_type.get(chat_type)
        return self.default if own is None else own

    def check(
        self,
        thread: ThreadSummary,
        source: SessionSource | None,
        *,
        now: datetime | None = None,
        notify: Callable[[ResetOutcome], Any] | None = None,
        working_since: datetime | None = None,
    ) -> ResetOutcome:
        """Return whether a thread is to be reset now; nothing is changed.

        `working_since` is the time at which work that is still active began; young work defers a
        reset. `notify` is called with the outcome if there is a reset that the user is told of. A
        thread without a source or without messages is never reset.
        """
        moment = self._now() if now is None else now
        last = thread.last_message_at
        if source is None or last is None:
            return ResetOutcome(thread_id=thread.thread_id, source=source, at=moment)
        policy = self.policy_for(source.platform, source.chat_type)
        reason = policy.due(last, moment, zone=self.zone)
        deferred = reason is not None and _holds_back(policy, working_since, moment)
        reset = reason is not None and not deferred
        tells = reset and policy.notifies(source.platform)
        outcome = ResetOutcome(
            reset=reset,
            reason=reason,
            deferred=deferred,
            notice=_notice(policy, reason) if tells else None,
            source=source,
            thread_id=thread.thread_id,
            last_message_at=last,
            at=moment,
        )
        if outcome.notice is not None and notify is not None:
            notify(outcome)
        return outcome


def _type_name(name: str) -> str:
    if name not in set(ChatType):
        raise ValidationError(
            f"`{name}` is not the type of a chat",
            fields=("by_type",),
            hint=f"use {', '.join(ChatType)}",
        )
    return str(name)


def _holds_back(policy: ResetPolicy, since: datetime | None, now: datetime) -> bool:
    """Return whether work that began at a time keeps a conversation from being reset."""
    if since is None:
        return False
    age = _aware("now", now) - _aware("working_since", since)
    return age < timedelta(hours=policy.max_work_hours)


def _notice(policy: ResetPolicy, reason: ResetReason | None) -> str:
    cause = f"at {policy.at_hour:02}:00"
    if reason == "idle":
        cause = f"after {_duration(policy.idle_minutes)} without a message"
    return (
        f"This conversation was reset {cause}. "
        "I no longer see the earlier messages; they can still be searched."
    )


def _duration(minutes: int) -> str:
    number, unit = (minutes // 60, "hour") if minutes % 60 == 0 else (minutes, "minute")
    return f"{number} {unit}" if number == 1 else f"{number} {unit}s"
