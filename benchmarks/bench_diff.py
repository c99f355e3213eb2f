"""Measure the comparison of two sessions: `python benchmarks/bench_diff.py [messages]`.

The cases are the hard ones for an alignment: nothing in common, endless repetition, a shuffled
copy, and two sessions that share every other message.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Sequence

from amux.model.message import SessionMessage
from amux.sessions.diff import diff_messages


def conversation(texts: Sequence[str]) -> list[SessionMessage]:
    return [
        SessionMessage(role="assistant" if index % 2 else "user", content=text)
        for index, text in enumerate(texts)
    ]


def cases(size: int) -> dict[str, tuple[list[str], list[str]]]:
    generator = random.Random(1)
    numbered = [f"message {index}" for index in range(size)]
    return {
        "identical": (numbered, numbered),
        "nothing in common": (numbered, [f"other {index}" for index in range(size)]),
        "two texts repeated": (
            generator.choices(["yes", "no"], k=size),
            generator.choices(["yes", "no"], k=size),
        ),
        "shuffled": (numbered, generator.sample(numbered, k=size)),
        "every other one edited": (
            numbered,
            [text if index % 2 else f"{text}, edited" for index, text in enumerate(numbered)],
        ),
    }


def main() -> None:
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000
    for name, (a, b) in cases(size).items():
        left, right = conversation(a), conversation(b)
        start = time.perf_counter()
        operations = diff_messages(left, right)
        seconds = time.perf_counter() - start
        print(f"{seconds:8.3f} s  {size:,} x {size:,}  {len(operations):,} operations  {name}")


if __name__ == "__main__":
    main()
