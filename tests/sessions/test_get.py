"""`get`: one whole session, by its id; no id leads out of the store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders import (
    CAPTURES,
    ClaudeSession,
    CodexSession,
    SharedHome,
    open_client,
    uuid_of,
    write_claude,
    write_codex,
)

from amux.client import Client
from amux.errors import AgentNotFoundError, AmuxError, ParseError, SessionNotFoundError
from amux.model.options import SessionListOptions
from amux.model.session import Session
from amux.testing import Capture
from amux.testing.reading import opened_files

ALL_CAPTURES = pytest.mark.parametrize("capture", CAPTURES, ids=lambda capture: capture.name)
BOTH_AGENTS = pytest.mark.parametrize("agent", ["claude", "codex"])

OPERATIONS: dict[str, Callable[[Client, str, str], Any]] = {
    "get": lambda client, agent, name: client.sessions.get(agent, name),
    "export": lambda client, agent, name: client.sessions.export(agent, name, "json"),
    "diff": lambda client, agent, name: client.sessions.diff((agent, name), (agent, name)),
    "diff by unified id": lambda client, agent, name: client.sessions.diff(
        f"{agent}:{name}", f"{agent}:{name}"
    ),
    "stream": lambda client, agent, name: list(client.stream_export(agent, name, "jsonl")),
    "explain": lambda client, agent, name: client.explain_cost(agent, name),
}


def write(agent: str, home: Path, number: int) -> Path:
    if agent == "claude":
        return write_claude(home, number).path
    return write_codex(home, number).path


@ALL_CAPTURES
def test_messages_of_every_capture_keep_the_rules_of_their_roles(
    capture: Capture, shared_home: SharedHome
) -> None:
    client = open_client(shared_home(capture))
    options = SessionListOptions(limit=None, include_children=True, include_archived=True)
    for summary in client.list_report((capture.agent,), options).sessions:
        session = client.sessions.get(capture.agent, summary.session_id)
        assert session.unified_id == f"{capture.agent}:{session.session_id}"
        check_messages(session)


def check_messages(session: Session) -> None:
    called = {call.tool_call_id: call for m in session.messages for call in m.tool_calls}
    for message in session.messages:
        assert message.role in {"user", "assistant", "system", "tool"}
        assert not message.tool_calls or message.role == "assistant"
        assert (message.tool_result is not None) == (message.role == "tool")
        result = message.tool_result
        if result is not None and result.tool_call_id in called:
            call = called[result.tool_call_id]
            assert (result.tool_name, result.output) == (call.tool_name, call.output)
    for child in session.children:
        check_messages(child)


def test_a_tool_only_message_has_no_text_and_the_result_knows_its_tool(home: Path) -> None:
    ClaudeSession(home, uuid_of(1)).prompt("list").tool_call("t1", {"command": "ls"}).tool_result(
        "t1", "a.txt"
    ).reply("one file").write()
    asked, called, result, answered = open_client(home).sessions.get("claude", uuid_of(1)).messages
    assert [m.role for m in (asked, called, result, answered)] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert called.content == ""
    assert called.tool_calls[0].input == {"command": "ls"}
    assert called.tool_calls[0].output == "a.txt"
    assert result.tool_result is not None
    assert (result.tool_result.tool_name, result.tool_result.output) == ("Bash", "a.txt")


def test_a_tool_result_far_behind_its_call_is_in_its_own_message(home: Path) -> None:
    session = ClaudeSession(home, uuid_of(1)).prompt("go").tool_call("t1", {})
    for number in range(300):
        session.prompt(f"still waiting {number}")
    session.tool_result("t1", "late").tool_call("t2", {}).tool_result("t2", "soon").write()
    messages = open_client(home).sessions.get("claude", uuid_of(1)).messages
    assert len(messages) == 305
    calls = {call.tool_call_id: call.output for m in messages for call in m.tool_calls}
    assert calls == {"t1": None, "t2": "soon"}
    assert [m.content for m in messages if m.role == "user"][1:3] == [
        "still waiting 0",
        "still waiting 1",
    ]
    assert [m.tool_result.output for m in messages if m.tool_result] == ["late", "soon"]


def test_a_call_that_was_never_answered_has_no_output(home: Path) -> None:
    ClaudeSession(home, uuid_of(1)).prompt("go").tool_call("t1", {}).prompt("stop").write()
    messages = open_client(home).sessions.get("claude", uuid_of(1)).messages
    assert [m.content for m in messages] == ["go", "", "stop"]
    assert messages[1].tool_calls[0].output is None


def test_a_torn_last_line_costs_that_line_and_is_a_warning(home: Path) -> None:
    path = write_claude(home, 1, prompt="kept").path
    with path.open("ab") as stream:
        stream.write(b'{"type":"user","mess')
    session = open_client(home).sessions.get("claude", uuid_of(1))
    assert [m.content for m in session.messages] == ["kept", "done"]
    (warning,) = session.raw["warnings"]
    assert str(path) in warning
    assert "the last line is not whole" in warning
    assert [problem.code for problem in session.problems] == ["torn-tail"]


@BOTH_AGENTS
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation_on_one_session_raises_the_same_errors(
    operation: str, agent: str, home: Path
) -> None:
    run = OPERATIONS[operation]
    write(agent, home, 1)
    write(agent, home, 2).write_bytes(b"\x00\x01 no session \xff\n" * 3)
    client = open_client(home)
    run(client, agent, uuid_of(1))
    faults: list[tuple[type[AmuxError], str, str, str]] = [
        (AgentNotFoundError, "AGENT_NOT_FOUND", "nope", uuid_of(1)),
        (SessionNotFoundError, "SESSION_NOT_FOUND", agent, uuid_of(3)),
        (ParseError, "PARSE_ERROR", agent, uuid_of(2)),
    ]
    for error, code, who, name in faults:
        with pytest.raises(error) as caught:
            run(client, who, name)
        assert (caught.value.code, caught.value.recoverable) == (code, False)
        assert caught.value.hint
        assert who in str(caught.value)
        if error is ParseError:
            assert uuid_of(2) in str(caught.value), "the file is named"


@BOTH_AGENTS
@pytest.mark.parametrize(
    "name",
    [
        "../../etc/passwd",
        "/etc/passwd",
        "..",
        ".",
        "",
        " ",
        "*",
        "%",
        "~",
        "a\x00b",
        "..\\..\\etc\\passwd",
        "x" * 5000,
    ],
)
def test_an_id_never_leads_out_of_the_store(agent: str, name: str, home: Path) -> None:
    write(agent, home, 1)
    client = open_client(home)
    client.sessions.get(agent, uuid_of(1))  # imports are done by now
    with opened_files() as opened, pytest.raises(SessionNotFoundError) as caught:
        client.sessions.get(agent, name)
    assert caught.value.code == "SESSION_NOT_FOUND"
    assert [path for path in opened if not path.startswith(str(home))] == []


@BOTH_AGENTS
def test_a_session_is_found_by_its_name_without_opening_the_others(agent: str, home: Path) -> None:
    for number in range(200):
        if agent == "claude":
            write_claude(home, number, cwd=f"/src/project-{number}")
        else:
            write_codex(home, number)
    client = open_client(home)
    client.sessions.get(agent, uuid_of(1))
    with opened_files() as opened:
        client.sessions.get(agent, uuid_of(150))
    inside = {path for path in opened if path.startswith(str(home))}
    assert len(inside) <= 3
    assert all(uuid_of(150) in path for path in inside)


def test_a_title_is_no_id(home: Path) -> None:
    write_claude(home, 1, prompt="Fix the build")
    with pytest.raises(SessionNotFoundError):
        open_client(home).sessions.get("claude", "Fix the build")


def test_additional_data_of_the_agent_is_in_raw(home: Path) -> None:
    ClaudeSession(home, uuid_of(1)).prompt("hi", gitBranch="main").reply(
        gitBranch="feature"
    ).write()
    meta = {"originator": "codex_cli_rs", "git": {"branch": "main"}}
    CodexSession(home, uuid_of(2), meta=meta).prompt("hi").reply().write()
    sessions = open_client(home).sessions
    claude, codex = sessions.get("claude", uuid_of(1)), sessions.get("codex", uuid_of(2))
    assert (claude.raw["gitBranch"], claude.raw["agentVersion"]) == ("feature", "2.1.100")
    assert (codex.raw["originator"], codex.raw["git"]) == ("codex_cli_rs", {"branch": "main"})
    assert claude.raw["sources"] == [str(ClaudeSession(home, uuid_of(1)).path)]


@pytest.mark.parametrize("text", ["plain", "日本語の文章 🙂", "tab\tand\\slash", "\ud800 alone"])
def test_text_is_returned_unchanged_except_for_invalid_characters(text: str, home: Path) -> None:
    write_claude(home, 1, prompt=text)
    session = open_client(home).sessions.get("claude", uuid_of(1))
    assert session.messages[0].content == text.encode("utf-8", "replace").decode().replace(
        "?", "\ufffd"
    )
    assert session.to_json().decode()


def test_a_session_without_times_uses_the_modification_time_of_its_file(home: Path) -> None:
    path = ClaudeSession(home, uuid_of(1)).path
    path.parent.mkdir(parents=True)
    path.write_text('{"type":"user","uuid":"u","message":{"role":"user","content":"hi"}}\n')
    session = open_client(home).sessions.get("claude", uuid_of(1))
    assert session.created_at == session.updated_at
    assert abs(session.created_at.timestamp() - path.stat().st_mtime) < 1


def test_the_adapters_own_three_methods_are_derived(home: Path, tmp_path: Path) -> None:
    client = open_client(home)
    adapter = client.adapters.get("claude")
    assert adapter is not None
    assert client.adapters.get("nope") is None
    assert (adapter.agent, adapter.display_name, adapter.cli_command) == (
        "claude",
        "Claude Code",
        "claude",
    )
    assert adapter.capabilities.session_persistence == "file"
    assert list(adapter.list_session_files()) == []
    assert adapter.session_dir() == home / ".claude" / "projects"
    here, there = write_claude(home, 1), write_claude(home, 2, cwd="/src/lib")
    assert sorted(adapter.list_session_files()) == sorted([here.path, there.path])
    assert list(adapter.list_session_files("/src/lib")) == [there.path]
    assert adapter.session_dir("/src/lib") == there.path.parent
    assert adapter.session_dir("/nowhere") == home / ".claude" / "projects"
    whole = client.sessions.get("claude", uuid_of(1))
    assert adapter.parse_session_file(here.path).messages == whole.messages
    moved = tmp_path / "elsewhere" / here.path.name
    assert adapter.parse_session_file(here.write(moved)).session_id == uuid_of(1)
    with pytest.raises(ParseError, match="gone"):
        adapter.parse_session_file(tmp_path / "gone.jsonl")
    (tmp_path / "empty.jsonl").write_bytes(b"")
    with pytest.raises(ParseError, match="holds no session of Claude Code"):
        adapter.parse_session_file(tmp_path / "empty.jsonl")
