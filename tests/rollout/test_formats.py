"""Payload formats: every one reads any JSON without an exception, and records may hold much."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st

from amux.rollout import control
from amux.rollout.formats import MODULES, find_format
from amux.rollout.messages import message_of, messages_of, usage_of
from amux.rollout.records import Record
from amux.rollout.threads import changes_by

AT = datetime(2026, 3, 1, tzinfo=UTC)
NAMES = st.sampled_from(
    [
        *("type", "role", "content", "message", "parts", "text", "usage", "id", "model", "kind"),
        *("usageMetadata", "metadata", "tool_use_id", "call_id", "output", "name", "arguments"),
        *("input_tokens", "output_tokens", "author", "functionCall", "functionResponse", "toolUse"),
        *("toolResult", "summary", "tool_calls", "thinking", "isMeta", "requestId", "part_kind"),
    ]
)
WORDS = st.sampled_from(
    [
        *("assistant", "user", "system", "tool", "text", "thinking", "tool_use", "tool_result"),
        *("function_call", "function_call_output", "reasoning", "message", "request", "response"),
        *("user-prompt", "tool-return", "tool-call", "a\ud800b", "", "\0"),
    ]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | WORDS
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=20,
)


def record(payload: Any, *, seq: int = 2, **fields: Any) -> Record:
    text = msgspec.json.encode(payload).decode()
    return Record(seq=seq, id=f"r{seq}", type="response_item", at=AT, text=text, **fields)


def line(seq: int, answer: str, output: int, **fields: Any) -> Record:
    message = {
        "id": answer,
        "model": "claude-sonnet-4-5",
        "content": [{"type": "text", "text": f"part {seq}"}],
        "usage": {"input_tokens": 10, "output_tokens": output, "cache_read_input_tokens": 5},
    }
    return record({"type": "assistant", "message": message, **fields}, seq=seq)


@pytest.mark.parametrize("name", MODULES)
@given(payload=st.dictionaries(NAMES, VALUES, max_size=6))
@drawn(100)
def test_no_payload_stops_a_format(name: str, payload: dict[str, Any]) -> None:
    found = find_format(name)
    assert found is not None
    holder = Record(seq=2, id="r", type="response_item", at=AT, text="{}")
    for message in found.messages(holder, payload):
        assert message.role in {"user", "assistant", "system", "tool"}
    usage = found.usage(payload)
    if usage is not None:
        assert min(usage.counts().values()) >= 0


def test_an_unknown_format_has_no_messages() -> None:
    assert messages_of(record({"role": "user", "content": "x"}), "of tomorrow") == ()
    assert message_of(record({"role": "user", "content": "x"}), "of tomorrow") is None
    assert usage_of(record({"usage": {"input_tokens": 1}}), "of tomorrow") is None


def test_the_messages_of_one_record_have_ids_and_follow_each_other() -> None:
    blocks = [
        {"type": "tool_result", "tool_use_id": "t1", "content": "one"},
        {"type": "tool_result", "tool_use_id": "t2", "content": "two", "is_error": True},
        {"type": "text", "text": "and go on"},
    ]
    holder = record({"type": "user", "message": {"content": blocks}}, parent_id="p")
    found = messages_of(holder, "claude-jsonl")
    assert [each.role for each in found] == ["tool", "tool", "user"]
    assert [each.id for each in found] == ["r2", "r2#2", "r2#3"]
    assert [each.parent_id for each in found] == ["p", "r2", "r2#2"]
    one = message_of(holder, "claude-jsonl")
    assert one is not None
    assert (one.role, one.content, one.id) == ("user", "one\ntwo\nand go on", "r2")


def test_lines_of_one_answer_count_once_also_across_appends() -> None:
    lines = [line(2, "a", 1), line(3, "a", 8), line(4, "b", 3), line(5, "b", 3), line(6, "b", 2)]
    whole = changes_by(lines, payload_format="claude-jsonl", written_at=AT).added
    assert whole == {
        "message_count": 2,
        "input_tokens": 20,
        "output_tokens": 11,
        "cache_read_tokens": 10,
    }
    apart: dict[str, int] = {}
    last_call: str | None = None
    for each in lines:
        changes = changes_by(
            [each], payload_format="claude-jsonl", written_at=AT, last_call=last_call
        )
        last_call = changes.last_call
        for name, count in changes.added.items():
            apart[name] = apart.get(name, 0) + count
    assert apart == whole


def test_copies_of_a_fork_and_notices_state_no_usage() -> None:
    assert usage_of(line(2, "a", 5, forkedFrom={"sessionId": "x"}), "claude-jsonl") is None
    assert usage_of(line(2, "a", 5, isApiErrorMessage=True), "claude-jsonl") is None


def test_a_projection_counts_as_a_message_with_its_usage() -> None:
    message = {
        "role": "assistant",
        "content": "hi",
        "model": "m",
        "usage": {"input_tokens": 7, "output_tokens": 2},
    }
    new = control.projection("r2", message)
    shown = Record(
        seq=3, id="p", type="event_msg", at=AT, text=msgspec.json.encode(new.payload).decode()
    )
    added = changes_by([shown], payload_format="langgraph", written_at=AT).added
    assert added == {"message_count": 1, "input_tokens": 7, "output_tokens": 2}
