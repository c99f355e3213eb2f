"""Tokens in disjoint buckets, and `Call`: one billed model call, the only carrier of usage."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from amux.model.base import Model

Purpose = Literal["main", "subagent", "compaction", "auxiliary"]

NANO = 1_000_000_000
"""Money is counted in integer nano-USD: one USD is this many."""


class Tokens(Model, frozen=True, kw_only=True):
    """Billed tokens. The buckets do not overlap, except that

    `thinking` is the part of `output` that was reasoning (None: not recorded) and
    `cache_write_1h` the part of `cache_write` kept for an hour (the rest: five minutes).
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
        """All billed tokens, each once."""
        return self.input + self.cache_read + self.cache_write + self.output


class Call(Model, frozen=True, kw_only=True):
    """One billed model call, or the finest total the agent records.

    `key` is equal in every copy of the call (resume copies, forks, replays) among related sessions
    and differs between any two calls that were billed apart.
    """

    key: str
    model: str | None = None
    at: datetime | None = None
    tokens: Tokens = Tokens()
    native_nusd: int | None = None  # what the agent itself recorded for this call
    purpose: Purpose = "main"
    message_id: str | None = None  # the id of the SessionMessage it produced
    copied: bool = False  # the disk itself marks this record as a copy from another session
    repeats: int = 0  # how many further records of the same call were ignored
    gaps: tuple[str, ...] = ()  # why the figures are a lower bound; empty = exact
