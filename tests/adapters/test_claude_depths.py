"""Claude Code: a reading for usage alone, and one that goes on where the last one ended.

Whatever is wanted, and in however many steps it is read, the same lines say the same.
"""

from __future__ import annotations

import io
import json
import tracemalloc
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, cast

import msgspec
import pytest
from claude_generated import source_at, transcripts
from claude_transcripts import Json, Transcript, text, tool
from hypothesis import given, settings
from hypothesis import strategies as st

from amux.adapters._base import (
    USAGE_LEAVES_OUT,
    Head,
    Progress,
    Reading,
    Resumable,
    SourceRef,
    Want,
)
from amux.adapters._kit.jsonl import CHUNK
from amux.adapters.claude import ADAPTER
from amux.model.facts import Facts
from amux.model.usage import Call, Tokens

CAPTURES = Path(__file__).parent.parent / "captures"
HOMES = sorted(
    home
    for agent in ("claude", "claude-agent-sdk")
    for home in CAPTURES.glob(f"{agent}/*/home/.claude/projects")
)
SOURCES = [source for home in HOMES for source in ADAPTER.discover(home)]
NAMES = [source.path.relative_to(CAPTURES).as_posix() for source in SOURCES]
LOGS = [source for source in SOURCES if source.path.stat().st_size and source.role != "names"]

Depth = Literal["usage", "facts"]
DEPTHS: tuple[Depth, ...] = ("usage", "facts")

captured = pytest.mark.parametrize("source", SOURCES, ids=NAMES)
at_both_depths = pytest.mark.parametrize("want", DEPTHS)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("made")


@pytest.fixture
def transcript(tmp_path: Path) -> Transcript:
    return Transcript(tmp_path)


def facts_of(source: SourceRef, want: Want) -> list[Facts]:
    return [item for item in ADAPTER.read(source, want=want) if isinstance(item, Facts)]


def kept_for_usage(facts: Iterable[Facts]) -> list[dict[str, Any]]:
    return [
        {name: value for name, value in fields.items() if name not in USAGE_LEAVES_OUT}
        for fields in map(msgspec.structs.asdict, facts)
    ]


def check_usage(source: SourceRef) -> None:
    usage, facts = facts_of(source, "usage"), facts_of(source, "facts")
    assert kept_for_usage(usage) == kept_for_usage(facts)
    items = list(ADAPTER.read(source, want="usage"))
    heads = [item.session_id for item in items if isinstance(item, Head)]
    assert heads == [
        item.session_id for item in ADAPTER.read(source, want="facts") if isinstance(item, Head)
    ]
    calls = [call for one in usage for call in one.calls]
    assert [item for item in items if isinstance(item, Call)] == calls


def check_steps(source: SourceRef, data: bytes, cuts: Iterable[int], want: Depth) -> None:
    """Read the file as it grows: after each step everything is as if it were read at once."""
    progress: Progress | None = None
    for size in [*sorted(cuts), len(data)]:
        source.path.write_bytes(data[:size])
        reading = ADAPTER.read_on(source, want=want, progress=progress)
        assert list(reading.facts) == facts_of(source, want)
        assert reading.problems == ()
        progress = reading.progress
        assert progress is not None
        assert progress.offset == data.rfind(b"\n", 0, size) + 1


@captured
def test_usage_of_a_capture_is_that_of_its_facts(source: SourceRef) -> None:
    check_usage(source)


@captured
@at_both_depths
def test_a_capture_read_on_from_nowhere_is_read_whole(source: SourceRef, want: Depth) -> None:
    assert list(ADAPTER.read_on(source, want=want, progress=None).facts) == facts_of(source, want)


@at_both_depths
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_a_capture_read_in_steps_is_the_capture(
    place: Path, want: Depth, data: st.DataObject
) -> None:
    original = data.draw(st.sampled_from(LOGS))
    content = original.path.read_bytes()
    copy = place / "projects" / original.path.relative_to(original.root)
    copy.parent.mkdir(parents=True, exist_ok=True)
    moved = msgspec.structs.replace(original, path=copy, root=place / "projects")
    cuts = data.draw(st.lists(st.integers(0, len(content)), max_size=3))
    check_steps(moved, content, cuts, want)


@settings(max_examples=150, deadline=None)
@given(data=transcripts(), agent=st.booleans())
def test_usage_of_any_transcript_is_that_of_its_facts(
    place: Path, data: bytes, agent: bool
) -> None:
    source = source_at(place, agent=agent)
    source.path.write_bytes(data)
    check_usage(source)
    assert facts_of(source, "facts") == facts_of(source, "all") == facts_of(source, "texts")


@at_both_depths
@settings(max_examples=60, deadline=None)
@given(data=transcripts(), agent=st.booleans(), more=st.data())
def test_any_transcript_read_in_steps_is_the_transcript(
    place: Path, want: Depth, data: bytes, agent: bool, more: st.DataObject
) -> None:
    cuts = more.draw(st.lists(st.integers(0, len(data)), max_size=4))
    check_steps(source_at(place, agent=agent), data, cuts, want)


def recounted(data: bytes) -> dict[str, tuple[int, int]]:
    """Input and output tokens by message, written down a second time and without haste."""
    found: dict[str, tuple[int, int]] = {}
    for number, raw in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        line = _record(raw)
        message = line.get("message")
        if line.get("type") != "assistant" or not isinstance(message, dict):
            continue
        said = cast("Json", message)
        if said.get("model") == "<synthetic>" or line.get("isApiErrorMessage") is True:
            continue
        if isinstance(usage := said.get("usage"), dict):
            names = (said.get("id"), line.get("requestId"), line.get("uuid"), f"line-{number}")
            key = next(name for name in names if isinstance(name, str) and name)
            counts = [
                _count(cast("Json", usage).get(f"{side}_tokens")) for side in ("input", "output")
            ]
            if key not in found or counts[1] >= found[key][1]:
                found[key] = (counts[0], counts[1])
    return found


def _record(raw: bytes) -> Json:
    try:
        line = json.loads(raw)
    except ValueError:
        return {}
    return cast("Json", line) if isinstance(line, dict) else {}


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return 0
    return int(value) if 0 <= value <= 2**53 else 0


@settings(max_examples=80, deadline=None)
@given(data=transcripts(intact=True))
def test_usage_of_an_agents_transcript_is_what_its_lines_add_up_to(
    place: Path, data: bytes
) -> None:
    """A sub-agent's file is one conversation, however its lines are flagged."""
    source = source_at(place, agent=True)
    source.path.write_bytes(data)
    (facts,) = facts_of(source, "usage")
    calls = [call for call in facts.calls if not call.key.endswith(":cost")]
    found = {call.key: (call.tokens.input, call.tokens.output) for call in calls}
    assert found == recounted(data)


def test_the_adapter_can_read_on() -> None:
    assert isinstance(ADAPTER, Resumable)


def test_usage_of_every_capture_together_is_what_the_server_billed() -> None:
    for home in HOMES:
        truth = json.loads((home.parents[2] / "expected.json").read_text())["home_totals"]
        best: dict[str, Tokens] = {}
        for source in ADAPTER.discover(home):
            for facts in facts_of(source, "usage"):
                for call in facts.calls:
                    known = best.get(call.key, call.tokens)
                    best[call.key] = max(known, call.tokens, key=lambda one: one.output)
        total = sum(best.values(), Tokens())
        found = {
            "input": total.input,
            "cache_read": total.cache_read,
            "cache_write": total.cache_write,
            "output": total.output,
            "thinking": total.thinking or 0,
        }
        assert found in [truth["tokens_recoverable"], *truth["accept"]]


class _CountingFile(io.FileIO):
    """Counts the bytes that anybody reads."""

    total = 0

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(-1 if size is None else size)
        _CountingFile.total += len(data)
        return data


class _CountingPath(type(Path())):
    """A path whose file counts."""

    def open(self, *_: Any, **__: Any) -> Any:
        return _CountingFile(str(self), "rb")


def _talk(turns: int) -> Iterator[bytes]:
    transcript = Transcript(Path())
    for turn in range(turns):
        transcript.count %= 50
        transcript.user(f"question {turn}")
        transcript.assistant(tool(f"t{turn}"), message_id=f"msg_{turn}a", stop="tool_use")
        transcript.result(f"t{turn}", "x" * 2000)
        transcript.assistant(text("answer"), message_id=f"msg_{turn}b")
    return iter(transcript.lines)


@at_both_depths
def test_one_more_line_costs_one_line(tmp_path: Path, want: Depth) -> None:
    source = source_at(tmp_path)
    *lines, last = _talk(600)
    source.path.write_bytes(b"\n".join(lines) + b"\n")
    counted = msgspec.structs.replace(source, path=_CountingPath(source.path))
    _CountingFile.total = 0
    first = ADAPTER.read_on(counted, want=want, progress=None)
    assert _CountingFile.total == source.path.stat().st_size > CHUNK
    with source.path.open("ab") as log:
        log.write(last + b"\n")
    _CountingFile.total = 0
    second = ADAPTER.read_on(counted, want=want, progress=first.progress)
    assert _CountingFile.total == len(last) + 1
    assert list(second.facts) == facts_of(source, want)
    assert second.facts[0].gaps == ()
    assert first.facts[0].gaps == ("call-interrupted",)


@at_both_depths
def test_a_line_that_is_being_written_is_told_of_and_read_again(
    transcript: Transcript, want: Depth
) -> None:
    transcript.user("hi")
    transcript.assistant(text("Hello"))
    transcript.assistant(text("Hello again"), message_id="msg_2")
    transcript.read()
    (source,) = ADAPTER.discover(transcript.path.parents[1])
    data = transcript.path.read_bytes()
    transcript.path.write_bytes(data[:-20])
    half = ADAPTER.read_on(source, want=want, progress=None)
    assert [problem.code for problem in half.facts[0].problems] == ["torn-tail"]
    assert half.progress is not None
    assert half.progress.offset == data.rfind(b"\n", 0, -1) + 1
    transcript.path.write_bytes(data[:-1])  # all of it but the line end
    whole = ADAPTER.read_on(source, want=want, progress=half.progress)
    assert whole.progress == half.progress
    assert not whole.facts[0].problems
    assert [call.key for call in whole.facts[0].calls] == ["msg_1", "msg_2"]


def _grown(transcript: Transcript, want: Depth) -> tuple[SourceRef, Reading]:
    transcript.user("hi")
    transcript.assistant(text("Hello"))
    transcript.read()
    (source,) = ADAPTER.discover(transcript.path.parents[1])
    reading = ADAPTER.read_on(source, want=want, progress=None)
    transcript.assistant(text("More"), message_id="msg_2")
    transcript.read()
    return source, reading


def test_what_was_written_down_for_usage_is_not_taken_for_facts(transcript: Transcript) -> None:
    source, usage = _grown(transcript, "usage")
    again = ADAPTER.read_on(source, want="facts", progress=usage.progress)
    assert list(again.facts) == facts_of(source, "facts")


@pytest.mark.parametrize("state", [b"", b"\xc1", b"\x93\x01\x02\x03", b"\x80"])
def test_a_state_that_cannot_be_read_costs_a_whole_reading(
    transcript: Transcript, state: bytes
) -> None:
    source, first = _grown(transcript, "facts")
    assert first.progress is not None
    broken = msgspec.structs.replace(first.progress, state=state)
    again = ADAPTER.read_on(source, want="facts", progress=broken)
    assert list(again.facts) == facts_of(source, "facts")


def test_a_file_that_shrank_is_read_anew(transcript: Transcript) -> None:
    source, first = _grown(transcript, "facts")
    transcript.lines = [transcript.lines[-1][:-1] + b"}"]
    transcript.read()
    again = ADAPTER.read_on(source, want="facts", progress=first.progress)
    assert list(again.facts) == facts_of(source, "facts")
    assert [call.key for call in again.facts[0].calls] == ["msg_2"]


def test_a_file_that_is_gone_is_a_problem_and_no_place_to_go_on_from(
    transcript: Transcript,
) -> None:
    source, first = _grown(transcript, "usage")
    transcript.path.unlink()
    gone = ADAPTER.read_on(source, want="usage", progress=first.progress)
    assert [problem.code for problem in gone.facts[0].problems] == ["unreadable"]
    assert gone.progress is None


def test_a_title_file_is_read_whole_each_time(tmp_path: Path) -> None:
    title = tmp_path / "projects" / "-x" / "some-session" / "custom-title.json"
    title.parent.mkdir(parents=True)
    title.write_text('{"customTitle": "Mine"}')
    (source,) = ADAPTER.discover(tmp_path / "projects")
    good = ADAPTER.read_on(source, want="facts", progress=None)
    assert [note.text for facts in good.facts for note in facts.notes] == ["Mine"]
    title.write_text("{")
    bad = ADAPTER.read_on(source, want="facts", progress=good.progress)
    assert [problem.code for problem in bad.problems] == ["bad-record"]
    assert (bad.facts, bad.progress) == ((), None)


def test_a_sum_that_cannot_be_written_down_costs_the_next_reading(transcript: Transcript) -> None:
    transcript.user("hi")
    for _ in range(25):
        transcript.raw({"type": "cost", "costUSD": 1e9})
    transcript.read()
    (source,) = ADAPTER.discover(transcript.path.parents[1])
    reading = ADAPTER.read_on(source, want="usage", progress=None)
    assert reading.facts[0].native_nusd == 25 * 10**18
    assert reading.progress is None


def test_problems_are_kept_up_to_a_bound_over_all_steps(transcript: Transcript) -> None:
    source, first = _grown(transcript, "facts")
    transcript.lines[2:2] = [b"{broken"] * 150
    transcript.read()
    again = ADAPTER.read_on(source, want="facts", progress=first.progress)
    assert again.facts[0].problem_count == 150
    assert list(again.facts) == facts_of(source, "facts")


@pytest.mark.parametrize("place_of_text", ["prompt", "result", "unknown"])
def test_a_giant_line_is_not_held_for_its_usage(tmp_path: Path, place_of_text: str) -> None:
    giant = "\U0001f642" + "z" * (24 << 20)
    transcript = Transcript(tmp_path)
    transcript.user(giant if place_of_text == "prompt" else "hi")
    transcript.assistant(tool("t1"), stop="tool_use")
    transcript.result("t1", giant if place_of_text == "result" else "out")
    more: dict[str, Any] = {"toolUseResult": giant} if place_of_text == "unknown" else {}
    transcript.assistant(text("done"), message_id="msg_2", **more)
    transcript.read(want="usage")
    (source,) = ADAPTER.discover(transcript.path.parents[1])
    tracemalloc.start()
    try:
        (facts,) = ADAPTER.read_on(source, want="usage", progress=None).facts
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [call.key for call in facts.calls] == ["msg_1", "msg_2"]
    assert peak < 16 << 20
