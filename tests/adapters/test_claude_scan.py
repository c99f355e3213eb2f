"""Claude Code: the text scan returns the texts that reading returns, or None."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from builders import CAPTURES
from drawn import drawn
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from text_scans import assert_scanned_as_read, assert_scanned_on

from amux.adapters._base import SourceRef
from amux.adapters._kit.long_lines import LONG_LINE
from amux.adapters.claude import ADAPTER

Json = dict[str, Any]
OF_CLAUDE = [capture for capture in CAPTURES if capture.name.startswith("claude")]
SID = "11111111-2222-4333-8444-555555555555"

ECHO = "<command-message>fix</command-message><command-name>/fix</command-name>"
said = st.sampled_from(
    (
        "hello",
        "  ",
        "",
        "<system-reminder>x</system-reminder>",
        "Caveat: The messages below",
        "é検",
        ECHO,
        f"{ECHO}<command-args>a <b></command-args>",
        "<b>",
    )
)


def block(kind: str, **members: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    return st.fixed_dictionaries({"type": st.just(kind), **members})


image: Json = {"type": "image", "source": {"type": "base64", "data": "AAAA"}}
results: st.SearchStrategy[Any] = st.one_of(
    said,
    st.lists(block("text", text=said), max_size=2),
    st.just({"file": {"path": "a.py", "lines": 3}}),
    st.just([image, None]),
    st.none(),
)
plain_blocks: st.SearchStrategy[Any] = st.one_of(
    block("text", text=said),
    block("thinking", thinking=said),
    block(
        "tool_use",
        name=st.just("Bash"),
        input=st.fixed_dictionaries({"command": said, "n": st.just(1)}),
    ),
    block("tool_result", tool_use_id=st.just("t"), content=results),
    st.just(image),
    st.just({"type": "server_tool_use", "name": "search", "input": {"query": ["a", {"b": "c"}]}}),
    st.just("a string"),
)
odd_blocks: st.SearchStrategy[Any] = st.sampled_from(
    [{"type": "text", "text": 7}, {"text": None, "type": None}, None, 5]
)
plain_contents: st.SearchStrategy[Any] = st.one_of(
    said, st.lists(plain_blocks, max_size=4), st.none()
)
odd_contents: st.SearchStrategy[Any] = st.one_of(
    st.lists(st.one_of(plain_blocks, odd_blocks), max_size=3), st.just({"odd": 1}), st.just(1)
)
flags = st.dictionaries(
    st.sampled_from(("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly")), st.booleans()
)
origins: st.SearchStrategy[Json] = st.sampled_from(
    ({}, {"origin": {"kind": "human"}}, {"origin": {"kind": "hook"}})
)


@st.composite
def lines(draw: st.DrawFn, *, odd: bool) -> Json:
    kind = draw(st.sampled_from(("assistant", "user", "user", "system", "summary", "checkpoint")))
    line: Json = {"type": kind, "uuid": draw(st.sampled_from(("u1", "u2", "u3")))}
    line |= draw(flags) | draw(origins)
    if kind == "system":
        return line | {"content": draw(said)}
    message: Json = {"role": kind}
    message["content"] = draw(st.one_of(plain_contents, odd_contents) if odd else plain_contents)
    if kind == "assistant":
        message["id"] = draw(st.sampled_from(("m1", "m2", None)))
    if odd and draw(st.booleans()):
        return line | draw(st.sampled_from(({"isSidechain": True}, {"requestId": 5}, {"uuid": 1})))
    return line | {"message": message}


def source(path: Path, role: Any = "session") -> SourceRef:
    return SourceRef(agent="claude", path=path, root=path.parent, session_id=SID, role=role)


@drawn(300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.one_of(st.lists(lines(odd=False), max_size=12), st.lists(lines(odd=True), max_size=3)),
    st.sampled_from(("session", "subagent")),
)
def test_any_transcript_is_scanned_as_it_is_read(
    tmp_path: Path, records: list[Json], role: str
) -> None:
    path = tmp_path / f"{SID}.jsonl"
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    assert_scanned_as_read(ADAPTER, source(path, role))


@drawn(200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(lines(odd=False), min_size=1, max_size=12), st.integers(0, 10_000))
def test_any_transcript_that_grew_is_scanned_on(
    tmp_path: Path, records: list[Json], cut: int
) -> None:
    path = tmp_path / f"{SID}.jsonl"
    data = "".join(f"{json.dumps(record)}\n" for record in records).encode()
    path.write_bytes(data)
    assert_scanned_on(ADAPTER, source(path), cut % len(data))


@pytest.mark.parametrize("seed", range(40))
def test_a_damaged_transcript_is_scanned_as_it_is_read(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    capture = chance.choice(OF_CLAUDE)
    whole = chance.choice(sorted(capture.copy_to(tmp_path).rglob("projects/**/*.jsonl")))
    data = bytearray(whole.read_bytes())
    if seed % 2:
        del data[chance.randrange(len(data) + 1) :]
    else:
        start = chance.randrange(len(data) + 1)
        data[start : start + chance.randrange(4)] = chance.randbytes(2)
    path = tmp_path / f"{SID}.jsonl"
    path.write_bytes(data)
    assert_scanned_as_read(ADAPTER, source(path))


def test_many_messages_behind_an_answer_are_counted_alike(tmp_path: Path) -> None:
    answer = {"type": "assistant", "message": {"id": "m1", "content": "an answer"}}
    notice = {"type": "system", "content": "a notice"}
    path = tmp_path / f"{SID}.jsonl"
    records = [answer, *[notice] * 300, answer, notice]
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    assert assert_scanned_as_read(ADAPTER, source(path))


def test_a_line_too_long_to_be_held_is_left_to_the_slow_way(tmp_path: Path) -> None:
    path = tmp_path / f"{SID}.jsonl"
    line = {"type": "user", "message": {"role": "user", "content": "x" * (LONG_LINE + 1)}}
    path.write_text(f"{json.dumps(line)}\n", encoding="utf-8")
    assert ADAPTER.extract_texts(source(path), tools=True) is None


def test_a_file_that_is_gone_is_left_to_the_slow_way(tmp_path: Path) -> None:
    assert ADAPTER.extract_texts(source(tmp_path / "gone.jsonl"), tools=True) is None


def test_a_resumed_scan_without_a_new_whole_line_keeps_its_offset(tmp_path: Path) -> None:
    path = tmp_path / f"{SID}.jsonl"
    path.write_bytes(b'{"type":"system","content":"a notice"}\n')
    first = ADAPTER.extract_texts(source(path), tools=True)
    assert first is not None
    path.write_bytes(path.read_bytes() + b'{"type":"system","content":"another"}')
    second = ADAPTER.extract_texts(source(path), tools=True, checkpoint=first.checkpoint)
    assert second is not None
    assert second.checkpoint == first.checkpoint
