"""Each agent's own output is read into events; the records are those that the agents document."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amux.launchers import LAUNCHERS
from amux.model.usage import Tokens
from amux.runs.events import AgentEvent
from amux.runs.readers import FORMATS, make_reader

Record = dict[str, Any]


def read(format: str, *records: Record, action: str = "new") -> list[AgentEvent]:
    reader = make_reader(format, action=action)
    lines = [json.dumps(record).encode() + b"\n" for record in records]
    events = [event for line in lines for event in reader.line(line)]
    return [*events, *reader.finish()]


def shown(events: list[AgentEvent]) -> list[tuple[str, Any]]:
    """Each event with what matters of it."""
    parts: dict[str, Callable[[AgentEvent], Any]] = {
        "text": lambda e: e.text,
        "thinking": lambda e: e.text,
        "tool_call": lambda e: (e.tool, e.call_id, e.input),
        "tool_result": lambda e: (e.call_id, e.text, e.is_error),
        "usage": lambda e: (e.tokens, e.scope),
        "cost": lambda e: (e.cost_usd, e.scope),
        "session": lambda e: e.session_id,
        "error": lambda e: e.text,
        "end": lambda e: (e.text, e.is_error),
        "unknown": lambda e: e.raw,
    }
    return [(event.type, parts[event.type](event)) for event in events]


def test_codex_items_are_texts_thoughts_and_tools() -> None:
    call = {"id": "item_1", "type": "command_execution", "command": "bash -lc ls"}
    events = read(
        "codex",
        {"type": "thread.started", "thread_id": "t-1"},
        {"type": "turn.started"},
        {"type": "item.completed", "item": {"type": "reasoning", "text": "**Look**"}},
        {"type": "item.started", "item": {**call, "aggregated_output": ""}},
        {"type": "item.completed", "item": {**call, "aggregated_output": "a\n", "exit_code": 1,
                                            "status": "failed"}},
        {"type": "item.completed", "item": {"type": "agent_message", "text": "One."}},
        {"type": "turn.completed", "usage": {"input_tokens": 100, "cached_input_tokens": 60,
                                             "output_tokens": 9, "reasoning_output_tokens": 4}},
    )  # fmt: skip
    used = Tokens(input=40, cache_read=60, output=9, thinking=4)
    assert shown(events) == [
        ("session", "t-1"),
        ("unknown", {"type": "turn.started"}),
        ("thinking", "**Look**"),
        ("tool_call", ("command_execution", "item_1", {"command": "bash -lc ls"})),
        ("tool_result", ("item_1", "a\n", True)),
        ("text", "One."),
        ("usage", (used, "run")),
        ("end", ("One.", False)),
    ]


def test_codex_counts_the_whole_thread_when_it_resumes() -> None:
    (usage, _) = read(
        "codex", {"type": "turn.completed", "usage": {"input_tokens": 5, "output_tokens": 1}},
        action="resume",
    )  # fmt: skip
    assert usage.scope == "session"


def test_codex_failures_end_the_run() -> None:
    failed = {"type": "turn.failed", "error": {"message": "stream error"}}
    assert shown(read("codex", {"type": "error", "message": "retrying"}, failed)) == [
        ("error", "retrying"),
        ("end", ("stream error", True)),
    ]


def test_codex_events_of_older_versions() -> None:
    events = read(
        "codex",
        {"id": "0", "msg": {"type": "session_configured", "session_id": "s", "model": "gpt-5"}},
        {"id": "1", "msg": {"type": "agent_reasoning", "text": "hm"}},
        {"id": "1", "msg": {"type": "exec_command_begin", "call_id": "c", "command": ["ls"]}},
        {"msg": {"type": "exec_command_end", "call_id": "c", "stdout": "a", "exit_code": 0}},
        {"id": "1", "msg": {"type": "agent_message", "message": "Done."}},
        {"id": "1", "msg": {"type": "token_count", "info": {"total_token_usage": {
            "input_tokens": 10, "cached_input_tokens": 4, "output_tokens": 2}}}},
        {"id": "1", "msg": {"type": "plan_update"}},
    )  # fmt: skip
    assert shown(events)[:-1] == [
        ("session", "s"),
        ("thinking", "hm"),
        ("tool_call", ("command_execution", "c", {"command": ["ls"]})),
        ("tool_result", ("c", "a", False)),
        ("text", "Done."),
        ("usage", (Tokens(input=6, cache_read=4, output=2), "run")),
    ]
    assert events[-1].type == "unknown"


def test_claude_reports_the_cost_of_a_resumed_run_with_its_extent() -> None:
    result = {"type": "result", "result": "x", "total_cost_usd": 0.5}
    old = {"type": "system", "subtype": "init", "session_id": "s", "claude_code_version": "2.1.200"}
    new = {**old, "claude_code_version": "2.1.325"}
    scopes = [
        next(e.scope for e in read("claude", *records, action=action) if e.type == "cost")
        for action, records in [
            ("new", (new, result)),
            ("resume", (old, result)),
            ("resume", (new, result)),
            ("fork", (new, result)),
            ("resume", (result,)),
        ]
    ]
    assert scopes == ["run", "run", "session", "session", "session"]


def test_gemini_streams_parts_of_its_answer() -> None:
    events = read(
        "gemini",
        {"type": "init", "session_id": "g-1", "model": "gemini-2.5-pro"},
        {"type": "message", "role": "user", "content": "hi"},
        {"type": "message", "role": "assistant", "content": "I ", "delta": True},
        {"type": "tool_use", "tool_name": "ls", "tool_id": "c", "parameters": {"path": "."}},
        {"type": "tool_result", "tool_id": "c", "status": "error",
         "error": {"type": "x", "message": "no"}},
        {"type": "message", "role": "assistant", "content": "Fine", "delta": True},
        {"type": "message", "role": "assistant", "content": ".", "delta": True},
        {"type": "error", "severity": "warning", "message": "slow"},
        {"type": "result", "status": "success", "stats": {
            "total_tokens": 17, "input_tokens": 12, "output_tokens": 3, "cached": 2}},
    )  # fmt: skip
    assert shown(events) == [
        ("session", "g-1"),
        ("unknown", {"type": "message", "role": "user", "content": "hi"}),
        ("text", "I "),
        ("tool_call", ("ls", "c", {"path": "."})),
        ("tool_result", ("c", "no", True)),
        ("text", "Fine"),
        ("text", "."),
        ("error", "slow"),
        ("usage", (Tokens(input=10, cache_read=2, output=5, thinking=2), "run")),
        ("end", ("Fine.", False)),
    ]


@pytest.mark.parametrize(("action", "scope"), [("new", "run"), ("resume", "session")])
def test_qwen_counts_the_cache_as_input_and_resumes_with_the_sum_of_the_session(
    action: str, scope: str
) -> None:
    usage = {"input_tokens": 18, "cache_read_input_tokens": 11, "output_tokens": 3}
    message: dict[str, Any] = {"id": "m", "model": "q", "content": [], "usage": usage}
    records = {"type": "assistant", "message": message}, {"type": "result", "usage": usage}
    events = read("qwen", *records, action=action)
    tokens = Tokens(input=7, cache_read=11, output=3)
    assert shown(events)[:2] == [("usage", (tokens, "call")), ("usage", (tokens, scope))]


def test_a_document_of_an_older_gemini_is_read_at_its_end() -> None:
    reader = make_reader("gemini-document")
    document = {"session_id": "g", "response": "Fine.", "stats": {"models": {"gemini-2.5-pro": {
        "tokens": {"prompt": 12, "candidates": 3, "cached": 2, "thoughts": 4}}}}}  # fmt: skip
    text = "Loaded cached credentials.\n" + json.dumps(document, indent=2)
    first, *rest = [e for line in text.encode().splitlines(True) for e in reader.line(line)]
    assert (first.type, first.text, rest) == ("unknown", "Loaded cached credentials.", [])
    assert shown(list(reader.finish())) == [
        ("session", "g"),
        ("text", "Fine."),
        ("usage", (Tokens(input=10, cache_read=2, output=7, thinking=4), "call")),
        ("end", ("Fine.", False)),
    ]


def test_copilot_events_are_those_of_its_log() -> None:
    events = read(
        "copilot",
        {"type": "session.start", "data": {"sessionId": "c-1", "selectedModel": "gpt-5"}},
        {"type": "assistant.message", "data": {"messageId": "m", "content": "",
            "toolRequests": [{"toolCallId": "t", "name": "bash", "arguments": {"command": "ls"}}]}},
        {"type": "tool.execution_complete", "data": {"toolCallId": "t", "success": True,
            "result": {"content": "a"}, "shellExecution": {"exitCode": 1}}},
        {"type": "assistant.message_delta", "data": {"messageId": "n", "deltaContent": "Do"}},
        {"type": "assistant.message_delta", "data": {"messageId": "n", "deltaContent": "ne."}},
        {"type": "assistant.message", "data": {"messageId": "n", "content": "Done."}},
        {"type": "assistant.usage", "data": {"model": "gpt-5", "inputTokens": 50,
            "outputTokens": 5, "cacheReadTokens": 30, "cacheWriteTokens": 10}},
        {"type": "result", "sessionId": "c-1", "exitCode": 0},
    )  # fmt: skip
    assert [each for each in shown(events) if each[0] != "unknown"] == [
        ("session", "c-1"),
        ("tool_call", ("bash", "t", {"command": "ls"})),
        ("tool_result", ("t", "a", True)),
        ("text", "Do"),
        ("text", "ne."),
        ("usage", (Tokens(input=10, cache_read=30, cache_write=10, output=5), "call")),
        ("end", ("Done.", False)),
    ]


def test_cursor_names_a_tool_by_its_key() -> None:
    events = read(
        "cursor",
        {"type": "system", "subtype": "init", "session_id": "u", "model": "Auto"},
        {"type": "thinking", "subtype": "delta", "text": "hm"},
        {"type": "tool_call", "subtype": "started", "call_id": "c",
         "tool_call": {"readToolCall": {"args": {"path": "a"}}}},
        {"type": "tool_call", "subtype": "completed", "call_id": "c", "tool_call": {
            "readToolCall": {"args": {"path": "a"}, "result": {"success": {"content": "x"}}}}},
        {"type": "assistant", "message": {"content": [{"type": "text", "text": "It is x."}]}},
        {"type": "result", "subtype": "success", "is_error": False, "result": "It is x.",
         "session_id": "u"},
    )  # fmt: skip
    assert shown(events) == [
        ("session", "u"),
        ("thinking", "hm"),
        ("tool_call", ("read", "c", {"path": "a"})),
        ("tool_result", ("c", "x", False)),
        ("text", "It is x."),
        ("end", ("It is x.", False)),
    ]


def test_opencode_reports_tools_with_results_and_steps_with_tokens_and_cost() -> None:
    # the last two records are those that 1.18.33 printed
    part = {"id": "prt_1", "messageID": "msg_1", "sessionID": "ses_1"}
    events = read(
        "opencode",
        {"type": "step_start", "sessionID": "ses_1", "part": {**part, "type": "step-start"}},
        {"type": "tool_use", "sessionID": "ses_1", "part": {**part, "type": "tool", "tool": "bash",
            "callID": "c", "state": {"status": "completed", "input": {"command": "false"},
                                     "output": "", "metadata": {"exit": 1}}}},
        {"type": "text", "timestamp": 1794774839430, "sessionID": "ses_1",
         "part": {**part, "type": "text", "text": "This is the alternative branch answer."}},
        {"type": "step_finish", "timestamp": 1794774839708, "sessionID": "ses_1", "part": {
            **part, "reason": "stop", "type": "step-finish", "cost": 0.0064011,
            "tokens": {"total": 3452, "input": 1014, "output": 106, "reasoning": 0,
                       "cache": {"write": 310, "read": 2022}}}},
    )  # fmt: skip
    used = Tokens(input=1014, cache_read=2022, cache_write=310, output=106, thinking=0)
    assert [each for each in shown(events) if each[0] != "unknown"] == [
        ("session", "ses_1"),
        ("tool_call", ("bash", "c", {"command": "false"})),
        ("tool_result", ("c", None, True)),
        ("text", "This is the alternative branch answer."),
        ("usage", (used, "call")),
        ("cost", (0.0064011, "call")),
    ]


def test_pi_repeats_a_streamed_message_once() -> None:
    message = {"role": "assistant", "model": "m", "stopReason": "stop",
               "content": [{"type": "text", "text": "Hi."}],
               "usage": {"input": 3, "output": 2, "cacheRead": 1, "cacheWrite": 4,
                         "cost": {"total": 0.25}}}  # fmt: skip
    delta = {"type": "message_update", "message": message}
    events = read(
        "pi",
        {"type": "session", "version": 3, "id": "p-1", "cwd": "/w"},
        {**delta, "assistantMessageEvent": {"type": "text_delta", "delta": "Hi"}},
        {**delta, "assistantMessageEvent": {"type": "text_delta", "delta": "."}},
        {"type": "message_end", "message": message},
        {"type": "tool_execution_start", "toolCallId": "t", "toolName": "ls", "args": {}},
        {"type": "tool_execution_end", "toolCallId": "t", "toolName": "ls", "isError": True,
         "result": {"content": [{"type": "text", "text": "no"}]}},
        {"type": "message_end", "message": {**message, "usage": {}}},
        {"type": "agent_end", "messages": []},
    )  # fmt: skip
    assert shown(events) == [
        ("session", "p-1"),
        ("text", "Hi"),
        ("text", "."),
        ("usage", (Tokens(input=3, output=2, cache_read=1, cache_write=4), "call")),
        ("cost", (0.25, "call")),
        ("tool_call", ("ls", "t", {})),
        ("tool_result", ("t", "no", True)),
        ("text", "Hi."),
        ("end", ("Hi.", False)),
    ]


def test_pi_reports_that_the_model_failed() -> None:
    message: Record = {
        "role": "assistant",
        "content": [],
        "stopReason": "error",
        "errorMessage": "529",
    }
    events = read("pi", {"type": "message_end", "message": message}, {"type": "agent_end"})
    assert shown(events)[-1] == ("end", ("529", True))


def test_droid_events() -> None:
    events = read(
        "droid",
        {"type": "system", "subtype": "init", "session_id": "d", "model": "m"},
        {"type": "message", "role": "user", "text": "hi"},
        {"type": "tool_call", "id": "t", "toolName": "LS", "parameters": {"a": 1}},
        {"type": "tool_result", "id": "t", "toolName": "LS", "isError": False, "value": "x"},
        {"type": "message", "role": "assistant", "text": "Done."},
        {"type": "completion", "finalText": "Done.", "session_id": "d",
         "usage": {"input_tokens": 4, "output_tokens": 2}},
    )  # fmt: skip
    assert [each for each in shown(events) if each[0] != "unknown"] == [
        ("session", "d"),
        ("tool_call", ("LS", "t", {"a": 1})),
        ("tool_result", ("t", "x", False)),
        ("text", "Done."),
        ("usage", (Tokens(input=4, output=2), "run")),
        ("end", ("Done.", False)),
    ]


def test_droid_repeats_a_thought_and_resumes_with_the_sum_of_the_session() -> None:
    thought = {"type": "reasoning", "id": "r", "text": "Hm."}
    ended = {"type": "completion", "usage": {"input_tokens": 4, "output_tokens": 2}}
    events = read("droid", thought, thought, ended, action="resume")
    assert shown(events)[:3] == [
        ("thinking", "Hm."),
        ("unknown", thought),
        ("usage", (Tokens(input=4, output=2), "session")),
    ]


@pytest.mark.parametrize("is_wrapped", [False, True])
def test_openclaw_prints_one_document(is_wrapped: bool) -> None:
    result = {"payloads": [{"text": "One."}, {"text": "Two."}], "meta": {"agentMeta": {
        "sessionId": "o", "usage": {"input": 5, "output": 2, "cacheRead": 3}}}}  # fmt: skip
    reader = make_reader("openclaw")
    text = json.dumps({"status": "ok", "result": result} if is_wrapped else result, indent=2)
    assert [event for line in text.encode().splitlines(True) for event in reader.line(line)] == []
    assert shown(list(reader.finish())) == [
        ("session", "o"),
        ("text", "One."),
        ("text", "Two."),
        ("usage", (Tokens(input=5, output=2, cache_read=3), "run")),
        ("end", ("One.\n\nTwo.", False)),
    ]


def test_hermes_prints_text_and_its_session() -> None:
    reader = make_reader("hermes")
    lines = [b"Hello\n", b"\n", b"session_id: 20261118_100000_abcdef\n"]
    events = [event for line in lines for event in reader.line(line)]
    assert shown(events) == [
        ("text", "Hello\n"),
        ("text", "\n"),
        ("session", "20261118_100000_abcdef"),
    ]


def test_hermes_names_its_session_on_the_standard_error() -> None:
    reader = make_reader("hermes")
    events = list(reader.errors("a warning\n\nsession_id: 20261118_100000_abcdef\n"))
    assert shown(events) == [("session", "20261118_100000_abcdef")]


def test_every_format_of_a_launcher_has_a_reader() -> None:
    named = {format for each in LAUNCHERS.values() for format in each.formats}
    assert named | {"text"} == set(FORMATS)
    for format in FORMATS:
        make_reader(format)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["type", "data", "message", "item", "part", "usage", "content", "msg",
                         "subtype", "role", "state", "tokens", "result", "meta", "tool_call",
                         "exit_code", "status", "stopReason", "exitCode", "exit", "metadata",
                         "shellExecution", "assistantMessageEvent", "id", "messageId"]),
        inner, max_size=4),
    max_leaves=12,
)  # fmt: skip
KINDS = st.sampled_from(["assistant", "user", "result", "system", "turn.completed", "text",
    "item.completed", "item.started", "tool_use", "tool_call", "tool_result", "message", "error",
    "message_end", "message_update", "agent_end", "step_finish", "completion", "session",
    "assistant.message", "assistant.usage", "tool.execution_complete", "stream", ""])  # fmt: skip


@given(data=st.dictionaries(st.sampled_from(["message", "item", "part", "data", "usage", "msg",
    "error", "stats", "toolName", "session_id", "result", "tool_call", "text", "role",
    "exitCode", "assistantMessageEvent", "agentId"]), JSON),
    kind=KINDS, format=st.sampled_from(sorted(FORMATS)))  # fmt: skip
def test_any_record_is_read_and_its_own_words_are_kept(
    data: Record, kind: str, format: str
) -> None:
    record = {"type": kind, **data}
    reader = make_reader(format)
    line = json.dumps(record).encode() + b"\n"
    events = [*reader.line(line), *reader.finish()]
    assert events
    if format not in {"text", "hermes"}:
        kept = [event.raw for event in events if event.raw is not None]
        expected = json.loads(line)
        assert [json.loads(json.dumps(raw)) for raw in kept] == [expected] or any(
            event.text for event in events if event.type == "unknown"
        )
    for event in events:
        event.to_json()


@given(line=st.binary(max_size=200), format=st.sampled_from(sorted(FORMATS)))
def test_any_bytes_are_read(line: bytes, format: str) -> None:
    reader = make_reader(format)
    events = [*reader.line(line), *reader.finish()]
    assert events or not line.strip()
