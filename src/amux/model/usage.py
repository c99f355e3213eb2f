"""`Tokens`, billed tokens by kind, and `Call`, one billed model call. Only calls carry usage."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from amux.model.base import Model

Purpose = Literal["main", "subagent", "compaction", "auxiliary"]

NANO = 1_000_000_000
"""The number of nano-USD in one USD. Money is counted in integer nano-USD."""


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
    gaps: tuple[str, ...] = ()  # why the figures are a lower bound; empty = exact
