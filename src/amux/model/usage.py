"""`Tokens`, billed tokens by kind, and `Call`, one billed model call. Only calls carry usage."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Literal

import msgspec

from amux.model.base import Model

Purpose = Literal["main", "subagent", "compaction", "auxiliary", "warm-up"]

NANO = 1_000_000_000
"""The number of nano-USD in one USD. Money is counted in integer nano-USD."""


NO_MODEL = "(calls that name no model)"
"""The group of calls in a report whose model is not recorded. It is not the name of a model."""

NO_CALLS = "(sessions without calls)"
"""The group of sessions in a report by model that called no model."""

_PLACEHOLDERS = frozenset({"", "unknown", "none", "null", "undefined", "n/a"})


def named_model(model: str | None) -> str | None:
    """Return the recorded name of a model; None for a placeholder that agents write instead."""
    return None if model is None or model.strip().lower() in _PLACEHOLDERS else model


class Tokens(Model, frozen=True, kw_only=True):
    """Billed tokens. The counts do not overlap, with two exceptions.

    `thinking` is the part of `output` that was reasoning (None: not recorded), and
    `cache_write_1h` is the part of `cache_write` cached for an hour (the rest: five minutes).
    """

    input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write_1h: int = msgspec.field(default=0, name="cacheWrite1h")  # not ...1H
    output: int = 0
    thinking: int | None = None

    def __add__(self, other: Tokens) -> Tokens:
        thinking = (
            None
            if self.thinking is None and other.thinking is None
            else (self.thinking or 0) + (other.thinking or 0)
        )
        return Tokens(
            input=self.input + other.input,
            cache_read=self.cache_read + other.cache_read,
            cache_write=self.cache_write + other.cache_write,
            cache_write_1h=self.cache_write_1h + other.cache_write_1h,
            output=self.output + other.output,
            thinking=thinking,
        )

    @property
    def total(self) -> int:
        """Return the sum of all billed tokens."""
        return self.input + self.cache_read + self.cache_write + self.output


class Call(Model, frozen=True, kw_only=True):
    """One billed model call, or the finest total the agent records.

    `key` is equal in all copies of the call (resume copies, forks, replays) in related sessions and
    differs between any two calls that were billed separately.
    """

    key: str
    model: str | None = None
    at: datetime | None = None
    tokens: Tokens = Tokens()
    native_nusd: int | None = None  # the cost that the agent itself recorded
    purpose: Purpose = "main"
    message_id: str | None = None  # the id of the SessionMessage it produced
    copied: bool = False  # the agent recorded this call as a copy from another session
    repeats: int = 0  # the number of further records of this call that were ignored
    gaps: tuple[str, ...] = ()  # why the figures are not exact; empty if they are


def sum_tokens(calls: Iterable[Call]) -> Tokens:
    """Return the tokens of all calls; `sum` would build a `Tokens` for each of many calls."""
    used = read = written = written_1h = output = 0
    thinking: int | None = None
    for call in calls:
        tokens = call.tokens
        used += tokens.input
        read += tokens.cache_read
        written += tokens.cache_write
        written_1h += tokens.cache_write_1h
        output += tokens.output
        if tokens.thinking is not None:
            thinking = (thinking or 0) + tokens.thinking
    return Tokens(
        input=used,
        cache_read=read,
        cache_write=written,
        cache_write_1h=written_1h,
        output=output,
        thinking=thinking,
    )
