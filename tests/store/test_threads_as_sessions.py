"""Threads of the store as sessions of the agent `amux`: whatever was written reads back equal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from drawn import drawn
from following import ScriptedClock
from hypothesis import given
from hypothesis import strategies as st

from amux.client import Client, create_client
from amux.config import Config
from amux.host import Host
from amux.model.message import SessionMessage
from amux.rollout import control
from amux.rollout.records import NewRecord
from amux.store.session_store import SessionStore

AT = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
PICTURE = "data:image/png;base64,iVBORw0KGgo="
WRITTEN: tuple[dict[str, Any], ...] = (
    {"role": "user", "content": "Why is <b>1 + 1</b> = 3? \u2028 ``` </details>"},
    {
        "role": "assistant",
        "content": "I look at the code.",
        "thinking": "perhaps a carry",
        "model": "claude-haiku-4-5",
        "tool_calls": [{"id": "c1", "name": "bash", "arguments": {"command": "ls", "n": [1]}}],
        "usage": {
            "input_tokens": 100,
            "output_tokens": 20,
            "cache_read_tokens": 7,
            "cache_write_tokens": 3,
            "reasoning_tokens": 5,
        },
        "cost_usd": 0.0125,
    },
    {
        "role": "tool",
        "content": "no such file",
        "tool_call_id": "c1",
        "tool_name": "bash",
        "is_error": True,
    },
    {"role": "system", "content": "be brief", "synthetic": True},
    {"role": "user", "content": "see", "images": [PICTURE]},
    {"role": "assistant", "content": "Done.", "usage": {"input_tokens": 50, "output_tokens": 10}},
)


@pytest.fixture(params=["files", "server"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the address of an empty store, once of files and once on a server."""
    if request.param == "files":
        return str(tmp_path / "store")
    return str(request.getfixturevalue("store_url"))


@pytest.fixture
def store(address: str) -> Iterator[SessionStore]:
    with closing(SessionStore(address)) as opened:
        yield opened


@pytest.fixture
def client(address: str, tmp_path: Path) -> Client:
    return create_client(home=tmp_path, env={"AMUX_STORE": address})


def write(store: SessionStore, *, title: str | None = "Sums") -> str:
    thread = store.start(cwd="/shop", model="claude-sonnet-4-5", title=title)
    for written in WRITTEN:
        thread.append(NewRecord(payload={"type": "message", **written}, at=AT))
    return thread.thread_id


def as_written(message: SessionMessage) -> dict[str, Any]:
    """Return the fields of a message as `WRITTEN` has them."""
    usage, result = message.token_usage, message.tool_result
    written: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.thinking is not None:
        written["thinking"] = message.thinking
    if message.model not in {None, "claude-sonnet-4-5"}:
        written["model"] = message.model
    if message.tool_calls:
        written["tool_calls"] = [
            {"id": call.tool_call_id, "name": call.tool_name, "arguments": call.input}
            for call in message.tool_calls
        ]
    if usage is not None:
        counts = {
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cache_read_tokens": usage.cached_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
            "reasoning_tokens": usage.thinking_tokens,
        }
        written["usage"] = {name: count for name, count in counts.items() if count}
    if result is not None:
        written |= {"tool_call_id": result.tool_call_id, "tool_name": result.tool_name}
        written["is_error"] = result.is_error
        assert result.output == message.content
    if message.synthetic:
        written["synthetic"] = True
    if message.images:
        written["images"] = list(message.images)
    return written


def without_cost(written: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in written.items() if name != "cost_usd"}


def test_a_thread_is_got_as_it_was_written(store: SessionStore, client: Client) -> None:
    thread_id = write(store)
    session = client.sessions.get("amux", thread_id)
    assert [as_written(each) for each in session.messages] == [*map(without_cost, WRITTEN)]
    records = list(store.open(thread_id).items())
    assert [each.id for each in session.messages] == [record.id for record in records]
    assert [each.parent_id for each in session.messages] == [None, *(r.id for r in records[:-1])]
    assert {each.timestamp for each in session.messages} == {AT}
    (call,) = session.messages[1].tool_calls
    assert (call.output, call.is_error) == ("no such file", True)
    assert session.messages[5].model == "claude-sonnet-4-5"
    assert (session.title, session.cwd) == ("Sums", "/shop")
    assert session.problems == ()


def test_a_thread_is_listed_searched_and_counted(store: SessionStore, client: Client) -> None:
    thread_id = write(store)
    (listed,) = client.sessions.list("amux")
    assert (listed.session_id, listed.title, listed.cwd) == (thread_id, "Sums", "/shop")
    assert (listed.turn_count, listed.message_count) == (2, 6)
    assert [hit.session_id for hit in client.sessions.search("carry OR file")] == [thread_id]
    assert client.sessions.search("no-such-word-anywhere") == []
    total = client.sessions.total_cost(agent="amux", group_by="model")
    assert (total.input_tokens, total.output_tokens) == (150, 30)
    assert total.breakdowns is not None
    assert total.breakdowns["claude-haiku-4-5"].total_usd == pytest.approx(0.0125)


def test_a_thread_is_exported_in_every_format(store: SessionStore, client: Client) -> None:
    thread_id = write(store)
    session = client.sessions.get("amux", thread_id)
    document = json.loads(client.sessions.export("amux", thread_id, "json"))
    assert document == json.loads(json.dumps(session.to_dict()))
    lines = client.sessions.export("amux", thread_id, "jsonl").splitlines()
    assert len([line for line in lines if json.loads(line)]) == len(WRITTEN) + 1
    page = client.sessions.export("amux", thread_id, "html")
    assert "&lt;b&gt;1 + 1&lt;/b&gt;" in page
    assert "<b>1 + 1</b>" not in page
    assert PICTURE in page
    assert "### Tool" in client.sessions.export("amux", thread_id, "markdown")


def test_a_fork_differs_by_what_followed(store: SessionStore, client: Client) -> None:
    thread_id = write(store)
    fork = store.fork(thread_id)
    fork.message("user", "another question")
    diff = client.sessions.diff(f"amux:{thread_id}", f"amux:{fork.thread_id}")
    changes = [each.type for each in diff.operations if each.type != "unchanged"]
    assert changes == ["addition"]
    session = client.sessions.get("amux", fork.thread_id)
    assert session.forked_from == thread_id
    assert client.sessions.total_cost(agent="amux").output_tokens == 30  # copies are not counted


def test_a_compaction_costs_in_the_thread(store: SessionStore, client: Client) -> None:
    thread = store.resume(write(store))
    usage = {"input_tokens": 1000, "output_tokens": 1}
    thread.compact({"summary": "sums", "usage": usage, "cost_usd": 0.5}, keep_turns=0)
    assert client.sessions.get("amux", thread.thread_id).messages[-1].compaction
    assert client.sessions.total_cost(agent="amux").input_tokens == 1150
    assert thread.cost.compaction.cost_usd == 0.5
    assert thread.cost.context.tokens.input == 150


def test_a_thread_is_followed(store: SessionStore, address: str, tmp_path: Path) -> None:
    thread = store.resume(write(store))
    clock = ScriptedClock([(2.0, lambda: thread.message("assistant", "news"))])
    host = Host(tmp_path, env={"AMUX_STORE": address}, clock=clock)
    with Client(host, config=Config()).follow("amux", thread.thread_id) as changes:
        seen = [change.message.content for change in changes if change.message is not None]
    assert seen == ["news"]


def test_an_archived_thread_is_still_a_session(store: SessionStore, client: Client) -> None:
    thread_id = write(store)
    store.archive(thread_id)
    assert client.sessions.list("amux") == []
    assert len(client.sessions.get("amux", thread_id).messages) == len(WRITTEN)
    assert len(client.sessions.list("amux", include_archived=True)) == 1


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
COUNTS = st.dictionaries(
    st.sampled_from(("input_tokens", "output_tokens", "cache_read_tokens")),
    st.integers(1, 10**9),
    min_size=1,
)
REQUIRED: dict[str, st.SearchStrategy[Any]] = {
    "role": st.sampled_from(("user", "assistant", "system")),
    "content": TEXTS,
}
OPTIONAL: dict[str, st.SearchStrategy[Any]] = {
    "thinking": TEXTS.filter(bool),
    "model": st.sampled_from(("a", "b")),
    "synthetic": st.just(True),
    "usage": COUNTS,
}
MESSAGES = st.lists(st.fixed_dictionaries(REQUIRED, optional=OPTIONAL), min_size=1, max_size=6)


@drawn(100)
@given(messages=MESSAGES)
def test_any_messages_read_back_equal(
    messages: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    base = tmp_path_factory.mktemp("stores")
    with closing(SessionStore(base / "store")) as store:
        thread = store.start(cwd="/w", model="claude-sonnet-4-5")
        thread.append_all([NewRecord(payload={"type": "message", **each}) for each in messages])
        replayed = thread.conversation()
    client = create_client(home=base, env={"AMUX_STORE": str(base / "store")})
    session = client.sessions.get("amux", thread.thread_id)
    assert [as_written(each) for each in session.messages] == messages
    assert replayed == messages


def test_a_usage_record_bills_the_answers_from_the_number_it_names(
    store: SessionStore, client: Client
) -> None:
    thread = store.start(cwd="", payload_format="openai-items", source="openai-agents")
    for role in ("user", "assistant"):
        thread.append({"role": role, "content": role})
    first = next(each.seq for each in thread.items())
    usage = {"input_tokens": 40, "cache_read_tokens": 60, "output_tokens": 20}

    def cost() -> tuple[int, tuple[str, ...]]:
        found = client.sessions.get("amux", thread.thread_id).cost
        return (0, ()) if found is None else (found.input_tokens, found.incomplete)

    assert cost() == (0, ())
    thread.append(control.event(control.USAGE, usage=usage, model="gpt-5-mini", from_seq=first))
    assert cost() == (40, ())
    assert client.sessions.get("amux", thread.thread_id).messages[1].model == "gpt-5-mini"
    thread.append({"role": "assistant", "content": "unbilled"})
    assert cost() == (40, ("usage-not-recorded",))
    thread.append(
        control.event(control.USAGE, usage=usage, model="gpt-5-mini", from_seq="not a number")
    )
    assert cost() == (80, ("usage-not-recorded",))
