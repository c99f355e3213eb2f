"""Claude Code: facts are the same whether or not messages are read with them."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any, cast

import pytest
from claude_generated import nearly_usual, odd_endings, source_at, transcripts
from claude_readings import HOMES, NAMES, SOURCES, check_readings, check_steps, facts_of
from claude_transcripts import SESSION, Json, Transcript, text, tool
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st

from amux.adapters._base import SourceRef
from amux.adapters.claude import ADAPTER
from amux.model.usage import Tokens

captured = pytest.mark.parametrize("source", SOURCES, ids=NAMES)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("made")


@captured
def test_facts_of_a_capture_are_those_of_its_messages(source: SourceRef) -> None:
    check_readings(source)


@drawn(150)
@given(data=transcripts(), agent=st.booleans())
def test_facts_of_any_transcript_are_those_of_its_messages(
    place: Path, data: bytes, agent: bool
) -> None:
    source = source_at(place, agent=agent)
    source.path.write_bytes(data)
    check_readings(source)


@pytest.mark.parametrize("agent", [False, True])
def test_facts_of_each_odd_field_are_those_of_the_general_rules(place: Path, agent: bool) -> None:
    source = source_at(place, agent=agent)
    for name, data in odd_endings():
        source.path.write_bytes(data)
        assert facts_of(source, "facts") == facts_of(source, "all"), name


@drawn(400)
@given(data=nearly_usual(), agent=st.booleans(), cut=st.integers(0, 3000))
def test_facts_of_nearly_usual_lines_are_those_of_the_general_rules(
    place: Path, data: bytes, agent: bool, cut: int
) -> None:
    source = source_at(place, agent=agent)
    source.path.write_bytes(data)
    check_readings(source)
    check_steps(source, data, [min(cut, len(data))])


RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "out"}


@pytest.mark.parametrize(
    "flags",
    [
        {"isCompactSummary": True},
        {"interruptedMessageId": "msg_1"},
        {"forkedFrom": {"sessionId": "elsewhere"}},
        {"sessionId": "elsewhere"},
        {"isSidechain": True},
        {"isMeta": True},
        {"message": {"content": [RESULT, RESULT]}},
        {"message": {"content": [RESULT, text("[Request interrupted by user]")]}},
        {"message": {"content": [{**RESULT, "type": ["tool_result"]}]}},
        {"message": "lost", "content": [RESULT]},
        {"type": "user\u0000"},
    ],
    ids=str,
)
@pytest.mark.parametrize("agent", [False, True])
@pytest.mark.parametrize("at_once", [False, True])
def test_a_tool_result_with_a_twist_means_the_same_in_every_reading(
    tmp_path: Path, flags: Json, agent: bool, at_once: bool
) -> None:
    transcript = Transcript(tmp_path, name="agent-abc1234" if agent else SESSION)
    if not at_once:
        transcript.user("go")
        transcript.assistant(tool("t1"), output=3, stop=None)
    message = {"content": [{**RESULT, "text": "Warmup"}]}
    transcript.envelope("user", **{"message": message, **flags})
    transcript.raw({"type": "api-request"})
    transcript.assistant(text("No response"), message={"id": "n", "model": "<synthetic>"})
    transcript.assistant(text("done"), message_id="msg_2")
    transcript.read()
    (source,) = ADAPTER.discover(tmp_path / "projects")
    check_readings(source)
    data = transcript.path.read_bytes()
    check_steps(source, data, range(0, len(data), 397))


def recounted(data: bytes) -> dict[str, tuple[int, int]]:
    """Count input and output tokens by message with a second, simple implementation."""
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


@drawn(80)
@given(data=transcripts(intact=True))
def test_usage_of_an_agents_transcript_is_what_its_lines_add_up_to(
    place: Path, data: bytes
) -> None:
    """The file of a sub-agent is one conversation, however its lines are flagged."""
    source = source_at(place, agent=True)
    source.path.write_bytes(data)
    (facts,) = facts_of(source, "facts")
    calls = [call for call in facts.calls if not call.key.endswith(":cost")]
    found = {call.key: (call.tokens.input, call.tokens.output) for call in calls}
    assert found == recounted(data)


def test_usage_of_every_capture_together_is_what_the_server_billed() -> None:
    for home in HOMES:
        truth = json.loads((home.parents[2] / "expected.json").read_text())["home_totals"]
        best: dict[str, Tokens] = {}
        for source in ADAPTER.discover(home):
            for facts in facts_of(source, "facts"):
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


@pytest.mark.parametrize("place_of_text", ["prompt", "result", "unknown"])
def test_a_giant_line_is_not_loaded_for_its_facts(tmp_path: Path, place_of_text: str) -> None:
    giant = "\U0001f642" + "z" * (24 << 20)
    transcript = Transcript(tmp_path)
    transcript.user(giant if place_of_text == "prompt" else "hi")
    transcript.assistant(tool("t1"), stop="tool_use")
    transcript.result("t1", giant if place_of_text == "result" else "out")
    more: dict[str, Any] = {"toolUseResult": giant} if place_of_text == "unknown" else {}
    transcript.assistant(text("done"), message_id="msg_2", **more)
    transcript.read(want="facts")
    (source,) = ADAPTER.discover(transcript.path.parents[1])
    tracemalloc.start()
    try:
        (facts,) = ADAPTER.resume_read(source, checkpoint=None).facts
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [call.key for call in facts.calls] == ["msg_1", "msg_2"]
    assert peak < 16 << 20
