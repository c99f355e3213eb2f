"""Claude Code: files without a session, damaged lines, unknown lines."""

from __future__ import annotations

import os
from pathlib import Path
from typing import cast

import pytest
from claude_transcripts import (
    SESSION,
    Json,
    Transcript,
    read_path,
    text,
    tool,
)


@pytest.fixture
def transcript(tmp_path: Path) -> Transcript:
    return Transcript(tmp_path)


def test_a_file_without_a_conversation_is_no_session_but_keeps_its_notes(
    transcript: Transcript,
) -> None:
    transcript.raw({"type": "summary", "summary": "A title", "leafUuid": "elsewhere"})
    transcript.raw({"type": "queue-operation", "operation": "dequeue", "timestamp": "2026-01-02"})
    (read,) = transcript.read()
    assert read.head is None
    assert (read.facts.session_id, read.facts.addressable, read.facts.attributed) == (
        SESSION,
        False,
        False,
    )
    assert [note.text for note in read.facts.notes] == ["A title"]


def test_an_empty_file_is_not_a_session(transcript: Transcript) -> None:
    (read,) = transcript.read(tail=b"")
    assert read.head is None
    assert not read.facts.attributed
    assert not read.problems


def test_a_file_of_garbage_is_a_problem_and_no_session(transcript: Transcript) -> None:
    transcript.raw(b"\x89PNG not json").raw(b"[1, 2]")
    (read,) = transcript.read()
    codes = [problem.code for problem in read.problems]
    assert codes == ["bad-line", "bad-record", "unknown-format"]
    assert not read.facts.attributed
    assert read.facts.problem_count == 3


def test_a_torn_last_line_is_a_problem_and_affects_only_itself(transcript: Transcript) -> None:
    transcript.user("hi")
    transcript.assistant(text("Hello"))
    transcript.raw(b'{"type":"user","message":{"role":"us')
    (read,) = transcript.read(tail=b"")
    assert [problem.code for problem in read.problems] == ["torn-tail"]
    assert [message.content for message in read.messages] == ["hi", "Hello"]
    assert read.facts.problems == tuple(read.problems)


def test_crash_noise_and_broken_lines_cost_nothing_else(transcript: Transcript) -> None:
    transcript.user("hi")
    transcript.lines[-1] = b"\x00\x00\x00" + transcript.lines[-1]
    transcript.raw(b"{broken").raw(b"").raw(b"42")
    transcript.assistant(text("lone \ud800 surrogate"))
    read = transcript.session_read()
    assert [problem.code for problem in read.problems] == ["bad-line", "bad-record"]
    assert [message.content for message in read.messages] == ["hi", "lone \ufffd surrogate"]
    assert [problem.line for problem in read.problems] == [2, 4]


def test_unknown_line_types_are_counted_and_otherwise_ignored(transcript: Transcript) -> None:
    transcript.user("hi")
    transcript.raw({"type": "future", "message": "odd", "version": 7, "content": {"a": 1}})
    transcript.raw({"type": "future"}).raw({"kind": "typeless"})
    transcript.raw({"type": "api-request-blob", "message": {"role": "user", "content": "sent"}})
    transcript.assistant(text("Hello"))
    read = transcript.session_read()
    assert read.facts.raw["unknownTypes"] == {"future": 2, "": 1}
    assert [message.content for message in read.messages] == ["hi", "Hello"]
    assert not read.problems


def test_a_field_of_the_wrong_type_does_not_cost_the_line(transcript: Transcript) -> None:
    transcript.user("hi", cwd=5, version=[1], gitBranch={}, origin="me", forkedFrom=0)
    transcript.assistant({"type": 3}, text("Hello"), cast("Json", "loose"), message={"id": 7})
    read = transcript.session_read()
    assert [message.content for message in read.messages] == ["hi", "Helloloose"]
    assert not read.problems


def test_an_orphaned_tool_result_is_kept_and_reported(transcript: Transcript) -> None:
    transcript.user("hi")
    transcript.result("never-called", "out")
    read = transcript.session_read()
    assert [problem.code for problem in read.problems] == ["orphan-result"]
    assert read.problems[0].path == str(transcript.path)
    assert read.messages[1].tool_result is not None
    assert read.messages[1].tool_result.tool_name == ""


def test_a_transcript_cut_anywhere_is_read_up_to_the_cut(transcript: Transcript) -> None:
    transcript.user("first")
    transcript.assistant(tool("t1"), stop="tool_use")
    transcript.result("t1")
    transcript.assistant(text("answer"), message_id="msg_2")
    whole = transcript.session_read()
    data = transcript.path.read_bytes()
    for size in range(0, len(data), 7):
        transcript.path.write_bytes(data[:size])
        os.utime(transcript.path)
        reads = read_path(transcript.path)
        messages = [message.content for read in reads for message in read.messages]
        assert messages == [message.content for message in whole.messages][: len(messages)]
        assert len(reads[0].problems) <= 2


def test_bytes_that_are_no_text_in_a_body_are_replaced_there(transcript: Transcript) -> None:
    transcript.user("hi")
    transcript.assistant(tool("t1"), stop="tool_use")
    transcript.result("t1", "caf@")
    transcript.lines[-1] = transcript.lines[-1].replace(b"@", b"\xe9")
    transcript.raw(b'{"type":"cost","costUSD":0.5,"note":"\xe9"}')
    read = transcript.session_read()
    assert read.messages[-1].content == "caf\ufffd"
    assert read.facts.native_nusd == 500_000_000


def test_a_record_nested_too_deeply_affects_one_line(transcript: Transcript) -> None:
    transcript.user("hi")
    transcript.raw(b'{"type":"user","message":{"content":' + b"[" * 9000 + b"]" * 9000 + b"}}")
    transcript.assistant(text("Hello"))
    read = transcript.session_read()
    assert [message.content for message in read.messages] == ["hi", "Hello"]
    assert [problem.code for problem in read.problems] == ["bad-line"]


def test_an_undecodable_body_affects_only_the_body(transcript: Transcript) -> None:
    transcript.user("hi")
    transcript.assistant(text("Counting"), tool("t1"), stop="tool_use")
    transcript.lines[-1] = transcript.lines[-1].replace(b'"ls"', b"1e999")
    transcript.result("t1", "out")
    transcript.lines[-1] = transcript.lines[-1].replace(b'"out"', b"[1e999]")
    read = transcript.session_read()
    assert [message.content for message in read.messages] == ["hi", "Counting", ""]
    assert read.tool_calls == [("Bash", True)]
