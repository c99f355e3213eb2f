"""Tests cases of Qwen Code without a capture: other versions, retries, lost files, odd lines."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from drawn import drawn
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from qwen_transcripts import (
    CWD,
    FORK,
    SESSION,
    Json,
    Transcript,
    get,
    open_home,
    prompts,
    shell,
    usage,
    write,
)

from amux.adapters._base import SourceRef
from amux.adapters.qwen import ADAPTER
from amux.host import Host
from amux.testing.reading import read_source, sources_of


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


# Usage


@pytest.mark.parametrize("event_first", [True, False])
def test_an_answer_and_its_event_are_one_call(event_first: bool, home: Path) -> None:
    chat = Transcript()
    chat.user("Go.")
    figures = usage(100, 10, 30, 4)
    if event_first:
        chat.response(figures)
    chat.reply("Done.", figures)
    if not event_first:
        chat.response(figures)
    chat.write(home)
    session = get(home)
    assert len(session.calls) == 1
    assert session.calls[0].message_id == session.messages[1].id
    assert session.cost is not None
    counted = (session.cost.input_tokens, session.cost.cached_tokens, session.cost.output_tokens)
    assert counted == (70, 30, 10)
    assert session.cost.thinking_tokens == 4


def test_equal_answers_with_one_event_are_two_calls(home: Path) -> None:
    chat = Transcript()
    chat.user("Go.")
    chat.response(usage())
    chat.reply("One.", usage())
    chat.user("Again.")
    chat.reply("Two.", usage())
    chat.write(home)
    assert len(get(home).calls) == 2


def test_thoughts_beside_the_output_are_added_where_the_total_says_so(home: Path) -> None:
    chat = Transcript()
    chat.user("Go.")
    chat.reply("Done.", {**usage(100, 10, 0, 5), "totalTokenCount": 115})
    chat.write(home)
    cost = get(home).cost
    assert cost is not None
    assert cost.output_tokens == 15


def test_retries_helpers_and_compressions_are_counted_by_their_events(home: Path) -> None:
    chat = Transcript()
    chat.user("Go.")
    chat.response(usage(), "r1")
    chat.response(usage(200), "r2")
    chat.response(usage(200), "r2")  # told twice
    chat.reply("Done.", usage(200))
    chat.response(usage(300), "r3", subagent_name="managed-auto-memory-extractor", subagent_id="m")
    chat.response(usage(400), "r4", prompt_id="compress-1")
    chat.write(home)
    session = get(home)
    assert [(call.tokens.input, call.purpose) for call in session.calls] == [
        (100, "main"),
        (200, "main"),
        (300, "auxiliary"),
        (400, "compaction"),
    ]


def test_a_prompt_without_answer_or_error_was_interrupted(home: Path) -> None:
    chat = Transcript()
    chat.user("Go.")
    chat.reply("Done.", usage())
    chat.user("Count to a million.")
    chat.write(home)
    cost = get(home).cost
    assert cost is not None
    assert "call-interrupted" in cost.incomplete
    chat.event("api_error", error_message="500")
    chat.write(home)
    cost = get(home).cost
    assert cost is not None
    assert "call-interrupted" not in cost.incomplete


# Messages


@pytest.mark.parametrize(
    ("output", "status", "failed"),
    [
        ("Output: x\nError: (none)\nExit Code: 1\nSignal: (none)", "success", True),
        ("Output: x\nError: (none)\nExit Code: 0\nSignal: (none)", "success", False),
        ("whatever", "error", True),
    ],
)
def test_a_command_fails_by_its_status_or_exit_code(
    output: str, status: str, failed: bool, home: Path
) -> None:
    chat = Transcript(version="0.5.2")
    chat.user("Run.")
    chat.reply("", usage(), shell("c1"))
    chat.result("c1", output, status)
    chat.write(home)
    session = get(home)
    assert session.messages[1].tool_calls[0].is_error is failed
    assert [m.parent_id for m in session.messages[1:]] == [m.id for m in session.messages[:-1]]


def test_notifications_and_injected_texts_are_no_prompts(home: Path) -> None:
    chat = Transcript()
    chat.user("<system-reminder>\nBe kind.")
    chat.user("<task-notification>x", provenance="system", subtype="notification")
    chat.user("Do it.", provenance="real_user")
    chat.user("Do it.\ncontext", systemPayload={"displayText": "Do it now.", "hookContext": "c"})
    chat.write(home)
    session = get(home)
    assert prompts(session) == ["Do it.", "Do it now."]
    assert session.title == "Do it."


def test_the_last_title_wins(home: Path) -> None:
    chat = Transcript()
    chat.user("Go.")
    for title in ("One", "Two"):
        chat.add("system", subtype="custom_title", systemPayload={"customTitle": title})
    chat.write(home)
    assert get(home).title == "Two"


def test_a_session_of_commands_alone_is_none(home: Path) -> None:
    chat = Transcript()
    chat.add("system", subtype="slash_command", systemPayload={"rawCommand": "/about"})
    chat.write(home)
    assert open_home(home).sessions.list("qwen") == []


def test_a_typed_prompt_is_the_title_rather_than_a_command(home: Path) -> None:
    chat = Transcript()
    payload: Json = {"phase": "invocation", "rawCommand": "/review 42", "sentToModel": True}
    chat.add("system", subtype="slash_command", systemPayload=payload)
    chat.user("You are a careful reviewer.")
    chat.reply("No findings.", usage())
    chat.user("Thanks.")
    chat.reply("Bye.", usage(200))
    chat.write(home)
    session = get(home)
    assert prompts(session) == ["/review 42", "Thanks."]
    assert (session.title, session.turn_count) == ("Thanks.", 2)
    assert [m.content for m in session.messages if m.synthetic] == ["You are a careful reviewer."]


def test_a_command_without_a_record_of_its_use_names_only_a_session_without_prompts(
    home: Path,
) -> None:
    chat = Transcript(version="0.5.2")
    for command in ("/login", "/review 42"):
        chat.add("system", subtype="slash_command", systemPayload={"rawCommand": command})
    chat.reply("No findings.", usage())
    chat.write(home)
    assert get(home).title == "/review 42"


def test_a_compression_is_shown_and_counted(home: Path) -> None:
    chat = Transcript()
    chat.user("Go.")
    history = [{"role": "user", "parts": [{"text": "The story so far."}]}]
    payload: Json = {"info": {}, "compressedHistory": history}
    chat.add("system", subtype="chat_compression", systemPayload=payload)
    chat.write(home)
    session = get(home)
    assert [m.content for m in session.messages if m.compaction] == ["The story so far."]
    assert session.raw["compactions"] == 1


# Lineage


def forked(original: Transcript) -> Transcript:
    fork = Transcript(FORK)
    for line in original.lines:
        origin = {"sessionId": original.session_id, "messageUuid": line["uuid"]}
        fork.lines.append({**line, "sessionId": FORK, "forkedFrom": origin})
    fork.user("And now?")
    fork.response(usage(500), "r5")
    fork.reply("Else.", usage(500))
    return fork


def test_a_fork_counts_only_its_own_calls_while_its_origin_is_there(home: Path) -> None:
    original = Transcript()
    original.user("Go.")
    original.response(usage())
    original.reply("Done.", usage())
    path = original.write(home)
    forked(original).write(home)
    fork = get(home, FORK)
    assert (fork.kind, fork.forked_from) == ("fork", SESSION)
    assert prompts(fork) == ["Go.", "And now?"]
    assert [call.tokens.input for call in fork.calls] == [500]
    path.unlink()
    assert [call.tokens.input for call in get(home, FORK).calls] == [100, 500]


def write_with_agent(home: Path, *, agent_file: bool) -> None:
    chat = Transcript()
    chat.user("Delegate.")
    chat.response(usage(), "r1")
    chat.reply("", usage(), {"functionCall": {"id": "c1", "name": "agent", "args": {}}})
    agent = {"subagent_name": "general", "subagent_id": "general-c1"}
    chat.response(usage(200), "r2", **agent)
    chat.response(usage(300), "r3", **agent)  # a retry that left no line
    chat.response(usage(200), "r4", **agent)
    chat.write(home)
    if agent_file:
        child = Transcript()
        child.user("Look.")
        child.reply("", usage(200), model=None)
        child.add("assistant", message={"role": "model", "parts": [shell("s1")]})
        child.result("s1", "fine")
        child.reply("Seen.", usage(200), model=None)
        path = child.write(home, f"subagents/{SESSION}/agent-general-c1.jsonl")
        path.with_suffix(".meta.json").write_text(json.dumps({"model": "qwen3-small"}))


def test_calls_of_a_sub_agent_are_its_own_and_counted_once(home: Path) -> None:
    write_with_agent(home, agent_file=True)
    session = get(home)
    (child,) = session.children
    assert [call.tokens.input for call in session.calls] == [100]
    assert sorted(call.tokens.input for call in child.calls) == [200, 200, 300]
    assert [m.role for m in child.messages] == ["user", "assistant", "tool", "assistant"]
    assert child.messages[1].tool_calls[0].output == {"output": "fine"}
    assert child.models[0] == "qwen3-small"
    assert session.cost is not None
    assert session.cost.input_tokens == 800


def test_calls_of_a_sub_agent_without_a_file_are_the_sessions(home: Path) -> None:
    write_with_agent(home, agent_file=False)
    session = get(home)
    assert session.children == ()
    assert [(c.tokens.input, c.purpose) for c in session.calls] == [
        (100, "main"),
        (200, "subagent"),
        (300, "subagent"),
        (200, "subagent"),
    ]


def test_an_archived_session_is_listed_on_request(home: Path) -> None:
    chat = Transcript()
    chat.user("Go.")
    chat.write(home, f"chats/archive/{SESSION}.jsonl")
    client = open_home(home)
    assert client.sessions.list("qwen") == []
    (found,) = client.sessions.list("qwen", include_archived=True)
    assert found.archived


# Places and old versions


def test_documents_of_the_first_versions_are_read(home: Path) -> None:
    message: Json = {"id": "u", "timestamp": "2025-10-01T10:00:00Z", "type": "user"}
    answer: Json = {
        "id": "q",
        "timestamp": "2025-10-01T10:00:01Z",
        "type": "qwen",
        "content": "Hello.",
        "model": "qwen3-coder",
        "tokens": {"input": 9, "output": 5, "cached": 0, "thoughts": 2, "tool": 0, "total": 14},
    }
    document = {"sessionId": SESSION, "messages": [{**message, "content": "Hi."}, answer]}
    path = home / ".qwen/tmp/abc/chats/session-2025-10-01T10-00-11111111.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(document))
    session = get(home)
    assert [m.content for m in session.messages] == ["Hi.", "Hello."]
    assert session.cost is not None
    assert session.cost.output_tokens == 5


def test_task_lists_are_known(home: Path) -> None:
    chat = Transcript()
    chat.user("Go.")
    chat.write(home)
    (home / ".qwen" / "todos").mkdir()
    (home / ".qwen" / "todos" / f"{SESSION}.json").write_text('{"todos": []}')
    (report,) = open_home(home).doctor("qwen")
    (found,) = [file for file in report.files if file.path.startswith("todos/")]
    assert (found.status, found.what) == ("bystander", "tasks of a session")


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_both_variables_move_the_store(platform: str, tmp_path: Path) -> None:
    env = {"QWEN_HOME": str(tmp_path / "q"), "QWEN_RUNTIME_DIR": str(tmp_path / "r")}
    assert ADAPTER.roots(Host(tmp_path, platform=platform)) == [tmp_path / ".qwen"]
    moved = ADAPTER.roots(Host(tmp_path, env=env, platform=platform))
    assert moved == [tmp_path / "r", tmp_path / "q"]


def test_a_directory_narrows_the_walk_to_its_folder(home: Path) -> None:
    chat = Transcript()
    chat.user("Go.")
    path = chat.write(home)
    write(home / ".qwen/projects/-else/chats/x.jsonl", [])
    root = home / ".qwen"
    assert [s.path for s in ADAPTER.discover(root, cwd=f"{CWD}/")] == [path]
    assert len(list(ADAPTER.discover(root))) == 2


def test_bookkeeping_files_are_no_sources(home: Path) -> None:
    chat = Transcript()
    chat.user("Go.")
    path = chat.write(home)
    path.with_suffix(".runtime.json").write_text("{}")
    (home / ".qwen" / "usage_record.jsonl").write_text('{"sessionId":"x"}\n')
    (home / ".qwen/tmp/abc").mkdir(parents=True)
    (home / ".qwen/tmp/abc/logs.json").write_text("[]")
    assert [s.path for s in sources_of(ADAPTER, home)] == [path]


@pytest.mark.parametrize(
    ("action", "version", "expected"),
    [
        ("new", None, ("qwen",)),
        ("resume", "0.24.4", ("qwen", "--resume", "x")),
        ("resume", "0.2.0", None),
        ("fork", "0.24.4", ("qwen", "--resume", "x", "--fork-session")),
        ("fork", "0.5.2", None),
    ],
)
def test_a_command_resumes_and_forks_where_the_version_can(
    action: Any, version: str | None, expected: tuple[str, ...] | None
) -> None:
    command = ADAPTER.command(action, session_id="x", version=version)
    assert (command and command.argv) == expected


# Damage


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
FIELDS = (
    "uuid",
    "parentUuid",
    "sessionId",
    "timestamp",
    "type",
    "subtype",
    "provenance",
    "cwd",
    "version",
    "model",
    "message",
    "usageMetadata",
    "toolCallResult",
    "systemPayload",
    "forkedFrom",
)


@drawn(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kind=st.sampled_from(["user", "assistant", "tool_result", "system"]),
    field=st.sampled_from(FIELDS),
    value=JSON_VALUES,
)
def test_any_value_in_any_field_affects_no_other_record(
    kind: str, field: str, value: Any, tmp_path: Path
) -> None:
    chat = Transcript()
    chat.user("Go.")
    chat.add(kind, subtype="ui_telemetry" if kind == "system" else None, message={})
    chat.lines[-1][field] = value
    chat.reply("Done.", usage())
    shutil.rmtree(tmp_path / "odd", ignore_errors=True)
    path = chat.write(tmp_path / "odd")
    source = SourceRef(agent="qwen", path=path, root=tmp_path, session_id=SESSION)
    whole = read_source(ADAPTER, source)
    contents = [message.content for message in whole.messages]
    assert "Go." in contents
    assert any("Done." in content for content in contents)
    assert read_source(ADAPTER, source, "facts").facts == whole.facts
