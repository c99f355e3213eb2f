"""Items of OpenAI's Responses API read as messages, without their framework."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st

from amux.model.message import SessionMessage
from amux.rollout.messages import message_of, messages_of, usage_of
from amux.rollout.records import Record, encode_payload

AT = datetime(2026, 3, 1, tzinfo=UTC)


def read(item: Any) -> SessionMessage | None:
    record = Record(seq=2, id="r", type="response_item", at=AT, text=encode_payload(item))
    assert usage_of(record, "openai-items") is None, "items state no usage"
    return message_of(record, "openai-items")


@pytest.mark.parametrize(
    ("item", "role", "content"),
    [
        ({"role": "user", "content": "Hi"}, "user", "Hi"),
        ({"type": "message", "role": "developer", "content": "Be brief"}, "system", "Be brief"),
        (
            {
                "type": "message",
                "role": "assistant",
                "id": "m",
                "content": [
                    {"type": "output_text", "text": "A"},
                    {"type": "refusal", "refusal": "no B"},
                ],
            },
            "assistant",
            "A\nno B",
        ),
    ],
)
def test_a_message_keeps_its_role_and_text(item: Any, role: str, content: str) -> None:
    found = read(item)
    assert found is not None
    assert (found.role, found.content, found.timestamp) == (role, content, AT)


def test_reasoning_is_thinking() -> None:
    found = read(
        {
            "type": "reasoning",
            "id": "rs",
            "summary": [{"type": "summary_text", "text": "perhaps"}],
            "encrypted_content": "secret",
        }
    )
    assert found is not None
    assert (found.role, found.content, found.thinking) == ("assistant", "", "perhaps")


@pytest.mark.parametrize(
    ("item", "name", "given"),
    [
        ({"type": "function_call", "name": "ls", "arguments": '{"a": 1}'}, "ls", {"a": 1}),
        ({"type": "function_call", "name": "ls", "arguments": "{broken"}, "ls", "{broken"),
        ({"type": "custom_tool_call", "name": "sql", "input": "SELECT 1"}, "sql", "SELECT 1"),
        ({"type": "web_search_call", "action": {"query": "x"}}, "web_search", {"query": "x"}),
        ({"type": "code_interpreter_call", "code": "1 + 1"}, "code_interpreter", "1 + 1"),
    ],
)
def test_a_call_names_its_tool_and_input(item: Any, name: str, given: Any) -> None:
    found = read({"call_id": "c1", **item})
    assert found is not None
    (call,) = found.tool_calls
    assert (call.tool_call_id, call.tool_name, call.input) == ("c1", name, given)
    assert found.role == "assistant"


def test_an_output_belongs_to_its_call() -> None:
    found = read({"type": "function_call_output", "call_id": "c1", "output": "3 files"})
    assert found is not None
    assert found.tool_result is not None
    assert (found.role, found.content) == ("tool", "3 files")
    assert (found.tool_result.tool_call_id, found.tool_result.output) == ("c1", "3 files")


def test_a_pasted_image_is_kept() -> None:
    url = "data:image/png;base64,iVBORw0KGgo="
    parts = [{"type": "input_text", "text": "see"}, {"type": "input_image", "image_url": url}]
    found = read({"role": "user", "content": parts})
    assert found is not None
    assert (found.content, found.images) == ("see", (url,))


def test_a_compaction_is_marked() -> None:
    found = read({"type": "compaction", "encrypted_content": "secret"})
    assert found is not None
    assert found.compaction
    assert found.synthetic


values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "role", "content", "text", "image_url", "summary"]), inner
        )
    ),
    max_leaves=6,
)
TYPES = ["message", "reasoning", "function_call", "function_call_output", "compaction", "_call"]


@drawn(200)
@given(
    item=st.dictionaries(
        st.sampled_from(
            ["role", "content", "summary", "arguments", "output", "call_id", "name", "status"]
        ),
        values,
    ),
    kind=st.sampled_from(TYPES) | values,
)
def test_a_hostile_item_raises_nothing(item: dict[str, Any], kind: Any) -> None:
    text = encode_payload({**item, "type": kind})
    record = Record(seq=2, id="r", type="response_item", at=AT, text=text)
    assert len(messages_of(record, "openai-items")) <= 1
