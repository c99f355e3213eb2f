"""The router: from a message to its thread on every backend, with resets, and back to the chat."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from child_processes import child_env
from clocks import START, Clock
from drawn import drawn
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import amux
from amux.errors import ConflictError, StoreError, ValidationError
from amux.lifecycle.context_prompt import HomeChannel, SessionContext
from amux.lifecycle.identity_forms import IdentityForms
from amux.lifecycle.lifecycle import Lifecycle
from amux.lifecycle.message_source import SessionSource
from amux.lifecycle.redaction import RedactionDecision, Redactor
from amux.lifecycle.reset import ResetOutcome, ResetPolicy, ResetPolicySet
from amux.lifecycle.router import OutboundMessage, SourceRouter, source_fields, source_in
from amux.rollout import control
from amux.rollout.log import Appended, StoredValue
from amux.store.memory import MemoryLog
from amux.store.session_store import SessionStore

SECRET = b"0123456789abcdef"
HERE = Path(__file__).parent
TELEGRAM = SessionSource("telegram", "42", user_id="42", user_name="Ann")
PHONE, UUID = "+4915112345678", "0b7e7dee-8f3c-4f0a-9a55-1f2f6b8d9a10"

Route = Callable[..., SourceRouter]


@pytest.fixture
def router(store: SessionStore, clock: Clock) -> SourceRouter:
    """Return a router that resets after an hour of silence."""
    return new_router(store, clock)


def new_router(store: SessionStore, clock: Clock, **options: Any) -> SourceRouter:
    policy = ResetPolicy(mode="idle", idle_minutes=60)
    given_options: dict[str, Any] = {"reset": policy, "redactor": Redactor(SECRET, store=store)}
    return SourceRouter(store, now=clock, **{**given_options, **options})


def texts(thread: Any) -> list[str]:
    return [message["content"] for message in thread.conversation()]


def events(store: SessionStore, thread_id: str) -> list[tuple[str, Any]]:
    """The control records of a thread: kind, and the reason or the run."""
    found = (control.event_of(record) for record in store.log.read(thread_id))
    return [(each[0], each[1].get("reason") or each[1].get("session_id")) for each in found if each]


# Finding and starting


def test_a_chat_has_one_thread_that_knows_its_source(store: SessionStore, clock: Clock) -> None:
    router = new_router(store, clock, cwd="/home/ann", model="opus", profile="work")
    thread = router.route(TELEGRAM)
    assert thread.meta.cwd == "/home/ann"
    assert thread.meta.model == "opus"
    assert thread.meta.source == "telegram"
    assert thread.meta.namespace == "chat"
    assert thread.meta.key == ("agent:work:telegram:dm:42",)
    assert thread.meta.user_id == "42"
    assert source_in(thread) == TELEGRAM
    thread.message("user", "hello")
    again = router.route(TELEGRAM)
    assert again.thread_id == thread.thread_id
    assert again.run_session_id == thread.run_session_id == thread.meta.session_id
    assert texts(again) == ["hello"]
    assert router.find(TELEGRAM) == thread.thread_id
    assert len(store.list()) == 1


def test_a_thread_starts_without_a_model_and_directory_by_default(
    store: SessionStore, router: SourceRouter
) -> None:
    meta = router.route(TELEGRAM).meta
    assert (meta.cwd, meta.model, meta.key) == ("", None, ("agent:main:telegram:dm:42",))


def test_nothing_is_found_before_the_first_message(
    store: SessionStore, router: SourceRouter
) -> None:
    assert router.find(TELEGRAM) is None
    assert router.search("x", TELEGRAM) == []
    assert store.list() == []


def test_after_a_restart_the_thread_is_found_and_a_new_run_begins(
    store: SessionStore, clock: Clock
) -> None:
    first = new_router(store, clock).route(TELEGRAM)
    first.message("user", "hello")
    later = new_router(store, clock)
    second = later.route(TELEGRAM)
    assert second.thread_id == first.thread_id
    assert second.run_session_id != first.run_session_id
    assert later.route(TELEGRAM).run_session_id == second.run_session_id
    assert events(store, first.thread_id) == [("session_resumed", second.run_session_id)]
    assert later.source_of(first.thread_id) == TELEGRAM


@pytest.mark.parametrize(
    ("options", "shared"),
    [
        ({}, False),
        ({"group_sessions_per_user": False}, True),
    ],
)
def test_members_of_a_group_have_their_own_threads_unless_they_share(
    store: SessionStore, clock: Clock, options: dict[str, bool], shared: bool
) -> None:
    router = new_router(store, clock, **options)
    ann = SessionSource("slack", "C1", chat_type="group", user_id="U1", user_name="Ann")
    bob = SessionSource("slack", "C1", chat_type="group", user_id="U2", user_name="Bob")
    one, two = router.route(ann), router.route(bob)
    assert (one.thread_id == two.thread_id) is shared
    assert one.meta.user_id == (None if shared else "U1")
    assert router.context(bob).is_shared is shared
    assert router.source_of(two.thread_id) == (ann if shared else bob)


def test_threads_of_a_platform_are_shared_unless_it_is_set_otherwise(
    store: SessionStore, clock: Clock
) -> None:
    ann = SessionSource("slack", "C1", chat_type="group", user_id="U1", thread_id="9")
    bob = SessionSource("slack", "C1", chat_type="group", user_id="U2", thread_id="9")
    router = new_router(store, clock)
    assert router.route(ann).thread_id == router.route(bob).thread_id
    assert router.key(ann) == "agent:main:slack:group:C1:thread=9"
    apart = new_router(store, clock, thread_sessions_per_user=True)
    assert apart.route(ann).thread_id != apart.route(bob).thread_id
    assert apart.key(ann) == "agent:main:slack:group:C1:thread=9:user=U1"


def test_profiles_do_not_share_threads(store: SessionStore, clock: Clock) -> None:
    one, two = new_router(store, clock), new_router(store, clock, profile="x")
    assert one.route(TELEGRAM).thread_id != two.route(TELEGRAM).thread_id


def test_a_source_without_ids_is_not_routed(store: SessionStore, router: SourceRouter) -> None:
    with pytest.raises(ValidationError):
        router.route(SessionSource("telegram"))
    assert store.list() == []


def test_ids_with_colons_and_line_breaks_have_threads_of_their_own(router: SourceRouter) -> None:
    ids = ["a:b", "a\nb", "a%3Ab", "a", "x" * 5000, "x" * 5001, "é" * 3000]
    found = {router.route(SessionSource("matrix", id)).thread_id for id in ids}
    assert len(found) == len(ids)


def test_a_message_brings_an_archived_thread_back(
    store: SessionStore, router: SourceRouter
) -> None:
    thread = router.route(TELEGRAM)
    thread.message("user", "hello")
    store.archive(thread.thread_id)
    again = router.route(TELEGRAM)
    assert again.thread_id == thread.thread_id
    assert not again.summary.archived
    again.message("user", "there")
    assert texts(again) == ["hello", "there"]


def test_a_message_opens_a_thread_that_was_ended(store: SessionStore, router: SourceRouter) -> None:
    thread = router.route(TELEGRAM)
    thread.message("user", "hello")
    thread.end()
    assert thread.summary.ended_at is not None
    again = router.route(TELEGRAM)
    assert again.run_session_id != thread.run_session_id
    assert again.summary.ended_at is None
    assert texts(again) == ["hello"]
    assert router.route(TELEGRAM).run_session_id == again.run_session_id


def test_the_latest_names_of_a_chat_are_kept(store: SessionStore, clock: Clock) -> None:
    router = new_router(store, clock)
    thread = router.route(SessionSource("telegram", "42", chat_name="Old", chat_topic="t"))
    router.route(SessionSource("telegram", "42", chat_name="New", user_id="7", is_bot=True))
    expected = SessionSource(
        "telegram", "42", chat_name="New", chat_topic="t", user_id="7", is_bot=True
    )
    assert router.source_of(thread.thread_id) == expected
    assert new_router(store, clock).source_of(thread.thread_id) == expected
    assert source_in(thread) == SessionSource("telegram", "42", chat_name="Old", chat_topic="t")


def test_a_plain_thread_has_no_source(store: SessionStore, router: SourceRouter) -> None:
    assert router.source_of(store.start(cwd="/").thread_id) is None


def test_the_source_is_written_only_when_it_changes() -> None:
    with SessionStore("memory:") as store:
        router = SourceRouter(store)
        for _ in range(3):
            router.route(TELEGRAM)
        assert store.log.list_values() == []
        known = SessionSource("telegram", "42", user_id="42", user_name="Anna")
        router.route(known)
        [key] = store.log.list_values(("chat-source",))
        written = store.log.get_value(key)
        router.route(known)
        router.route(SessionSource("telegram", "42"))
        assert store.log.get_value(key) == written


# Processes


def run_together(address: str, words: list[list[str]]) -> list[list[list[str]]]:
    """Start a process for each list of words, let them route at once, return their lines."""
    children = [
        subprocess.Popen(
            [sys.executable, str(HERE / "routing_process.py"), address, *each],
            env=child_env(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for each in words
    ]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
    printed = [child.communicate(timeout=120)[0] for child in children]
    assert [child.returncode for child in children] == [0] * len(children)
    return [[line.split() for line in each.splitlines()] for each in printed]


@pytest.mark.parametrize("backend", ["file", "postgres"])
def test_processes_that_route_the_first_message_together_have_one_thread(
    backend: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    address: str = str(tmp_path / "store")
    if backend == "postgres":
        address = request.getfixturevalue("store_url")
        with SessionStore(address) as store:
            store.list()  # creates the tables
    words = [[f"w{child}x{number}" for number in range(3)] for child in range(4)]
    printed = run_together(address, words)
    threads = {line[0] for each in printed for line in each}
    runs = [{line[1] for line in each} for each in printed]
    assert len(threads) == 1
    assert [len(each) for each in runs] == [1] * 4
    assert len(set[str]().union(*runs)) == 4
    with SessionStore(address) as store:
        assert [each.thread_id for each in store.list()] == list(threads)
        said = texts(store.open(threads.pop()))
    assert sorted(said) == sorted(word for each in words for word in each)


def test_fifty_messages_of_five_new_chats_at_once_have_five_threads(
    store: SessionStore, clock: Clock
) -> None:
    router = new_router(store, clock)
    chats = [SessionSource("telegram", str(100 + number % 5)) for number in range(50)]
    together = threading.Barrier(len(chats))

    def route(number: int) -> str:
        together.wait(60)
        thread = router.route(chats[number])
        thread.message("user", f"word{number} of {chats[number].chat_id}")
        return thread.thread_id

    with ThreadPoolExecutor(len(chats)) as pool:
        found = list(pool.map(route, range(len(chats))))
    assert len(set(found)) == len(store.list()) == 5
    for chat in chats[:5]:
        thread_id = router.find(chat)
        assert thread_id is not None
        said = texts(store.open(thread_id))
        assert len(said) == 10
        assert {each.rpartition(" ")[2] for each in said} == {chat.chat_id}


RESETS_AND_DIES = """
import os, signal, sys
from datetime import UTC, datetime, timedelta
from amux import ResetPolicy, SessionSource, SessionStore, SourceRouter

store = SessionStore(sys.argv[1])
later = datetime.now(UTC) + timedelta(hours=2)
router = SourceRouter(store, reset=ResetPolicy("idle", idle_minutes=60), now=lambda: later)
router.route(SessionSource("telegram", "42"))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("backend", ["file", "postgres"])
def test_a_reset_is_durable_when_the_process_is_killed_before_the_message(
    backend: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    address: str = str(tmp_path / "store")
    if backend == "postgres":
        address = request.getfixturevalue("store_url")
    chat = SessionSource("telegram", "42")
    notices: list[ResetOutcome] = []
    with SessionStore(address) as store:
        first = SourceRouter(store).route(chat)
        first.message("user", "old")
        killed = subprocess.run(
            [sys.executable, "-c", RESETS_AND_DIES, address],
            env=child_env(HOME=str(tmp_path)),
            timeout=120,
            check=False,
        )
        assert killed.returncode == -signal.SIGKILL
        later = datetime.now(UTC) + timedelta(hours=3)
        policy = ResetPolicy("idle", idle_minutes=60)
        router = SourceRouter(store, reset=policy, notify=notices.append, now=lambda: later)
        thread = router.route(chat)
        assert (thread.thread_id, texts(thread), notices) == (first.thread_id, [], [])
        thread.message("user", "new")
        assert texts(thread) == ["new"]
        assert [kind for kind, _ in events(store, thread.thread_id)].count("hide") == 1
        assert len(store.search("old")) == 1


class RacingLog(MemoryLog):
    """A backend in which another process is faster at the moment that a test chooses."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(now=clock)
        self.before_create: Callable[[], object] | None = None
        self.before_append: Callable[[], object] | None = None
        self.before_put: Callable[[], object] | None = None
        self.appends = 0

    def create(self, *arguments: Any, **options: Any) -> Any:
        hook, self.before_create = self.before_create, None
        if hook is not None:
            hook()
        return super().create(*arguments, **options)

    def append(self, *arguments: Any, **options: Any) -> Appended:
        self.appends += 1
        hook, self.before_append = self.before_append, None
        if hook is not None:
            hook()
        return super().append(*arguments, **options)

    def put_value(self, *arguments: Any, **options: Any) -> StoredValue:
        hook, self.before_put = self.before_put, None
        if hook is not None:
            hook()
        return super().put_value(*arguments, **options)


def test_a_thread_that_another_process_starts_in_between_is_taken(clock: Clock) -> None:
    log = RacingLog(clock)
    store = SessionStore(log, now=clock)
    other: list[str] = []
    log.before_create = lambda: other.append(new_router(store, clock).route(TELEGRAM).thread_id)
    assert [new_router(store, clock).route(TELEGRAM).thread_id] == other


def test_a_conflict_that_is_not_that_of_the_key_is_reported(clock: Clock) -> None:
    log = RacingLog(clock)

    def fail() -> None:
        raise ConflictError("no")

    log.before_create = fail
    with pytest.raises(ConflictError):
        new_router(SessionStore(log, now=clock), clock).route(TELEGRAM)


# Two ids of one member


def dm(**fields: Any) -> SessionSource:
    return SessionSource("signal", **fields)


BOTH: dict[str, Any] = {"user_id": PHONE, "user_id_alt": UUID}


@pytest.mark.parametrize(
    "sources",
    [
        # the first message has both forms
        [dm(chat_id=PHONE, **BOTH), dm(chat_id=PHONE, user_id=PHONE), dm(chat_id=UUID)],
        [dm(chat_id=UUID, **BOTH), dm(chat_id=PHONE), dm(user_id_alt=UUID), dm(user_id=PHONE)],
        [dm(**BOTH), dm(user_id=UUID), dm(user_id=PHONE), dm(user_id_alt=UUID)],
        [dm(chat_id=PHONE, chat_id_alt=UUID), dm(chat_id_alt=UUID), dm(user_id=UUID)],
        # the first message has one form, a later one has both
        [dm(chat_id=PHONE), dm(chat_id=PHONE, **BOTH), dm(chat_id=UUID), dm(user_id=UUID)],
        [dm(chat_id=UUID), dm(chat_id=PHONE, **BOTH), dm(chat_id=PHONE)],
        [dm(user_id=PHONE), dm(**BOTH), dm(user_id_alt=UUID)],
        [dm(user_id_alt=UUID), dm(**BOTH), dm(user_id=PHONE), dm(chat_id=PHONE)],
    ],
)
def test_either_id_of_a_member_of_signal_finds_the_one_thread(
    router: SourceRouter, sources: list[SessionSource]
) -> None:
    assert len({router.route(source).thread_id for source in sources}) == 1


def test_either_id_finds_the_thread_in_a_group_and_in_another_process(
    store: SessionStore, clock: Clock
) -> None:
    def group(**fields: Any) -> SessionSource:
        return SessionSource("signal", chat_type="group", **fields)

    first = new_router(store, clock).route(group(chat_id="g", user_id=PHONE))
    new_router(store, clock).route(group(chat_id="g", chat_id_alt="h", **BOTH))
    for fields in ({"chat_id": "h"}, {"chat_id_alt": "h"}, {"chat_id": "g"}):
        for user in ({"user_id": PHONE}, {"user_id": UUID}, {"user_id_alt": UUID}):
            found = new_router(store, clock).route(group(**fields, **user))
            assert found.thread_id == first.thread_id
    assert (
        new_router(store, clock).route(group(chat_id="g", user_id="x")).thread_id != first.thread_id
    )
    assert len(store.list()) == 2


def test_ids_are_linked_along_a_chain(router: SourceRouter) -> None:
    router.route(dm(user_id="a", user_id_alt="b"))
    router.route(dm(user_id="b", user_id_alt="c"))
    found = {router.route(dm(user_id=each)).thread_id for each in "abc"}
    assert len(found) == 1


def test_ids_of_any_length_and_content_are_linked(router: SourceRouter) -> None:
    long, odd = "x" * 9000, "a:b\n%/.."
    first = router.route(dm(user_id=long, user_id_alt=odd))
    for id in (long, odd):
        assert router.route(dm(user_id=id)).thread_id == first.thread_id
    assert router.route(dm(user_id="x" * 9001)).thread_id != first.thread_id


def test_the_ids_of_two_platforms_are_not_linked(router: SourceRouter) -> None:
    router.route(dm(user_id="a", user_id_alt="b"))
    one = router.route(SessionSource("feishu", user_id="a"))
    two = router.route(SessionSource("feishu", user_id="b"))
    assert one.thread_id != two.thread_id
    linked = router.route(SessionSource("feishu", user_id="a", user_id_alt="b"))
    assert linked.thread_id in {one.thread_id, two.thread_id}
    for source in (
        SessionSource("feishu", user_id="a"),
        SessionSource("feishu", user_id="b"),
        SessionSource("feishu", user_id_alt="a"),
    ):
        assert router.route(source).thread_id == linked.thread_id


def test_forms_are_linked_in_each_profile_for_itself(store: SessionStore, clock: Clock) -> None:
    first = new_router(store, clock).route(dm(chat_id=PHONE))
    other = new_router(store, clock, profile="x").route(dm(chat_id=PHONE, **BOTH))
    assert other.thread_id != first.thread_id
    assert new_router(store, clock, profile="x").route(dm(chat_id=UUID)).thread_id == (
        other.thread_id
    )


def test_a_shared_chat_does_not_continue_the_thread_of_one_member(
    store: SessionStore, clock: Clock
) -> None:
    ann = SessionSource("slack", "C1", chat_type="group", user_id="U1")
    own = new_router(store, clock).route(ann)
    shared = new_router(store, clock, group_sessions_per_user=False)
    assert shared.route(ann).thread_id != own.thread_id


def test_a_thread_with_the_key_of_a_chat_is_taken_although_it_has_no_source(
    store: SessionStore, router: SourceRouter
) -> None:
    thread = store.start(cwd="/", namespace="chat", key=("agent:main:telegram:dm:42",))
    assert router.route(TELEGRAM).thread_id == thread.thread_id
    assert router.source_of(thread.thread_id) == TELEGRAM


def test_what_the_store_remembers_of_forms_has_these_keys(router: SourceRouter) -> None:
    group = SessionSource("signal", "g", chat_type="group", chat_id_alt="h", **BOTH)
    router.route(group)
    log = router.store.log
    assert log.list_values() == sorted(
        [
            ("chat-forms", "signal", "chat", "g"),
            ("chat-forms", "signal", "chat", "h"),
            ("chat-forms", "signal", "user", PHONE),
            ("chat-forms", "signal", "user", UUID),
        ]
    )
    value = log.get_value(("chat-forms", "signal", "chat", "g"))
    assert value is not None
    assert value.data == b'["h"]'


def test_the_ids_of_a_chat_are_not_those_of_a_member_elsewhere(router: SourceRouter) -> None:
    member = router.route(SessionSource("telegram", user_id="5"))
    chat = router.route(SessionSource("telegram", "5"))
    assert member.thread_id != chat.thread_id
    router.route(SessionSource("telegram", "1", chat_type="group", user_id="5", user_id_alt="6"))
    six = router.route(SessionSource("telegram", "6"))
    assert six.thread_id not in {member.thread_id, chat.thread_id}
    on_signal = {router.route(dm(user_id="5")).thread_id, router.route(dm(chat_id="5")).thread_id}
    assert len(on_signal) == 1


def test_of_two_threads_the_one_with_the_latest_message_continues(
    store: SessionStore, clock: Clock
) -> None:
    router = new_router(store, clock, reset=ResetPolicy(mode="none"))
    old, new = router.route(dm(chat_id=PHONE)), router.route(dm(chat_id=UUID))
    assert old.thread_id != new.thread_id
    for thread, word in ((new, "by-uuid"), (old, "by-number")):
        clock.advance(minutes=1)
        thread.message("user", word)
    joined = router.route(dm(chat_id=PHONE, **BOTH))
    assert joined.thread_id == old.thread_id
    clock.advance(minutes=1)
    new.message("user", "a late answer of a running turn")
    again = new_router(store, clock, reset=ResetPolicy(mode="none"))
    for source in (dm(chat_id=UUID), dm(chat_id=PHONE), dm(user_id_alt=UUID)):
        assert again.route(source).thread_id == old.thread_id, "the choice stays"
    store.archive(new.thread_id)
    again.route(dm(chat_id=UUID))
    assert store.open(new.thread_id).summary.archived, "the other thread is not touched"
    assert texts(store.open(new.thread_id)) == ["by-uuid", "a late answer of a running turn"]
    assert [hit.thread_id for hit in store.search("by-uuid")] == [new.thread_id]


def test_two_routers_choose_the_same_of_two_threads(clock: Clock) -> None:
    log = RacingLog(clock)
    store = SessionStore(log, now=clock)
    router = new_router(store, clock)
    one, two = router.route(dm(chat_id=PHONE)), router.route(dm(chat_id=UUID))
    clock.advance(minutes=1)
    one.message("user", "x")
    router.route(SessionSource("signal", "g", chat_type="group", **BOTH))
    chosen: list[str] = []

    def other_process() -> None:
        clock.advance(minutes=1)
        two.message("user", "y")
        chosen.append(new_router(store, clock).route(dm(chat_id=PHONE)).thread_id)

    log.before_put = other_process
    assert router.route(dm(chat_id=PHONE)).thread_id == two.thread_id
    assert chosen == [two.thread_id]


def test_two_routers_may_link_ids_at_the_same_moment(clock: Clock) -> None:
    log = RacingLog(clock)
    store = SessionStore(log, now=clock)
    log.before_put = lambda: new_router(store, clock).route(dm(user_id="c", user_id_alt="b"))
    one = new_router(store, clock).route(dm(user_id="a", user_id_alt="b"))
    found = {new_router(store, clock).route(dm(user_id=each)).thread_id for each in "abc"}
    assert found == {one.thread_id}
    assert sorted(IdentityForms(log).of_user(dm(user_id="b"))) == ["a", "b", "c"]


def test_a_link_that_lost_a_race_is_made_again(clock: Clock) -> None:
    log = RacingLog(clock)
    forms = IdentityForms(log)
    log.before_put = lambda: forms.of_user(dm(user_id="c", user_id_alt="b"))
    forms.of_user(dm(user_id="a", user_id_alt="b"))
    assert sorted(forms.of_user(dm(user_id="b"))) == ["a", "b", "c"]


# Resets


def test_a_reset_begins_a_new_run_and_keeps_the_transcript(
    store: SessionStore, clock: Clock
) -> None:
    notices: list[ResetOutcome] = []
    router = new_router(store, clock, notify=notices.append)
    first = router.route(TELEGRAM)
    first.message("user", "the old zebra")
    first.set_register("plugin.notes", {"count": 3})
    clock.advance(minutes=59, seconds=59)
    assert texts(router.route(TELEGRAM)) == ["the old zebra"]
    clock.advance(seconds=1)
    second = router.route(TELEGRAM)
    assert second.thread_id == first.thread_id
    assert second.run_session_id != first.run_session_id
    assert texts(second) == []
    assert second.register("plugin.notes") == {"count": 3}, "plugin state is kept"
    assert events(store, first.thread_id)[-2:] == [
        ("hide", "idle reset"),
        ("session_resumed", second.run_session_id),
    ]
    *_, resumed = store.log.read(first.thread_id)
    assert resumed.payload["cli_version"] == amux.__version__
    second.message("user", "the new zebra")
    assert texts(second) == ["the new zebra"]
    raw = [
        record.payload["content"]
        for record in second.items(raw=True)
        if record.type == "response_item"
    ]
    assert raw == ["the old zebra", "the new zebra"], "the transcript stays readable"
    assert len(store.search("zebra")) == 2, "and searchable"
    assert len(router.search("old", TELEGRAM)) == 1
    [outcome] = notices
    assert (outcome.reset, outcome.reason, outcome.source) == (True, "idle", TELEGRAM)
    assert outcome.thread_id == first.thread_id
    assert (outcome.last_message_at, outcome.at) == (START, clock.time)
    assert router.route(TELEGRAM).run_session_id == second.run_session_id


def test_a_reset_survives_a_restart_and_is_not_repeated(store: SessionStore, clock: Clock) -> None:
    router = new_router(store, clock)
    router.route(TELEGRAM).message("user", "old")
    clock.advance(hours=2)
    router.route(TELEGRAM)  # and the process dies before it stores the message
    clock.advance(hours=2)
    notices: list[ResetOutcome] = []
    restarted = new_router(store, clock, notify=notices.append)
    thread = restarted.route(TELEGRAM)
    assert notices == []
    assert texts(thread) == []
    assert [kind for kind, _ in events(store, thread.thread_id)].count("hide") == 1
    thread.message("user", "new")
    assert texts(restarted.route(TELEGRAM)) == ["new"]
    clock.advance(hours=1)
    assert texts(restarted.route(TELEGRAM)) == []
    assert [outcome.reason for outcome in notices] == ["idle"]


class SyncedLog(MemoryLog):
    """A backend that notes which records were forced to the disk."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(now=clock)
        self.synced: list[str] = []

    def sync(self, thread_id: str) -> None:
        self.synced = [control.kind_of(record) for record in self.read(thread_id)]


def test_the_boundary_of_a_reset_is_forced_to_the_disk(clock: Clock) -> None:
    log = SyncedLog(clock)
    router = new_router(SessionStore(log, now=clock), clock)
    router.route(TELEGRAM).message("user", "old")
    assert log.synced == []
    clock.advance(hours=1)
    router.route(TELEGRAM)
    assert log.synced[-2:] == ["hide", "session_resumed"]


def test_the_reset_by_a_program_is_forced_to_the_disk(clock: Clock) -> None:
    log = SyncedLog(clock)
    sm = amux.framework(log, now=clock)
    session = sm.start_session(cwd="")
    session.message("user", "old")
    assert log.synced == []
    sm.reset_session(session)
    assert "hide" in log.synced
    assert log.synced[-1] == "session_resumed"


def test_an_empty_conversation_is_not_reset(store: SessionStore, clock: Clock) -> None:
    notices: list[ResetOutcome] = []
    router = new_router(store, clock, notify=notices.append)
    thread = router.route(TELEGRAM)
    clock.advance(days=9)
    router.route(TELEGRAM)
    thread.message("user", "x")
    thread.clear()
    clock.advance(days=9)
    router.route(TELEGRAM)
    assert notices == []
    assert events(store, thread.thread_id) == [("hide", "clear")]


def test_a_reset_and_a_compaction_are_independent(store: SessionStore, clock: Clock) -> None:
    router = new_router(store, clock)
    thread = router.route(TELEGRAM)
    for number in range(4):
        thread.message("user", f"question {number}")
        thread.message("assistant", f"answer {number}")
    thread.compact("the summary", keep_turns=1)
    assert texts(thread) == ["<summary>\nthe summary\n</summary>", "question 3", "answer 3"]
    assert texts(router.route(TELEGRAM)) == texts(thread), "tokens, not time"
    clock.advance(hours=1)
    assert texts(router.route(TELEGRAM)) == [], "a reset keeps no summary"
    thread.message("user", "afterwards")
    thread.compact("another summary", keep_turns=0)
    assert len(store.search("question")) == 4


def test_the_default_policies_reset_every_day_and_never_the_terminal(
    store: SessionStore, clock: Clock
) -> None:
    router = SourceRouter(store, now=clock)
    assert router.reset.default == ResetPolicy()
    local = SessionSource("local")
    for source in (TELEGRAM, local):
        router.route(source).message("user", "x")
    clock.advance(days=1)
    assert texts(router.route(TELEGRAM)) == []
    clock.advance(days=3653)
    assert texts(router.route(local)) == ["x"]


def test_the_time_is_that_of_the_machine_by_default() -> None:
    with SessionStore("memory:", now=lambda: datetime.now(UTC) - timedelta(days=3)) as store:
        router = SourceRouter(store)
        router.route(TELEGRAM).message("user", "three days ago")
        assert texts(router.route(TELEGRAM)) == []


def test_the_policies_of_a_set_apply(store: SessionStore, clock: Clock) -> None:
    policies = ResetPolicySet(
        ResetPolicy(mode="none"), {"slack": ResetPolicy(mode="idle", idle_minutes=240)}
    )
    router = new_router(store, clock, reset=policies)
    assert router.reset is policies
    slack = SessionSource("slack", "C1")
    for source in (TELEGRAM, slack):
        router.route(source).message("user", "x")
    clock.advance(hours=4)
    assert texts(router.route(slack)) == []
    assert texts(router.route(TELEGRAM)) == ["x"]


def test_a_daily_reset_follows_the_zone(store: SessionStore, clock: Clock) -> None:
    clock.time = datetime(2026, 3, 2, 2, 59, tzinfo=UTC)  # 3:59 in Berlin
    policies = ResetPolicySet(ResetPolicy(mode="daily"), zone="Europe/Berlin")
    notices: list[ResetOutcome] = []
    router = new_router(store, clock, reset=policies, notify=notices.append)
    router.route(TELEGRAM).message("user", "x")
    clock.advance(minutes=1)
    thread = router.route(TELEGRAM)
    assert texts(thread) == []
    assert [outcome.reason for outcome in notices] == ["daily"]
    assert ("hide", "daily reset") in events(store, thread.thread_id)


@pytest.mark.parametrize("platform", ["api_server", "webhook"])
def test_programs_are_not_told_of_a_reset(store: SessionStore, clock: Clock, platform: str) -> None:
    notices: list[ResetOutcome] = []
    router = new_router(store, clock, notify=notices.append)
    source = SessionSource(platform, "1")
    router.route(source).message("user", "x")
    clock.advance(hours=1)
    assert texts(router.route(source)) == []
    assert notices == []


def test_a_plain_thread_is_never_reset(store: SessionStore, clock: Clock) -> None:
    plain = store.start(cwd="/")
    plain.message("user", "x")
    router = new_router(store, clock)
    router.route(TELEGRAM).message("user", "y")
    clock.advance(days=3653)
    router.route(TELEGRAM)
    assert texts(store.open(plain.thread_id)) == ["x"]


def test_a_running_turn_defers_a_reset(store: SessionStore, clock: Clock) -> None:
    router = new_router(
        store, clock, reset=ResetPolicy(mode="idle", idle_minutes=60, max_work_hours=2)
    )
    thread = router.route(TELEGRAM)
    thread.message("user", "x")
    turn = thread.begin_turn()
    turn.message("assistant", "working")
    clock.advance(hours=1, minutes=59)
    store.log.break_lease(thread.thread_id)
    lease = store.log.acquire_lease(thread.thread_id, "me", seconds=99_999)
    assert texts(router.route(TELEGRAM)) == ["x", "working"]
    clock.advance(minutes=1)
    assert texts(router.route(TELEGRAM)) == [], "the turn is too old"
    thread.message("user", "again")
    clock.advance(hours=1)
    store.log.release_lease(lease)
    assert texts(router.route(TELEGRAM)) == [], "no turn is running"
    turn.interrupt()


def test_a_lease_without_a_turn_counts_from_now(store: SessionStore, clock: Clock) -> None:
    router = new_router(store, clock)
    thread = router.route(TELEGRAM)
    thread.message("user", "x")
    clock.advance(hours=9)
    store.log.acquire_lease(thread.thread_id, "me", seconds=60)
    assert texts(router.route(TELEGRAM)) == ["x"]


def test_active_work_of_the_caller_defers_a_reset(store: SessionStore, clock: Clock) -> None:
    work: dict[str, datetime] = {}
    router = new_router(store, clock, active_since=work.get)
    thread = router.route(TELEGRAM)
    thread.message("user", "x")
    work[thread.thread_id] = clock.time
    clock.advance(hours=23)
    assert texts(router.route(TELEGRAM)) == ["x"]
    work[thread.thread_id] = clock.time - timedelta(hours=24)
    assert texts(router.route(TELEGRAM)) == []
    thread.message("user", "y")
    clock.advance(hours=1)
    work.clear()
    assert texts(router.route(TELEGRAM)) == []


def test_the_latest_work_counts(store: SessionStore, clock: Clock) -> None:
    begun = clock.time

    def always(thread_id: str) -> datetime:
        return begun

    router = new_router(store, clock, active_since=always)
    thread = router.route(TELEGRAM)
    thread.message("user", "x")
    clock.advance(hours=48)
    store.log.acquire_lease(thread.thread_id, "me", seconds=60)
    assert texts(router.route(TELEGRAM)) == ["x"]


def test_observers_of_the_lifecycle_are_told_of_every_reset(
    store: SessionStore, clock: Clock
) -> None:
    lifecycle = Lifecycle(now=clock, plugins=False)
    seen: list[tuple[Any, ...]] = []
    lifecycle.observe(
        "session_reset",
        lambda notice: seen.append(
            (notice.session.meta.thread_id, notice.session.run_session_id, notice.details)
        ),
    )
    router = new_router(store, clock, lifecycle=lifecycle)
    source = SessionSource("webhook", "1")
    router.route(source).message("user", "x")
    assert seen == []
    clock.advance(hours=1)
    thread = router.route(source)
    assert seen == [(thread.thread_id, thread.run_session_id, {"reason": "idle"})]


def test_a_notice_that_fails_does_not_stop_the_message(
    store: SessionStore, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(outcome: ResetOutcome) -> None:
        raise RuntimeError("the platform is down")

    router = new_router(store, clock, notify=fail)
    router.route(TELEGRAM).message("user", "x")
    clock.advance(hours=1)
    assert texts(router.route(TELEGRAM)) == []
    [record] = caplog.records
    assert (record.name, record.levelname) == ("amux.lifecycle", "ERROR")
    assert record.getMessage() == "the notice of a reset could not be given"


def test_notices_go_to_the_log_by_default(
    store: SessionStore, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "amux.lifecycle")
    router = new_router(store, clock)
    thread = router.route(TELEGRAM)
    thread.message("user", "x")
    clock.advance(hours=1)
    router.route(TELEGRAM)
    [record] = caplog.records
    assert record.levelname == "INFO"
    assert record.getMessage() == (
        f"thread {thread.thread_id}: This conversation was reset after 1 hour without a message. "
        "I no longer see the earlier messages; they can still be searched."
    )


def test_a_message_that_arrives_during_the_check_prevents_the_reset(clock: Clock) -> None:
    log = RacingLog(clock)
    store = SessionStore(log, now=clock)
    notices: list[ResetOutcome] = []
    router = new_router(store, clock, notify=notices.append)
    thread = router.route(TELEGRAM)
    thread.message("user", "old")
    clock.advance(hours=1)
    log.before_append = lambda: thread.message("user", "just now")
    assert texts(router.route(TELEGRAM)) == ["old", "just now"]
    assert notices == []


def test_two_routers_reset_once(clock: Clock) -> None:
    log = RacingLog(clock)
    store = SessionStore(log, now=clock)
    notices: list[ResetOutcome] = []
    one = new_router(store, clock, notify=notices.append)
    two = new_router(store, clock, notify=notices.append)
    thread = one.route(TELEGRAM)
    thread.message("user", "old")
    clock.advance(hours=1)
    log.before_append = lambda: two.route(TELEGRAM)
    assert texts(one.route(TELEGRAM)) == []
    assert len(notices) == 1


def test_a_thread_that_is_written_all_the_time_is_not_reset(clock: Clock) -> None:
    log = RacingLog(clock)
    store = SessionStore(log, now=clock)
    router = new_router(store, clock)
    thread = router.route(TELEGRAM)
    thread.message("user", "old")
    clock.advance(hours=1)
    tries: list[int] = []

    def write() -> None:
        tries.append(1)
        thread.set_register("x", len(tries))  # no message, but another head
        log.before_append = write

    log.before_append = write
    assert texts(router.route(TELEGRAM)) == ["old"]
    assert len(tries) == 20


# Out again


def test_a_reply_goes_back_with_its_ids(store: SessionStore, clock: Clock) -> None:
    router = new_router(store, clock, redact_pii=True)
    source = SessionSource(
        "telegram", "-1001234567", chat_type="group", user_id="7654321", thread_id="9"
    )
    token = router.redactor.redact("7654321", source)
    foreign = router.redactor.token("user", "1", "signal")
    assert router.deliver(f"hi @{token} {foreign}", source) == OutboundMessage(
        platform="telegram",
        chat_id="-1001234567",
        text=f"hi @7654321 {foreign}",
        thread_id="9",
    )
    bare = SessionSource("signal", user_id_alt=UUID)
    assert router.deliver("hi", bare) == OutboundMessage(
        platform="signal", chat_id=UUID, text="hi", thread_id=None
    )


def test_the_prompt_and_the_messages_have_no_ids_when_redaction_applies(
    store: SessionStore, clock: Clock
) -> None:
    source = SessionSource("telegram", "-1001234567", chat_type="group", user_id="7654321")
    raw: list[dict[str, Any]] = [
        {"role": "user", "content": "I am 7654321, call +49 151 2345678"},
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "hello 7654321"}],
            "tool_calls": [
                {
                    "id": "7654321",
                    "name": "7654321",
                    "arguments": {"to": "7654321", "count": 7654321},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "7654321", "tool_name": "7654321", "content": None},
    ]
    router = new_router(store, clock, redact_pii=True)
    token = router.redactor.token("user", "7654321", "telegram")
    thread = router.route(source)
    for message in raw:
        thread.append({"type": "message", **message})
    assert router.conversation(thread, source) == [
        {"role": "user", "content": f"I am {token}, call [phone number]"},
        {
            "role": "assistant",
            "content": [{"type": "text", "text": f"hello {token}"}],
            "tool_calls": [
                {"id": "7654321", "name": "7654321", "arguments": {"to": token, "count": 7654321}}
            ],
        },
        {"role": "tool", "tool_call_id": "7654321", "tool_name": "7654321", "content": None},
    ]
    assert thread.conversation() == raw, "the thread keeps what was said"
    assert "7654321" not in router.context_prompt(source)
    plain = new_router(store, clock)
    assert plain.conversation(thread, source) == raw
    assert "7654321" in plain.context_prompt(source)
    forced = new_router(store, clock, force_redact_all_platforms=True)
    discord = SessionSource("discord", "C7654321")
    assert "7654321" not in forced.context_prompt(discord)
    [first, *_] = forced.conversation(thread, SessionSource("discord", "7654321"))
    assert "7654321" not in first["content"]
    exempt = new_router(store, clock, redact_pii=True)
    assert exempt.conversation(thread, SessionSource("discord", "7654321")) == raw


@pytest.mark.parametrize(("force", "applies"), [(False, False), (True, True)])
def test_a_message_on_an_exempt_platform_is_audited_once(
    force: bool, applies: bool, store: SessionStore, clock: Clock
) -> None:
    audit: list[RedactionDecision] = []
    redactor = Redactor(SECRET, store=store, audit=audit.append)
    router = new_router(
        store, clock, redactor=redactor, redact_pii=True, force_redact_all_platforms=force
    )
    slack = SessionSource("slack", "C7654321", user_id="U7654321")
    for count in (1, 2):
        thread = router.route(slack)
        thread.message("user", "I am U7654321")
        prompt = router.context_prompt(slack)
        assert ("U7654321" not in prompt) is applies
        for _ in range(3):  # a model is asked again after each use of a tool
            [message, *_] = router.conversation(thread, slack)
            assert ("U7654321" not in message["content"]) is applies
        assert [(each.platform, each.applies) for each in audit] == [("slack", applies)] * count
    router.context_prompt(SessionSource("slack", "C1", user_id="U9"))
    assert len(audit) == 3, "another chat is another decision"


def test_a_router_without_redaction_audits_nothing(store: SessionStore, clock: Clock) -> None:
    audit: list[RedactionDecision] = []
    router = new_router(store, clock, redactor=Redactor(SECRET, store=store, audit=audit.append))
    slack = SessionSource("slack", "C7654321")
    router.conversation(router.route(slack), slack)
    router.context_prompt(slack)
    assert audit == []


def test_a_router_hides_the_ids_of_home_channels_in_the_prompt(
    store: SessionStore, clock: Clock
) -> None:
    homes = [HomeChannel("telegram", "5551234567", "chat 5551234567")]
    router = new_router(store, clock, home_channels=homes, redact_pii=True)
    token = router.redactor.token("chat", "5551234567", "telegram")
    assert f'home channel "chat {token}"' in router.context_prompt(TELEGRAM)


def test_a_router_remembers_tokens_in_its_store_by_default(
    store: SessionStore, clock: Clock
) -> None:
    redactor = Redactor(SECRET, store=store)
    token = redactor.token("user", "7654321", "telegram")
    router = SourceRouter(store, now=clock)
    assert router.deliver(token, TELEGRAM).text == "7654321"


def test_the_context_of_a_source(store: SessionStore, clock: Clock) -> None:
    home = HomeChannel("slack", "C9", "Ops")
    router = new_router(
        store, clock, connected_platforms=["signal"], home_channels=[home], profile="p"
    )
    assert router.context(TELEGRAM) == SessionContext(
        source=TELEGRAM,
        connected_platforms=("signal", "slack", "telegram"),
        home_channels=(home,),
        session_key="agent:p:telegram:dm:42",
        is_shared=False,
    )
    assert [(each.name, each.chat_id) for each in router.delivery_targets(TELEGRAM)] == [
        ("origin", "42"),
        ("local", ""),
        ("slack", "C9"),
    ]
    assert "Connected platforms: local, signal, slack, telegram" in router.context_prompt(TELEGRAM)


def test_the_fields_of_a_thread_of_a_chat() -> None:
    assert source_fields(TELEGRAM) == {
        "source": "telegram",
        "namespace": "chat",
        "key": ("agent:main:telegram:dm:42",),
        "extra": {"source": TELEGRAM.to_dict()},
    }
    assert source_fields(TELEGRAM, key="k")["key"] == ("k",)


# Isolation

_CHATS = [
    SessionSource(platform, chat, chat_type=kind, user_id=user, thread_id=thread)
    for platform in ("telegram", "signal")
    for chat in ("1", "2")
    for kind, thread in (("dm", None), ("group", None), ("group", "7"), ("thread", None))
    for user in ("1", "2")
]


@given(
    st.lists(st.tuples(st.sampled_from(_CHATS), st.integers(0, 90)), min_size=1, max_size=12),
    st.booleans(),
    st.booleans(),
)
@drawn(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_message_of_a_chat_appears_in_another(
    messages: list[tuple[SessionSource, int]], per_group: bool, per_thread: bool
) -> None:
    clock = Clock()
    with SessionStore("memory:", now=clock) as store:
        router = new_router(
            store, clock, group_sessions_per_user=per_group, thread_sessions_per_user=per_thread
        )
        said: dict[str, list[str]] = {}
        visible: dict[str, list[str]] = {}
        last: dict[str, datetime] = {}
        sources: dict[str, SessionSource] = {}
        for number, (source, minutes) in enumerate(messages):
            clock.advance(minutes=minutes)
            key = router.key(source)
            word = f"word{number}"
            router.route(source).message("user", f"{word} common")
            if key in last and clock.time - last[key] >= timedelta(hours=1):
                visible[key] = []
            said.setdefault(key, []).append(word)
            visible.setdefault(key, []).append(f"{word} common")
            last[key], sources[key] = clock.time, source
        for key, source in sources.items():
            thread_id = router.find(source)
            assert thread_id is not None
            assert texts(store.open(thread_id)) == visible[key]
            hits = router.search("common", source, limit=100)
            found = {word for hit in hits for word in said[key] if f"{word} " in hit.snippet}
            assert (len(hits), found) == (len(said[key]), set(said[key]))
        assert len(store.list(limit=None)) == len(said)


def test_no_message_of_a_chat_appears_in_another_on_any_backend(
    store: SessionStore, clock: Clock
) -> None:
    router = new_router(store, clock)
    keys: dict[str, list[str]] = {}
    for number, source in enumerate(_CHATS):
        router.route(source).message("user", f"word{number} common")
        keys.setdefault(router.key(source), []).append(f"word{number}")
    for source in _CHATS:
        expected = [f"{word} common" for word in keys[router.key(source)]]
        assert texts(router.route(source)) == expected
        assert len(router.search("common", source)) == len(expected)
        assert router.search("common", source, limit=0) == []
    assert len(store.list(limit=None)) == len(keys)


def test_a_search_in_a_chat_returns_twenty_messages_by_default(router: SourceRouter) -> None:
    thread = router.route(TELEGRAM)
    for number in range(25):
        thread.message("user", f"zebra {number}")
    assert len(router.search("zebra", TELEGRAM)) == 20
    assert len(router.search("zebra", TELEGRAM, limit=23)) == 23


# The archive


def test_the_clock_is_that_of_the_machine_by_default() -> None:
    past = Clock(datetime.now(UTC) - timedelta(days=2))
    with SessionStore("memory:", now=past) as store:
        store.start(cwd="/").message("user", "x")
        router = SourceRouter(store, archive_after_days=1, notify=lambda _: None)
        router.route(TELEGRAM).message("user", "y")
        assert texts(router.route(TELEGRAM)) == []


def test_old_threads_are_archived_once_a_day_if_that_is_switched_on(
    store: SessionStore, clock: Clock
) -> None:
    old = store.start(cwd="/")
    old.message("user", "x")
    clock.advance(days=30, seconds=1)
    new_router(store, clock).route(TELEGRAM)
    assert not store.open(old.thread_id).summary.archived, "off by default"
    router = new_router(store, clock, archive_after_days=30)
    router.route(TELEGRAM).message("user", "y")
    assert store.open(old.thread_id).summary.archived
    store.unarchive(old.thread_id)
    clock.advance(hours=23, minutes=59)
    router.route(TELEGRAM)
    assert not store.open(old.thread_id).summary.archived, "once a day"
    clock.advance(minutes=1)
    router.route(TELEGRAM)
    assert store.open(old.thread_id).summary.archived


def test_the_thread_of_a_message_leaves_the_archive(store: SessionStore, clock: Clock) -> None:
    router = new_router(store, clock, archive_after_days=30, reset=ResetPolicy(mode="none"))
    router.route(TELEGRAM).message("user", "x")
    clock.advance(days=31)
    thread = router.route(TELEGRAM)
    assert not thread.summary.archived
    assert texts(thread) == ["x"]


@pytest.mark.parametrize("days", [0, -1])
def test_an_age_that_archives_everything_is_refused(days: float) -> None:
    with SessionStore("memory:") as store, pytest.raises(ValidationError) as caught:
        SourceRouter(store, archive_after_days=days)
    assert caught.value.fields == ("archive_after_days",)
    assert caught.value.message == "`archive_after_days` must be positive"


def test_an_archive_that_fails_does_not_stop_the_message(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Full(MemoryLog):
        def archive(self, thread_id: str, *, archived: bool) -> None:
            raise StoreError("the disk is full")

    store = SessionStore(Full(now=clock), now=clock)
    store.start(cwd="/").message("user", "x")
    clock.advance(days=2)
    router = new_router(store, clock, archive_after_days=1)
    router.route(TELEGRAM).message("user", "y")
    [record] = caplog.records
    assert record.getMessage() == "old threads could not be archived"


# Memory


def test_what_a_router_keeps_in_memory_is_bounded(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("amux.lifecycle.router._KEPT", 2)
    with SessionStore("memory:", now=clock) as store:
        router = new_router(store, clock)
        first = [router.route(SessionSource("x", each)).run_session_id for each in "abc"]
        again = [router.route(SessionSource("x", each)).run_session_id for each in "cba"][::-1]
    assert [one == two for one, two in zip(first, again, strict=True)] == [False, True, True]


@pytest.mark.parametrize(("policy", "may_send"), [("deny", False), ("allow", True), (None, True)])
def test_the_send_policy_of_a_session_holds_for_its_replies(
    store: SessionStore, policy: str | None, may_send: bool
) -> None:
    source = SessionSource(platform="telegram", chat_id="7")
    sessions = amux.framework(store)
    assert sessions.router.deliver("hi", source).may_send  # nothing is known of the chat yet
    session = sessions.start_session(cwd="/", source=source)
    session.state.send_policy = policy
    sessions.end(session)
    again = amux.framework(SessionStore(store.log))
    assert again.resume(session.thread_id).state.may_send is may_send
    assert again.router.deliver("hi", source).may_send is may_send
    other = SessionSource(platform="telegram", chat_id="8")
    assert again.router.deliver("hi", other).may_send
