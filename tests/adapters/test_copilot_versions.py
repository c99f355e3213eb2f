"""Tests Copilot CLI documents as specified, and versions without a capture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from copilot_logs import (
    AGENT,
    ORIGIN,
    OWN,
    Json,
    Log,
    client,
    codes,
    document,
    get,
    outcomes,
    prompts,
)

# documents


MESSAGES: list[Json] = [
    {"role": "user", "content": "What is up?", "timestamp": "2026-01-02T03:04:05Z"},
    {"role": "assistant", "content": "Nothing.", "model": "gpt-5"},
]


@pytest.mark.parametrize("value", [{"messages": MESSAGES}, MESSAGES])
def test_a_specified_document_without_token_counts_has_no_cost(value: Any, tmp_path: Path) -> None:
    document(tmp_path, value)
    (summary,) = client(tmp_path).sessions.list("copilot")
    assert (summary.session_id, summary.title, summary.turn_count) == ("abc", "What is up?", 1)
    assert summary.cost is None
    assert summary.model == "gpt-5"
    assert [m.content for m in get(tmp_path, "abc").messages] == ["What is up?", "Nothing."]


def test_a_specified_document_with_token_counts_is_estimated(tmp_path: Path) -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 10}
    usage |= {"prompt_tokens_details": {"cached_tokens": 40}}
    document(tmp_path, {"messages": [MESSAGES[0], MESSAGES[1] | {"usage": usage}]})
    cost = get(tmp_path, "abc").cost
    assert cost is not None
    assert (cost.input_tokens, cost.cached_tokens, cost.output_tokens) == (60, 40, 10)
    assert cost.source == "estimate"
    assert cost.total_usd > 0


def test_a_document_that_is_torn_is_a_problem_and_an_empty_one_no_session(tmp_path: Path) -> None:
    document(tmp_path, {}).write_text('{"messages": [{"ro')
    document(tmp_path, {}, "empty").write_text("")
    found = client(tmp_path)
    assert found.sessions.list("copilot") == []
    (report,) = found.doctor("copilot")
    assert {file.path: file.status for file in report.files} == {
        "abc.json": "unread",
        "empty.json": "no-session",
    }


def test_the_first_releases_kept_one_document_with_context_around_the_prompt(
    tmp_path: Path,
) -> None:
    typed = "Fix it\n\n<current_datetime>now</current_datetime>\n<reminder>\nbe brief\n</reminder>"
    call = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"a": 1}'}}
    value = {
        "sessionId": OWN,
        "startTime": "2026-01-02T03:04:05Z",
        "chatMessages": [
            {"role": "user", "content": typed},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "no\n<exited with exit code 2>"},
            {"role": "assistant", "content": "Failed."},
        ],
        "timeline": [{"type": "user", "text": "Fix it", "timestamp": "2026-01-02T04:00:00Z"}],
    }
    folder = tmp_path / ".copilot" / "history-session-state"
    folder.mkdir(parents=True)
    (folder / f"session_{OWN}_1767323045000.json").write_text(json.dumps(value))
    session = get(tmp_path)
    assert (session.title, prompts(session)) == ("Fix it", ["Fix it"])
    assert outcomes(session) == [True]
    assert session.messages[1].tool_calls[0].input == {"a": 1}
    assert session.created_at.isoformat() == "2026-01-02T03:04:05+00:00"
    assert session.updated_at.hour == 4
    assert session.cost is None


def test_a_document_with_nothing_but_a_timeline_shows_the_timeline(tmp_path: Path) -> None:
    timeline = [{"type": "user", "text": "Hi"}, {"type": "info", "text": "x"}]
    timeline.append({"type": "copilot", "text": "Hello"})
    document(tmp_path, {"sessionId": "abc", "chatMessages": [], "timeline": timeline})
    assert [m.content for m in get(tmp_path, "abc").messages] == ["Hi", "Hello"]


# logs


def test_lines_written_twice_count_once_and_lost_lines_cost_nothing_else(tmp_path: Path) -> None:
    log = Log().start().prompt("Go")
    log.lines *= 2
    log.add("tool.execution_complete", toolCallId="lost", success=True, result={"content": "ok"})
    log.answer("Done").write(tmp_path, flat=True)
    session = get(tmp_path)
    assert prompts(session) == ["Go"]
    assert [m.role for m in session.messages] == ["user", "tool", "assistant"]
    assert codes(session) == ["orphan-result"]
    assert session.cwd is None
    assert session.cost is None, "this version keeps no usage"


@pytest.mark.parametrize(
    ("tool", "more", "failed"),
    [
        ("bash", {"shellExecution": {"exitCode": 1}, "result": {"content": "x"}}, True),
        ("bash", {"shellExecution": {"exitCode": 0}, "result": {"content": "x"}}, False),
        ("bash", {"result": {"content": "x\n<shellId: 3 completed with exit code 1>"}}, True),
        ("bash", {"result": {"content": "x\n<exited with exit code 0>"}}, False),
        ("bash", {"result": {"content": ""}}, None),
        ("view", {"result": {"content": "<exited with exit code 0> in the middle"}}, False),
        ("view", {"success": False, "error": {"message": "no", "code": "failure"}}, True),
    ],
)
def test_the_exit_code_decides_whether_a_command_failed(
    tool: str, more: Json, failed: bool | None, tmp_path: Path
) -> None:
    request: Json = {"toolCallId": "c", "name": tool, "arguments": {}}
    log = Log().start().prompt("Go").add("assistant.message", content="", toolRequests=[request])
    data: Json = {"toolCallId": "c", "success": True} | more
    log.add("tool.execution_complete", **data)
    log.write(tmp_path)
    assert outcomes(get(tmp_path)) == [failed]


def test_a_fork_counts_only_what_it_did_itself(tmp_path: Path) -> None:
    origin = Log().start(ORIGIN).prompt("One").usage(1, source=ORIGIN).answer("1", 1, source=ORIGIN)
    origin.add(
        "session.compaction_complete",
        success=True,
        summaryContent="so far",
        compactionTokensUsed={"model": "gpt-5", "inputTokens": 7, "outputTokens": 2},
    )
    origin.add("user.message", agent=AGENT, content="task", source="agent-x")
    origin.usage(1, source=AGENT, agent=AGENT).answer("sub", 1, source=AGENT, agent=AGENT)
    origin.write(tmp_path, ORIGIN)
    fork = (
        Log(start=100)
        .start()
        .add("session.info", infoType="fork", message=f'Forked from "x" ({ORIGIN}) as "y" ({OWN}).')
    )
    fork.lines[1:1] = origin.lines[1:]
    fork.prompt("Two").usage(1).answer("2", 1).write(tmp_path)
    first, second = get(tmp_path, ORIGIN), get(tmp_path)
    assert (second.kind, second.forked_from) == ("fork", ORIGIN)
    assert prompts(second) == ["One", "Two"]
    assert (len(first.calls), len(second.calls)) == (2, 1)
    assert [child.session_id for child in first.children] == [AGENT]
    total = client(tmp_path).sessions.total_cost(agent="copilot")
    assert (total.input_tokens, total.output_tokens) == (3 * 50 + 7, 3 * 10 + 2)


def test_a_fork_without_its_notice_is_known_by_whom_calls_were_billed_to(tmp_path: Path) -> None:
    origin = Log().start(ORIGIN).prompt("One").usage(1, source=ORIGIN).answer("1", 1, source=ORIGIN)
    origin.write(tmp_path, ORIGIN)
    fork = Log(start=100).start()
    fork.lines += origin.lines[1:]
    fork.prompt("Two").usage(1).answer("2", 1).write(tmp_path)
    assert (get(tmp_path).forked_from, len(get(tmp_path).calls)) == (ORIGIN, 1)


def test_a_fork_of_a_version_without_usage_is_known_by_its_lines(tmp_path: Path) -> None:
    origin = Log().start(ORIGIN).prompt("One").answer("1")
    origin.write(tmp_path, ORIGIN)
    fork = Log(start=100).start()
    fork.lines += origin.lines[1:]
    fork.prompt("Two").answer("2").write(tmp_path)
    assert (get(tmp_path).kind, get(tmp_path).parent) == ("fork", ORIGIN)


def test_a_sub_agent_of_an_older_version_is_known_by_its_tool_call(tmp_path: Path) -> None:
    log = Log().start().prompt("Delegate")
    log.add("subagent.started", toolCallId="call-1", agentName="explore", agentDescription="Look")
    log.add("assistant.message", content="inside", toolRequests=[], parentToolCallId="call-1")
    log.answer("outside").write(tmp_path)
    session = get(tmp_path)
    assert [m.content for m in session.messages] == ["Delegate", "outside"]
    (child,) = session.children
    assert (child.title, [m.content for m in child.messages]) == ("Look", ["inside"])


def test_totals_at_shutdown_count_only_where_no_call_was_recorded(tmp_path: Path) -> None:
    usage = {"inputTokens": 500, "outputTokens": 50, "cacheReadTokens": 100}
    metrics = {"gpt-5": {"requests": {"count": 1}, "usage": usage}}
    log = Log().start().prompt("Go").answer("1")
    log.add("session.shutdown", modelMetrics={}).add("session.shutdown", modelMetrics=metrics)
    log.write(tmp_path)
    (call,) = get(tmp_path).calls
    assert (call.tokens.input, call.tokens.cache_read, call.tokens.output) == (400, 100, 50)
    cost = get(tmp_path).cost
    assert cost is not None
    assert cost.incomplete == ()
    log = Log().start().prompt("Go").usage(1).answer("1", 1)
    log.add("session.shutdown", modelMetrics=metrics).write(tmp_path)
    (call,) = get(tmp_path).calls
    assert call.tokens.input == 50


ENDS: list[tuple[list[tuple[str, Json]], tuple[str, ...]]] = [
    ([("session.shutdown", {})], ()),
    ([("assistant.turn_start", {})], ("call-interrupted",)),
    ([("assistant.turn_start", {}), ("abort", {"reason": "user"})], ("call-interrupted",)),
    ([("assistant.message", {"content": "2", "toolRequests": []})], ("usage-not-recorded",)),
    (
        [("session.shutdown", {"modelMetrics": {"m": {"requests": {"count": 3}}}})],
        ("usage-not-recorded",),
    ),
    (
        [("session.compaction_complete", {"success": True, "summaryContent": "s"})],
        ("compaction-call-not-recorded",),
    ),
]


@pytest.mark.parametrize(("end", "reasons"), ENDS)
def test_unrecorded_usage_makes_the_cost_incomplete(
    end: list[tuple[str, Json]], reasons: tuple[str, ...], tmp_path: Path
) -> None:
    log = Log().start().prompt("Go").usage(1).answer("1", 1)
    for type, data in end:
        log.add(type, **data)
    log.write(tmp_path)
    cost = get(tmp_path).cost
    assert cost is not None
    assert cost.incomplete == reasons


def test_a_message_shows_the_usage_of_its_call(tmp_path: Path) -> None:
    Log().start().prompt("Go").usage(1).answer("1", 1).write(tmp_path)
    session = get(tmp_path)
    assert session.messages[1].token_usage is not None
    assert session.messages[1].token_usage.input_tokens == 50
    assert session.messages[1].token_usage.thinking_tokens == 4
    assert session.calls[0].message_id == session.messages[1].id


def test_texts_put_in_by_the_agent_are_no_prompts(tmp_path: Path) -> None:
    log = Log().start().add("system.message", content="You are").prompt("skill", source="skill-pdf")
    log.prompt("Real").answer("Yes").add("session.error", message="500").write(tmp_path)
    session = get(tmp_path)
    assert (session.title, prompts(session), session.turn_count) == ("Real", ["Real"], 1)
    assert [m.synthetic for m in session.messages] == [True, True, False, False, True]


def test_a_text_of_injected_blocks_alone_is_no_prompt(tmp_path: Path) -> None:
    log = Log().start().prompt("<current_datetime>now</current_datetime>\n<reminder>x</reminder>")
    log.prompt("<reminder>x</reminder>\nGo\n<reminder>y</reminder>")
    log.prompt("What does <reminder> mean in </reminder> this?").answer("Yes").write(tmp_path)
    session = get(tmp_path)
    assert prompts(session) == ["Go", "What does <reminder> mean in </reminder> this?"]
    assert session.title == "Go"
    assert session.messages[0].synthetic


NAMES = [
    ("name: Greeting\nuser_named: false\n", "Greeting"),
    ("name: Hello th...\nuser_named: false\n", "Hello there, how are you?"),
    ("summary: Hello there\n", "Hello there, how are you?"),
    ("name: Hello\nsummary: Hello there\n", "Hello"),  # the person's name before `user_named`
    ("name: Hello\nuser_named: true\n", "Hello"),
    ("name: /plan it\nuser_named: false\n", "Hello there, how are you?"),
    ("name: <current_datetime>now</current_datetime>\n", "Hello there, how are you?"),
]


@pytest.mark.parametrize(("workspace", "title"), NAMES)
def test_a_name_is_the_title_unless_it_is_the_beginning_of_the_prompt(
    workspace: str, title: str, tmp_path: Path
) -> None:
    path = Log().start().prompt("Hello there, how are you?").answer("Fine").write(tmp_path)
    path.with_name("workspace.yaml").write_text(workspace)
    assert get(tmp_path).title == title


def test_a_command_is_the_title_only_without_another_prompt(tmp_path: Path) -> None:
    log = Log().start().prompt("/login").add("session.error", message="no")
    log.write(tmp_path)
    assert (get(tmp_path).title, get(tmp_path).turn_count) == ("", 0)
    log.prompt("/plan it").add("assistant.turn_start").write(tmp_path)
    assert get(tmp_path).title == "/plan it"
    log.prompt("Hi").answer("Hi").write(tmp_path)
    assert (get(tmp_path).title, get(tmp_path).turn_count) == ("Hi", 1)
