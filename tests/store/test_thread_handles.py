"""Threads at their edges: turns that end, compactions under way, forks, moves to other stores."""

from __future__ import annotations

import json
import os
import re
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from amux.client import create_client
from amux.rollout import control
from amux.rollout.log import Lease
from amux.rollout.records import NewRecord, PayloadText
from amux.store.file_log.session_index import SqliteSessionIndex
from amux.store.memory import MemoryLog
from amux.store.session_store import SessionStore
from amux.store.thread import ThreadHandle
from amux.store.turns import TurnContext


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = datetime(2026, 3, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


# turns


class Watched(MemoryLog):
    """A log that notes the last record at the moment when a lease is given back."""

    last: Any = None

    def release_lease(self, lease: Lease) -> bool:
        self.last = next(self.read_back(lease.thread_id)).payload["type"]
        return super().release_lease(lease)


def test_the_end_of_a_turn_is_recorded_before_another_turn_can_begin() -> None:
    log = Watched()
    thread = SessionStore(log).start(cwd="/")
    thread.begin_turn().end()
    assert log.last == "turn_ended"
    thread.begin_turn().interrupt()
    assert log.last == "turn_interrupted"


@pytest.mark.parametrize("backend", ["memory:", "file"])
def test_a_turn_goes_on_after_the_machine_has_slept(store_folder: Path, backend: str) -> None:
    clock = Clock()
    store = SessionStore(store_folder if backend == "file" else backend, now=clock)
    thread = store.start(cwd="/")
    with thread.begin_turn() as turn:
        clock.now += timedelta(hours=8)  # the lease expired, and nobody wanted it
        turn.message("user", "good morning")
        clock.now -= timedelta(hours=20)
        turn.message("user", "the clock was wrong")
    assert [each["content"] for each in thread.conversation()] == [
        "good morning",
        "the clock was wrong",
    ]
    kinds = [record.payload["type"] for record in thread.items(raw=True) if record.seq > 1]
    assert kinds == ["turn_started", "message", "message", "turn_ended"]


def test_a_turn_that_another_took_over_does_not_end_it() -> None:
    clock = Clock()
    store = SessionStore("memory:", now=clock)
    thread = store.start(cwd="/")
    lost = thread.begin_turn()
    clock.now += timedelta(minutes=5)
    taken = store.resume(thread.thread_id).begin_turn()
    lost.end()
    assert taken.is_running
    taken.message("user", "mine")
    taken.end()
    ended = [
        record.payload["turn_id"]
        for record in thread.items(raw=True)
        if record.payload.get("type") == "turn_ended"
    ]
    assert ended == [taken.turn_id]


# order


@pytest.mark.parametrize("backend", ["memory:", "file"])
def test_a_clock_that_steps_back_changes_no_order(store_folder: Path, backend: str) -> None:
    clock = Clock()
    base = store_folder if backend == "file" else backend
    store = SessionStore(base, now=clock)
    thread = store.start(cwd="/")
    for number in range(6):
        clock.now += timedelta(hours=1 if number % 2 else -30)
        thread.message("user", str(number))
    expected = [str(number) for number in range(6)]
    assert [each["content"] for each in thread.conversation()] == expected
    assert [record.payload["content"] for record in thread.tail(3)] == expected[3:]
    followed = thread.follow(after=1)
    assert [next(followed).payload["content"] for _ in range(6)] == expected
    if backend == "file":
        again = SessionStore(base, now=clock)
        again.rebuild_index()
        assert [each["content"] for each in again.resume(thread.thread_id).conversation()] == (
            expected
        )
        client = create_client(home=store_folder, env={"AMUX_STORE": str(base)})
        session = client.sessions.get("amux", thread.thread_id)
        assert [message.content for message in session.messages] == expected


# compaction


def test_a_message_that_arrives_while_a_summary_is_made_stays() -> None:
    store = SessionStore("memory:")
    thread = store.start(cwd="/")
    thread.message("user", "old")

    def summarize(messages: list[dict[str, Any]]) -> str:
        store.resume(thread.thread_id).message("user", "while it was made")
        return f"{len(messages)} messages"

    thread.compact(summarize, keep_turns=0)
    contents = [each["content"] for each in thread.conversation()]
    assert contents == ["<summary>\n1 messages\n</summary>", "while it was made"]


def _with_gaps(store: SessionStore) -> ThreadHandle:
    """Return a compacted thread in whose numbers there are gaps."""
    thread = store.start(cwd="/")
    for number in range(4):
        wrong = thread.message("user", f"wrong {number}")
        thread.rewind(wrong)
        thread.message("user", f"question {number}")
        thread.message("assistant", f"answer {number}")
    store.vacuum(thread.thread_id)
    thread.compact("a summary", keep_turns=2)
    thread.message("user", "last")
    return thread


@pytest.mark.parametrize("way", ["pack", "jsonl", "documents", "fork"])
def test_a_compacted_thread_with_gaps_is_equal_in_another_store(tmp_path: Path, way: str) -> None:
    here, there = SessionStore(tmp_path / "here"), SessionStore(tmp_path / "there")
    thread = _with_gaps(here)
    expected = thread.conversation()
    assert [each["content"] for each in expected[1:]] == [
        "question 2",
        "answer 2",
        "question 3",
        "answer 3",
        "last",
    ]
    if way == "pack":
        moved: Any = there.unpack(here.pack(thread.thread_id, tmp_path / "thread.zip"))
    elif way == "jsonl":
        there.import_lines(here.export(thread.thread_id).encode().splitlines(keepends=True))
        moved = there.open(thread.thread_id)
    elif way == "documents":
        there.import_(here.export_all())
        moved = there.open(thread.thread_id)
    else:
        moved = here.fork(thread.thread_id)
    assert moved.conversation() == expected


# forks


def test_a_fork_continues_in_the_environment_of_its_origin() -> None:
    store = SessionStore("memory:")
    thread = store.start(
        cwd="/a",
        model="m",
        approval_mode="ask",
        sandbox_policy={"mode": "read-only"},
        user_id="ann",
        model_provider="p",
        git_sha="0123",
        git_branch="main",
        agent_role="reviewer",
        base_instructions="obey",
    )
    with thread.begin_turn(TurnContext(cwd="/b", approval_mode="never", effort="high")) as turn:
        turn.message("user", "hello")
    fork = store.fork(thread.thread_id)
    assert fork.environment == thread.environment
    inherited = ("user_id", "agent_role", "base_instructions", "source", "agent", "namespace")
    for name in inherited:
        assert getattr(fork.meta, name) == getattr(thread.meta, name)
    assert [each.thread_id for each in store.list(user_id="ann", kind="fork")] == [fork.thread_id]
    other = store.fork(thread.thread_id, user_id="bob", model="n")
    assert (other.meta.user_id, other.environment.model) == ("bob", "n")


def test_copies_in_a_fork_are_no_calls_whose_usage_is_unknown(tmp_path: Path) -> None:
    with closing(SessionStore(tmp_path / "store")) as store:
        thread = store.start(cwd="/", model="claude-sonnet-4-5")
        thread.message("user", "question")
        thread.message("assistant", "an answer without usage")
        fork = store.fork(thread.thread_id)
        fork.message("assistant", "its own", usage={"input_tokens": 10, "output_tokens": 5})
    client = create_client(home=tmp_path, env={"AMUX_STORE": str(tmp_path / "store")})
    cost = client.sessions.get("amux", fork.thread_id).cost
    assert cost is not None
    assert cost.incomplete == ()
    assert client.sessions.total_cost(agent="amux").incomplete == ("usage-not-recorded",)


# syncing


def test_the_end_of_the_first_turn_makes_the_name_of_the_file_durable(store_folder: Path) -> None:
    """A file whose directory was not synced is gone after a power loss."""
    synced: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        real(descriptor)

    with patch.object(os, "fsync", fsync), patch.object(os, "fdatasync", fsync):
        thread = SessionStore(store_folder).start(cwd="/")
        with thread.begin_turn() as turn:
            turn.message("user", "hello")
        assert {str(thread.path), str(thread.path.parent)} <= set(synced)
        synced.clear()
        thread.begin_turn().end()
        assert synced == [str(thread.path)]


# records


def test_records_written_together_with_a_register_are_found_with_it(store_folder: Path) -> None:
    store = SessionStore(store_folder)
    thread = store.start(cwd="/")
    for number in range(300):
        thread.append_all([control.register("n", number), NewRecord(payload={"text": "x" * 1000})])
    thread.message("user", "x" * 200_000)
    assert SessionStore(store_folder).open(thread.thread_id).register("n") == 299


def test_the_page_about_the_format_names_everything_that_is_written(store_folder: Path) -> None:
    store = SessionStore(store_folder)
    thread = store.start(cwd="/", model="m", title="T", namespace="n", key=("k",), anything=1)
    first = thread.message("user", "one")
    with thread.begin_turn(TurnContext(cwd="/b", effort="high", extra={"a": 1})) as turn:
        turn.message("assistant", "two", usage={"input_tokens": 1})
        thread.enqueue("later")
    thread.begin_turn().interrupt()
    thread.correct(first, content="1")
    thread.set_register("r", 1)
    thread.set_tags(["t"])
    thread.set_title(None)
    thread.rewind(thread.message("user", "wrong"))
    thread.undo()
    thread.hide([first])
    thread.set_head(first)
    thread.compact({"summary": "s", "usage": {}, "cost_usd": 0.1, "model": "m"}, keep_turns=0)
    thread.clear()
    thread.append(NewRecord(payload=PayloadText("NaN"), blobs=(store.log.put_blob(b"x"),)))
    thread.end()
    store.resume(thread.thread_id)
    fork = store.fork(thread.thread_id)
    store.vacuum(thread.thread_id)
    page = (Path(__file__).parents[2] / "docs/internals/rollout-format.md").read_text()
    named = set(re.findall(r"`(\w+)`", page))
    for path in (thread.path, fork.path):
        for raw in path.read_bytes().splitlines():
            line = json.loads(raw)
            assert line.keys() <= named
            payload = line.get("payload")
            if line["type"] != "response_item" and payload is not None:
                assert payload.keys() <= named
                assert payload.get("type") in {None, *named}


def test_a_store_takes_an_index_of_its_caller(tmp_path: Path) -> None:
    index = SqliteSessionIndex(tmp_path / "elsewhere.db")
    store = SessionStore(tmp_path / "store", index=index)
    thread = store.start(cwd="/", title="T")
    assert [each.title for each in store.list()] == ["T"]
    found = index.find_thread(thread.thread_id)
    assert found is not None
    assert found.title == "T"
    assert (tmp_path / "elsewhere.db").exists()
    assert not (tmp_path / "store" / "state.db").exists()
