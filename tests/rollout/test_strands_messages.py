"""Messages of Strands Agents read as messages and usage, without their framework."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st

from amux.model.message import SessionMessage
from amux.model.usage import Tokens
from amux.rollout.messages import messages_of, usage_of
from amux.rollout.records import Record, encode_payload

AT = datetime(2026, 3, 1, tzinfo=UTC)


def record_of(payload: Any) -> Record:
    return Record(seq=2, id="r", type="response_item", at=AT, text=encode_payload(payload))


def read(role: str, *blocks: Any, **more: Any) -> Sequence[SessionMessage]:
    message = {"role": role, "content": list(blocks)}
    return messages_of(record_of({"message": message, "message_id": 0, **more}), "strands")


def test_an_answer_has_text_thinking_and_calls() -> None:
    (found,) = read(
        "assistant",
        {"reasoningContent": {"reasoningText": {"text": "perhaps", "signature": "s"}}},
        {"text": "I look."},
        {"toolUse": {"toolUseId": "t1", "name": "ls", "input": {"path": "."}}},
        {"citationsContent": {"content": [{"text": "cited"}], "citations": []}},
    )
    assert (found.role, found.content, found.thinking) == ("assistant", "I look.\ncited", "perhaps")
    (call,) = found.tool_calls
    assert (call.tool_call_id, call.tool_name, call.input) == ("t1", "ls", {"path": "."})


def test_results_of_tools_come_before_what_is_said() -> None:
    first, second, last = read(
        "user",
        {"text": "and now?"},
        {"toolResult": {"toolUseId": "a", "status": "success", "content": [{"text": "3 files"}]}},
        {"toolResult": {"toolUseId": "b", "status": "error", "content": [{"json": {"code": 1}}]}},
    )
    assert [each.role for each in (first, second, last)] == ["tool", "tool", "user"]
    assert first.tool_result is not None
    assert second.tool_result is not None
    assert (first.content, first.tool_result.is_error) == ("3 files", False)
    assert (second.tool_result.output, second.tool_result.is_error) == ({"code": 1}, True)
    assert last.content == "and now?"
    assert len({each.id for each in (first, second, last)}) == 3


def test_a_redacted_message_shows_only_the_redaction() -> None:
    redaction = {"role": "user", "content": [{"text": "[redacted]"}]}
    (found,) = read("user", {"text": "secret"}, redact_message=redaction)
    assert found.content == "[redacted]"


def test_an_image_becomes_a_data_url() -> None:
    source = {"bytes": {"__bytes_encoded__": True, "data": "AAEC"}}
    (found,) = read("user", {"image": {"format": "png", "source": source}})
    assert found.images == ("data:image/png;base64,AAEC",)


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        (
            {"inputTokens": 100, "outputTokens": 20, "totalTokens": 120},
            Tokens(input=100, output=20),
        ),
        (  # as OpenAI and Gemini count: the cache is a part of the input
            {
                "inputTokens": 100,
                "outputTokens": 20,
                "totalTokens": 120,
                "cacheReadInputTokens": 60,
            },
            Tokens(input=40, cache_read=60, output=20),
        ),
        (  # as Anthropic counts: the cache is beside the input
            {
                "inputTokens": 100,
                "outputTokens": 20,
                "totalTokens": 187,
                "cacheReadInputTokens": 60,
                "cacheWriteInputTokens": 7,
            },
            Tokens(input=100, cache_read=60, cache_write=7, output=20),
        ),
    ],
)
def test_the_buckets_of_a_usage_are_disjoint(usage: dict[str, int], tokens: Tokens) -> None:
    message: dict[str, Any] = {"role": "assistant", "metadata": {"usage": usage}}
    found = usage_of(record_of({"message": message}), "strands")
    assert found is not None
    assert (found.tokens, found.model, found.cost_nusd) == (tokens, None, None)


def test_an_answer_without_usage_states_none() -> None:
    message = {"role": "assistant", "content": [{"text": "hi"}]}
    assert usage_of(record_of({"message": message}), "strands") is None


NAMES = ["text", "toolUse", "toolResult", "image", "source", "bytes", "content", "format", "usage"]
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner),
    max_leaves=8,
)


@drawn(200)
@given(
    content=values, metadata=values, redacted=values, role=st.sampled_from(["user", "assistant"])
)
def test_a_hostile_message_raises_nothing(
    content: Any, metadata: Any, redacted: Any, role: Any
) -> None:
    message = {"role": role, "content": content, "metadata": metadata}
    record = record_of({"message": message, "redact_message": redacted})
    messages_of(record, "strands")
    usage_of(record, "strands")
