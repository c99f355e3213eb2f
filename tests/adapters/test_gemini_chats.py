"""Tests cases of Gemini CLI's event log and of the specified log that no capture contains."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from gemini_chats import (
    OTHER,
    SESSION,
    Json,
    answers,
    at,
    checkpoint,
    get,
    head,
    open_home,
    prompts,
    reply,
    tokens,
    tool,
    tool_answer,
    user,
    write_log,
)

from amux.testing.reading import opened_files

CAPTURES = Path(__file__).parent.parent / "captures"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


# The specification's place and format


def write_specified(home: Path, lines: list[Json], name: str = "abc-1") -> None:
    path = home / ".gemini" / "sessions" / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(map(json.dumps, lines)))


RATINGS = [{"category": "HARM_CATEGORY_HARASSMENT", "probability": "LOW"}]


@pytest.mark.parametrize(
    "answer",
    [
        {"role": "model", "parts": [{"text": "Hello."}]},
        {"role": "model", "content": "Hello."},
        {"type": "message", "role": "model", "content": [{"text": "Hello."}]},
        {"type": "message", "message": {"role": "model", "parts": [{"text": "Hello."}]}},
        {"type": "model", "content": {"parts": [{"text": "Hello."}]}},
    ],
)
def test_the_specified_log_maps_model_to_assistant_and_keeps_safety(
    answer: Json, home: Path
) -> None:
    usage = {"promptTokenCount": 90, "candidatesTokenCount": 9, "cachedContentTokenCount": 40}
    more = {"usageMetadata": usage, "safetyRatings": RATINGS, "model": "gemini-2.5-pro"}
    write_specified(
        home,
        [
            {"role": "user", "parts": [{"text": "Say hello."}], "timestamp": at(1)},
            {**answer, **more, "timestamp": at(2)},
        ],
    )
    session = get(home, "abc-1")
    assert [(m.role, m.content) for m in session.messages] == [
        ("user", "Say hello."),
        ("assistant", "Hello."),
    ]
    assert session.title == "Say hello."
    assert session.cost is not None
    assert (session.cost.input_tokens, session.cost.cached_tokens) == (50, 40)
    assert session.cost.source == "estimate"
    assert session.raw["safety"][0]["safetyRatings"] == RATINGS


def test_the_specified_log_has_the_id_of_its_name(home: Path) -> None:
    write_specified(home, [{"role": "user", "content": "One."}], "a:b/c".replace("/", "_"))
    (listed,) = open_home(home).sessions.list("gemini")
    assert listed.session_id == "a:b_c"


# Tokens


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        (tokens(100, 10, cached=30, thoughts=5), (70, 30, 15, 5)),
        (tokens(100, 10, tool=20), (120, 0, 10, 0)),
        ({"input": 100, "output": 10, "thoughts": 5, "total": 110}, (100, 0, 10, 5)),
        ({"input": 100, "output": 10, "thoughts": 5}, (100, 0, 15, 5)),
        ({"input": 10, "output": 1, "cached": 99, "total": 11}, (0, 10, 1, 0)),
    ],
)
def test_thoughts_are_output_and_cache_is_input(
    figures: Json, expected: tuple[int, ...], home: Path
) -> None:
    write_log(home, [head(), user("u", "Go."), reply("g", "Done.", tokens=figures)])
    cost = get(home).cost
    assert cost is not None
    found = (cost.input_tokens, cost.cached_tokens, cost.output_tokens, cost.thinking_tokens or 0)
    assert found == expected


def test_an_answer_without_usage_makes_the_cost_incomplete(home: Path) -> None:
    lines = [head(), user("u", "Go."), reply("g", "One."), reply("h", "Two.", tokens=None)]
    write_log(home, lines)
    cost = get(home).cost
    assert cost is not None
    assert "usage-not-recorded" in cost.incomplete


# The event log


def test_a_message_written_again_is_one_message_and_one_call(home: Path) -> None:
    first = reply("g", "Reading.")
    second = reply("g", "Reading.", toolCalls=[tool("t1")])
    lines = [head(), user("u", "Read x."), first, second, tool_answer("r", "t1")]
    write_log(home, [*lines, reply("h", "Read.", 4)])
    session = get(home)
    assert [m.role for m in session.messages] == ["user", "assistant", "tool", "assistant"]
    assert len(session.calls) == 2
    (call,) = session.messages[1].tool_calls
    assert (call.tool_name, call.output, call.is_error) == ("read_file", {"output": "fine"}, False)


def test_a_result_that_only_its_own_line_has_is_taken_from_there(home: Path) -> None:
    asked = reply("g", "", toolCalls=[tool("t1", output=None)])
    write_log(home, [head(), user("u", "Read x."), asked, tool_answer("r", "t1")])
    session = get(home)
    assert session.messages[1].tool_calls[0].output == {"output": "fine"}
    assert not session.problems


def test_a_result_of_no_call_is_a_problem_and_still_shown(home: Path) -> None:
    write_log(home, [head(), user("u", "Read x."), tool_answer("r", "t9")])
    session = get(home)
    assert [problem.code for problem in session.problems] == ["orphan-result"]
    assert session.messages[-1].role == "tool"


def test_rewound_messages_stay_and_are_billed(home: Path) -> None:
    lines = [
        head(),
        user("u1", "First."),
        reply("g1", "One."),
        {"$rewindTo": "u1"},
        checkpoint(),
        user("u2", "Second.", 5),
        reply("g2", "Two.", 6),
    ]
    write_log(home, lines)
    session = get(home)
    assert prompts(session) == ["First.", "Second."]
    assert len(session.calls) == 2
    assert session.raw["rewinds"] == 1


def test_a_compression_is_shown_counted_and_marked(home: Path) -> None:
    tail = [user("u9", "First.", 9), {**reply("g9", "One.", 9), "tokens": None, "model": None}]
    summary = user("s", "They said one.", 9)
    ack = {**reply("a", "Got it. Thanks for the additional context!", 9), "tokens": None}
    lines = [head(), user("u1", "First."), reply("g1", "One.")]
    again = checkpoint(summary, ack, *tail)
    write_log(home, [*lines, again, again, user("u2", "Second.", 10), reply("g2", "Two.", 11)])
    session = get(home)
    assert prompts(session) == ["First.", "Second."]
    assert answers(session) == ["One.", "Two."]
    assert [m.content for m in session.messages if m.compaction] == ["They said one."]
    assert session.raw["compactions"] == 1
    assert session.cost is not None
    assert session.cost.incomplete[0] == "compaction-call-not-recorded"


def test_a_history_from_elsewhere_is_taken_from_its_checkpoint(home: Path) -> None:
    asked: Json = {
        "id": "g0",
        "type": "gemini",
        "content": [{"text": "Yes."}, {"functionCall": {"id": "t0", "name": "ls", "args": {}}}],
    }
    given = {**tool_answer("g0", "t0", "ls"), "timestamp": None}  # shares the id of the answer
    context = user("c", "<session_context>\nToday is Sunday.")
    restored = checkpoint(context, user("u0", "Old prompt."), asked, given)
    write_log(home, [head(), restored, restored, user("u1", "New."), reply("g1", "One.")])
    session = get(home)
    assert prompts(session) == ["Old prompt.", "New."]
    assert answers(session) == ["Yes.", "One."]
    assert session.messages[2].tool_calls[0].output == {"output": "fine"}
    assert len({m.id for m in session.messages}) == len(session.messages)
    assert session.cost is not None
    assert session.cost.incomplete == ()


def test_a_stub_is_no_session_and_hides_none(home: Path) -> None:
    context = checkpoint(user("c", "<session_context>\nToday is Sunday."))
    stub = [head(startTime=at(3000)), context]
    write_log(home, stub, "session-2026-11-15T20-50-0badcafe.jsonl")
    assert open_home(home).sessions.list("gemini") == []
    write_log(home, [head(), user("u", "Go."), reply("g", "Done.")])
    (listed,) = open_home(home).sessions.list("gemini")
    assert (listed.title, listed.message_count) == ("Go.", 2)


def test_a_head_written_again_keeps_the_earliest_start(home: Path) -> None:
    again = head(startTime=at(1000), lastUpdated=at(2000))
    write_log(home, [head(), user("u", "Go."), again, {"$set": {"summary": "A walk."}}])
    session = get(home)
    assert session.created_at.minute == 0
    assert session.updated_at.minute == 33
    assert session.title == "A walk."


def test_ids_with_a_common_prefix_are_distinguished(home: Path) -> None:
    write_log(home, [head(), user("u", "One.")])
    other = "session-2026-11-15T20-07-0badcafe.jsonl"
    write_log(home, [head(OTHER), user("v", "Two.")], other)
    assert prompts(get(home)) == ["One."]
    assert prompts(get(home, OTHER)) == ["Two."]


def test_a_session_is_found_without_opening_the_others(home: Path) -> None:
    wanted = write_log(home, [head(), user("u", "One.")])
    for number in range(20):
        session_id = f"{number:08x}-1111-4222-8333-444444444444"
        name = f"session-2026-11-15T20-00-{number:08x}.jsonl"
        write_log(home, [head(session_id), user("u", "Other.")], name)
    client = open_home(home)
    with opened_files() as opened:
        assert prompts(client.sessions.get("gemini", SESSION)) == ["One."]
    assert {path for path in opened if "/chats/" in path} == {str(wanted)}
    assert client.sessions.get("gemini", SESSION[:12]).session_id == SESSION
