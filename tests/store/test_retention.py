"""Limits per namespace, and the erasure of one user's data, on every backend."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from amux.errors import ValidationError
from amux.rollout.records import NewRecord
from amux.store.session_store import SessionStore

START = datetime(2026, 3, 1, tzinfo=UTC)
SECRET = "zanzibar-7319"
USER = "ann-4f1c"


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now

    def pass_days(self, days: float) -> None:
        self.now += timedelta(days=days)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "files", "postgres"])
def address(request: pytest.FixtureRequest, store_folder: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("store_url"))
    return "memory:" if request.param == "memory" else str(store_folder)


@pytest.fixture
def store(address: str, clock: Clock) -> Iterator[SessionStore]:
    with SessionStore(address, now=clock) as opened:
        yield opened


def start(store: SessionStore, namespace: str, *key: str, **meta: Any) -> str:
    thread = store.start(cwd="", namespace=namespace, key=key or None, source=namespace, **meta)
    thread.message("user", f"hello from {namespace}")
    return thread.thread_id


def left(store: SessionStore) -> set[str]:
    return {each.thread_id for each in store.list(archived=None, limit=None)}


def test_threads_expire_after_the_days_of_their_namespace(
    store: SessionStore, clock: Clock
) -> None:
    old, other = start(store, "chats", "1"), start(store, "notes", "1")
    clock.pass_days(31)
    young = start(store, "chats", "2")
    store.set_retention("chats", 30)
    assert [each.thread_id for each in store.prune(dry_run=True).threads] == [old]
    assert left(store) == {old, other, young}
    assert store.prune().deleted == 1
    assert left(store) == {other, young}


def test_a_write_without_a_message_keeps_a_thread(store: SessionStore, clock: Clock) -> None:
    thread_id = start(store, "chats", "1")
    store.set_retention("chats", 30)
    clock.pass_days(29)
    store.log.append(thread_id, [NewRecord(type="event_msg", payload={"type": "note"})])
    clock.pass_days(29)
    assert store.prune().deleted == 0
    clock.pass_days(2)
    assert store.prune().deleted == 1


def test_a_running_turn_keeps_a_thread(store: SessionStore, clock: Clock) -> None:
    thread_id = start(store, "chats", "1")
    store.set_retention("chats", 30)
    clock.pass_days(31)
    lease = store.log.acquire_lease(thread_id, "test", seconds=3600)
    assert store.prune().deleted == 0
    store.log.release_lease(lease)
    assert store.prune().deleted == 1


def test_relatives_of_a_thread_in_use_are_kept(store: SessionStore, clock: Clock) -> None:
    main = start(store, "chats", "app", "ann", "1")
    helper = start(store, "chats", "app", "ann", "1", "sub", kind="subagent", parent=main)
    state = start(store, "chats", "app", "ann")
    gone = start(store, "chats", "app", "bob", "1")
    store.set_retention("chats", 30)
    clock.pass_days(29)
    store.thread(main).message("user", "still here")
    clock.pass_days(29)
    assert [each.thread_id for each in store.prune().threads] == [gone]
    assert left(store) == {main, helper, state}


def test_limits_are_part_of_the_store(address: str, store: SessionStore) -> None:
    store.set_retention("chats", 30)
    store.set_retention("a/b ü", 0.5)
    assert store.retention() == {"chats": 30, "a/b ü": 0.5}
    if address != "memory:":
        with SessionStore(address) as again:
            assert again.retention() == {"chats": 30, "a/b ü": 0.5}
    store.set_retention("chats", None)
    assert store.retention() == {"a/b ü": 0.5}


@pytest.mark.parametrize("days", [0, -1, 36_501, float("nan"), float("inf")])
def test_a_limit_is_a_number_of_days(store: SessionStore, days: float) -> None:
    with pytest.raises(ValidationError):
        store.set_retention("chats", days)
    assert store.retention() == {}


def test_prune_of_one_source_leaves_others_alone(store: SessionStore, clock: Clock) -> None:
    start(store, "chats", "1")
    store.set_retention("chats", 30)
    clock.pass_days(31)
    assert store.prune(source="notes").deleted == 0
    assert store.prune(source="chats").deleted == 1


def fill(store: SessionStore) -> tuple[set[str], set[str]]:
    """Store data of two users; return the threads of the one to erase, and the others."""
    blob = store.log.put_blob(f"{SECRET} image {USER}".encode() * 1000)
    shared = store.log.put_blob(b"a picture of both" * 1000)
    own = store.start(cwd="", namespace="chats", user_id=USER, title=f"About {SECRET}")
    own.append(NewRecord(payload={"role": "user", "content": SECRET}, blobs=(blob, shared)))
    by_key = store.start(cwd="", namespace="adk", key=("app", USER, "s1"))
    by_key.message("user", f"my word is {SECRET}")
    fork = store.fork(own.thread_id)
    helper = store.start(cwd="", kind="subagent", parent=by_key.thread_id)
    helper.message("assistant", f"looking for {SECRET}")
    other = store.start(cwd="", namespace="chats", user_id="bob", key=("app", "bob"))
    other.append(NewRecord(payload={"role": "user", "content": "mine"}, blobs=(shared,)))
    store.log.put_value(("snapshots", USER, "1"), SECRET.encode())
    store.log.put_value(("snapshots", "bob", "1"), b"of bob")
    assert store.search("zanzibar")  # the index has read everything
    gone = {each.thread_id for each in (own, by_key, fork, helper)}
    return gone, {other.thread_id}


def test_everything_of_a_user_is_erased_and_nothing_of_others(store: SessionStore) -> None:
    gone, kept = fill(store)
    plan = store.erase_user(USER, dry_run=True)
    assert {each.thread_id for each in plan.threads} == gone
    assert left(store) == gone | kept
    report = store.erase_user(USER)
    assert {each.thread_id for each in report.threads} == gone
    assert report.values == (("snapshots", USER, "1"),)
    assert report.blobs == 1
    assert left(store) == kept
    assert store.search("zanzibar") == []
    assert store.log.list_values() == [("snapshots", "bob", "1")]
    (other,) = kept
    (shared,) = next(iter(store.log.read_back(other))).blobs
    assert store.log.get_blob(shared)


def traces_in_files(folder: Path) -> list[str]:
    words = [SECRET.encode(), USER.encode(), b"zanzibar"]
    return [
        path.name
        for path in folder.rglob("*")
        if path.is_file()
        and (any(word in path.read_bytes() for word in words) or USER in path.name)
    ]


def test_no_file_of_a_store_holds_a_word_of_an_erased_user(
    store_folder: Path, clock: Clock
) -> None:
    with SessionStore(store_folder, now=clock) as store:
        gone, _ = fill(store)
        damaged = next(iter(gone))
        store.log.sync(damaged)
        path = next((store_folder / "sessions").glob(f"*{damaged}.jsonl"))
        with path.open("ab") as file:
            file.write(b'{"torn": "' + SECRET.encode() + b'\n{"x"}\n')
        store.repair(damaged)  # puts the original aside
        assert traces_in_files(store_folder)
        store.erase_user(USER)
        assert traces_in_files(store_folder) == []
    assert traces_in_files(store_folder) == []
    with sqlite3.connect(store_folder / "state.db") as database:
        assert SECRET not in "\n".join(database.iterdump())


def test_no_table_of_a_database_holds_a_word_of_an_erased_user(
    store_url: str, clock: Clock
) -> None:
    with SessionStore(store_url, now=clock) as store:
        fill(store)
        store.erase_user(USER)
    url, _, schema = (
        store_url.partition("?schema=")
        if "?schema=" in store_url
        else (store_url.partition("&schema="))
    )
    with psycopg.connect(url) as connection:
        tables = [
            row[0]
            for row in connection.execute(
                "SELECT table_name FROM information_schema.tables WHERE table_schema = %s",
                (schema,),
            )
        ]
        assert len(tables) > 5
        for table in tables:
            query = sql.SQL("SELECT t::text FROM {} t").format(sql.Identifier(schema, table))
            text = "\n".join(row[0] for row in connection.execute(query))
            assert SECRET not in text
            assert USER not in text
            assert SECRET.encode().hex() not in text  # bytes are shown as hexadecimal digits


def test_an_empty_user_erases_nothing(store: SessionStore) -> None:
    gone, kept = fill(store)
    with pytest.raises(ValidationError):
        store.erase_user(" ")
    assert left(store) == gone | kept
