"""Hermes: every schema version, invalid cells, usage and cost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from drawn import drawn
from hermes_stores import START, Store, tool_call
from hypothesis import given
from hypothesis import strategies as st

from amux.adapters.hermes.database import read_sessions
from amux.model.usage import Tokens

VERSIONS = (1, 2, 6, 11, 14, 22)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_conversation_is_the_same_in_every_schema(version: int, tmp_path: Path) -> None:
    store = Store(tmp_path, version=version)
    store.session("s", model="m", input_tokens=10, output_tokens=4)
    store.say("s", "user", "run it")
    store.say("s", "assistant", "", tool_calls=tool_call("c1", "terminal", command="ls"))
    failed = json.dumps({"output": "", "exit_code": 2, "error": None})
    store.say("s", "tool", failed, tool_call_id="c1")
    store.say("s", "assistant", "It failed.")
    reading = store.read()
    assert [(m.role, m.content) for m in reading.messages] == [
        ("user", "run it"),
        ("assistant", ""),
        ("tool", failed),
        ("assistant", "It failed."),
    ]
    (call,) = reading.messages[1].tool_calls
    assert (call.tool_name, call.input) == ("terminal", {"command": "ls"})
    result = reading.messages[2].tool_result
    assert result is not None
    assert (result.tool_name, result.is_error) == ("terminal", True)
    (facts,) = reading.facts
    assert facts.first_prompt == "run it"
    assert facts.cwd is None
    assert [(c.model, c.tokens.input, c.tokens.output) for c in facts.calls] == [("m", 10, 4)]
    assert reading.problems == []


def test_a_database_without_sessions_is_a_problem(tmp_path: Path) -> None:
    store = Store.holding(tmp_path, "CREATE TABLE other (x)")
    assert [problem.code for problem in store.read().problems] == ["unknown-format"]


def test_a_table_of_sessions_alone_is_enough(tmp_path: Path) -> None:
    store = Store.holding(
        tmp_path,
        """CREATE TABLE sessions (id TEXT, summary);
        INSERT INTO sessions VALUES (42, 'what it was about'), (NULL, 'nameless')""",
    )
    reading = store.read()
    found = [(facts.session_id, facts.name) for facts in reading.facts]
    assert found == [("42", "what it was about")]
    assert [problem.code for problem in reading.problems] == ["bad-record"]


def test_messages_whose_session_row_is_gone_are_still_a_session(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.talk("lost", "where is my row?", "gone")
    assert store.one("lost").first_prompt == "where is my row?"
    assert store.said("lost") == ["where is my row?", "gone"]


def test_messages_are_ordered_by_id_not_by_a_clock_that_steps_back(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.session("s")
    store.say("s", "user", "first", timestamp=START + 100)
    store.say("s", "assistant", "second", timestamp=START + 50)
    assert store.said("s") == ["first", "second"]
    facts = store.one("s")
    assert facts.updated_at is not None
    assert facts.updated_at.timestamp() == START + 100


def test_content_in_parts_is_decoded_and_its_images_kept(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.session("s")
    image = "data:image/png;base64,AAAA"
    parts = [
        {"type": "text", "text": "what is this?"},
        {"type": "image_url", "image_url": {"url": image}},
    ]
    store.say("s", "user", "\0json:" + json.dumps(parts))
    store.say("s", "user", "\0json:{broken")
    first, second = store.read().messages
    assert (first.content, first.images) == ("what is this?", (image,))
    assert second.content == "{broken"
    assert store.one("s").first_prompt == "what is this?"


def test_a_prompt_with_a_nul_or_of_any_length_has_one_title_in_both_modes(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.session("nul")
    store.say("nul", "user", "before\0after")
    store.session("long")
    store.say("long", "user", "\n" * 50 + "🚀 " * 50_000)
    assert store.one("nul").first_prompt == "before\0after"
    assert (store.one("long").first_prompt or "").startswith("🚀 🚀")


def test_injected_texts_are_not_prompts(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.session("s")
    store.say("s", "user", "[ASYNC DELEGATION BATCH COMPLETE — deleg_1]\nresults")
    store.say("s", "user", "Review the conversation above and save what matters")
    store.say("s", "user", "chatter of a group", observed=1)
    note = "[Note: model was just switched from a to b via X. Adjust accordingly.]\n\n"
    store.say("s", "user", note + "which model?")
    store.say("s", "session_meta", "{}")
    assert store.said("s", "user") == ["which model?"]
    assert store.one("s").first_prompt == "which model?"
    assert "unknownTypes" not in store.one("s").raw


def test_an_unknown_role_is_counted_and_costs_nothing_else(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.session("s")
    store.talk("s", "hello", "hi")
    store.say("s", "oracle", "?")
    assert store.said("s") == ["hello", "hi"]
    assert store.one("s").raw["unknownTypes"] == {"oracle": 1}


def test_tool_calls_that_are_no_json_and_results_of_no_call_are_problems(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.session("s")
    store.say("s", "assistant", "calling", tool_calls="[{")
    store.say("s", "tool", "done", tool_call_id="nobody")
    reading = store.read()
    assert [problem.code for problem in reading.problems] == ["bad-record", "orphan-result"]
    assert [message.content for message in reading.messages] == ["calling", "done"]


def test_usage_by_model_wins_and_the_rest_goes_to_the_sessions_model(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.session("s", model="a", input_tokens=100, output_tokens=30, reasoning_tokens=5)
    store.usage("s", "b", api_call_count=9, input_tokens=60, output_tokens=20, reasoning_tokens=5)
    store.usage("s", "a", api_call_count=1, input_tokens=10, output_tokens=4)
    store.usage("s", "a", task="title_generation", input_tokens=7, output_tokens=1)
    calls = store.one("s").calls
    assert [(c.model, c.purpose, c.tokens) for c in calls] == [
        ("b", "main", Tokens(input=60, output=20, thinking=5)),
        ("a", "main", Tokens(input=40, output=10, thinking=0)),
        ("a", "auxiliary", Tokens(input=7, output=1, thinking=0)),
    ]
    assert len({c.key for c in calls}) == 3


def test_one_model_by_several_ways_is_one_call(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.session("s", model="a", input_tokens=3, output_tokens=3)
    store.usage("s", "a", billing_provider="x", input_tokens=1, output_tokens=1)
    store.usage("s", "a", billing_provider="y", input_tokens=2, output_tokens=2)
    assert [(c.model, c.tokens.total) for c in store.one("s").calls] == [("a", 6)]


MONEY: list[tuple[dict[str, Any], int | None]] = [
    ({"actual_cost_usd": 0.5, "estimated_cost_usd": 0.3, "cost_status": "actual"}, 500_000_000),
    ({"estimated_cost_usd": 0.3, "cost_status": "estimated"}, 300_000_000),
    ({"estimated_cost_usd": 0.0, "cost_status": "unknown"}, None),
    ({"estimated_cost_usd": 0.0, "cost_status": "included"}, 0),
    ({"estimated_cost_usd": 0.0}, None),
    ({"estimated_cost_usd": 0.2}, 200_000_000),
    ({"estimated_cost_usd": "much", "cost_status": "estimated"}, None),
]


@pytest.mark.parametrize(("cells", "nusd"), MONEY)
def test_the_agents_own_cost_is_actual_then_estimated(
    cells: dict[str, Any], nusd: int | None, tmp_path: Path
) -> None:
    store = Store(tmp_path, version=11)
    store.session("s", model="m", input_tokens=1, output_tokens=1, **cells)
    (call,) = store.one("s").calls
    assert call.native_nusd == nusd


def test_a_sessions_cost_is_shared_among_its_models_to_the_last_unit(tmp_path: Path) -> None:
    store = Store(tmp_path)
    actual = {"actual_cost_usd": 0.000000010, "cost_status": "actual"}
    store.session("s", model="a", input_tokens=3, **actual)
    for model in ("a", "b", "c"):
        store.usage("s", model, input_tokens=1, estimated_cost_usd=0, cost_status="unknown")
    assert sorted(call.native_nusd or 0 for call in store.one("s").calls) == [3, 3, 4]


def test_reasoning_that_was_written_but_not_counted_is_unknown(tmp_path: Path) -> None:
    store = Store(tmp_path, version=11)
    store.session("s", model="m", output_tokens=9)
    store.say("s", "user", "think")
    store.say("s", "assistant", "done", reasoning="hm", finish_reason="stop")
    (call,) = store.one("s").calls
    assert call.tokens.thinking is None
    assert call.gaps == ("reasoning-not-recorded",)


def test_thinking_comes_from_the_details_when_nothing_else_has_it(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.session("s")
    details = json.dumps([{"type": "reasoning.text", "text": "step one"}, {"summary": "in short"}])
    store.say("s", "assistant", "done", reasoning_details=details)
    (message,) = store.read().messages
    assert message.thinking == "step one\nin short"


def test_a_session_that_was_never_billed_still_names_its_model(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.session("s", model="m")
    assert (store.one("s").calls, store.one("s").models) == ((), ("m",))


def test_listing_takes_as_many_statements_for_many_sessions_as_for_few(tmp_path: Path) -> None:
    counts: list[int] = []
    for size in (1, 60):
        store = Store(tmp_path / str(size))
        for number in range(size):
            store.session(f"s{number}", model="m", input_tokens=1)
            store.talk(f"s{number}", "hello", "hi")
        statements: list[str] = []
        with store.connect() as connection:
            connection.set_trace_callback(statements.append)
            assert len(read_sessions(connection, str(store.path)).facts) == size
        counts.append(len(statements))
        assert not any('"system_prompt"' in statement for statement in statements)
    assert counts[0] == counts[1]


CELLS = st.one_of(
    st.none(),
    st.integers(min_value=-(2**63), max_value=2**63 - 1),
    st.floats(allow_nan=False),
    st.text(max_size=20).filter(lambda text: not any("\ud800" <= c <= "\udfff" for c in text)),
    st.binary(max_size=20),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
        max_leaves=6,
    ).map(json.dumps),
    st.just("\0json:[1, {}]"),
)
SESSION_CELLS = (
    "source",
    "model",
    "model_config",
    "parent_session_id",
    "started_at",
    "ended_at",
    "end_reason",
    "input_tokens",
    "output_tokens",
    "reasoning_tokens",
    "estimated_cost_usd",
    "actual_cost_usd",
    "cost_status",
    "cwd",
    "title",
    "archived",
)
MESSAGE_CELLS = (
    "role",
    "content",
    "tool_calls",
    "tool_call_id",
    "tool_name",
    "timestamp",
    "reasoning",
    "reasoning_details",
    "active",
    "compacted",
    "observed",
)


@drawn(60)  # each example is a database of its own
@given(
    session=st.dictionaries(st.sampled_from(SESSION_CELLS), CELLS, max_size=4),
    message=st.dictionaries(st.sampled_from(MESSAGE_CELLS), CELLS, max_size=4),
)
def test_any_cell_may_hold_anything_and_no_neighbour_is_lost(
    session: dict[str, Any], message: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    store = Store(tmp_path_factory.mktemp("odd"))
    with store.connect() as connection:  # the agent's own constraints are not ours
        connection.executescript(
            "DROP TABLE sessions; DROP TABLE messages;"
            f"CREATE TABLE sessions (id, {', '.join(SESSION_CELLS)});"
            "CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id,"
            f" {', '.join(MESSAGE_CELLS)});"
        )
    store.session("odd", **session)
    store.session("plain", title="kept")
    store.insert("messages", session_id="odd", **{"role": "user", "content": "x", **message})
    store.insert("messages", session_id="odd", role="user", content="neighbour", active=1)
    store.insert("messages", session_id="plain", role="user", content="elsewhere", active=1)
    reading = store.read()
    by_session = reading.by_session()
    assert by_session["odd"][-1].content == "neighbour"
    assert [m.content for m in by_session["plain"]] == ["elsewhere"]
    assert {facts.session_id: facts.name for facts in reading.facts}["plain"] == "kept"
