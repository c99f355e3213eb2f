"""Counts of resumes: shared by all processes, and never in the way of a resume."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from amux.errors import ConflictError, StoreError
from amux.store.memory import MemoryLog
from amux.store.resume_counts import (
    ResumeCounts,
    ResumeOutcome,
    count_resume,
    read_resume_counts,
)
from amux.store.session_store import SessionStore

OUTCOMES: tuple[ResumeOutcome, ...] = (
    "complete",
    "partial",
    "undecided",
    "failed",
    "cleared_soon",
)
KEY = ("amux", "resume-counts")


def test_nothing_is_counted_at_first(store: SessionStore) -> None:
    counts = read_resume_counts(store.log)
    assert counts == ResumeCounts()
    assert (counts.attempts, counts.success_rate) == (0, None)
    assert store.log.list_values() == []


def test_each_outcome_has_its_count(store: SessionStore) -> None:
    for times, outcome in enumerate(OUTCOMES, 1):
        for _ in range(times):
            count_resume(store.log, outcome)
    counts = read_resume_counts(store.log)
    assert counts == ResumeCounts(complete=1, partial=2, undecided=3, failed=4, cleared_soon=5)
    assert (counts.attempts, counts.success_rate) == (10, 0.1)
    assert store.stats().resumes == counts


def test_counting_at_the_same_moment_loses_nothing(store: SessionStore) -> None:
    start = threading.Barrier(4)

    def count() -> None:
        start.wait()
        for _ in range(5):
            count_resume(store.log, "complete")

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read_resume_counts(store.log) == ResumeCounts(complete=20)


@pytest.mark.parametrize("data", [b"garbage", b'{"complete": "many"}', b""])
def test_a_damaged_value_counts_from_zero(data: bytes) -> None:
    log = MemoryLog()
    log.put_value(KEY, data)
    assert read_resume_counts(log) == ResumeCounts()
    count_resume(log, "partial")
    assert read_resume_counts(log) == ResumeCounts(partial=1)


class Refusing(MemoryLog):
    """A log that refuses to store values."""

    def __init__(self, error: StoreError) -> None:
        super().__init__()
        self.error = error
        self.tries = 0

    def put_value(self, *_: Any, **__: Any) -> Any:
        self.tries += 1
        raise self.error


def test_a_store_that_cannot_be_written_counts_nothing() -> None:
    log = Refusing(StoreError("read only"))
    count_resume(log, "complete")
    assert log.tries == 1


def test_counting_gives_up_when_others_are_always_faster() -> None:
    log = Refusing(ConflictError("too late"))
    count_resume(log, "complete")
    assert log.tries == 20
