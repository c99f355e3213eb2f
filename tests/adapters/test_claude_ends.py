"""Claude Code: the end of a log shows whether a call is missing, equally in every reading.

The transcripts have the layout that Claude Code writes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from claude_generated import source_at
from claude_readings import check_readings, check_steps, facts_of
from claude_transcripts import SESSION
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st

Json = dict[str, Any]


def uuid_of(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


def line_of(number: int, fields: Json) -> Json:
    """Return a line as the newest versions write it."""
    return {
        "parentUuid": uuid_of(number - 1) if number else None,
        "isSidechain": False,
        **fields,
        "uuid": uuid_of(number),
        "timestamp": f"2026-03-01T10:{number // 60 % 60:02d}:{number % 60:02d}.000Z",
        "cwd": "/home/dev/project",
        "sessionId": SESSION,
        "version": "2.1.325",
    }


def answer(message: int, *tools: str, output: int = 5, stop: str | None = None) -> Json:
    content: list[Json] = [{"type": "tool_use", "id": tool, "name": "Read"} for tool in tools]
    usage = {"input_tokens": 3, "output_tokens": output, "cache_read_input_tokens": 100}
    body = {
        "model": "claude-opus-4-1", "id": f"msg_{message}", "content": content,
        "stop_reason": stop, "usage": usage,
    }  # fmt: skip
    return {"type": "assistant", "message": body}


def results(*tools: str, more: tuple[Json, ...] = (), **flags: object) -> Json:
    blocks: list[Json] = [{"tool_use_id": tool, "type": "tool_result"} for tool in tools]
    message = {"role": "user", "content": [*blocks, *more]}
    return {"promptId": "p", "type": "user", "message": message, "toolUseResult": "out", **flags}


def prompt(text: str) -> Json:
    return {"type": "user", "message": {"role": "user", "content": text}}


INTERRUPTED = {"type": "text", "text": "[Request interrupted by user]"}

tool_ids = st.sampled_from(["t1", "t2", "t3"])


@st.composite
def answers(draw: st.DrawFn) -> Json:
    tools = draw(st.lists(tool_ids, max_size=2))
    stop = draw(st.sampled_from([None, "tool_use"]))
    return answer(draw(st.integers(0, 3)), *tools, output=draw(st.integers(0, 9)), stop=stop)


@st.composite
def returned(draw: st.DrawFn) -> Json:
    tools = draw(st.lists(tool_ids, min_size=1, max_size=2))
    more: list[tuple[Json, ...]] = [(), (), (INTERRUPTED,)]
    flags: list[Json] = [{}, {}, {"interruptedMessageId": "msg_1"}]
    return results(*tools, more=draw(st.sampled_from(more)), **draw(st.sampled_from(flags)))


OTHERS: list[Json] = [
    results("t1", forkedFrom={"sessionId": "elsewhere"}),
    prompt("go on"),
    prompt("[Request interrupted by user]"),
    {"type": "api-request"},
    {"type": "cost-state", "totalCostUSD": 0.5},
    {"type": "system", "subtype": "compact_boundary", "content": "compacted"},
    {**answer(9), "isApiErrorMessage": True},
    {**answer(8), "isSidechain": True},
]
steps = answers() | returned() | st.sampled_from(OTHERS)
OPENING = (prompt("begin"), answer(0, "t1"), results("t1"))


def log_of(lines: list[Json]) -> bytes:
    numbered = (line_of(number, line) for number, line in enumerate([*OPENING, *lines]))
    return b"".join(json.dumps(one, separators=(",", ":")).encode() + b"\n" for one in numbered)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("laid_out")


@drawn(300)
@given(lines=st.lists(steps, max_size=12), agent=st.booleans())
def test_facts_are_those_of_the_messages_in_whatever_order_lines_come(
    place: Path, lines: list[Json], agent: bool
) -> None:
    source = source_at(place, agent=agent)
    source.path.write_bytes(log_of(lines))
    check_readings(source)


@drawn(60)
@given(lines=st.lists(steps, min_size=1, max_size=8), cut=st.integers(0, 10_000))
def test_reading_on_from_anywhere_equals_reading_at_once(
    place: Path, lines: list[Json], cut: int
) -> None:
    source = source_at(place, agent=False)
    data = log_of(lines)
    check_steps(source, data, [cut % len(data)])


@pytest.mark.parametrize("count", [1, 40, 300])
def test_any_number_of_results_may_come_consecutively(place: Path, count: int) -> None:
    source = source_at(place, agent=False)
    tools = [f"tool-{number}" for number in range(count)]
    source.path.write_bytes(log_of([answer(1, *tools), *map(results, tools)]))
    check_readings(source)
    (facts,) = facts_of(source, "facts")
    assert facts.gaps == ("call-interrupted",)


@pytest.mark.parametrize(
    ("lines", "gaps"),
    [
        ([answer(1, "t1"), results("t1")], ("call-interrupted",)),
        ([answer(1, "t1", "t2"), results("t1")], ()),
        ([answer(1, "t1", "t2"), results("t1", "t2")], ("call-interrupted",)),
        ([answer(1, "lost"), answer(2, "t1"), results("t1")], ("call-interrupted",)),
        ([answer(1, "t1"), results("t1"), answer(2, stop="end_turn")], ()),
        ([answer(1, "t1"), results("t1", more=(INTERRUPTED,))], ()),
    ],
    ids=["all back", "one at work", "two in one line", "an old one never came", "answered", "left"],
)
def test_a_log_that_ends_with_results_lacks_the_call_they_went_to(
    place: Path, lines: list[Json], gaps: tuple[str, ...]
) -> None:
    source = source_at(place, agent=False)
    source.path.write_bytes(log_of([*lines]))
    check_readings(source)
    (facts,) = facts_of(source, "facts")
    assert facts.gaps == gaps
