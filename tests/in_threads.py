"""Runs functions in many threads that start together, and fails if one of them never ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Barrier, Thread
from typing import TypeVar

T = TypeVar("T")

PATIENCE_S = 120.0
"""Longer than any of this takes on a slow machine: who is not back by then never will be."""


def in_thread(ask: Callable[[], T]) -> T:
    """Ask from a thread of its own; what it raises is raised here."""
    return at_once([ask])[0]


def at_once(asked: Sequence[Callable[[], T]]) -> list[T]:
    """Ask each from a thread of its own, all at the same moment; the answers in order."""
    start = Barrier(len(asked))
    answers: dict[int, T] = {}
    errors: list[Exception] = []

    def work(number: int, ask: Callable[[], T]) -> None:
        start.wait(PATIENCE_S)
        try:
            answers[number] = ask()
        except Exception as error:  # noqa: BLE001 - raised again by who asked
            errors.append(error)

    threads = [
        Thread(target=work, args=(number, ask), daemon=True) for number, ask in enumerate(asked)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), "a thread waits for ever"
    if errors:
        raise errors[0]
    return [answers[number] for number in range(len(asked))]
