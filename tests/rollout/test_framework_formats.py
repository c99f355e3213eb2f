"""The formats of Pydantic AI and the Agent Development Kit, with payloads as they write them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from amux.model.usage import Tokens
from amux.rollout.messages import messages_of, usage_of
from amux.rollout.records import Record

AT = datetime(2026, 3, 1, tzinfo=UTC)


def record(payload: dict[str, Any]) -> Record:
    return Record(seq=2, id="r", type="response_item", at=AT, text=json.dumps(payload))


RESPONSE = {
    "parts": [
        {"content": "Hm.", "signature": None, "part_kind": "thinking"},
        {"content": "Look: ", "part_kind": "text"},
        {"tool_name": "t", "args": '{"a":1}', "tool_call_id": "c", "part_kind": "tool-call"},
        {"content": {"data": "_wA=", "media_type": "image/png", "kind": "binary"},
         "part_kind": "file"},
        {"content": "here", "part_kind": "text"},
        {"tool_name": "web", "args": {"q": 1}, "tool_call_id": "n",
         "part_kind": "builtin-tool-call"},
        {"tool_name": "web", "content": {"r": 1}, "tool_call_id": "n", "outcome": "success",
         "part_kind": "builtin-tool-return"},
    ],
    "usage": {"input_tokens": 10, "cache_write_tokens": 2, "cache_read_tokens": 3,
              "output_tokens": 4, "output_reasoning_tokens": 0,
              "details": {"reasoning_tokens": 1}, "cost": "0.25"},
    "model_name": "gpt-5",
    "kind": "response",
}  # fmt: skip
REQUEST = {
    "parts": [
        {"content": "Be brief.", "part_kind": "system-prompt"},
        {"content": ["hi", {"url": "http://x/y.png", "kind": "image-url"},
                     {"data": "_wA=", "media_type": "image/png", "kind": "binary"}, "there"],
         "part_kind": "user-prompt"},
        {"tool_name": "t", "content": {"z": 1}, "tool_call_id": "c", "outcome": "failed",
         "part_kind": "tool-return"},
        {"content": [{"msg": "wrong"}], "tool_name": None, "part_kind": "retry-prompt"},
    ],
    "kind": "request",
}  # fmt: skip


def test_a_response_of_pydantic_ai_is_an_answer_with_its_thinking_tools_and_images() -> None:
    answer, result = messages_of(record(RESPONSE), "pydantic-ai")
    assert (answer.role, answer.content, answer.thinking) == ("assistant", "Look: here", "Hm.")
    assert answer.model == "gpt-5"
    assert [call.tool_name for call in answer.tool_calls] == ["t", "web"]
    assert answer.images == ("data:image/png;base64,/wA=",)
    assert result.tool_result is not None
    assert (result.tool_result.tool_call_id, result.tool_result.is_error) == ("n", False)


def test_the_tokens_of_pydantic_ai_do_not_overlap_and_unknown_usage_is_not_zero() -> None:
    usage = usage_of(record(RESPONSE), "pydantic-ai")
    assert usage is not None
    assert usage.tokens == Tokens(input=5, cache_read=3, cache_write=2, output=4, thinking=1)
    assert (usage.model, usage.cost_nusd) == ("gpt-5", 250_000_000)
    unknown = {**RESPONSE, "usage": {"input_tokens": 0, "output_tokens": 0, "cost": None}}
    assert usage_of(record(unknown), "pydantic-ai") is None
    assert usage_of(record(REQUEST), "pydantic-ai") is None


def test_the_parts_of_a_request_of_pydantic_ai_are_prompts_and_results() -> None:
    system, prompt, result, retry = messages_of(record(REQUEST), "pydantic-ai")
    assert (system.role, system.synthetic) == ("system", True)
    assert (prompt.role, prompt.content, prompt.synthetic) == ("user", "hi\nthere", False)
    assert prompt.images == ("data:image/png;base64,/wA=",)
    assert result.tool_result is not None
    assert (result.tool_result.output, result.tool_result.is_error) == ({"z": 1}, True)
    assert (retry.role, retry.content, retry.synthetic) == ("user", "wrong", True)


EVENT = {
    "modelVersion": "gemini-3",
    "author": "agent",
    "content": {
        "role": "model",
        "parts": [
            {"text": "Hm.", "thought": True},
            {"text": "Look"},
            {"functionCall": {"id": "1", "name": "f", "args": {"a": 1}}},
            {"functionResponse": {"id": "0", "name": "g", "response": {"error": "no"}}},
            {"inlineData": {"data": "_wA=", "mimeType": "image/png"}},
        ],
    },
    "usageMetadata": {
        "cachedContentTokenCount": 3,
        "candidatesTokenCount": 2,
        "promptTokenCount": 10,
        "thoughtsTokenCount": 5,
        "toolUsePromptTokenCount": 4,
        "totalTokenCount": 21,
    },
}


def test_an_event_of_the_kit_is_results_of_tools_and_an_answer() -> None:
    result, answer = messages_of(record(EVENT), "adk-event")
    assert result.tool_result is not None
    assert (result.tool_result.tool_name, result.tool_result.is_error) == ("g", True)
    assert (answer.role, answer.content, answer.thinking) == ("assistant", "Look", "Hm.")
    assert answer.tool_calls[0].input == {"a": 1}
    assert (answer.model, answer.images) == ("gemini-3", ("data:image/png;base64,/wA=",))


def test_the_tokens_of_an_event_add_up_to_its_total() -> None:
    usage = usage_of(record(EVENT), "adk-event")
    assert usage is not None
    assert usage.tokens == Tokens(input=11, cache_read=3, output=7, thinking=5)
    assert usage.tokens.total == 21
    without = {name: value for name, value in EVENT.items() if name != "usageMetadata"}
    assert usage_of(record(without), "adk-event") is None


def test_prompts_errors_and_summaries_of_the_kit_have_their_roles() -> None:
    prompt = {"author": "user", "content": {"role": "user", "parts": [{"text": "hi"}]}}
    assert [each.role for each in messages_of(record(prompt), "adk-event")] == ["user"]
    failed = {"author": "agent", "errorCode": "503", "errorMessage": "too busy"}
    (notice,) = messages_of(record(failed), "adk-event")
    assert (notice.content, notice.synthetic) == ("too busy", True)
    summary = {"compactedContent": {"parts": [{"text": "in short"}]}}
    compacted = {"author": "user", "actions": {"compaction": summary}}
    (message,) = messages_of(record(compacted), "adk-event")
    assert (message.content, message.compaction) == ("in short", True)
    assert messages_of(record({"author": "agent", "actions": {}}), "adk-event") == []
