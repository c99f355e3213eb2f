"""Claude Code: the short way for usual lines does not change the result."""

from __future__ import annotations

from pathlib import Path

import pytest
from claude_generated import source_at
from claude_layouts import LAYOUTS, SESSION, Layout, Writer, counts, sequences, tool
from claude_readings import check_readings, check_steps, facts_of
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st

from amux.adapters._base import SourceRef
from amux.adapters._kit.streams import CHUNK

in_every_layout = pytest.mark.parametrize("layout", LAYOUTS)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("made")


def session_at(place: Path, *, agent: bool = False) -> SourceRef:
    source = source_at(place, agent=agent)
    name = "agent-abc1234" if agent else SESSION
    return source.replace(path=source.path.with_name(f"{name}.jsonl"), session_id=None)


@drawn(400)
@given(writer=sequences())
def test_facts_of_any_sequence_are_those_of_its_messages(place: Path, writer: Writer) -> None:
    source = session_at(place)
    source.path.write_bytes(writer.data)
    check_readings(source)


@drawn(200)
@given(writer=sequences(agent=True))
def test_facts_of_any_sub_agent_are_those_of_its_messages(place: Path, writer: Writer) -> None:
    source = session_at(place, agent=True)
    source.path.write_bytes(writer.data)
    check_readings(source)


@drawn(100)
@given(writer=sequences(), share=st.floats(0, 1))
def test_it_does_not_matter_where_a_piece_of_the_file_ends(
    place: Path, writer: Writer, share: float
) -> None:
    """A line at the beginning moves the end of the first chunk to a generated offset."""
    rest = writer.data
    ends_behind = round(share * len(rest))
    front = Writer("2.0.77")
    front.record("attachment", text="")
    front.record("attachment", text="x" * max(0, CHUNK - 2 * len(front.data) - ends_behind))
    source = session_at(place)
    source.path.write_bytes(front.data + rest)
    check_readings(source)


@drawn(60)
@given(writer=sequences(), shares=st.lists(st.floats(0, 1), max_size=4))
def test_a_growing_session_is_read_on(place: Path, writer: Writer, shares: list[float]) -> None:
    source, data = session_at(place), writer.data
    check_steps(source, data, [round(share * len(data)) for share in shares])


def at_work(layout: Layout) -> Writer:
    """Return three answers that call a tool, each with its result."""
    writer = Writer(layout)
    writer.user("go")
    for number in range(3):
        writer.answer(f"msg_{number}", tool(f"t{number}"), usage=counts(5), stop="tool_use")
        writer.result(f"t{number}")
    return writer


@in_every_layout
def test_a_session_that_ends_with_a_result_was_cut_short(layout: Layout, place: Path) -> None:
    writer, source = at_work(layout), session_at(place)
    source.path.write_bytes(writer.data)
    (facts,) = facts_of(source, "facts")
    assert facts.gaps == ("call-interrupted",)


@in_every_layout
def test_a_request_that_a_process_left_behind_was_cut_short(layout: Layout, place: Path) -> None:
    writer, source = at_work(layout), session_at(place)
    writer.record("api-request")
    writer.record("cost-state", totalCostUSD=0.5)
    writer.answer("msg_last", usage=counts(5), stop="end_turn")
    source.path.write_bytes(writer.data)
    check_readings(source)
    (facts,) = facts_of(source, "facts")
    assert facts.gaps == ("call-interrupted",)


@in_every_layout
@pytest.mark.parametrize("odd", [-1, "5", 1e30, True, {}], ids=str)
@pytest.mark.parametrize("figure", ["input_tokens", "output_tokens", "cache_read_input_tokens"])
@pytest.mark.parametrize("comes_first", [True, False])
def test_a_figure_that_is_none_marks_its_call_in_every_reading(
    layout: Layout, place: Path, odd: object, figure: str, comes_first: bool
) -> None:
    writer, source = at_work(layout), session_at(place)
    lines = [counts(9), {**counts(9), figure: odd}]
    for usage in reversed(lines) if comes_first else lines:
        writer.answer("msg_last", usage=usage, stop="end_turn")
    source.path.write_bytes(writer.data)
    check_readings(source)
    (facts,) = facts_of(source, "facts")
    gaps = {call.key: call.gaps for call in facts.calls}
    assert gaps.pop("msg_last") == ("usage-unusable",)
    assert set(gaps.values()) == {()}
