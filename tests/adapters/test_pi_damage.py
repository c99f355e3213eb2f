"""Tests that a bad field in a Pi log is ignored or a problem, and costs no other line."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from drawn import drawn
from hypothesis import HealthCheck, assume, given
from hypothesis import strategies as st
from pi_logs import Json, entry, header, only_source, read_only, reply, texts, usage, user, write

from amux.adapters._kit.values import is_items, is_mapping
from amux.adapters.pi import ADAPTER
from amux.adapters.pi.log import NEWEST_VERSION
from amux.model.usage import Tokens
from amux.testing.reading import read_source
from amux.testing.strategies import json_values

NAME = "2026-11-15T20-00-00-000Z_s1.jsonl"
CALL = {"type": "toolCall", "id": "t1", "name": "bash", "arguments": {"command": "ls"}}
RESULT = {"role": "toolResult", "toolCallId": "t1", "toolName": "bash", "details": {"exitCode": 0}}

LINES: list[Json] = [
    header(cwd="/x", parentSession="/x/y_z.jsonl"),
    user("u1", None, 1, "first neighbour"),
    reply("a1", "u1", 2, content=[{"type": "thinking", "thinking": "hm"}, CALL]),
    entry("r1", "a1", 3, "message", message={**RESULT, "content": [{"type": "text", "text": "x"}]}),
    entry("c1", "r1", 4, "compaction", summary="s", usage=usage(3)),
    entry("i1", "c1", 5, "session_info", name="n"),
    entry("l1", "i1", 6, "label", targetId="a1", label="b"),
    user("u2", "l1", 7, "last neighbour"),
]
EDGES = {"first neighbour", "last neighbour"}

Way = tuple[str | int, ...]


def ways(value: Any, way: Way = ()) -> list[Way]:
    """Every place inside a value."""
    inner: list[Way] = []
    if is_mapping(value):
        inner = [found for key, v in value.items() for found in ways(v, (*way, key))]
    elif is_items(value):
        inner = [found for i, v in enumerate(value) for found in ways(v, (*way, i))]
    return [way, *inner] if way else inner


def changed(line: Json, way: Way, value: Any) -> Json:
    line = copy.deepcopy(line)
    place: Any = line
    for step in way[:-1]:
        place = place[step]
    place[way[-1]] = value
    return line


DAMAGES = [(n, way) for n in range(2, len(LINES) - 1) for way in ways(LINES[n])]


@drawn(200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(damage=st.sampled_from(DAMAGES), value=json_values())
def test_any_value_in_any_field_loses_no_neighbour(
    tmp_path: Path, damage: tuple[int, Way], value: Any
) -> None:
    number, way = damage
    assume(way != ("parentId",) or value is not None)  # a second root is no damage
    lines = [*LINES]
    lines[number] = changed(LINES[number], way, value)
    write(tmp_path / ".pi/agent/sessions/--x--" / NAME, lines)
    reading = read_only(ADAPTER, tmp_path)
    assert set(texts(reading)) >= EDGES
    assert all(call.tokens.total > 0 for facts in reading.facts for call in facts.calls)
    json.dumps([facts.to_dict() for facts in reading.facts])


@drawn(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(way=st.sampled_from(ways(LINES[0])), value=json_values())
def test_any_value_in_the_header_keeps_the_conversation(
    tmp_path: Path, way: Way, value: Any
) -> None:
    """A version that is too new is no damage: such a log is refused as a whole."""
    assume(way != ("version",) or not isinstance(value, int) or value <= NEWEST_VERSION)
    lines = [changed(LINES[0], way, value), *LINES[1:]]
    write(tmp_path / ".pi/agent/sessions/--x--" / NAME, lines)
    assert set(texts(read_only(ADAPTER, tmp_path))) >= EDGES


@pytest.mark.parametrize("line", [5, "x", None, [], True, 1.5, {}])
def test_a_line_that_is_no_record_is_a_problem_or_nothing(tmp_path: Path, line: Any) -> None:
    lines = [*LINES[:4], line, *LINES[4:]]
    write(tmp_path / ".pi/agent/sessions/--x--" / NAME, lines)
    reading = read_only(ADAPTER, tmp_path)
    assert set(texts(reading)) >= EDGES
    assert [problem.code for problem in reading.problems] == ([] if line == {} else ["bad-record"])


def test_a_line_nested_beyond_reason_is_a_problem(tmp_path: Path) -> None:
    path = write(tmp_path / ".pi/agent/sessions/--x--" / NAME, LINES)
    deep = b'{"type":"message","message":{"role":"user","content":' + b"[" * 100_000
    path.write_bytes(path.read_bytes() + deep + b"]" * 100_000 + b"}}\n")
    reading = read_only(ADAPTER, tmp_path)
    assert set(texts(reading)) >= EDGES
    assert [problem.code for problem in reading.problems] == ["bad-line"]


def test_huge_figures_are_no_figures(tmp_path: Path) -> None:
    big = {"input": 10**40, "output": -5, "cacheRead": 1e300, "cacheWrite": True, "cost": "free"}
    lines = [*LINES[:2], reply("a1", "u1", 2, usage=big)]
    write(tmp_path / ".pi/agent/sessions/--x--" / NAME, lines)
    [facts] = read_only(ADAPTER, tmp_path).facts
    (call,) = facts.calls
    assert (call.tokens, call.gaps) == (Tokens(), ("usage-unusable",))


def test_a_search_gets_the_messages_with_their_longest_texts_cut(tmp_path: Path) -> None:
    lines = [header(), user("u1", None, 1, "x" * 6_000_000), reply("a1", "u1", 2)]
    write(tmp_path / ".pi/agent/sessions/--x--" / NAME, lines)
    source = only_source(ADAPTER, tmp_path)
    whole, cut = (read_source(ADAPTER, source, want).messages for want in ("all", "texts"))
    assert [len(m.content) for m in whole] == [6_000_000, 4]
    assert 0 < len(cut[0].content) < 1_000_000
    assert cut[1] == whole[1]
