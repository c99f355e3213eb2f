"""The work of the file backend, counted: it must not grow with what is already stored."""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter
from collections.abc import Generator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from string import digits
from types import FrameType
from typing import Any
from unittest.mock import patch

import pytest
from counted_bytes import counted_bytes

from amux.errors import ConflictError
from amux.rollout.records import NewRecord
from amux.store.file_log.index import ThreadIndex
from amux.store.file_log.log import FileLog
from amux.store.session_store import SessionStore
from amux.store.turns import TurnContext

pytestmark = pytest.mark.no_cover  # measuring makes system calls of its own

_CALLS = (
    "open", "close", "read", "pread", "write", "pwrite", "stat", "fstat", "lstat", "listdir",
    "scandir", "fsync", "fdatasync", "unlink", "rename", "replace", "ftruncate", "mkdir",
)  # fmt: skip


@contextmanager
def counted_calls(folder: Path) -> Generator[Counter[str]]:
    """Count the system calls of the body on the store, and the rollouts that it opens.

    Calls of other threads, and those that name files outside the store, are made by tools that
    observe the test, not by the body.
    """
    calls: Counter[str] = Counter()
    with ExitStack() as patched:
        for name in _CALLS:
            patched.enter_context(patch.object(os, name, _counting(name, calls, folder)))
        yield calls


def _counting(name: str, calls: Counter[str], folder: Path) -> Any:
    original, thread = getattr(os, name), threading.get_ident()

    def counted(*arguments: Any, **named: Any) -> Any:
        file = str(arguments[0])  # a path, or the number of an open file
        if threading.get_ident() == thread and file.startswith((str(folder), *digits)):
            calls[name] += 1
            if name == "open" and file.startswith(str(folder / "sessions")):
                calls["open a rollout"] += 1
        return original(*arguments, **named)

    return counted


def filled(store: SessionStore, threads: int) -> list[str]:
    """Create threads of two messages; return their ids."""
    ids: list[str] = []
    for number in range(threads):
        thread = store.start(cwd="/project")
        thread.message("user", f"question {number}")
        thread.message("assistant", f"answer {number}")
        ids.append(thread.thread_id)
    return ids


@pytest.mark.parametrize("fsync", ["never", "always"])
def test_an_append_makes_as_many_system_calls_in_a_long_thread_as_in_a_short_one(
    store_folder: Path, fsync: Any
) -> None:
    with closing(SessionStore(store_folder, fsync=fsync)) as store:
        thread = store.start(cwd="/project")
        os.utime(store_folder / "transactions", (0, 0))  # a new directory is looked at again
        thread.message("user", "first")
        with counted_calls(store_folder) as short:
            thread.message("user", "second")
        thread.append_all([NewRecord(payload={"n": number}) for number in range(20_000)])
        with counted_calls(store_folder) as long, counted_bytes() as read:
            thread.message("user", "last")
    assert long == short
    assert short["write"] == 1
    assert short["fdatasync"] == (fsync == "always")
    assert short.total() <= 8
    assert read() == 0


def test_a_new_thread_makes_as_many_system_calls_in_a_large_store_as_in_a_small_one(
    store_folder: Path,
) -> None:
    with closing(SessionStore(store_folder)) as store:
        filled(store, 2)
        with counted_calls(store_folder) as small:
            store.start(cwd="/project")
        filled(store, 300)
        with counted_calls(store_folder) as large:
            store.start(cwd="/project")
    assert large == small
    assert "scandir" not in small
    assert "listdir" not in small


def test_a_thread_of_another_process_is_found_before_its_id_is_used_again(
    store_folder: Path,
) -> None:
    with (
        closing(SessionStore(store_folder)) as store,
        closing(SessionStore(store_folder)) as other,
    ):
        filled(store, 2)
        (theirs,) = filled(other, 1)
        meta = other.log.meta(theirs)
        with pytest.raises(ConflictError, match="exists"):
            store.log.create(meta)
        assert len(store.list()) == 3


def test_a_repeated_list_opens_no_rollout_and_looks_at_no_file(store_folder: Path) -> None:
    index = ThreadIndex(store_folder / "state.db", clock=lambda: 0.0)
    with closing(SessionStore(FileLog(store_folder, index=index))) as store:
        filled(store, 200)
        first = store.list()
        with counted_calls(store_folder) as calls:
            again = store.list()
    assert again == first
    assert calls["open a rollout"] == 0
    assert calls["stat"] <= 1


def test_a_list_after_one_append_opens_that_rollout_alone(store_folder: Path) -> None:
    with closing(SessionStore(store_folder)) as store:
        ids = filled(store, 200)
        store.list()
        store.resume(ids[7]).message("user", "news")
        store.list()
        store.resume(ids[8])
        with counted_calls(store_folder) as calls:
            store.list()
    assert calls["open a rollout"] <= 1


def test_the_last_two_items_of_a_long_thread_cost_less_than_a_hundredth_of_its_file(
    store_folder: Path,
) -> None:
    with closing(SessionStore(store_folder, fsync="never")) as store:
        thread = store.start(cwd="/project")
        for start in range(0, 50_000, 5_000):
            thread.append_all(
                [
                    NewRecord(payload={"role": "user", "content": f"message {number}"})
                    for number in range(start, start + 5_000)
                ]
            )
        with counted_bytes() as read:
            latest = thread.tail(2)
        size = thread.path.stat().st_size
    assert [record.payload["content"] for record in latest] == ["message 49998", "message 49999"]
    assert 0 < read() < size / 100


def test_a_long_thread_is_resumed_without_decoding_it(store_folder: Path) -> None:
    """Neither the index nor more than the first and the last lines are needed."""
    with closing(SessionStore(store_folder, fsync="never")) as store:
        thread = store.start(cwd="/project", model="opus")
        thread.set_register("state", {"step": 1})
        with thread.begin_turn(TurnContext(cwd="/elsewhere")) as turn:
            turn.message("user", "first")
        for number in range(1_000):
            with thread.begin_turn() as turn:
                turn.message("user", f"question {number}")
                turn.message("assistant", f"answer {number}")
    records = 4_000
    with closing(SessionStore(store_folder)) as store:
        with counted_functions() as resuming:
            thread = store.resume(thread.thread_id)
        with counted_functions() as reading:
            register, environment = thread.register("state"), thread.environment
        with counted_functions() as turning:
            thread.begin_turn().end()
    assert register == {"step": 1}
    assert (environment.cwd, environment.model) == ("/elsewhere", "opus")
    assert not (store_folder / "state.db").exists()
    for calls in (resuming, reading, turning):
        assert 0 < calls.total() < 2 * records  # decoding them all takes ten calls for each


@contextmanager
def counted_functions() -> Generator[Counter[str]]:
    """Count the calls of functions in the body."""
    calls: Counter[str] = Counter()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event in {"call", "c_call"}:
            calls[frame.f_code.co_name] += 1

    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(None)


def test_a_search_after_one_append_reads_only_what_was_appended(store_folder: Path) -> None:
    with closing(SessionStore(store_folder)) as store:
        thread = store.start(cwd="/project")
        thread.append_all(
            [
                NewRecord(payload={"role": "user", "content": f"message {number}"})
                for number in range(5_000)
            ]
        )
        assert store.search("4711")
        size = thread.path.stat().st_size
        thread.message("user", "needle")
        appended = thread.path.stat().st_size - size
        with rollout_bytes(thread.path) as read:
            assert store.search("needle")
    assert read[0] <= appended + 1024  # the bytes at the edges of what is known
    assert read[0] >= appended


@contextmanager
def rollout_bytes(path: Path) -> Generator[list[int]]:
    """Count the bytes that the body reads from a file, not those of the index."""
    original, total = os.pread, [0]

    def pread(descriptor: int, *arguments: Any) -> bytes:
        data = original(descriptor, *arguments)
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            total[0] += len(data)
        return data

    with patch.object(os, "pread", pread):
        yield total
