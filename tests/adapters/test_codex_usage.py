"""Codex: reading without messages, and decoding many lines at once, are exact."""

from __future__ import annotations

import tempfile
import tracemalloc
from pathlib import Path

import pytest
from codex_any import (
    CAPTURES,
    apart_from_each_other,
    lines,
    logs,
    read_whole,
    spoiled,
    write,
)
from codex_lines import Writer, history
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st

from amux.adapters._base import SourceRef
from amux.adapters.codex import ADAPTER

HOMES = sorted(CAPTURES.glob("*/home/.codex"))
ROLLOUTS = sorted(CAPTURES.glob("*/home/.codex/sessions/**/rollout-*.jsonl"))


@pytest.fixture(params=HOMES, ids=lambda home: home.parent.parent.name)
def sources(request: pytest.FixtureRequest) -> list[SourceRef]:
    return list(ADAPTER.discover(request.param))


def test_facts_of_every_capture_are_those_of_its_messages(sources: list[SourceRef]) -> None:
    for source in sources:
        assert read_whole(source) == read_whole(source, "all")


@drawn(100)
@given(data=logs())
def test_facts_of_any_log_are_those_of_its_messages(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source = write(Path(folder), data)
        assert read_whole(source) == read_whole(source, "all")


@drawn(100)
@given(found=st.lists(lines(), min_size=1, max_size=30))
def test_many_lines_at_once_mean_what_each_means_by_itself(found: list[bytes]) -> None:
    """A line followed by a zero byte, as left by a crash, is read alone with the same result."""
    with tempfile.TemporaryDirectory() as folder:
        together = read_whole(write(Path(folder), b"\n".join(found)))
        apart = read_whole(write(Path(folder), apart_from_each_other(found)))
    assert together == apart


@drawn()
@given(path=st.sampled_from(ROLLOUTS), data=st.data())
def test_facts_of_a_spoiled_capture_are_those_of_its_lines_by_themselves(
    path: Path, data: st.DataObject
) -> None:
    found = path.read_bytes().removesuffix(b"\n").split(b"\n")
    for place in data.draw(st.sets(st.integers(0, len(found) - 1), min_size=1, max_size=4)):
        found[place] = spoiled(data, found[place])
    with tempfile.TemporaryDirectory() as folder:
        together = read_whole(write(Path(folder), b"\n".join(found) + b"\n"))
        apart = read_whole(write(Path(folder), apart_from_each_other(found)))
    assert together == apart


def made_by(rollout: Writer) -> list[str | None]:
    """Return the messages that the calls of a log produced, which are equal in every reading."""
    facts, messages, _ = rollout.read()
    source = SourceRef(agent="codex", path=rollout.path, root=rollout.path.parent.parent)
    (usage,) = read_whole(source).facts
    assert usage.calls == facts.calls
    spoken = {message.id for message in messages if message.role == "assistant"}
    made = [call.message_id for call in facts.calls]
    assert {each for each in made if each is not None} <= spoken
    return made


def tool(rollout: Writer, name: str, *, id: str | None = None) -> Writer:
    rollout.item("function_call", name="shell", arguments="{}", call_id=name, id=id or f"fc-{name}")
    return rollout.item("function_call_output", call_id=name, output="ok")


def test_a_count_after_a_tools_output_is_of_the_answer_before_the_tool(tmp_path: Path) -> None:
    rollout = Writer(tmp_path).meta().model().prompt("Go")
    rollout.item("reasoning", summary=[], id="rs-1")
    tool(rollout, "one").count(10, 1)
    tool(rollout, "two").count(20, 2).item("message", role="assistant", content=[], id="msg-3")
    rollout.count(30, 3)
    assert made_by(rollout) == ["rs-1", "fc-two", "msg-3"]


def test_of_several_answers_without_a_count_the_last_one_is_counted(tmp_path: Path) -> None:
    rollout = Writer(tmp_path).meta().model().prompt("Go")
    tool(tool(rollout, "one"), "two").count(10, 1)
    assert made_by(rollout) == ["fc-two"]


@pytest.mark.parametrize("between", ["prompt", "compaction", "end", "context"])
def test_a_count_after_something_else_is_of_no_answer_that_is_known(
    between: str, tmp_path: Path
) -> None:
    rollout = tool(Writer(tmp_path).meta().model().prompt("Go"), "one")
    match between:
        case "prompt":
            rollout.prompt("More")
        case "compaction":
            rollout.line("compacted", {"message": "so far"})
        case "end":
            rollout.event("task_complete")
        case _:
            rollout.user("<environment_context>x</environment_context>")
    assert made_by(rollout.count(10, 1)) == [None]


def test_an_answer_without_an_id_made_a_call_without_one(tmp_path: Path) -> None:
    rollout = Writer(tmp_path).meta().model().prompt("Go").call("c1").count(10, 1)
    assert made_by(rollout) == [None]


def test_a_value_that_is_spread_over_lines_is_no_record(tmp_path: Path) -> None:
    rollout = history(Writer(tmp_path).meta())
    whole = "".join(line + "\n" for line in rollout.lines)
    spread = whole.replace(
        '"payload": {"type": "token_count"', '"payload":\n{"type": "token_count"'
    )
    assert spread != whole
    reading = read_whole(write(tmp_path, spread.encode()))
    assert [facts.calls for facts in reading.facts] == [()]
    assert {problem.code for problem in reading.facts[0].problems} == {"bad-line"}


def test_a_line_of_a_new_type_affects_no_other_line(tmp_path: Path) -> None:
    rollout = history(Writer(tmp_path).meta())
    plain, _, _ = rollout.read()
    rollout.lines.insert(3, '{"type":"future","payload":{"type":"token_count"}}')
    with_future, _, _ = rollout.read()
    assert with_future.calls == plain.calls
    assert with_future.copy_keys == plain.copy_keys


def test_a_giant_line_is_not_loaded(tmp_path: Path) -> None:
    size = 32 << 20
    source = write(tmp_path, b"")
    with source.path.open("wb") as stream:
        stream.write(b'{"type":"response_item","payload":{"type":"message","role":"assistant",')
        stream.write(b'"content":[{"type":"output_text","text":"')
        stream.writelines(b"x" * (1 << 20) for _ in range(size >> 20))
        stream.write(b'"}]}}\n')
    tracemalloc.start()
    try:
        (facts,) = read_whole(source).facts
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert facts.gaps == ("usage-not-recorded",)
    assert peak < size / 2
