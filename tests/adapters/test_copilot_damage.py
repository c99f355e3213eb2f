"""Tests Copilot CLI titles, directories, and damaged or unusual files."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from builders import SharedHome
from copilot_logs import AGENT, OWN, Json, Log, client, document, get, prompts
from drawn import drawn
from hypothesis import example, given
from hypothesis import strategies as st

from amux.adapters.copilot import ADAPTER
from amux.adapters.copilot.workspace import parse_scalars
from amux.host import Host
from amux.testing import Capture, find_captures

CAPTURES = Path(__file__).parent.parent / "captures"

# titles


@pytest.mark.parametrize(
    ("notes", "title"),
    [
        ("name: Given\nuser_named: true\n", "Given"),
        ("name: Fix the...\nuser_named: false\n", "Fix the bug"),
        ("summary: Fix the...\n", "Fix the bug"),
        (": : [broken\n\x00", "Fix the bug"),
        ('name: "a \\"b\\"\\n c"\nuser_named: true', 'a "b" c'),
        ("name: |-\n  two\n  lines\nuser_named: true", "two lines"),
        ("name: 'it''s'\nuser_named: true", "it's"),
    ],
)
def test_the_title_is_a_given_name_else_the_first_prompt(
    notes: str, title: str, tmp_path: Path
) -> None:
    path = Log().start().prompt("Fix the bug").answer("ok").write(tmp_path)
    path.with_name("workspace.yaml").write_text(notes)
    assert get(tmp_path).title == title


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=200))
def test_any_notes_can_be_read(notes: str) -> None:
    assert all(isinstance(value, str) for value in parse_scalars(notes).values())


@example("~")
@example("null")
@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=50))
def test_a_quoted_name_is_read_back(name: str) -> None:
    assert parse_scalars(f"name: {json.dumps(name)}").get("name", "") in (name, "~", "null")


# places


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_roots_are_the_agents_directory_and_that_of_the_specification(
    platform: str, tmp_path: Path
) -> None:
    specified = tmp_path / ".config" / "github-copilot" / "sessions"
    assert ADAPTER.roots(Host(tmp_path, platform=platform)) == [tmp_path / ".copilot", specified]
    env = {"COPILOT_HOME": str(tmp_path / "c"), "XDG_STATE_HOME": str(tmp_path / "s")}
    moved = ADAPTER.roots(Host(tmp_path, env=env, platform=platform))
    assert moved == [tmp_path / "c", tmp_path / "s" / ".copilot", specified]


def test_links_are_not_followed(tmp_path: Path) -> None:
    path = Log().start().prompt("Go").write(tmp_path / "else")
    folder = tmp_path / ".copilot" / "session-state"
    folder.mkdir(parents=True)
    (folder / OWN).symlink_to(path.parent)
    assert client(tmp_path).sessions.list("copilot") == []


@pytest.mark.parametrize(
    "capture", find_captures(CAPTURES, "copilot"), ids=lambda capture: capture.version
)
def test_every_file_of_a_capture_is_accounted_for(
    capture: Capture, shared_home: SharedHome
) -> None:
    reports = client(shared_home(capture)).doctor("copilot")
    files = [file for report in reports for file in report.files]
    assert {file.status for file in files} == {"session", "bystander"}


def test_commands_resume_by_id_and_cannot_fork() -> None:
    resumed = ADAPTER.command("resume", session_id=OWN, prompt="Go", cwd="/x")
    assert resumed is not None
    assert (resumed.argv, resumed.cwd) == (("copilot", f"--resume={OWN}", "--prompt=Go"), "/x")
    assert ADAPTER.command("resume") is None
    assert ADAPTER.command("fork", session_id=OWN) is None


# odd values

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | NUMBERS | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)


def fields(lines: Iterable[Json]) -> list[tuple[int, str, str | None]]:
    """Every field of every line but the type, and every field of its data."""
    found: list[tuple[int, str, str | None]] = []
    for number, line in enumerate(lines):
        found += [(number, name, None) for name in line if name != "type"]
        found += [(number, "data", name) for name in line["data"]]
    return found


def everything() -> Log:
    request: Json = {"toolCallId": "c", "name": "bash", "arguments": {}}
    log = (
        Log()
        .start(context={"cwd": "/x"}, startTime="2026-01-02T00:00:00Z")
        .prompt("Go", source=None)
    )
    log.usage(1).add(
        "assistant.message",
        content="a",
        toolRequests=[request],
        model="m",
        reasoningText="r",
        apiCallId="x",
    )
    log.add("tool.execution_start", toolCallId="c", toolName="bash", arguments={})
    log.add(
        "tool.execution_complete",
        toolCallId="c",
        success=True,
        result={"content": "x"},
        error=None,
        shellExecution={"exitCode": 0},
    )
    log.add("subagent.started", agent=AGENT, toolCallId="c", agentName="x", agentDescription="y")
    log.usage(1, source=AGENT, agent=AGENT).answer("sub", agent=AGENT)
    log.add(
        "session.compaction_complete",
        success=True,
        summaryContent="s",
        compactionTokensUsed={"inputTokens": 1},
    )
    log.add("session.info", infoType="fork", message="x").add("session.error", message="e")
    log.add("session.shutdown", modelMetrics={"m": {}}, accountingSnapshot={})
    return log


@drawn(120)
@given(data=st.data(), value=JSON)
def test_any_value_in_any_field_costs_at_most_what_it_says(data: st.DataObject, value: Any) -> None:
    log = everything()
    number, name, inner = data.draw(st.sampled_from(fields(log.lines)))
    if inner is None:
        log.lines[number] = log.lines[number] | {name: value}
    else:
        log.lines[number]["data"][inner] = value
    log.add("user.message", id="the-last", content="Last")
    with TemporaryDirectory() as folder:
        log.write(Path(folder))
        (summary,) = client(Path(folder)).sessions.list("copilot", limit=None)
        session = get(Path(folder))
        assert summary.message_count == len(session.messages)
        assert prompts(session)[-1:] == ["Last"]


@drawn(150)
@given(data=st.data(), value=JSON)
def test_any_value_in_a_document_raises_no_exception(data: st.DataObject, value: Any) -> None:
    call = {"id": "c", "function": {"name": "bash", "arguments": "{}"}}
    messages: list[Json] = [
        {"role": "user", "content": "Go", "id": "1", "timestamp": "2026-01-02T00:00:00Z"},
        {"role": "assistant", "content": "a", "tool_calls": [call], "usage": {"input": 1}},
        {"role": "tool", "tool_call_id": "c", "content": "x"},
        {"role": "user", "content": "Last", "id": "last"},
    ]
    index = data.draw(st.integers(0, 2))
    messages[index] = messages[index] | {data.draw(st.sampled_from(sorted(messages[index]))): value}
    with TemporaryDirectory() as folder:
        document(Path(folder), {"messages": messages, "title": None, "cwd": value})
        session = get(Path(folder), "abc")
        assert prompts(session)[-1] == "Last"
