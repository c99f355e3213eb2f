"""The views of a thread hold for replaced, hidden and compacted records together."""

from __future__ import annotations

import pytest

from amux.rollout import control
from amux.rollout.records import NewRecord
from amux.store.memory import MemoryLog
from amux.store.session_store import SessionStore
from amux.store.thread import ThreadHandle


@pytest.fixture
def store() -> SessionStore:
    return SessionStore(MemoryLog())


@pytest.fixture
def thread(store: SessionStore) -> ThreadHandle:
    return store.start(cwd="/w")


def _said(thread: ThreadHandle) -> list[str]:
    return [message["content"] for message in thread.conversation()]


def _message(content: str, id: str | None = None) -> NewRecord:
    return NewRecord(payload={"type": "message", "role": "user", "content": content}, id=id)


def test_hiding_the_first_kept_record_leaves_the_other_kept_ones(thread: ThreadHandle) -> None:
    for content in "abcd":
        thread.append_all([_message(content, content)])
    thread.compact("S", first_kept="b")
    assert _said(thread)[1:] == ["b", "c", "d"]
    thread.hide(["b"])
    assert _said(thread)[1:] == ["c", "d"]


def test_replacing_the_first_kept_record_leaves_the_other_kept_ones(thread: ThreadHandle) -> None:
    for content in "abcd":
        thread.append_all([_message(content, content)])
    thread.compact("S", first_kept="b")
    thread.append_all([_message("B", "b")], repeat="replace")
    assert _said(thread)[1:] == ["c", "d", "B"]


def test_a_compaction_that_names_only_a_missing_id_keeps_what_follows(thread: ThreadHandle) -> None:
    thread.message("user", "a")
    payload = {"summary": "S", "first_kept_id": "gone"}
    thread.append(NewRecord(type="compacted", payload=payload))
    thread.message("user", "b")
    assert _said(thread)[1:] == ["b"]


def test_a_replaced_record_is_not_found_when_its_replacement_is_rewound(
    store: SessionStore, thread: ThreadHandle
) -> None:
    thread.append_all([_message("apple", "k")])
    thread.append_all([_message("banana", "k")], repeat="replace")
    new = thread.tail(1)[0]
    thread.append(control.hide_from(new))
    assert store.search("apple") == []
    assert store.search("apple", include_inactive=True) == []


def test_a_record_hidden_twice_is_found_only_if_both_leave_it_searchable(
    store: SessionStore, thread: ThreadHandle
) -> None:
    thread.append_all([_message("apple", "k")])
    thread.hide(["k"])
    thread.hide(["k"], searchable=True)
    assert store.search("apple") == []
