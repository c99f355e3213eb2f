"""The work that `bench_store.py` gives to every store. Only the standard library is used here.

The stores of other projects run it in environments of their own: see `store_peers.py`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from statistics import median, quantiles
from typing import Final

APPENDS: Final = 5_000
THREADS: Final = 10_000
MESSAGES: Final = 10
EDGE: Final = 500
"""So many of the first and of the last appends are compared."""

_REPEATS: Final = 7
_SYLLABLES: Final = (
    ("al", "be", "cor", "du", "em", "fa", "gon"),
    ("ra", "ti", "no", "ve", "lu"),
    ("n", "s", "rk", "t", "m", "l"),
)
_WORDS: Final = tuple(
    first + second + third
    for first in _SYLLABLES[0]
    for second in _SYLLABLES[1]
    for third in _SYLLABLES[2]
)
QUERIES: Final = {
    "rare word": "needle777",
    "common word": "alran",
    "two words": "alran bevet",
    "phrase": '"alran bevet"',
    "prefix": "need*",
}


def texts(count: int, seed: int = 1) -> Iterator[tuple[str, str]]:
    """Yield roles and texts of about 280 characters, always the same."""
    generator = random.Random(seed)
    for number in range(count):
        yield "assistant" if number % 2 else "user", " ".join(generator.choices(_WORDS, k=40))


def conversation(number: int) -> Iterator[tuple[str, str]]:
    """Yield the messages of one thread of the large store; one of them has a word of its own."""
    for place, (role, text) in enumerate(texts(MESSAGES, seed=number)):
        yield role, f"{text} needle{number}" if place == 3 else text


def time_appends(append: Callable[[str, str], object]) -> dict[str, float]:
    """Append messages one by one; return milliseconds of one append."""
    times: list[float] = []
    for role, text in texts(APPENDS):
        start = time.perf_counter()
        append(role, text)
        times.append((time.perf_counter() - start) * 1000)
    return {
        "append, median": median(times),
        "append, p95": quantiles(times, n=20)[-1],
        "append, first 500": median(times[:EDGE]),
        "append, last 500": median(times[-EDGE:]),
    }


def time_answers(question: Callable[[], Sequence[object]], least: int = 1) -> float:
    """Ask several times; return the median in milliseconds. The first answer is not counted."""
    if len(question()) < least:
        msg = "a store does not find what was put into it"
        raise SystemExit(msg)
    times: list[float] = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        question()
        times.append((time.perf_counter() - start) * 1000)
    return median(times)
