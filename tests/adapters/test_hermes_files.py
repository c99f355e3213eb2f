"""Hermes: the log and the snapshot of one session are one session."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from drawn import drawn
from hermes_stores import Store
from hypothesis import given
from hypothesis import strategies as st

from amux.adapters.hermes import ADAPTER
from amux.client import create_client
from amux.testing.reading import Reading, read_source, sources_of

ID = "20260102_030405_ab12cd"


def say(role: str, content: Any, **fields: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **fields}


def call(id: str, name: str = "terminal") -> dict[str, Any]:
    return {"id": id, "function": {"name": name, "arguments": "{}"}}


def write(home: Path, *, log: list[Any] | None = None, snapshot: list[Any] | None = None) -> None:
    folder = home / ".hermes" / "sessions"
    folder.mkdir(parents=True, exist_ok=True)
    if log is not None:
        (folder / f"{ID}.jsonl").write_text("".join(json.dumps(each) + "\n" for each in log))
    if snapshot is not None:
        document = {"session_id": ID, "model": "m", "messages": snapshot}
        (folder / f"session_{ID}.json").write_text(json.dumps(document))


def read(home: Path) -> Reading:
    (source,) = sources_of(ADAPTER, home)
    whole = read_source(ADAPTER, source)
    assert read_source(ADAPTER, source, "facts").facts == whole.facts
    return whole


def said(home: Path) -> list[str]:
    return [message.content for message in read(home).messages]


def test_messages_of_one_file_stay_between_their_neighbours(tmp_path: Path) -> None:
    write(
        tmp_path,
        log=[say("user", "a"), say("user", "only in the log"), say("assistant", "z")],
        snapshot=[
            say("system", "first"),
            say("user", "a"),
            say("assistant", "z"),
            say("user", "only in the snapshot"),
        ],
    )
    expected = ["first", "a", "only in the log", "z", "only in the snapshot"]
    assert said(tmp_path) == expected


def test_a_pair_has_the_fuller_value_of_each_field(tmp_path: Path) -> None:
    write(
        tmp_path,
        log=[
            say("user", "go", timestamp="2026-01-02T03:04:05"),
            say("assistant", "I look", timestamp="2026-01-02T03:04:06", tool_calls=[call("1")]),
            say("tool", "out", tool_call_id="1", tool_name="terminal"),
        ],
        snapshot=[
            say("user", "go"),
            say("assistant", "", tool_calls=[call("1"), call("2", "web")], reasoning="hm"),
            say("tool", "output", tool_call_id="1"),
            say("tool", "page", tool_call_id="2"),
        ],
    )
    reading = read(tmp_path)
    answer = reading.messages[1]
    assert (answer.content, answer.thinking) == ("I look", "hm")
    assert [each.tool_name for each in answer.tool_calls] == ["terminal", "web"]
    assert answer.timestamp is not None
    results = [message.tool_result for message in reading.messages if message.tool_result]
    assert [(each.tool_name, each.output) for each in results] == [
        ("terminal", "output"),
        ("web", "page"),
    ]
    assert reading.problems == []


def test_a_note_in_one_file_makes_no_second_prompt(tmp_path: Path) -> None:
    note = "[Note: model was just switched from a to b via X. Adjust accordingly.]\n\n"
    write(tmp_path, log=[say("user", "hello")], snapshot=[say("user", f"{note}hello")])
    shown = [(m.content, m.synthetic) for m in read(tmp_path).messages]
    assert shown == [(note.rstrip(), True), ("hello", False)]


def test_an_answer_that_was_cut_off_in_one_file_is_shown_whole(tmp_path: Path) -> None:
    whole = "a long answer that was written to one of the files before it was complete"
    write(
        tmp_path,
        log=[say("user", "?"), say("assistant", whole[:50])],
        snapshot=[say("user", "?"), say("assistant", whole)],
    )
    assert said(tmp_path) == ["?", whole]


def test_reasoning_in_other_tags_makes_no_second_answer(tmp_path: Path) -> None:
    answer = "<REASONING_SCRATCHPAD>first</REASONING_SCRATCHPAD>yes"
    write(
        tmp_path,
        log=[say("user", "?"), say("assistant", answer), say("user", "again")],
        snapshot=[say("user", "?"), say("assistant", "<think>first</think>\nyes")],
    )
    assert said(tmp_path) == ["?", answer, "again"]


def test_odd_records_of_both_files_are_problems_and_neighbours_stay(tmp_path: Path) -> None:
    call_of_log = say("assistant", "look", tool_calls="no list")
    write(
        tmp_path,
        log=[say("user", "a"), call_of_log, say("user", "z")],
        snapshot=[7, say("user", "a"), say("assistant", "look", tool_calls=[call("1")]), 8],
    )
    reading = read(tmp_path)
    assert [message.content for message in reading.messages] == ["a", "look", "z"]
    assert [each.tool_call_id for each in reading.messages[1].tool_calls] == ["1"]
    assert [problem.code for problem in reading.problems] == ["bad-record", "bad-record"]


def test_repeated_ends_are_paired_from_the_end(tmp_path: Path) -> None:
    end = [say("user", "ok"), say("assistant", "ok")]
    write(
        tmp_path,
        log=[say("user", "a"), *end, say("user", "b"), *end],
        snapshot=[say("user", "c"), *end],
    )
    assert said(tmp_path) == ["a", "ok", "ok", "b", "c", "ok", "ok"]


def test_equal_messages_are_paired_one_by_one(tmp_path: Path) -> None:
    again = [say("user", "again"), say("assistant", "ok")]
    write(tmp_path, log=again * 3, snapshot=again * 5)
    assert said(tmp_path) == ["again", "ok"] * 5


@pytest.mark.parametrize("broken", ["log", "snapshot"])
def test_a_file_that_cannot_be_read_leaves_the_other(broken: str, tmp_path: Path) -> None:
    write(tmp_path, log=[say("user", "kept")], snapshot=[say("user", "kept")])
    name = f"{ID}.jsonl" if broken == "log" else f"session_{ID}.json"
    (tmp_path / ".hermes" / "sessions" / name).write_text("{nonsense\n")
    reading = read(tmp_path)
    assert [message.content for message in reading.messages] == ["kept"]
    assert [Path(problem.path or "").name for problem in reading.problems] == [name]


def test_two_files_without_a_session_are_problems_and_no_session(tmp_path: Path) -> None:
    write(tmp_path, log=[], snapshot=[])
    for path in (tmp_path / ".hermes" / "sessions").iterdir():
        path.write_text("nonsense\n")
    reading = read(tmp_path)
    assert reading.facts == []
    assert {Path(problem.path or "").suffix for problem in reading.problems} == {".json", ".jsonl"}


def test_a_snapshot_of_another_session_is_not_merged(home: Path) -> None:
    write(home, log=[say("user", "mine")], snapshot=[say("user", "other")])
    path = home / ".hermes" / "sessions" / f"session_{ID}.json"
    path.write_text(path.read_text().replace(ID, "elsewhere"))
    client = create_client(home=home)
    titles = {one.session_id: one.title for one in client.sessions.list("hermes")}
    assert titles == {ID: "mine", "elsewhere": "other"}


def test_both_files_belong_to_one_session_in_every_report(home: Path) -> None:
    write(home, log=[say("user", "a")], snapshot=[say("user", "a"), say("assistant", "b")])
    client = create_client(home=home)
    (listed,) = client.sessions.list("hermes")
    assert (listed.title, listed.turn_count, listed.message_count) == ("a", 1, 2)
    (report,) = (each for each in client.doctor("hermes") if each.files)
    assert {file.path: file.status for file in report.files} == {
        f"sessions/{ID}.jsonl": "session",
        f"sessions/session_{ID}.json": "part",
    }


def test_the_database_wins_over_both_files(home: Path) -> None:
    write(home, log=[say("user", "a")], snapshot=[say("user", "a"), say("assistant", "b")])
    store = Store(home / ".hermes", version=11)
    store.session(ID)
    store.talk(ID, "a", "b", "c", "d")
    client = create_client(home=home)
    (listed,) = client.sessions.list("hermes")
    assert (listed.turn_count, listed.message_count) == (2, 4)
    assert [m.content for m in client.sessions.get("hermes", ID).messages] == ["a", "b", "c", "d"]


def test_files_have_the_conversation_of_a_row_without_messages(home: Path) -> None:
    write(home, log=[say("user", "a")], snapshot=[say("user", "a"), say("assistant", "b")])
    store = Store(home / ".hermes", version=11)
    store.session(ID, model="m", input_tokens=3)
    session = create_client(home=home).sessions.get("hermes", ID)
    assert [m.content for m in session.messages] == ["a", "b"]
    assert session.cost is not None
    assert session.cost.input_tokens == 3


ROLES = st.sampled_from(["user", "assistant"])


@drawn(200)
@given(
    words=st.lists(st.tuples(ROLES, st.sampled_from("abcd")), max_size=12),
    in_log=st.lists(st.booleans(), min_size=12, max_size=12),
    in_snapshot=st.lists(st.booleans(), min_size=12, max_size=12),
)
def test_no_message_is_lost_and_none_is_shown_more_often_than_it_was_said(
    words: list[tuple[str, str]],
    in_log: list[bool],
    in_snapshot: list[bool],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    home = tmp_path_factory.mktemp("files")
    spoken = [say(role, f"{word}{number}") for number, (role, word) in enumerate(words)]
    log = [each for each, chosen in zip(spoken, in_log, strict=False) if chosen]
    snapshot = [each for each, chosen in zip(spoken, in_snapshot, strict=False) if chosen]
    write(home, log=log, snapshot=snapshot)
    known = [each["content"] for each in spoken if each in log or each in snapshot]
    if not known:
        return
    shown = said(home)
    assert Counter(shown) == Counter(known)
    for file in (log, snapshot):  # each file keeps its own order
        own = {each["content"] for each in file}
        assert [text for text in shown if text in own] == [each["content"] for each in file]


@drawn(200)
@given(
    log=st.lists(st.tuples(ROLES, st.sampled_from("ab")), min_size=1, max_size=8),
    snapshot=st.lists(st.tuples(ROLES, st.sampled_from("ab")), max_size=8),
)
def test_repeated_texts_are_neither_lost_nor_added(
    log: list[tuple[str, str]],
    snapshot: list[tuple[str, str]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    home = tmp_path_factory.mktemp("files")
    write(home, log=[say(*each) for each in log], snapshot=[say(*each) for each in snapshot])
    shown = Counter((m.role, m.content) for m in read(home).messages)
    least, most = Counter(log) | Counter(snapshot), Counter(log) + Counter(snapshot)
    assert least <= shown <= most


def test_the_effort_does_not_grow_with_the_square_of_equal_messages(tmp_path: Path) -> None:
    again = [say("user", "again"), say("assistant", "<think>" * 50)]
    other = [say("assistant", "x"), *again]
    write(tmp_path, log=again * 10_000, snapshot=other * 10_000)
    began = time.process_time()
    read(tmp_path)
    assert time.process_time() - began < 30


def costs_of(home: Path) -> dict[str, tuple[str, ...]]:
    """Return why the cost is incomplete, by the question that was asked."""
    client = create_client(home=home)
    (listed,) = client.sessions.list("hermes")
    session = client.sessions.get("hermes", ID)
    by_model = client.sessions.total_cost(agent="hermes", group_by="model").breakdowns or {}
    (model,) = by_model.values()
    return {
        "list": ("unknown",) if listed.cost is None else listed.cost.incomplete,
        "show": ("unknown",) if session.cost is None else session.cost.incomplete,
        "report": client.sessions.total_cost(agent="hermes").incomplete,
        "by model": model.incomplete,
        "explain": client.explain_cost("hermes", ID).incomplete,
    }


UNKNOWN = {
    "list": ("unknown",),
    "show": ("unknown",),
    **dict.fromkeys(("report", "by model", "explain"), ("usage-not-recorded",)),
}
EXACT: dict[str, tuple[str, ...]] = dict.fromkeys(UNKNOWN, ())


@pytest.mark.parametrize("has_row", [False, True])
def test_the_cost_of_answers_without_usage_is_unknown_everywhere(has_row: bool, home: Path) -> None:
    write(home, log=[say("user", "a"), say("assistant", "b")])
    if has_row:
        Store(home / ".hermes").session(ID, model="m")
    assert costs_of(home) == UNKNOWN


def test_usage_in_the_database_is_enough(home: Path) -> None:
    write(home, snapshot=[say("user", "a"), say("assistant", "b")])
    store = Store(home / ".hermes")
    store.session(ID, model="gpt-5", input_tokens=3, output_tokens=1)
    assert costs_of(home) == EXACT
    store.talk(ID, "a", "b")
    assert costs_of(home) == EXACT


def test_answers_in_the_database_without_usage_are_unknown_as_well(home: Path) -> None:
    store = Store(home / ".hermes")
    store.session(ID, model="m")
    store.talk(ID, "a", "b")
    assert costs_of(home) == UNKNOWN
    store.usage(ID, "small", task="title_generation", input_tokens=2)
    client = create_client(home=home)
    assert "usage-not-recorded" in client.sessions.total_cost(agent="hermes").incomplete


def test_a_session_without_an_answer_cost_nothing(home: Path) -> None:
    write(home, log=[say("user", "a")])
    summary = create_client(home=home).sessions.total_cost(agent="hermes")
    assert (summary.session_count, summary.total_usd, summary.incomplete) == (1, 0.0, ())
