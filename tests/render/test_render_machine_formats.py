from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from drawn import drawn
from hypothesis import given
from render_samples import make

from amux.errors import ErrorCode, ValidationError
from amux.model.message import SessionMessage
from amux.model.session import Session
from amux.render import FORMATS, exporter, render
from amux.testing.strategies import sessions

few = drawn(20)  # whole sessions are large examples


def as_json(value: Session | SessionMessage) -> Any:
    """What any JSON parser makes of the model's own encoding."""
    return json.loads(msgspec.json.encode(value))


@few
@given(session=sessions())
def test_json_is_the_whole_session(session: Session) -> None:
    assert json.loads(render(session, "json")) == as_json(session)


@few
@given(session=sessions())
def test_json_is_streamed_to_the_same_text_as_at_once(session: Session) -> None:
    at_once = msgspec.json.format(msgspec.json.encode(session), indent=2).decode() + "\n"
    unsafe = [*range(0x7F, 0xA0), 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
    assert render(session, "json") == at_once.translate({n: f"\\u{n:04x}" for n in unsafe})


def test_json_has_two_spaces_iso_dates_and_no_empty_optionals() -> None:
    text = render(
        make(SessionMessage(role="user", content="hé"), session_id="abc", unified_id="claude:abc"),
        "json",
    )
    assert text == (
        '{\n  "agent": "claude",\n  "sessionId": "abc",\n  "unifiedId": "claude:abc",\n'
        '  "title": "A title",\n  "createdAt": "2026-03-01T12:00:00Z",\n'
        '  "updatedAt": "2026-03-01T12:00:00Z",\n  "turnCount": 1,\n  "tags": [],\n'
        '  "messages": [\n    {\n      "role": "user",\n      "content": "hé"\n    }\n  ]\n}\n'
    )


def test_json_of_a_session_without_messages_has_an_empty_list() -> None:
    assert '\n  "messages": []\n}\n' in render(make(), "json")


def test_a_key_named_messages_in_raw_data_does_not_mislead_the_stream() -> None:
    session = make(
        SessionMessage(role="user", content="x"),
        title='\n  "messages": []',
        raw={"messages": [], "deep": {"messages": []}},
    )
    assert json.loads(render(session, "json")) == as_json(session)


@few
@given(session=sessions())
def test_jsonl_is_a_header_and_a_line_per_message(session: Session) -> None:
    lines = render(session, "jsonl").splitlines()  # also splits at the line ends of Unicode
    header, *bodies = [json.loads(line) for line in lines]
    assert bodies == [as_json(message) for message in session.messages]
    expected = as_json(session)
    del expected["messages"]
    assert header == {"type": "session", **expected}


def test_jsonl_keeps_the_messages_of_sub_agents_in_the_header() -> None:
    child = make(SessionMessage(role="user", content="sub task"), session_id="child")
    lines = render(make(children=(child,)), "jsonl").splitlines()
    assert len(lines) == 1
    assert json.loads(lines[0])["children"][0]["messages"][0]["content"] == "sub task"


@few
@given(session=sessions())
def test_the_same_session_gives_the_same_bytes(session: Session) -> None:
    copy = msgspec.json.decode(msgspec.json.encode(session), type=Session)
    for format in FORMATS:
        assert render(session, format).encode() == render(copy, format).encode()


@few
@given(session=sessions())
def test_no_format_lets_a_terminal_escape_through(session: Session) -> None:
    acting = {chr(code) for code in [*range(0x20), *range(0x7F, 0xA0), 0x202E, 0x2066, 0x2028]}
    for format in FORMATS:
        assert not (set(render(session, format)) & acting) - {"\n", "\t"}


@pytest.mark.parametrize("format", FORMATS)
def test_an_undecodable_file_name_does_not_break_an_export(format: str) -> None:
    session = make(
        SessionMessage(role="user", content="\udcff", tool_calls=()),
        cwd="/tmp/\udcff",
        raw={"k": ["\udcff"]},
    )
    assert "\ufffd" in render(session, format).encode().decode()


@pytest.mark.parametrize("format", FORMATS)
def test_messages_are_asked_for_one_by_one(format: str) -> None:
    taken = 0

    def endless() -> Any:
        nonlocal taken
        while True:
            taken += 1
            yield SessionMessage(role="user", content="again")

    pieces = exporter(format)(make(), endless())
    for _ in range(20):
        next(pieces)
    assert taken <= 20


def test_an_unknown_format_is_a_validation_error_that_names_the_known_ones() -> None:
    with pytest.raises(ValidationError) as caught:
        render(make(), "pdf")
    assert caught.value.code is ErrorCode.VALIDATION_ERROR
    assert caught.value.fields == ("format",)
    told = f"{caught.value} {caught.value.hint}"
    assert all(f"`{name}`" in told for name in ("pdf", "json", "jsonl", "markdown", "html"))
