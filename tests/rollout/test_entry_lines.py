"""The documented samples are read and written byte for byte."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from drawn import drawn
from entry_samples import (
    ASSISTANT,
    BRANCH,
    COMPACTION,
    HEADER,
    LINES,
    LOG,
    MESSAGES,
    TOOL_RESULT,
    USER,
    Clock,
    Json,
    compact,
    lines_of,
)
from hypothesis import given
from hypothesis import strategies as st

from amux import EntryLog, ValidationError, parse_line, parse_messages
from amux.rollout.entries import encode_line

CWD = "/home/user/project"


def own_line(line: str, id: str, parent_id: str) -> str:
    """A documented line as it is in a log that gave it other ids."""
    fields = json.loads(line)
    fields |= {"id": id, "parent_id": parent_id}
    return json.dumps(fields, separators=(",", ":"))


def at(line: str) -> datetime:
    return datetime.fromisoformat(json.loads(line)["timestamp"])


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (HEADER, "session"),
        (USER, "message"),
        (ASSISTANT, "message"),
        (TOOL_RESULT, "message"),
        (COMPACTION, "compaction"),
        (BRANCH, "branch"),
    ],
)
def test_a_documented_line_has_its_type_and_fields(line: str, kind: str) -> None:
    assert parse_line(line) == (kind, json.loads(line))
    assert parse_line(line.encode() + b"\r\n") == (kind, json.loads(line))


@pytest.mark.parametrize("line", LINES)
def test_a_documented_line_is_written_back_byte_for_byte(line: str) -> None:
    assert encode_line(parse_line(line)[1]) == line.encode() + b"\n"


def test_a_new_log_begins_with_the_documented_header(tmp_path: Path) -> None:
    log = EntryLog.create(tmp_path, CWD, now=Clock())
    assert log.file_path.read_text() == HEADER.replace("a3f7c901-...", log.id) + "\n"
    assert re.fullmatch(r"20260226-143012-[0-9a-f]{8}\.jsonl", log.file_path.name)
    assert log.file_path.stem.endswith(log.id[:8])


def test_messages_and_compactions_are_written_as_documented(tmp_path: Path) -> None:
    clock = Clock()
    log = EntryLog.create(tmp_path, CWD, now=clock)
    ids: list[str] = [""]
    for line in (USER, ASSISTANT, TOOL_RESULT):
        clock.at = at(line)
        ids.append(log.append_message(json.loads(line)["message"]))
    clock.at = at(COMPACTION)
    summary = json.loads(COMPACTION)["summary"]
    ids.append(log.append_compaction(summary, ids[3], 45000))
    written = log.file_path.read_text().splitlines()[1:]
    expected = [
        own_line(line, ids[number + 1], ids[number])
        for number, line in enumerate((USER, ASSISTANT, TOOL_RESULT, COMPACTION))
    ]
    expected[3] = expected[3].replace("f6a7b8c9", ids[3])
    assert written == expected


def test_a_branch_is_written_as_documented(tmp_path: Path) -> None:
    clock = Clock()
    log = EntryLog.create(tmp_path / "parent", CWD, now=clock)
    last = log.append_message(json.loads(USER)["message"])
    clock.at = at(BRANCH)
    fork = log.fork(tmp_path, 10, "User was refactoring the auth module...")
    line = fork.file_path.read_text().splitlines()[1]
    expected = json.loads(BRANCH) | {
        "id": json.loads(line)["id"],
        "parent_session_path": str(log.file_path),
        "fork_entry_id": last,
    }
    assert line == json.dumps(expected, separators=(",", ":"))


@pytest.mark.parametrize("message", MESSAGES)
def test_a_documented_message_is_kept_and_given_back(message: str, tmp_path: Path) -> None:
    log = EntryLog.create(tmp_path, CWD)
    log.append_message(json.loads(message))
    assert f'"message":{compact(message)}}}\n' in log.file_path.read_text()
    assert log.messages() == [json.loads(message)]


@pytest.mark.parametrize("message", MESSAGES)
def test_fields_are_written_in_the_documented_order(message: str, tmp_path: Path) -> None:
    def turned(pairs: list[tuple[str, Any]]) -> Json:
        return dict(reversed(pairs))

    log = EntryLog.create(tmp_path, CWD)
    log.append_message(json.loads(message, object_pairs_hook=turned))
    assert f'"message":{compact(message)}}}\n' in log.file_path.read_text()


def test_a_documented_log_gives_its_summary_and_what_was_kept() -> None:
    problems: list[Any] = []
    summary, kept = parse_messages(LOG, problems=problems)
    assert summary["role"] == "user"
    (block,) = summary["content"]
    assert block["type"] == "text"
    assert f"<summary>\n{json.loads(COMPACTION)['summary']}\n</summary>" in block["text"]
    assert summary["timestamp"] == 1772118000000  # 2026-02-26T15:00:00Z
    assert kept == json.loads(TOOL_RESULT)["message"]
    assert problems == []


def test_images_and_errors_are_kept(tmp_path: Path) -> None:
    image = {"type": "image", "data": "AAAA", "mime_type": "image/png"}
    failed: Json = {
        "role": "assistant",
        "content": [],
        "model": "m",
        "provider": "p",
        "usage": {"input": 1, "output": 0, "total_tokens": 1, "cost": {"total": 0.5}},
        "stop_reason": "error",
        "error_message": "overloaded",
        "timestamp": 1,
    }
    log = EntryLog.create(tmp_path, CWD)
    log.append_message({"role": "user", "content": [image], "timestamp": 1})
    log.append_message(failed)
    assert log.messages() == [{"role": "user", "content": [image], "timestamp": 1}, failed]
    written = log.file_path.read_text()
    assert json.dumps(image, separators=(",", ":")) in written
    assert json.dumps(failed, separators=(",", ":")) in written


def test_a_text_is_one_block_and_a_missing_time_is_the_present(tmp_path: Path) -> None:
    log = EntryLog.create(tmp_path, CWD, now=Clock(datetime(2026, 2, 26, tzinfo=UTC)))
    log.append_message({"role": "user", "content": "Hello!"})
    assert log.messages() == [
        {
            "role": "user",
            "content": [{"type": "text", "text": "Hello!"}],
            "timestamp": 1772064000000,
        }
    ]


def test_fields_the_format_does_not_know_are_kept_after_the_known_ones(tmp_path: Path) -> None:
    log = EntryLog.create(tmp_path, CWD)
    message: Json = {"mood": "good", "role": "user", "content": [], "timestamp": 1}
    log.append_message(message)
    assert log.messages() == [message]
    assert '{"role":"user","content":[],"timestamp":1,"mood":"good"}' in log.file_path.read_text()


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ({}, "role"),
        ({"role": "system", "content": "x"}, "role"),
        ({"role": ["user"], "content": "x"}, "role"),
        ({"role": "user"}, "content"),
        ({"role": "user", "content": None}, "content"),
        ({"role": "user", "content": ["x"]}, "content"),
        ({"role": "user", "content": [{"text": "x"}]}, "content"),
        ({"role": "tool_result", "content": "x"}, "tool_call_id"),
        ({"role": "tool_result", "content": "x", "tool_call_id": ""}, "tool_call_id"),
        ({"role": "user", "content": "x", "a": float("nan")}, "message"),
        ({"role": "user", "content": "x", "a": float("inf")}, "message"),
        ({"role": "user", "content": "x", "a": {1, 2}}, "message"),
        ({"role": "user", "content": "x", "a": b"bytes"}, "message"),
        ({"role": "user", "content": "x", "a": 10**5000}, "message"),
    ],
)
def test_a_message_that_is_none_is_refused_and_leaves_no_trace(
    message: Json, field: str, tmp_path: Path
) -> None:
    log = EntryLog.create(tmp_path, CWD)
    before = log.file_path.read_bytes()
    with pytest.raises(ValidationError) as caught:
        log.append_message(message)
    assert caught.value.fields == (field,)
    assert caught.value.hint
    assert log.file_path.read_bytes() == before
    assert log.leaf_id is None


def test_a_message_that_contains_itself_is_refused(tmp_path: Path) -> None:
    message: Json = {"role": "user", "content": "x"}
    message["self"] = message
    with pytest.raises(ValidationError):
        EntryLog.create(tmp_path, CWD).append_message(message)


def test_any_mapping_is_a_message(tmp_path: Path) -> None:
    log = EntryLog.create(tmp_path, CWD)
    block = MappingProxyType({"type": "text", "text": "x", "more": MappingProxyType({"a": 1})})
    log.append_message(MappingProxyType({"role": "user", "content": (block,), "timestamp": 1}))
    content = [{"type": "text", "text": "x", "more": {"a": 1}}]
    assert log.messages() == [{"role": "user", "content": content, "timestamp": 1}]


@pytest.mark.parametrize(
    ("line", "kind", "fields"),
    [
        ("", "", "{}"),
        ("no json", "", "{}"),
        ("[]", "", "{}"),
        ("7", "", "{}"),
        ('{"type":"session"', "", "{}"),
        ('{"a":1}', "", '{"a":1}'),
        ('{"type":7}', "", '{"type":7}'),
        ('{"type":"poem","x":1}', "poem", '{"type":"poem","x":1}'),
        ('\ufeff{"type":"session"}', "session", '{"type":"session"}'),
        ('{"type":"a\\ud800"}', "a\ufffd", '{"type":"a\ufffd"}'),
        ("\ud800", "", "{}"),
    ],
)
def test_a_line_that_is_no_entry_has_no_type(line: str, kind: str, fields: str) -> None:
    assert parse_line(line) == (kind, json.loads(fields))


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert parse_line(b'{"type":"a\xff"}') == ("a\ufffd", {"type": "a\ufffd"})


PLAIN = st.none() | st.booleans() | st.integers() | st.text(max_size=12)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    PLAIN | NUMBERS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)


@drawn(200)
@given(st.dictionaries(st.text(max_size=8), JSON, max_size=5))
def test_every_object_is_one_line_that_is_read_back_and_written_equal(fields: Json) -> None:
    line = encode_line(fields)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    kind, found = parse_line(line)
    assert encode_line(found) == line
    assert kind == (fields["type"] if isinstance(fields.get("type"), str) else "")


@drawn(200)
@given(st.binary(max_size=60))
def test_any_bytes_are_a_line(line: bytes) -> None:
    kind, fields = parse_line(line)
    assert isinstance(kind, str)
    assert isinstance(fields, dict)


@drawn(200)
@given(
    st.lists(
        st.sampled_from([line.encode() for line in LINES]) | st.binary(max_size=30), max_size=8
    )
)
def test_any_bytes_are_a_log(lines: list[bytes]) -> None:
    for data in (b"\n".join(lines), b"".join(lines)):
        for message in parse_messages(data, problems=[]):
            assert message["role"] in ("user", "assistant", "tool_result")


def test_a_cut_log_gives_all_messages_before_the_cut() -> None:
    whole = LOG[: LOG.index(COMPACTION.encode())]
    messages = [json.loads(line)["message"] for line in (USER, ASSISTANT, TOOL_RESULT)]
    ends = [whole.index(line.encode()) + len(line) for line in (USER, ASSISTANT, TOOL_RESULT)]
    for cut in range(len(whole) + 1):
        complete = [message for message, end in zip(messages, ends, strict=True) if end <= cut]
        assert parse_messages(whole[:cut], problems=[]) == complete
    assert [each["role"] for each in lines_of(whole)[1:]] == ["user", "assistant", "tool_result"]
