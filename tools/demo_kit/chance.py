"""Ids, times and token counts that look random and are equal in every run."""

from __future__ import annotations

import string
from datetime import datetime, timedelta
from hashlib import blake2b
from uuid import UUID

from demo_kit.ledger import Usage

_LETTERS = string.digits + string.ascii_letters
_CACHE_BLOCK = 128


def number(seed: str, low: int, high: int) -> int:
    """Return a number from low to high that is derived from the seed."""
    return low + int.from_bytes(blake2b(seed.encode(), digest_size=8).digest()) % (high - low + 1)


def letters(seed: str, count: int) -> str:
    """Return letters and digits, as in the ids of model providers."""
    digest = blake2b(seed.encode(), digest_size=count).digest()
    return "".join(_LETTERS[byte % len(_LETTERS)] for byte in digest)


def hexadecimal(seed: str, count: int) -> str:
    """Return hexadecimal digits, as in commits."""
    return blake2b(seed.encode(), digest_size=count // 2 + 1).hexdigest()[:count]


def random_uuid(seed: str) -> str:
    """Return a UUID of version 4."""
    return str(UUID(bytes=blake2b(seed.encode(), digest_size=16).digest(), version=4))


def timed_uuid(seed: str, at: datetime) -> str:
    """Return a UUID of version 7, whose first half is the time."""
    rest = int.from_bytes(blake2b(seed.encode(), digest_size=10).digest())
    value = round(at.timestamp() * 1000) << 80 | rest
    value = value & ~(0xF << 76) | 0x7 << 76
    return str(UUID(int=value & ~(0x3 << 62) | 0x2 << 62))


def iso(at: datetime) -> str:
    """Return a time as JavaScript writes it."""
    return at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03d}Z"


class Clock:
    """The time within a session. Every event advances it."""

    def __init__(self, seed: str, start: datetime) -> None:
        self.now = start
        self._seed = seed
        self._ticks = 0

    def tick(self, seconds: float = 0.0) -> datetime:
        """Advance the time by some seconds and a random fraction."""
        self._ticks += 1
        fraction = timedelta(milliseconds=number(f"{self._seed}/tick{self._ticks}", 11, 240))
        self.now += timedelta(seconds=seconds) + fraction
        return self.now

    def skip(self, length: timedelta) -> None:
        """Advance the time by a long pause."""
        self.now += length


def count_tokens(text: str) -> int:
    """Return about as many tokens as a model would count."""
    return len(text.encode()) * 2 // 7 + 1 if text else 0


class Meter:
    """Computes the usage of each call from the growth of the conversation.

    Every call sends the whole conversation again: nearly all of it comes from the provider's cache.
    """

    def __init__(self, seed: str, *, instructions: int, writes_cache: bool) -> None:
        self._seed = seed
        self._instructions = instructions
        self._writes_cache = writes_cache
        self._context = instructions
        self._cached = instructions * 9 // 10  # cached by earlier sessions
        self._calls = 0

    def hear(self, text: str) -> None:
        """Add input for the model: a prompt or the output of a tool."""
        self._context += count_tokens(text) + 6

    def cool_down(self) -> None:
        """Clear the cache, as after a long pause."""
        self._cached = 0

    def shrink(self, summary: str) -> None:
        """Replace the conversation by a summary."""
        self._context = self._instructions + count_tokens(summary)
        self._cached = self._instructions

    def bill(self, said: str, thinking: str) -> Usage:
        """Return the usage of the next call, given its text and thinking."""
        self._calls += 1
        thought = count_tokens(thinking) * 7  # the recorded thinking is a summary
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
