"""Claude Code: a resumed reading gives the same result as reading the whole file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from claude_generated import source_at, transcripts
from claude_readings import NAMES, SOURCES, check_steps, facts_of
from claude_transcripts import Transcript, text, tool
from counted_bytes import counted_bytes
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st

from amux.adapters._base import Reading, Resumable, SourceRef
from amux.adapters._kit.streams import CHUNK
from amux.adapters.claude import ADAPTER

LOGS = [source for source in SOURCES if source.path.stat().st_size and source.role != "names"]

FEW = 20  # bytes
captured = pytest.mark.parametrize("source", SOURCES, ids=NAMES)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("made")


@pytest.fixture
def transcript(tmp_path: Path) -> Transcript:
    return Transcript(tmp_path)


@captured
def test_a_capture_read_on_from_nowhere_is_read_whole(source: SourceRef) -> None:
    reading = ADAPTER.resume_read(source, checkpoint=None)
    assert list(reading.facts) == facts_of(source, "facts")


@drawn(30)
@given(data=st.data())
def test_a_capture_read_in_steps_is_the_capture(place: Path, data: st.DataObject) -> None:
    original = data.draw(st.sampled_from(LOGS))
    content = original.path.read_bytes()
    copy = place / "projects" / original.path.relative_to(original.root)
    copy.parent.mkdir(parents=True, exist_ok=True)
    moved = original.replace(path=copy, root=place / "projects")
    cuts = data.draw(st.lists(st.integers(0, len(content)), max_size=3))
    check_steps(moved, content, cuts)


@drawn(60)
@given(data=transcripts(), agent=st.booleans(), more=st.data())
def test_any_transcript_read_in_steps_is_the_transcript(
    place: Path, data: bytes, agent: bool, more: st.DataObject
) -> None:
    cuts = more.draw(st.lists(st.integers(0, len(data)), max_size=4))
    check_steps(source_at(place, agent=agent), data, cuts)


def test_the_adapter_can_read_on() -> None:
    assert isinstance(ADAPTER, Resumable)


def _talk(turns: int) -> Iterator[bytes]:
    transcript = Transcript(Path())
    for turn in range(turns):
        transcript.count %= 50
        transcript.user(f"question {turn}")
        transcript.assistant(tool(f"t{turn}"), message_id=f"msg_{turn}a", stop="tool_use")
        transcript.result(f"t{turn}", "x" * 2000)
        transcript.assistant(text("answer"), message_id=f"msg_{turn}b")
    return iter(transcript.lines)


def test_one_more_line_costs_one_line(tmp_path: Path) -> None:
    source = source_at(tmp_path)
    *lines, last = _talk(600)
    source.path.write_bytes(b"\n".join(lines) + b"\n")
    with counted_bytes() as count:
        first = ADAPTER.resume_read(source, checkpoint=None)
    assert source.path.stat().st_size > CHUNK
    assert count() == pytest.approx(source.path.stat().st_size, abs=FEW)
    with source.path.open("ab") as log:
        log.write(last + b"\n")
    with counted_bytes() as count:
        second = ADAPTER.resume_read(source, checkpoint=first.checkpoint)
    assert count() == pytest.approx(len(last) + 1, abs=FEW)
    assert list(second.facts) == facts_of(source, "facts")
    assert second.facts[0].gaps == ()
    assert first.facts[0].gaps == ("call-interrupted",)


def test_a_line_that_is_being_written_is_told_of_and_read_again(
    transcript: Transcript,
) -> None:
    transcript.user("hi")
    transcript.assistant(text("Hello"))
    transcript.assistant(text("Hello again"), message_id="msg_2")
    transcript.read()
    (source,) = ADAPTER.discover(transcript.path.parents[1])
    data = transcript.path.read_bytes()
    transcript.path.write_bytes(data[:-20])
    half = ADAPTER.resume_read(source, checkpoint=None)
    told = [(problem.code, problem.line) for problem in half.facts[0].problems]
    assert told == [("torn-tail", 3)]
    assert half.checkpoint is not None
    assert half.checkpoint.offset == data.rfind(b"\n", 0, -1) + 1
    transcript.path.write_bytes(data[:-1])  # all of it but the line end
    whole = ADAPTER.resume_read(source, checkpoint=half.checkpoint)
    assert whole.checkpoint == half.checkpoint
    assert not whole.facts[0].problems
    assert [call.key for call in whole.facts[0].calls] == ["msg_1", "msg_2"]


def _grown(transcript: Transcript) -> tuple[SourceRef, Reading]:
    transcript.user("hi")
    transcript.assistant(text("Hello"))
    transcript.read()
    (source,) = ADAPTER.discover(transcript.path.parents[1])
    reading = ADAPTER.resume_read(source, checkpoint=None)
    transcript.assistant(text("More"), message_id="msg_2")
    transcript.read()
    return source, reading


@pytest.mark.parametrize("state", [b"", b"\xc1", b"\x93\x01\x02\x03", b"\x80"])
def test_a_state_that_cannot_be_read_costs_a_whole_reading(
    transcript: Transcript, state: bytes
) -> None:
    source, first = _grown(transcript)
    assert first.checkpoint is not None
    broken = msgspec.structs.replace(first.checkpoint, state=state)
    again = ADAPTER.resume_read(source, checkpoint=broken)
    assert list(again.facts) == facts_of(source, "facts")


def test_a_file_that_shrank_is_read_anew(transcript: Transcript) -> None:
    source, first = _grown(transcript)
    transcript.lines = [transcript.lines[-1][:-1] + b"}"]
    transcript.read()
    again = ADAPTER.resume_read(source, checkpoint=first.checkpoint)
    assert list(again.facts) == facts_of(source, "facts")
    assert [call.key for call in again.facts[0].calls] == ["msg_2"]


def test_a_file_that_is_gone_is_a_problem_and_no_place_to_go_on_from(
    transcript: Transcript,
) -> None:
    source, first = _grown(transcript)
    transcript.path.unlink()
    gone = ADAPTER.resume_read(source, checkpoint=first.checkpoint)
    assert [problem.code for problem in gone.facts[0].problems] == ["unreadable"]
    assert gone.checkpoint is None


def test_a_title_file_is_read_whole_each_time(tmp_path: Path) -> None:
    title = tmp_path / "projects" / "-x" / "some-session" / "custom-title.json"
    title.parent.mkdir(parents=True)
    title.write_text('{"customTitle": "Mine"}')
    (source,) = ADAPTER.discover(tmp_path / "projects")
    good = ADAPTER.resume_read(source, checkpoint=None)
    assert [note.text for facts in good.facts for note in facts.notes] == ["Mine"]
    title.write_text("{")
    bad = ADAPTER.resume_read(source, checkpoint=good.checkpoint)
    assert [problem.code for problem in bad.problems] == ["bad-record"]
    assert (bad.facts, bad.checkpoint) == ((), None)


def test_a_sum_that_cannot_be_written_down_costs_the_next_reading(transcript: Transcript) -> None:
    transcript.user("hi")
    for _ in range(25):
        transcript.raw({"type": "cost", "costUSD": 1e9})
    transcript.read()
    (source,) = ADAPTER.discover(transcript.path.parents[1])
    reading = ADAPTER.resume_read(source, checkpoint=None)
    assert reading.facts[0].native_nusd == 25 * 10**18
    assert reading.checkpoint is None


def test_problems_are_kept_up_to_a_bound_over_all_steps(transcript: Transcript) -> None:
    source, first = _grown(transcript)
    transcript.lines[2:2] = [b"{broken"] * 150
    transcript.read()
    again = ADAPTER.resume_read(source, checkpoint=first.checkpoint)
    assert again.facts[0].problem_count == 150
    assert list(again.facts) == facts_of(source, "facts")
