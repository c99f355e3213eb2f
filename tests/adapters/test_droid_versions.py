"""Tests Droid versions without a capture, and unusual values."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from builders import SharedHome
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st

from amux import Client, Session, create_client
from amux.adapters.droid import ADAPTER
from amux.host import Host
from amux.testing import Capture, find_captures

OWN = "11111111-1111-4111-8111-111111111111"
PARENT = "22222222-2222-4222-8222-222222222222"
CAPTURES = Path(__file__).parent.parent / "captures"

Json = dict[str, Any]


class Log:
    """Writes a log and its settings line by line, a second apart."""

    def __init__(self, session_id: str = OWN, **start: Any) -> None:
        self.id = session_id
        self.lines: list[Json] = [
            {"type": "session_start", "id": session_id, "version": 2, "cwd": "/x"} | start
        ]

    def add(self, role: str, *content: Any, id: str | None = None, **more: Any) -> Log:
        number = len(self.lines)
        line: Json = {"type": "message", "id": id or f"{self.id[:4]}-{number}"}
        line["timestamp"] = f"2026-01-02T03:{number // 60:02}:{number % 60:02}Z"
        blocks = [{"type": "text", "text": c} if isinstance(c, str) else c for c in content]
        line["message"] = {"role": role, "content": blocks} | more
        self.lines.append(line)
        return self

    def prompt(self, *content: Any, **more: Any) -> Log:
        return self.add("user", *content, **more)

    def answer(self, *content: Any, **more: Any) -> Log:
        return self.add("assistant", *content, **more)

    def write(
        self, home: Path, usage: tuple[int, int] | None = None, *, folder: str = "-x", **more: Any
    ) -> Path:
        path = home / ".factory" / "sessions" / folder / f"{self.id}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(line) + "\n" for line in self.lines))
        if usage is not None:
            total = {"inputTokens": usage[0], "outputTokens": usage[1], "thinkingTokens": 0}
            values = {"model": "gpt-5", "tokenUsage": total} | more
            path.with_suffix(".settings.json").write_text(json.dumps(values))
        return path


def client(home: Path) -> Client:
    found = create_client(home=home)
    found.adapters.register(ADAPTER)
    return found


def get(home: Path, session_id: str = OWN) -> Session:
    return client(home).sessions.get("droid", session_id)


def prompts(session: Session) -> list[str]:
    return [m.content for m in session.messages if m.role == "user" and not m.synthetic]


def tokens(session: Session) -> tuple[int, int]:
    return (
        sum(call.tokens.input for call in session.calls),
        sum(call.tokens.output for call in session.calls),
    )


def summary_line(session: str) -> Json:
    at = "2026-01-02T03:00:30Z"
    return {"type": "compaction_state", "id": f"{session}-s", "timestamp": at, "summaryText": "So"}


# who wrote it


def test_context_in_front_of_the_prompt_is_no_part_of_it(tmp_path: Path) -> None:
    reminder = "<system-reminder>\nbe brief\n</system-reminder>"
    Log().prompt(reminder, "Fix it").answer("Done").prompt(reminder).write(tmp_path)
    session = get(tmp_path)
    assert (session.title, prompts(session)) == ("Fix it", ["Fix it"])
    assert session.messages[-1].content == reminder
    assert session.messages[-1].synthetic


@pytest.mark.parametrize(
    ("id", "content", "more"),
    [
        ("context-1", "anything", {}),
        ("task-completion:1", "Background task completed.", {}),
        ("x", "The model repeatedly generated the same output; stopped.", {}),
        ("x", "for the model", {"visibility": "llm_only"}),
    ],
)
def test_text_that_the_agent_writes_as_the_user_is_not_a_prompt(
    id: str, content: str, more: Json, tmp_path: Path
) -> None:
    Log().prompt(content, id=id, **more).prompt("Real").answer("Yes").write(tmp_path)
    session = get(tmp_path)
    assert (session.title, prompts(session), session.turn_count) == ("Real", ["Real"], 1)


def test_results_of_parallel_tools_are_messages_of_their_own(tmp_path: Path) -> None:
    calls: list[Json] = [
        {"type": "tool_use", "id": id, "name": "Execute", "input": {}} for id in "ab"
    ]
    results: list[Json] = [
        {"type": "tool_result", "tool_use_id": "a", "is_error": False, "content": "fine"},
        {
            "type": "tool_result",
            "tool_use_id": "b",
            "is_error": True,
            "content": [{"type": "text", "text": "Error: Command failed (exit code: 1)"}],
        },
    ]
    Log().prompt("Go").answer(*calls).prompt(*results).answer("Half").write(tmp_path)
    session = get(tmp_path)
    assert [m.role for m in session.messages] == ["user", "assistant", "tool", "tool", "assistant"]
    assert [call.is_error for call in session.messages[1].tool_calls] == [False, True]
    assert session.messages[1].tool_calls[1].output == "Error: Command failed (exit code: 1)"
    assert (session.turn_count, session.problems) == (1, ())


def test_a_result_without_its_call_is_a_problem(tmp_path: Path) -> None:
    result = {"type": "tool_result", "tool_use_id": "lost", "content": "x"}
    Log().prompt("Go").prompt(result).write(tmp_path)
    assert [problem.code for problem in get(tmp_path).problems] == ["orphan-result"]


# what was used


def test_the_total_of_the_settings_is_one_call(tmp_path: Path) -> None:
    Log().prompt("Go").answer("Ok").write(tmp_path, (100, 10))
    session = get(tmp_path)
    (call,) = session.calls
    assert (call.model, tokens(session), call.tokens.thinking) == ("gpt-5", (100, 10), 0)
    assert session.cost is not None
    assert session.cost.incomplete == ()


def test_zero_thinking_beside_thoughts_is_unknown(tmp_path: Path) -> None:
    thought = {"type": "thinking", "thinking": "Hm"}
    Log().prompt("Go").answer(thought, "Ok").write(tmp_path, (100, 10))
    session = get(tmp_path)
    assert session.calls[0].tokens.thinking is None
    assert session.messages[1].thinking == "Hm"


def test_a_session_without_settings_has_no_cost(tmp_path: Path) -> None:
    Log().prompt("Go").answer("Ok").write(tmp_path)
    assert get(tmp_path).cost is None


def test_broken_settings_are_a_problem_and_cost_only_the_usage(tmp_path: Path) -> None:
    path = Log().prompt("Go").answer("Ok").write(tmp_path)
    path.with_suffix(".settings.json").write_text('{"model": ')
    session = get(tmp_path)
    assert [problem.code for problem in session.problems] == ["bad-record"]
    assert prompts(session) == ["Go"]


def test_a_total_over_several_models_belongs_to_none_of_them(tmp_path: Path) -> None:
    log = Log().prompt("Go").answer("1", modelId="gpt-5").prompt("On").answer("2", modelId="o3")
    log.write(tmp_path, (100, 10))
    session = get(tmp_path)
    assert (session.calls[0].model, session.models) == (None, ("gpt-5", "o3"))
    assert session.cost is not None
    assert session.cost.incomplete == ("unpriced-model",)


# where it comes from


def test_a_continuation_counts_what_its_predecessor_did_not(tmp_path: Path) -> None:
    Log(PARENT).prompt("One").answer("1", modelId="gpt-5").write(tmp_path, (100, 10))
    log = Log(parent=PARENT, title="New Session")
    log.lines.append(summary_line(OWN))
    log.prompt("Two").answer("2", modelId="gpt-5").write(tmp_path, (130, 15))
    session = get(tmp_path)
    assert (session.kind, session.parent, session.title) == ("continuation", PARENT, "Two")
    assert (tokens(session), session.raw["compactions"]) == ((30, 5), 1)
    assert [m.content for m in session.messages if m.compaction] == ["So"]
    total = client(tmp_path).sessions.total_cost(agent="droid")
    assert (total.input_tokens, total.output_tokens) == (130, 15)


def test_without_its_predecessor_a_continuation_counts_all(tmp_path: Path) -> None:
    log = Log(parent=PARENT)
    log.lines.append(summary_line(OWN))
    log.prompt("Two").answer("2", modelId="gpt-5").write(tmp_path, (130, 15))
    assert tokens(get(tmp_path)) == (130, 15)


def test_a_predecessor_that_went_on_makes_the_rest_incomplete(tmp_path: Path) -> None:
    Log(PARENT).prompt("One").answer("1").write(tmp_path, (500, 10))
    log = Log(parent=PARENT)
    log.lines.append(summary_line(OWN))
    log.prompt("Two").answer("2", modelId="gpt-5").write(tmp_path, (130, 15))
    session = get(tmp_path)
    assert tokens(session) == (0, 5)
    assert session.cost is not None
    assert "calls-in-another-session" in session.cost.incomplete


def test_an_older_version_does_not_count_the_summary(tmp_path: Path) -> None:
    log = Log(parent=PARENT)
    log.lines.append(summary_line(OWN))
    log.prompt("Two").answer("2").write(tmp_path, (130, 15))
    cost = get(tmp_path).cost
    assert cost is not None
    assert cost.incomplete == ("compaction-call-not-recorded",)


@pytest.mark.parametrize("start", [{"forkedAtMessageId": "2222-2"}, {"sessionTitle": "[Fork] One"}])
def test_a_fork_repeats_messages_and_counts_its_own(start: Json, tmp_path: Path) -> None:
    origin = Log(PARENT).prompt("One").answer("1", modelId="o3")
    origin.write(tmp_path, (100, 10))
    fork = Log(parent=PARENT, **start)
    fork.lines += [*origin.lines[1:], summary_line(PARENT)]
    fork.prompt("Two").answer("2", modelId="gpt-5").write(tmp_path, (7, 3))
    session = get(tmp_path)
    assert (session.kind, session.forked_from) == ("fork", PARENT)
    assert prompts(session) == ["One", "Two"]
    assert tokens(session) == (7, 3)


@pytest.mark.parametrize(
    "outcome", ["Task launched in background.\nsession_id: " + OWN + "\n", "Seen"]
)
def test_sub_agents_hang_below_their_caller(outcome: str, tmp_path: Path) -> None:
    call: Json = {"type": "tool_use", "id": "c", "name": "Task", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "c", "content": outcome}
    Log(PARENT).prompt("Go").answer(call).prompt(result).write(tmp_path, (100, 10))
    caller = {"callingSessionId": PARENT, "title": "worker: look"}
    Log(**caller).prompt("Look").answer("Seen").write(tmp_path, (50, 5))
    (summary,) = client(tmp_path).sessions.list("droid")
    assert summary.cost is not None
    assert summary.cost.input_tokens == 150
    (child,) = get(tmp_path, PARENT).children
    assert (child.kind, child.title) == ("subagent", "worker: look")


# titles


@pytest.mark.parametrize(
    ("start", "title"),
    [
        ({"title": "Fix the bug"}, "Fix the bug in the parser"),
        ({"title": "Fix the bug…"}, "Fix the bug in the parser"),
        ({"title": "Fix the bug...", "sessionTitle": "Parser work"}, "Parser work"),
        ({"title": "Fix", "isSessionTitleManuallySet": True}, "Fix"),
        ({"title": "Mending the parser", "sessionTitleAutoStage": "x"}, "Mending the parser"),
        ({"title": "New Session"}, "Fix the bug in the parser"),
        ({}, "Fix the bug in the parser"),
    ],
)
def test_the_title_is_the_given_name_or_the_first_prompt(
    start: Json, title: str, tmp_path: Path
) -> None:
    Log(**start).prompt("Fix the bug in\n the parser").answer("Ok").write(tmp_path)
    assert get(tmp_path).title == title


# places


def test_without_droid_files_there_are_no_sessions(tmp_path: Path) -> None:
    assert client(tmp_path).sessions.list("droid") == []


def test_older_versions_keep_logs_beside_the_folders(tmp_path: Path) -> None:
    Log().prompt("Go").answer("Ok").write(tmp_path, (1, 1), folder="")
    assert tokens(get(tmp_path)) == (1, 1)


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_a_variable_replaces_the_home(platform: str, tmp_path: Path) -> None:
    assert ADAPTER.roots(Host(tmp_path, platform=platform)) == [tmp_path / ".factory" / "sessions"]
    env = {"FACTORY_HOME_OVERRIDE": str(tmp_path / "m")}
    moved = ADAPTER.roots(Host(tmp_path, env=env, platform=platform))
    assert moved == [tmp_path / "m" / ".factory" / "sessions", tmp_path / "m" / "sessions"]


@pytest.mark.parametrize(
    "capture", find_captures(CAPTURES, "droid"), ids=lambda capture: capture.version
)
def test_every_file_of_a_capture_is_accounted_for(
    capture: Capture, shared_home: SharedHome
) -> None:
    reports = client(shared_home(capture)).doctor("droid")
    files = [file for report in reports for file in report.files]
    assert {file.status for file in files} == {"session", "part", "bystander"}


def test_commands_use_exec_when_there_is_a_prompt() -> None:
    found = [
        ADAPTER.command("new"),
        ADAPTER.command("resume", session_id=OWN),
        ADAPTER.command("resume", session_id=OWN, prompt="Go"),
        ADAPTER.command("fork", session_id=OWN, prompt="Go"),
    ]
    assert [command.argv for command in found if command is not None] == [
        ("droid",),
        ("droid", "-r", OWN),
        ("droid", "exec", "-s", OWN, "Go"),
        ("droid", "exec", "--fork", OWN, "Go"),
    ]
    assert ADAPTER.command("fork") is None


# odd values

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | NUMBERS | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
START = ("id", "title", "sessionTitle", "cwd", "parent", "forkedAtMessageId", "callingSessionId")
BLOCK = ("type", "text", "thinking", "id", "name", "input", "tool_use_id", "is_error", "content")


@drawn(120)
@given(
    value=JSON,
    start=st.sampled_from(START),
    place=st.sampled_from(("line", "message", "block", "settings")),
    block=st.sampled_from(BLOCK),
)
def test_any_value_in_any_field_costs_at_most_what_it_says(
    value: Any, start: str, place: str, block: str
) -> None:
    log = Log(**{start: value})
    log.answer({"type": "tool_use", "id": "c", "name": "x", "input": {}}, modelId="m")
    if place == "line":
        log.lines.append({"type": "message", "id": value, "timestamp": value, "message": value})
    elif place == "message":
        log.add("user", modelId=value, visibility=value).lines[-1]["message"]["content"] = value
    else:
        log.prompt({"type": "tool_result", "tool_use_id": "c", "content": "x"} | {block: value})
    log.prompt("Last", id="the-last")
    with TemporaryDirectory() as folder:
        usage = value if place == "settings" else {"inputTokens": value}
        log.write(Path(folder), (1, 1), tokenUsage=usage, tags=value, model=value)
        (summary,) = client(Path(folder)).sessions.list("droid", limit=None, include_children=True)
        session = get(Path(folder))
        assert summary.message_count == len(session.messages)
        assert prompts(session)[-1] == "Last"


START_LINE = {"type": "session_start", "id": OWN}


@pytest.mark.parametrize(
    ("first", "named"),
    [
        (START_LINE, ()),
        (START_LINE | {"parent": PARENT}, (f"{PARENT}.settings.json",)),
        (START_LINE | {"parent": 7}, ()),
        (START_LINE | {"parent": "a/b"}, (".",)),  # no file can be called like that
        ({"type": "session_start", "parent": PARENT}, (".",)),  # a later line may say more
        ({"type": "todo_state"}, (".",)),
        (START_LINE | {"title": "long " * 20_000}, (".",)),
        ([], (".",)),
    ],
)
def test_a_session_names_the_settings_it_depends_on(
    tmp_path: Path, first: object, named: tuple[str, ...]
) -> None:
    path = Log().prompt("hello").write(tmp_path)
    path.write_text(json.dumps(first) + "\n" + path.read_text())
    root = tmp_path / ".factory" / "sessions"
    [source] = ADAPTER.discover(root)
    assert source.companions == (
        path.with_name(f"{OWN}.settings.json"),
        *(path.parent / name for name in named),
    )
    path.unlink()
    assert source.companions == (path.with_name(f"{OWN}.settings.json"),)
