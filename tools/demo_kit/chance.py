"""Ids, times and token counts that look accidental and are the same in every run."""

from __future__ import annotations

import string
from datetime import datetime, timedelta
from hashlib import blake2b
from uuid import UUID

from demo_kit.ledger import Usage

_LETTERS = string.digits + string.ascii_letters
_CACHE_BLOCK = 128


def number(seed: str, low: int, high: int) -> int:
    """A number from low to high that belongs to the seed."""
    return low + int.from_bytes(blake2b(seed.encode(), digest_size=8).digest()) % (high - low + 1)


def letters(seed: str, count: int) -> str:
    """Letters and digits, as in the ids of model providers."""
    digest = blake2b(seed.encode(), digest_size=count).digest()
    return "".join(_LETTERS[byte % len(_LETTERS)] for byte in digest)


def hexadecimal(seed: str, count: int) -> str:
    """Hexadecimal digits, as in commits."""
    return blake2b(seed.encode(), digest_size=count // 2 + 1).hexdigest()[:count]


def random_uuid(seed: str) -> str:
    """A UUID of version 4."""
    return str(UUID(bytes=blake2b(seed.encode(), digest_size=16).digest(), version=4))


def timed_uuid(seed: str, at: datetime) -> str:
    """A UUID of version 7: its first half is the time."""
    rest = int.from_bytes(blake2b(seed.encode(), digest_size=10).digest())
    value = round(at.timestamp() * 1000) << 80 | rest
    value = value & ~(0xF << 76) | 0x7 << 76
    return str(UUID(int=value & ~(0x3 << 62) | 0x2 << 62))


def iso(at: datetime) -> str:
    """A time as JavaScript writes it."""
    return at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03d}Z"


class Clock:
    """The time within a session. Everything that happens makes it go on."""

    def __init__(self, seed: str, start: datetime) -> None:
        self.now = start
        self._seed = seed
        self._ticks = 0

    def tick(self, seconds: float = 0.0) -> datetime:
        """Let some seconds and an accidental fraction of one pass."""
        self._ticks += 1
        fraction = timedelta(milliseconds=number(f"{self._seed}/tick{self._ticks}", 11, 240))
        self.now += timedelta(seconds=seconds) + fraction
        return self.now

    def skip(self, length: timedelta) -> None:
        """Let a long time pass."""
        self.now += length


def count_tokens(text: str) -> int:
    """About as many tokens as a model would count."""
    return len(text.encode()) * 2 // 7 + 1 if text else 0


class Meter:
    """What each call is billed, from the growth of the conversation.

    Every call sends the whole conversation again: nearly all of it comes from the provider's cache.
    """

    def __init__(self, seed: str, *, instructions: int, writes_cache: bool) -> None:
        self._seed = seed
        self._instructions = instructions
        self._writes_cache = writes_cache
        self._context = instructions
        self._cached = instructions * 9 // 10  # other sessions have sent them before
        self._calls = 0

    def hear(self, text: str) -> None:
        """Something for the model to read was added: a prompt, the output of a tool."""
        self._context += count_tokens(text) + 6

    def cool_down(self) -> None:
        """After a long pause nothing is cached any more."""
        self._cached = 0

    def shrink(self, summary: str) -> None:
        """The conversation was replaced by a summary."""
        self._context = self._instructions + count_tokens(summary)
        self._cached = self._instructions

    def bill(self, said: str, thinking: str) -> Usage:
        """The usage of the next call, which says and thinks this."""
        self._calls += 1
        thought = count_tokens(thinking) * 7  # what is shown is a summary
        output = count_tokens(said) + thought + number(f"{self._seed}/out{self._calls}", 40, 310)
        usage = self._split(self._cached, output, thought)
        self._cached = self._context
        self._context += output
        return usage

    def _split(self, warm: int, output: int, thought: int) -> Usage:
        if self._writes_cache:
            fresh = number(f"{self._seed}/in{self._calls}", 3, 11)
            return Usage(fresh, warm, max(0, self._context - warm - fresh), output, thought)
        read = warm // _CACHE_BLOCK * _CACHE_BLOCK
        return Usage(self._context - read, read, 0, output, thought)
