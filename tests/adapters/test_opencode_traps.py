"""OpenCode: differences between versions, lineage, invalid and hostile data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from drawn import drawn
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from opencode_store import (
    START,
    TABLES,
    Database,
    Json,
    answer,
    client_on,
    data_dir,
    message_id,
    tokens,
    user,
    write_session,
)

from amux.adapters.opencode import ADAPTER
from amux.model.session import Session
from amux.testing.reading import read_source, sources_of
from amux.testing.strategies import json_values

SPEC_TABLES = """
CREATE TABLE sessions (id TEXT PRIMARY KEY, title TEXT, parent_id TEXT, cwd TEXT,
  created_at TEXT, updated_at TEXT);
CREATE TABLE messages (id TEXT PRIMARY KEY, session_id TEXT, role TEXT, content TEXT, model TEXT,
  input_tokens INTEGER, output_tokens INTEGER, cost REAL, created_at TEXT);
CREATE TABLE tool_calls (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, name TEXT,
  input TEXT, output TEXT, status TEXT, duration_ms INTEGER);
"""
UUID = "550e8400-e29b-41d4-a716-44665544000"


def one_session(home: Path, *entries: tuple[Json, list[Json]], **row: Any) -> Session:
    """A database with one session of these messages, read through the client."""
    database = Database(home).session("ses_a", **row)
    for number, entry in enumerate(entries):
        at = entry[0]["time"]["created"]
        database.message("ses_a", entry, id=message_id(at, number))
    return client_on(home).sessions.get("opencode", "ses_a")


def token_sums(session: Session) -> tuple[int, int, int, int, int | None]:
    assert session.cost is not None
    cost = session.cost
    return (
        cost.input_tokens,
        cost.cached_tokens or 0,
        cost.cache_write_tokens or 0,
        cost.output_tokens,
        cost.thinking_tokens,
    )


# the specification's tables


def spec_database(home: Path) -> Database:
    database = Database(home, tables=SPEC_TABLES)
    for number, parent in ((1, None), (2, f"{UUID}1")):
        id = f"{UUID}{number}"
        database.insert(
            "sessions", id=id, title=f"Session {number}", parent_id=parent, cwd="/src/app",
            created_at=f"2026-01-0{number}T10:00:00Z", updated_at=f"2026-01-0{number}T11:00:00Z",
        )  # fmt: skip
        database.insert("messages", id=f"u{number}", session_id=id, role="user", content="Go")
        database.insert(
            "messages", id=f"a{number}", session_id=id, role="assistant", content="Done",
            model="m-large", input_tokens=10 * number, output_tokens=5, cost=0.25 * number,
            created_at="2026-01-01T10:00:05Z",
        )  # fmt: skip
    database.insert(
        "tool_calls", id="t1", message_id="a1", session_id=f"{UUID}1", name="bash",
        input='{"command": "ls"}', output="x.txt", status="completed", duration_ms=12,
    )  # fmt: skip
    return database


def test_the_specifications_tables_are_read(tmp_path: Path) -> None:
    spec_database(tmp_path)
    session = client_on(tmp_path).sessions.get("opencode", f"{UUID}1")
    assert (session.title, session.cwd, session.turn_count) == ("Session 1", "/src/app", 1)
    assert [message.role for message in session.messages] == ["user", "assistant", "tool"]
    (call,) = session.messages[1].tool_calls
    assert (call.tool_name, call.input, call.output) == ("bash", {"command": "ls"}, "x.txt")
    assert (call.duration_ms, call.is_error) == (12, False)
    assert session.cost is not None
    assert (session.cost.total_usd, session.cost.source) == (0.25, "native")
    assert session.messages[1].cost is not None
    assert session.messages[1].cost.total_usd == 0.25


def test_in_the_specifications_tables_a_parent_makes_a_fork(tmp_path: Path) -> None:
    spec_database(tmp_path)
    listed = {s.session_id: s for s in client_on(tmp_path).sessions.list("opencode")}
    fork = listed[f"{UUID}2"]
    assert (fork.kind, fork.forked_from) == ("fork", f"{UUID}1")
    assert fork.cost is not None
    assert fork.cost.total_usd == 0.5


def test_a_session_in_both_kinds_of_tables_is_read_once(tmp_path: Path) -> None:
    database = Database(tmp_path, tables=TABLES + SPEC_TABLES).session("ses_a")
    database.message("ses_a", user("Go", START))
    database.insert("sessions", id="ses_a", title="Again")
    database.insert("sessions", id="ses_b", title="Other")
    listed = client_on(tmp_path).sessions.list("opencode")
    assert sorted(session.title for session in listed) == ["A title", "Other"]


# versions


@pytest.mark.parametrize(
    ("usage", "output", "thinking"),
    [
        (tokens(100, 40, total=140) | {"reasoning": 15}, 40, 15),  # to 1.2: part of the output
        (tokens(100, 25, total=140) | {"reasoning": 15}, 40, 15),  # later: beside it
        (tokens(100, 40) | {"reasoning": 15}, 40, 15),  # no total
    ],
)
def test_reasoning_is_where_the_total_puts_it(
    usage: Json, output: int, thinking: int, tmp_path: Path
) -> None:
    session = one_session(tmp_path, user("Go", START), answer("Done", START + 5, usage))
    assert token_sums(session)[3:] == (output, thinking)


def test_without_a_total_an_openai_like_provider_counts_the_cache_in_the_input(
    tmp_path: Path,
) -> None:
    usage = tokens(100, 5, read=60)
    first = answer("One", START + 5, usage, providerID="openai")
    session = one_session(tmp_path, user("Go", START), first)
    assert token_sums(session) == (40, 60, 0, 5, 0)


@pytest.mark.parametrize(
    "sign", [tokens(1, 1, write=9), tokens(3, 1, read=10)], ids=["a write", "less than was read"]
)
def test_a_provider_that_shows_the_cache_apart_once_always_counts_it_apart(
    sign: Json, tmp_path: Path
) -> None:
    first = answer("One", START + 5, tokens(100, 5, read=60), providerID="custom")
    second = answer("Two", START + 20, sign, providerID="custom")
    session = one_session(tmp_path, user("Go", START), first, second)
    assert token_sums(session)[0] == 100 + sign["input"]


def test_a_message_of_several_steps_is_several_calls(tmp_path: Path) -> None:
    """Before 1.0 the message repeats only the last step's figures."""
    record, last = answer("Two", START + 5, tokens(20, 2, write=1), cost=0.75)
    first = {"type": "step-finish", "tokens": tokens(10, 1, write=1), "cost": 0.25}
    parts: list[Json] = [{"type": "step-start"}, {"type": "text", "text": "One"}, first, *last]
    parts[-1]["cost"] = 0.5
    write_session(tmp_path, "ses_a", [user("Go", START), (record, parts)], is_old=True)
    session = client_on(tmp_path).sessions.get("opencode", "ses_a")
    assert [message.content for message in session.messages] == ["Go", "One", "Two"]
    assert [call.tokens.input for call in session.calls] == [10, 20]
    assert session.cost is not None
    assert session.cost.total_usd == 0.75
    assert session.cwd == "/src/app"


def test_a_compaction_without_steps_is_counted_by_its_message(tmp_path: Path) -> None:
    """1.0.61 writes no end of a step for it."""
    summary = answer("## Goal", START + 5, tokens(10, 3, write=1), steps=False, summary=True)
    write_session(tmp_path, "ses_a", [user("Go", START), summary])
    session = client_on(tmp_path).sessions.get("opencode", "ses_a")
    assert [(call.purpose, call.tokens.output) for call in session.calls] == [("compaction", 3)]
    assert session.raw["compactions"] == 1
    assert session.messages[1].compaction


def test_a_cost_of_nothing_for_counted_tokens_is_unknown_not_free(tmp_path: Path) -> None:
    done = answer("Done", START + 5, tokens(5, 5, total=10), cost=0)
    session = one_session(tmp_path, user("Go", START), done)
    assert [call.native_nusd for call in session.calls] == [None]
    assert session.cost is not None
    assert session.cost.source == "estimate"


# calls that came to nothing


def unfinished(**more: Any) -> tuple[Json, list[Json]]:
    record, _ = answer("", START + 5, tokens(0, 0), cost=0, **more)
    return record, []


@pytest.mark.parametrize(
    ("record", "parts", "gaps"),
    [
        ({"error": {"name": "MessageAbortedError"}}, [], ("call-interrupted",)),
        ({"time": {"created": START + 5}}, [], ("call-interrupted",)),
        ({}, [{"type": "step-start"}], ("call-interrupted",)),
        ({"error": {"name": "APIError", "data": {"message": "no"}}}, [], ()),
        ({}, [{"type": "tool", "tool": "bash", "state": {"status": "completed"}}], ()),
    ],
    ids=["aborted", "killed", "aborted before 1.0", "refused", "shell escape"],
)
def test_a_call_without_figures_is_a_gap_only_if_a_model_was_at_work(
    record: Json, parts: list[Json], gaps: tuple[str, ...], tmp_path: Path
) -> None:
    entry = (unfinished()[0] | record, parts)
    done = answer("Before", START + 2, tokens(5, 5, total=10))
    session = one_session(tmp_path, user("Go", START), done, entry)
    assert session.cost is not None
    assert session.cost.incomplete == gaps


def test_an_error_is_a_notice_and_no_turn(tmp_path: Path) -> None:
    error = {"name": "APIError", "data": {"message": "prompt rejected"}}
    session = one_session(tmp_path, user("Go", START), unfinished(error=error))
    assert session.turn_count == 0
    assert (session.messages[1].content, session.messages[1].synthetic) == ("prompt rejected", True)


def test_a_tool_that_is_still_running_has_no_result(tmp_path: Path) -> None:
    record, parts = answer("", START + 5, tokens(5, 5, total=10))
    parts.insert(1, {"type": "tool", "tool": "bash", "callID": "c", "state": {"status": "running"}})
    session = one_session(tmp_path, user("Go", START), (record, parts))
    assert [message.role for message in session.messages] == ["user", "assistant"]
    assert session.messages[1].tool_calls[0].output is None


# prompts and titles


@pytest.mark.parametrize(
    "title", ["New session - 2026-11-15T20:15:29.465Z", "New session - 2026-11-15T20:15 (fork #2)"]
)
def test_a_placeholder_is_not_a_title(title: str, tmp_path: Path) -> None:
    prompt = user('"Count the files"', START)
    assert one_session(tmp_path, prompt, title=title).title == "Count the files"


def test_injected_texts_are_neither_prompt_nor_title(tmp_path: Path) -> None:
    shell = user("The following tool was executed by the user", START)
    shell[1][0]["synthetic"] = True
    record, parts = user("Explain", START + 2)
    parts.append({"type": "text", "text": "Called the Read tool", "synthetic": True})
    parts.append({"type": "text", "text": "Only shown", "ignored": True})
    image = {"type": "file", "mime": "image/png", "url": "data:image/png;base64,AA=="}
    session = one_session(tmp_path, shell, (record, [*parts, image]), title="")
    assert session.title == "Explain"
    assert [(m.content, m.synthetic) for m in session.messages] == [
        ("The following tool was executed by the user", True),
        ("Explain", False),
        ("Called the Read tool\nOnly shown", True),
    ]
    assert session.messages[1].images == ("data:image/png;base64,AA==",)


# lineage


def copied(entry: tuple[Json, list[Json]]) -> str:
    """The id of a copy: younger than its message."""
    return message_id(entry[0]["time"]["created"] + 60_000)


def test_a_fork_names_nobody_and_is_known_by_its_copies(tmp_path: Path) -> None:
    database = Database(tmp_path)
    shared = [user("Go", START), answer("Done", START + 5, tokens(10, 5, total=15), cost=0.5)]
    database.session("ses_origin")
    for entry in shared:
        database.message("ses_origin", entry)
    database.session("ses_fork", at=START + 60_000, title="A title (fork #1)")
    for entry in shared:
        database.message("ses_fork", entry, id=copied(entry))
    late = START + 70_000
    database.message("ses_fork", user("More", late))
    database.message("ses_fork", answer("Again", late + 5, tokens(7, 1, total=8), cost=0.25))
    client = client_on(tmp_path)
    fork = client.sessions.get("opencode", "ses_fork")
    assert (fork.kind, fork.forked_from) == ("fork", "ses_origin")
    assert [call.tokens.input for call in fork.calls] == [7]
    assert len(fork.messages) == 4
    assert client.sessions.get("opencode", "ses_origin").forked_from is None
    assert client.sessions.total_cost(agent="opencode").total_usd == 0.75


@pytest.mark.parametrize("evidence", ["prefix", "marker", "nothing"])
def test_a_parent_makes_a_sub_agent_unless_the_session_is_a_copy(
    evidence: str, tmp_path: Path
) -> None:
    database = Database(tmp_path).session("ses_top")
    entry = answer("Done", START + 5, tokens(10, 5, total=15))
    database.message("ses_top", user("Go", START)).message("ses_top", entry)
    title = "Part (fork #1)" if evidence == "marker" else "Part (@general subagent)"
    database.session("ses_low", at=START + 9, parent_id="ses_top", title=title)
    if evidence == "prefix":
        database.message("ses_low", entry, id="msg_made_by_hand")
    own = answer("Own", START + 20, tokens(3, 2, total=5))
    database.message("ses_low", own)
    client = client_on(tmp_path)
    low = client.sessions.get("opencode", "ses_low")
    listed = {session.session_id for session in client.sessions.list("opencode")}
    assert low.parent == "ses_top"
    assert [call.tokens.input for call in low.calls] == [3]
    if evidence == "nothing":
        assert (low.kind, low.forked_from, "ses_low" in listed) == ("subagent", None, False)
        assert [call.purpose for call in low.calls] == ["subagent"]
    else:
        assert (low.kind, low.forked_from, "ses_low" in listed) == ("fork", "ses_top", True)
        assert [call.purpose for call in low.calls] == ["main"]


def test_a_task_that_names_no_child_still_finds_it(tmp_path: Path) -> None:
    record, parts = answer("", START + 5, tokens(5, 5, write=1))
    parts.insert(1, {"type": "tool", "tool": "task", "state": {"status": "completed"}})
    write_session(tmp_path, "ses_top", [user("Go", START), (record, parts)], is_old=True)
    child = answer("Done", START + 6, tokens(3, 2, write=1))
    write_session(tmp_path, "ses_low", [child], record={"parentID": "ses_top"}, is_old=True)
    session = client_on(tmp_path).sessions.get("opencode", "ses_top")
    assert [child.session_id for child in session.children] == ["ses_low"]


def test_undone_messages_stay_and_the_revert_is_in_raw(tmp_path: Path) -> None:
    revert = json.dumps({"messageID": "msg_x", "snapshot": "s"})
    done = answer("Done", START + 5, tokens(5, 5, total=10))
    session = one_session(tmp_path, user("Go", START), done, revert=revert)
    assert session.raw["revertedFrom"] == "msg_x"
    assert len(session.messages) == 2


# both stores at once


def test_a_session_in_files_and_database_is_shown_from_the_database(tmp_path: Path) -> None:
    shared = [user("Go", START), answer("Done", START + 5, tokens(10, 5, total=15), cost=0.5)]
    pruned = answer("Undone later", START + 8, tokens(6, 1, total=7), cost=0.25)
    write_session(tmp_path, "ses_a", [*shared, pruned])
    write_session(tmp_path, "ses_old", shared[:1])
    database = Database(tmp_path).session("ses_a", time_archived=START)
    for entry in shared:
        database.message("ses_a", entry)
    client = client_on(tmp_path)
    listed = client.sessions.list("opencode", include_archived=True)
    assert sorted(session.session_id for session in listed) == ["ses_a", "ses_old"]
    session = client.sessions.get("opencode", "ses_a")
    assert (session.title, session.archived) == ("A title", True)
    assert [message.content for message in session.messages] == ["Go", "Done"]
    assert session.cost is not None
    assert session.cost.total_usd == 0.75  # what was undone had been billed


def test_an_id_inside_a_file_leads_nowhere(tmp_path: Path) -> None:
    secret = data_dir(tmp_path) / "storage" / "secret" / "x.json"
    secret.parent.mkdir(parents=True)
    secret.write_text(json.dumps({"role": "user", "time": {"created": START}}))
    write_session(tmp_path, "ses_a", [user("Go", START)], record={"id": "../secret"})
    (source,) = sources_of(ADAPTER, tmp_path)
    reading = read_source(ADAPTER, source)
    assert [facts.session_id for facts in reading.facts] == ["../secret"]
    assert [message.content for message in reading.messages] == ["Go"]


def test_a_damaged_file_affects_one_record(tmp_path: Path) -> None:
    done = answer("Done", START + 5, tokens(5, 5, total=10))
    path = write_session(tmp_path, "ses_a", [user("Go", START), done])
    storage = path.parent.parent.parent
    (storage / "message" / "ses_a" / "msg_torn.json").write_text('{"role":"us')
    (storage / "part" / message_id(START) / "prt_99.json").write_text("[]")
    (source,) = sources_of(ADAPTER, tmp_path)
    reading = read_source(ADAPTER, source)
    assert [problem.code for problem in reading.problems] == ["bad-record", "bad-record"]
    assert [message.content for message in reading.messages] == ["Go", "Done"]


@given(data=st.data())
@drawn(50)
def test_any_value_in_a_sessions_file_raises_no_exception(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    home = tmp_path_factory.mktemp("file")
    known: Json = {"title": "T", "directory": "/d", "parentID": None, "version": "1", "id": "i"}
    record = spoiled(data, known | {"time": {"created": START}, "revert": {"messageID": "m"}})
    write_session(home, "ses_a", [user("Go", START)], record=record)
    (source,) = sources_of(ADAPTER, home)
    assert [message.content for message in read_source(ADAPTER, source).messages] == ["Go"]


# anything in any field


def spoiled(data: st.DataObject, record: Json) -> Json:
    """The record with one field, perhaps a nested one, replaced by anything."""
    name = data.draw(st.sampled_from(sorted(record)))
    inner: Json = record[name] if isinstance(record[name], dict) else {}
    if inner and data.draw(st.booleans()):
        return record | {name: spoiled(data, inner)}
    return record | {name: data.draw(json_values())}


@drawn(50, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_value_in_any_field_raises_no_exception_and_affects_no_other_record(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    home = tmp_path_factory.mktemp("odd")
    state = {
        "status": "completed",
        "input": {"command": "ls"},
        "output": "x",
        "metadata": {"exit": 1, "sessionId": "ses_c"},
        "time": {"start": START, "end": START + 1},
    }
    record, parts = answer("Done", START + 5, tokens(5, 5, total=10), error={}, summary=True)
    parts.append({"type": "tool", "tool": "task", "callID": "c", "state": state})
    number = data.draw(st.integers(0, len(parts)))
    if number == len(parts):
        odd = (spoiled(data, record), parts)
    else:
        changed = spoiled(data, parts[number])
        odd = (record, [*parts[:number], changed, *parts[number + 1 :]])
    database = Database(home).session("ses_a").session("ses_b")
    at = odd[0].get("time")
    row = {"session_id": "ses_a", "time_created": START, "data": json.dumps(odd[0])}
    database.insert("message", id="msg_odd", **row)
    for index, part in enumerate(odd[1]):
        database.insert(
            "part", id=f"prt_{index}", message_id="msg_odd", session_id="ses_a",
            data=json.dumps(part),
        )  # fmt: skip
    database.message("ses_b", user("Neighbour", START + 1))
    (source,) = sources_of(ADAPTER, home)
    reading = read_source(ADAPTER, source)
    assert {facts.session_id for facts in reading.facts} == {"ses_a", "ses_b"}, at
    assert [m.content for m in reading.by_session()["ses_b"]] == ["Neighbour"]
    assert read_source(ADAPTER, source, "facts").facts == reading.facts


CELLS = st.none() | st.integers(-(2**40), 2**40) | st.floats() | st.text() | st.binary()


@drawn(30, suppress_health_check=[HealthCheck.too_slow])
@given(session=st.lists(CELLS, min_size=7, max_size=7), message=st.lists(CELLS, min_size=3))
def test_any_cell_in_any_column_raises_no_exception(
    session: list[Any], message: list[Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    home = tmp_path_factory.mktemp("cells")
    names = ("title", "directory", "parent_id", "version", "revert", "time_created")
    odd = dict(zip(names, session, strict=False))
    database = Database(home).insert("session", id="ses_a", **odd).session("ses_b")
    columns = dict(zip(("session_id", "time_created", "data"), message, strict=False))
    database.insert("message", id="msg_odd", **columns)
    database.message("ses_b", user("Neighbour", START))
    (source,) = sources_of(ADAPTER, home)
    reading = read_source(ADAPTER, source)
    assert "Neighbour" in [m.content for m in reading.by_session()["ses_b"]]


@drawn(30, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_cell_in_the_specifications_tables_raises_no_exception(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    home = tmp_path_factory.mktemp("spec")
    database = spec_database(home)
    odd: dict[str, Any] = {
        name: data.draw(CELLS)
        for name in ("role", "content", "model", "input_tokens", "cost", "created_at")
    }
    database.insert("messages", id="odd", session_id=f"{UUID}1", **odd)
    database.insert(
        "tool_calls", id="t2", message_id="odd", session_id=f"{UUID}1",
        **{name: data.draw(CELLS) for name in ("name", "input", "output", "status", "duration_ms")},
    )  # fmt: skip
    (source,) = sources_of(ADAPTER, home)
    reading = read_source(ADAPTER, source)
    assert {facts.session_id for facts in reading.facts} == {f"{UUID}1", f"{UUID}2"}
    assert read_source(ADAPTER, source, "facts").facts == reading.facts
