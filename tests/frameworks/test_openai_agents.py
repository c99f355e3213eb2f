"""`AmuxSession` behaves like the SDK's own sessions, on every backend."""

from __future__ import annotations

import asyncio
import json
import math
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import pytest
from agents import Agent, Runner, Session, SQLiteSession, function_tool
from agents.memory import OpenAIResponsesCompactionSession, SessionSettings
from child_processes import child_env
from conftest import OpenStore
from counted_bytes import counted_bytes
from drawn import drawn
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from scripted_openai import ScriptedModel, tool_call
from suites import Distribution, expected_failures, run_suite

from amux import create_client
from amux.errors import ValidationError
from amux.integrations import openai_agents
from amux.integrations.openai_agents import AmuxSession
from amux.rollout.log import Appended
from amux.store.memory import MemoryLog
from amux.store.session_store import SessionStore

SDK = Distribution(
    "openai-agents", "0.24.0", "4b4b285f4fed81fdf1b4ac426a9101658d9cd29b4fb1aaeee18f639b77e704e3"
)

HOSTILE: tuple[dict[str, Any], ...] = (
    {"content": math.nan},
    {"content": [math.inf, -math.inf, -0.0, 1e-320, 5e-324, 1.7976931348623157e308]},
    {"content": 2**70, "negative": -(2**70)},
    {"content": "a\0b", "\0": 1},
    {"content": "line\u2028paragraph\u2029next\x85\r\n"},
    {"content": "\ud800 lone", "\udfff": "\udc00"},
    {"content": 'DROP TABLE "agent_sessions"; --'},
    {"": {"": {"": [None, True, False, [], {}]}}},
)
SESSION_IDS = (
    'it\'s "quoted"; DROP TABLE x; --',
    "../../etc/passwd",
    "Привет 🦜 \u202e",
    "",
    "nul\0byte",
    "lone\ud800surrogate",
    "long" * 2000,
    "line\nbreak",
)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def same(left: Any, right: Any) -> bool:
    """Return whether two values are equal, with NaN equal to itself and -0.0 not to 0.0."""
    return json.dumps(left) == json.dumps(right)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def new_session(store: SessionStore, **options: Any) -> AmuxSession:
    return AmuxSession(uuid4().hex, store, **options)


def add(session: AmuxSession, *items: Any) -> None:
    run(session.add_items(list(items)))


def items(session: AmuxSession, limit: int | None = None) -> list[Any]:
    found: list[Any] = run(session.get_items(limit))
    return found


def test_a_session_has_the_protocol_of_the_sdk(store: SessionStore) -> None:
    assert isinstance(new_session(store), Session)


def test_two_hundred_random_operations_are_equal_to_those_of_the_sdk(store: SessionStore) -> None:
    generator = random.Random(17)
    operations = [
        (generator.choice(["add", "add", "add", "pop", "pop", "get", "get", "clear"]), number)
        for number in range(200)
    ]
    run(_compare(store, operations, lambda n: [user(f"{n}.{each}") for each in range(n % 4)]))


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
"""`st.text()` has no lone surrogates; `HOSTILE` has."""


@drawn(40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    batches=st.lists(
        st.tuples(st.sampled_from(["add", "pop", "get", "clear"]), st.integers(-3, 6)), max_size=12
    ),
    drawn_items=st.lists(st.dictionaries(st.text(), values, max_size=4), min_size=1, max_size=4),
)
def test_any_operations_are_equal_to_those_of_the_sdk(
    store: SessionStore, batches: list[tuple[str, int]], drawn_items: list[dict[str, Any]]
) -> None:
    run(_compare(store, batches, lambda n: drawn_items[: abs(n)]))


async def _compare(
    store: SessionStore, operations: list[tuple[str, int]], items_of: Callable[[int], list[Any]]
) -> None:
    ours, theirs = new_session(store), SQLiteSession("any")
    try:
        for operation, number in operations:
            for limit in (None, number % 7 - 2):
                assert same(await ours.get_items(limit), await theirs.get_items(limit))
            if operation == "add":
                added = items_of(number)
                await ours.add_items(added)
                await theirs.add_items(added)
            elif operation == "pop":
                assert same(await ours.pop_item(), await theirs.pop_item())
            elif operation == "clear":
                await ours.clear_session()
                await theirs.clear_session()
        assert same(await ours.get_items(), await theirs.get_items())
    finally:
        theirs.close()


@pytest.mark.parametrize("item", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_item_comes_back_equal(store: SessionStore, item: dict[str, Any]) -> None:
    session = new_session(store)
    add(session, item, user("next"))
    assert same(items(session), [item, user("next")])
    run(session.pop_item())
    assert same(run(session.pop_item()), item)


def test_a_session_id_is_free_text(store: SessionStore) -> None:
    for number, session_id in enumerate(SESSION_IDS):
        add(AmuxSession(session_id, store), user(str(number)))
    for number, session_id in enumerate(SESSION_IDS):
        assert items(AmuxSession(session_id, store)) == [user(str(number))]


@pytest.mark.parametrize("session_id", [None, 7, b"x"])
def test_a_session_id_that_is_no_text_is_refused(store: SessionStore, session_id: Any) -> None:
    with pytest.raises(ValidationError, match="a session id is a text"):
        AmuxSession(session_id, store)


def test_an_unknown_effect_of_clearing_is_refused(store: SessionStore) -> None:
    wrong: Any = "Erase"
    with pytest.raises(ValidationError, match='`on_clear` must be "hide" or "erase", not `Erase`'):
        AmuxSession("s", store, on_clear=wrong)


def test_a_batch_with_an_item_that_is_not_json_stores_nothing(store: SessionStore) -> None:
    session = new_session(store)
    add(session, user("before"))
    with pytest.raises(TypeError):
        add(session, user("good"), {"content": object()}, user("better"))
    assert items(session) == [user("before")]


def test_the_settings_of_a_session_limit_its_items(store: SessionStore) -> None:
    session = new_session(store, session_settings=SessionSettings(limit=2))
    add(session, *map(user, "abcd"))
    assert items(session) == [user("c"), user("d")]
    assert items(session, 3) == [user("b"), user("c"), user("d")]


def test_a_closed_session_refuses_everything(store: SessionStore) -> None:
    session = new_session(store)
    session.close()
    with pytest.raises(RuntimeError, match="AmuxSession is closed"):
        add(session)
    with pytest.raises(RuntimeError):
        items(session)


def test_a_cleared_session_can_still_be_searched(store: SessionStore) -> None:
    session = new_session(store)
    add(session, user("the marzipan question"))
    run(session.clear_session())
    assert items(session) == []
    assert [hit.role for hit in store.search("marzipan")] == ["user"]


def test_an_erased_session_is_gone_but_not_its_cost(store: SessionStore) -> None:
    session = new_session(store, on_clear="erase")
    agent = Agent(name="A", model=ScriptedModel("the nougat answer"))
    run(session.store_run_usage(run(Runner.run(agent, "the nougat question", session=session))))
    run(session.clear_session())
    add(session, user("afresh"))
    assert items(session) == [user("afresh")]
    (thread,) = store.list()
    assert "nougat" not in "".join(each.text for each in store.log.read(thread.thread_id))
    assert thread.output_tokens == 20


def test_a_popped_item_is_not_found_by_a_search(store: SessionStore) -> None:
    session = new_session(store)
    add(session, user("praline"), user("nougat"))
    run(session.pop_item())
    assert store.search("nougat") == []
    assert len(store.search("praline")) == 1


POP = """
import asyncio, sys
from amux.integrations.openai_agents import AmuxSession

async def main():
    session = AmuxSession("shared", sys.argv[1])
    print("ready", flush=True)
    sys.stdin.readline()
    while (item := await session.pop_item()) is not None:
        print(item["content"], flush=True)

asyncio.run(main())
"""


def test_two_processes_never_pop_the_same_item(store_address: str) -> None:
    session = AmuxSession("shared", store_address)
    add(session, *(user(str(number)) for number in range(400)))
    session.close()
    command = [sys.executable, "-c", POP, store_address]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    children = [subprocess.Popen(command, env=child_env(), **pipes) for _ in range(2)]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    popped = [child.communicate(timeout=120)[0].split() for child in children]
    assert all(popped), "both took part"
    assert sorted(map(int, popped[0] + popped[1])) == list(range(400))
    assert all(each == sorted(each, key=int, reverse=True) for each in popped)


def test_a_session_is_used_from_several_event_loops(store: SessionStore) -> None:
    session = new_session(store)

    def work(number: int) -> None:
        for turn in range(10):
            add(session, user(f"{number}:{turn}"))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = [each["content"] for each in items(session)]
    assert sorted(found) == sorted(f"{number}:{turn}" for number in range(4) for turn in range(10))
    for number in range(4):
        own = [each for each in found if each.startswith(f"{number}:")]
        assert own == [f"{number}:{turn}" for turn in range(10)]


class SlowLog(MemoryLog):
    """A backend whose appends wait until they may go on."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.may_go_on = threading.Event(), threading.Event()
        self.may_go_on.set()

    def append(self, *args: Any, **kwargs: Any) -> Appended:
        self.begun.set()
        assert self.may_go_on.wait(30)
        return super().append(*args, **kwargs)


@pytest.mark.parametrize(
    ("change", "left"),
    [
        (lambda session: session.add_items([user("b")]), "ab"),
        (lambda session: session.pop_item(), ""),
        (lambda session: session.clear_session(), ""),
    ],
    ids=["add", "pop", "clear"],
)
def test_a_cancelled_change_is_waited_for(
    change: Callable[[AmuxSession], Coroutine[Any, Any, Any]], left: str
) -> None:
    log = SlowLog()
    session = AmuxSession("any", log)

    async def cancel() -> None:
        await session.add_items(cast("Any", [user("a")]))
        log.begun.clear()
        log.may_go_on.clear()
        task = asyncio.create_task(change(session))
        await asyncio.to_thread(log.begun.wait, 30)
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=0.05)
        assert not done, "the outcome is not known yet"
        log.may_go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(cancel())
    assert items(session) == [user(each) for each in left]


def test_the_tail_of_a_long_session_is_read_alone(tmp_path: Path) -> None:
    store = SessionStore(tmp_path, fsync="never")
    session = AmuxSession("long", store)
    text = "a question of usual length, which takes a line of a file " * 2
    for start in range(0, 50_000, 5_000):
        add(session, *(user(f"{text}{start + number}") for number in range(5_000)))
    (file,) = (tmp_path / "sessions").glob("*.jsonl")
    with counted_bytes() as count:
        found = items(session, 2)
    assert [each["content"][len(text) :] for each in found] == ["49998", "49999"]
    assert count() < file.stat().st_size / 100
    store.close()


async def _snapshot(session: AmuxSession, limit: int, **options: Any) -> Any:
    return await session._get_compaction_snapshot(limit, **options)


def test_a_compaction_replaces_the_tail_it_has_seen(store: SessionStore) -> None:
    session = new_session(store)
    add(session, *map(user, "abcd"))
    seen = run(_snapshot(session, 3))
    assert (seen.items, seen.complete) == ([user("b"), user("c"), user("d")], False)
    assert run(seen.replace_suffix(1, [user("summary")]))
    assert items(session) == [user("a"), user("b"), user("summary")]
    assert len(store.search("c")) == 1, "compacted history stays searchable"


def test_a_compaction_leaves_a_tail_alone_that_changed_meanwhile(store: SessionStore) -> None:
    session = new_session(store)
    add(session, *map(user, "abc"))
    seen = run(_snapshot(session, 3))
    add(session, user("meanwhile"))
    assert not run(seen.replace_suffix(0, [user("summary")]))
    run(session.pop_item())
    assert run(seen.replace_suffix(0, [user("summary")])), "the tail is the same again"
    assert items(session) == [user("summary")]


def test_a_compaction_drops_the_expired_beginning(store: SessionStore) -> None:
    session = new_session(store)
    add(session, *map(user, "xxaxbc"))
    seen = run(_snapshot(session, 2, prune_prefix=lambda item: item["content"] == "x"))
    assert run(seen.replace_suffix(0, [user("summary")]))
    assert items(session) == [user("a"), user("x"), user("summary")]


def test_a_compaction_that_cannot_be_stored_changes_nothing(store: SessionStore) -> None:
    session = new_session(store)
    add(session, *map(user, "abc"))
    seen = run(_snapshot(session, 3))
    with pytest.raises(TypeError):
        run(seen.replace_suffix(0, [user("good"), {"content": object()}]))
    assert items(session) == [user("a"), user("b"), user("c")]


class Shouting(AmuxSession):
    """A session that reads its items in a way of its own."""

    async def get_items(self, limit: int | None = None) -> list[Any]:
        return [{**each, "content": each["content"].upper()} for each in await self._plain(limit)]

    async def _plain(self, limit: int | None) -> list[Any]:
        return cast("list[Any]", await super().get_items(limit))


@pytest.mark.parametrize("hook", [True, False], ids=["with the hook", "without the hook"])
def test_the_compaction_session_of_the_sdk_replaces_the_history(
    store: SessionStore, hook: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not hook:
        monkeypatch.setattr(openai_agents, "_CompactionSnapshot", None)
    summary = {"type": "compaction", "encrypted_content": "summary"}
    client: Any = SimpleNamespace(responses=SimpleNamespace())

    async def compact(**_: Any) -> Any:
        return SimpleNamespace(output=[summary])

    client.responses.compact = compact
    session = new_session(store)
    add(session, *map(user, "abc"))
    wrapped = OpenAIResponsesCompactionSession(
        session.session_id, underlying_session=session, client=client, compaction_mode="input"
    )
    run(wrapped.run_compaction({"force": True}))
    assert items(session) == [summary]
    assert (run(_snapshot(session, 1)) is None) != hook


def test_a_session_that_reads_in_its_own_way_offers_no_snapshot(store: SessionStore) -> None:
    session = Shouting("any", store)
    add(session, user("a"))
    assert items(session) == [user("A")]
    assert run(_snapshot(session, 1)) is None


@function_tool
def look_up(word: str) -> str:
    """Look a word up."""
    return f"{word}: a sweet"


def two_runs(session: AmuxSession, model: ScriptedModel) -> None:
    """Run an agent twice: with a call of a tool, and without."""
    agent = Agent(name="Cook", model=model, tools=[look_up])
    for prompt in ("What is nougat?", "Thanks"):
        result = run(Runner.run(agent, prompt, session=session))
        run(session.store_run_usage(result))
        run(session.store_run_usage(result))  # counted once


def cook_book(session: AmuxSession) -> ScriptedModel:
    """Return a model for `two_runs`."""
    del session
    return ScriptedModel(tool_call("look_up", '{"word": "nougat"}'), "A sweet.", "Welcome.")


def test_a_run_is_a_session_of_amux_with_its_cost(store_address: str, tmp_path: Path) -> None:
    store = SessionStore(store_address)
    session = AmuxSession("cook", store)
    model = cook_book(session)
    two_runs(session, model)
    assert [len(seen) for seen in model.seen] == [1, 3, 5]
    client = create_client(home=tmp_path, env={"AMUX_STORE": store_address})
    (listed,) = client.sessions.list("amux")
    found = client.sessions.get("amux", listed.session_id)
    assert listed.title == "What is nougat?"
    assert [(each.role, each.content) for each in found.messages] == [
        ("user", "What is nougat?"),
        ("assistant", ""),
        ("tool", "nougat: a sweet"),
        ("assistant", "A sweet."),
        ("user", "Thanks"),
        ("assistant", "Welcome."),
    ]
    (call,) = found.messages[1].tool_calls
    assert (call.tool_name, call.input, call.output) == (
        "look_up",
        {"word": "nougat"},
        "nougat: a sweet",
    )
    assert {each.model for each in found.messages if each.role == "assistant"} == {"gpt-5-mini"}
    cost = found.cost
    assert cost is not None
    assert (cost.input_tokens, cost.output_tokens) == (3 * 40, 3 * 20)
    assert cost.total_usd > 0
    assert cost.incomplete == ()
    store.close()


def test_without_stored_usage_the_cost_is_incomplete(store_address: str, tmp_path: Path) -> None:
    store = SessionStore(store_address)
    session = AmuxSession("cook", store)
    run(Runner.run(Agent(name="A", model=ScriptedModel("Hi.")), "Hello", session=session))
    client = create_client(home=tmp_path, env={"AMUX_STORE": store_address})
    (listed,) = client.sessions.list("amux")
    assert listed.cost is None
    assert listed.unrecorded == ("usage-not-recorded",)
    store.close()


def test_reports_have_the_shape_of_the_sdk(store: SessionStore) -> None:
    session = new_session(store)
    two_runs(session, cook_book(session))
    assert run(session.get_tool_usage()) == [("look_up", 1, 1)]
    assert run(session.get_session_usage()) == {
        "requests": 3,
        "input_tokens": 300,
        "output_tokens": 60,
        "total_tokens": 360,
        "total_turns": 2,
    }
    first, second = run(session.get_turn_usage())
    assert (first["user_turn_number"], first["requests"], second["requests"]) == (1, 2, 1)
    assert run(session.get_turn_usage(2)) == {
        "requests": 1,
        "input_tokens": 100,
        "output_tokens": 20,
        "total_tokens": 120,
        "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 5},
    }
    turns = run(session.get_conversation_turns())
    assert [(each["turn"], each["content"]) for each in turns] == [
        (1, "What is nougat?"),
        (2, "Thanks"),
    ]
    assert [each["turn"] for each in run(session.find_turns_by_content("NOUGAT"))] == [1]


def test_a_branch_continues_from_an_earlier_turn(store: SessionStore) -> None:
    session = new_session(store)
    add(session, *map(user, "abc"))
    branch = run(session.create_branch_from_turn(2, "other"))
    add(session, user("d"))
    assert (branch, items(session)) == ("other", [user("a"), user("d")])
    again = AmuxSession(session.session_id, store)
    assert items(again) == [user("a"), user("b"), user("c")]
    run(again.switch_to_branch("other"))
    assert items(again) == [user("a"), user("d")]
    listed = [
        (each["branch_id"], each["message_count"], each["user_turns"], each["is_current"])
        for each in run(session.list_branches())
    ]
    assert listed == [("main", 3, 3, False), ("other", 2, 2, True)]


def test_a_branch_from_the_first_turn_is_empty(store: SessionStore) -> None:
    session = new_session(store)
    add(session, user("a"))
    run(session.create_branch_from_content("A"))
    assert items(session) == []


def test_a_branch_that_cannot_be_made_is_refused(store: SessionStore) -> None:
    session = new_session(store)
    add(session, user("a"))
    for number, name in [(0, "x"), (2, "x"), (1, " "), (1, "main")]:
        with pytest.raises(ValueError, match=r"Turn|Branch"):
            run(session.create_branch_from_turn(number, name))
    run(session.create_branch_from_turn(1, "x"))
    run(session.switch_to_branch("main"))
    with pytest.raises(ValueError, match="already exists"):
        run(session.create_branch_from_turn(1, "x"))


def test_a_deleted_branch_leaves_the_others(store: SessionStore) -> None:
    session = new_session(store)
    add(session, user("a"), user("b"))
    run(session.create_branch_from_turn(2, "x"))
    with pytest.raises(ValueError, match="force"):
        run(session.delete_branch("x"))
    run(session.delete_branch("x", force=True))
    assert items(session) == [user("a"), user("b")]
    for gone in ("x", "main"):
        with pytest.raises(ValueError, match=r"not exist|Cannot delete"):
            run(session.delete_branch(gone))


def test_a_session_that_was_deleted_begins_afresh(store: SessionStore) -> None:
    session = new_session(store)
    add(session, user("a"))
    (thread,) = store.list()
    store.delete(thread.thread_id)
    assert items(session) == []
    add(session, user("b"))
    assert items(session) == [user("b")]


@pytest.mark.parametrize("is_created_anew", [False, True])
def test_a_session_goes_on_after_another_process_deleted_it(
    reopened: OpenStore, is_created_anew: bool
) -> None:
    store, other = reopened(), reopened()
    session = AmuxSession("s", store)
    add(session, user("a"))
    (thread,) = other.list()
    other.delete(thread.thread_id)
    if is_created_anew:
        add(AmuxSession("s", other), user("b"))
    add(session, user("c"))
    expected = [user("b"), user("c")] if is_created_anew else [user("c")]
    assert items(session) == items(AmuxSession("s", other)) == expected


@pytest.mark.parametrize("backend", ["files", "memory", "postgres"])
def test_the_tests_of_the_sdk_pass_but_for_those_that_touch_sqlite(
    backend: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    store = {"files": str(tmp_path / "store"), "memory": "memory:"}.get(backend)
    outcome = run_suite(
        SDK.unpacked(),
        ["tests/memory"],
        plugin="openai_agents_suite",
        report=tmp_path / "report.xml",
        env={"AMUX_SUITE_STORE": store or request.getfixturevalue("store_url")},
    )
    assert outcome.failed == set(expected_failures("openai_agents_failures.txt")), outcome.output
    assert len(outcome.passed) == 413
