"""Claude Code: a tool result that stands before the line of its call belongs to that call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from claude_generated import source_at
from claude_readings import check_readings, check_steps, facts_of
from claude_transcripts import Read, Transcript, text, tool
from test_claude_ends import answer, log_of, prompt, results
from text_scans import assert_scanned_as_read

from amux.adapters.claude import ADAPTER
from amux.adapters.claude.tools import EARLY_LIMIT
from amux.client import create_client
from amux.model.message import SessionToolCall
from amux.render import render


@pytest.fixture
def transcript(tmp_path: Path) -> Transcript:
    return Transcript(tmp_path, version="2.1.119")


def calls_of(read: Read) -> list[SessionToolCall]:
    return [call for message in read.messages for call in message.tool_calls]


def results_of(read: Read) -> list[tuple[str, str]]:
    found = [message.tool_result for message in read.messages if message.tool_result is not None]
    return [(result.tool_call_id, result.tool_name) for result in found]


def test_a_result_before_its_answer_is_given_to_its_call(transcript: Transcript) -> None:
    transcript.user("go")
    transcript.result("t1", "early", is_error=True)
    transcript.assistant(text("I look"), stop="tool_use")
    transcript.assistant(tool("t1", "Read"), stop="tool_use")
    transcript.assistant(tool("t2", "Bash"), stop="tool_use")
    transcript.result("t2", "late")
    transcript.assistant(text("done"), message_id="msg_2")
    read = transcript.session_read()
    assert read.problems == []
    assert [(each.tool_name, each.output, each.is_error) for each in calls_of(read)] == [
        ("Read", "early", True),
        ("Bash", "late", False),
    ]
    assert results_of(read) == [("t1", "Read"), ("t2", "Bash")]
    assert [message.role for message in read.messages] == [
        "user", "tool", "assistant", "tool", "assistant",
    ]  # fmt: skip


def test_a_result_between_the_lines_of_its_answer_is_given_to_its_call(
    transcript: Transcript,
) -> None:
    transcript.user("go")
    transcript.assistant(text("I look"), stop="tool_use")
    transcript.result("t1", "early")
    transcript.assistant(tool("t1", "Read"), stop="tool_use")
    transcript.assistant(text("done"), message_id="msg_2")
    read = transcript.session_read()
    assert read.problems == []
    assert [(each.tool_name, each.output) for each in calls_of(read)] == [("Read", "early")]
    assert results_of(read) == [("t1", "Read")]


def test_a_result_behind_the_answer_before_is_given_to_its_call(transcript: Transcript) -> None:
    transcript.user("go")
    transcript.assistant(tool("t1", "Read"), stop="tool_use")
    transcript.result("t1")
    transcript.result("t2", "early")
    transcript.user("<system-reminder>be brief</system-reminder>")
    transcript.assistant(tool("t2", "Bash"), message_id="msg_2", stop="tool_use")
    transcript.assistant(text("done"), message_id="msg_3")
    read = transcript.session_read()
    assert read.problems == []
    assert [(each.tool_name, each.output) for each in calls_of(read)] == [
        ("Read", "done"),
        ("Bash", "early"),
    ]
    assert results_of(read) == [("t1", "Read"), ("t2", "Bash")]


def test_a_result_whose_call_never_comes_is_a_problem_of_its_line(transcript: Transcript) -> None:
    transcript.user("go")
    transcript.result("lost")
    transcript.result("twice")
    transcript.result("twice", "again")
    transcript.result("")
    transcript.assistant(tool("twice", "Read"))
    transcript.user("and?")
    read = transcript.session_read()
    told = sorted((problem.code, problem.line) for problem in read.facts.problems)
    assert told == [("orphan-result", 2), ("orphan-result", 3), ("orphan-result", 5)]
    assert [each.output for each in calls_of(read)] == ["again"]
    assert results_of(read) == [("lost", ""), ("twice", ""), ("twice", "Read"), ("", "")]


def test_more_results_than_may_wait_are_problems_and_lose_no_message(
    transcript: Transcript,
) -> None:
    transcript.user("go")
    for number in range(EARLY_LIMIT + 50):
        transcript.count %= 50
        transcript.result(f"t{number}")
    transcript.assistant(*(tool(f"t{number}") for number in range(EARLY_LIMIT + 50)))
    read = transcript.session_read()
    assert read.facts.problem_count == 50
    named = [name for _, name in results_of(read)]
    assert len(named) == EARLY_LIMIT + 50
    assert named[-200:] == ["Bash"] * 200


def test_reading_in_steps_gives_a_result_to_the_call_of_a_later_step(
    transcript: Transcript,
) -> None:
    transcript.user("go")
    transcript.result("t1", "early")
    transcript.result("t9", "lost")
    transcript.assistant(tool("t1", "Read"))
    transcript.assistant(text("done"), message_id="msg_2")
    transcript.read()
    (source,) = ADAPTER.discover(transcript.path.parents[1])
    data = transcript.path.read_bytes()
    check_readings(source)
    check_steps(source, data, range(0, len(data), 61))
    assert assert_scanned_as_read(ADAPTER, source)


LATER = answer(3, stop="end_turn")


@pytest.mark.parametrize(
    ("lines", "gaps"),
    [
        ([results("t2"), answer(2, "t2")], ("call-interrupted",)),
        ([results("t2"), answer(2), answer(2, "t2")], ("call-interrupted",)),
        ([results("t2"), answer(2, "t2", "t3")], ()),
        ([results("t2"), answer(2, "t2"), answer(2, "t3")], ()),
        ([results("t2"), answer(2, "t2"), answer(2, "t3"), results("t3")], ("call-interrupted",)),
        ([answer(2), results("t2"), answer(2, "t2")], ("call-interrupted",)),
        ([results("t2"), answer(2, "t2"), LATER], ()),
        ([results("t2"), answer(2), answer(4, "t2")], ("call-interrupted",)),
        ([results("t2"), answer(2, "t2"), prompt("go on")], ()),
        ([results("t2"), answer(2, "t2"), {"type": "cost-state"}, prompt("go on")], ()),
    ],
)
@pytest.mark.parametrize("padding", [0, 2 << 20], ids=["one chunk", "several chunks"])
def test_a_log_whose_results_are_all_back_lacks_the_call_they_went_to(
    tmp_path: Path, lines: list[Any], gaps: tuple[str, ...], padding: int
) -> None:
    """The call after results is under way whether they stand before or behind their calls."""
    source = source_at(tmp_path)
    more = [{**line, "padding": "x" * padding} if padding else line for line in lines]
    source.path.write_bytes(log_of(more))
    (facts,) = facts_of(source, "facts")
    assert facts.gaps == gaps
    check_readings(source)


def test_an_export_shows_the_output_of_such_a_call_once(transcript: Transcript) -> None:
    transcript.user("go")
    transcript.result("t1", "the only output")
    transcript.assistant(tool("t1", "Read"))
    transcript.read()
    client = create_client(
        home=transcript.path.parents[2], env={"CLAUDE_CONFIG_DIR": str(transcript.path.parents[2])}
    )
    session = client.sessions.get("claude", transcript.session)
    assert session.problems == ()
    for format in ("markdown", "html"):
        assert render(session, format).count("the only output") == 1
