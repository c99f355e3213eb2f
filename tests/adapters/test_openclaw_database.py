"""Tests OpenClaw's database: sessions, lineage, archives and arbitrary cell values."""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
from collections.abc import Generator, Iterable
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import zstandard
from drawn import drawn
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from pi_logs import Json, header, reply, texts, user

from amux.adapters.openclaw import ADAPTER
from amux.client import Client, create_client
from amux.model.facts import Facts
from amux.testing.captures import fingerprint
from amux.testing.reading import Reading, read_source, sources_of

PLACE = Path(".openclaw/agents/main/agent/openclaw-agent.sqlite")

SCHEMA = """
CREATE TABLE session_nodes (
    session_key, current_session_id, entry_json, label, display_name, spawned_by,
    fork_source_session_id, archived_at);
CREATE TABLE session_windows (session_id, session_key, previous_session_id, reason, channel);
CREATE TABLE transcript_events (session_id, seq, event_json, event_zstd, navigation_json);
CREATE TABLE session_transcript_index_state (session_id, leaf_event_id, needs_rebuild);
CREATE TABLE session_transcript_archives (
    session_id, generation, reason, encoding, archive_blob, created_at);
"""


def talk(session_id: str, word: str = "Hi", second: int = 1) -> list[Json]:
    asked = user(f"u-{session_id}", None, second, word)
    answer = reply(f"a-{session_id}", f"u-{session_id}", second + 1)
    return [{**header(session_id), "version": 4}, asked, answer]


@contextmanager
def database(home: Path) -> Generator[sqlite3.Connection]:
    path = home / PLACE
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            connection.executescript(SCHEMA)
        yield connection
        connection.commit()


def insert(connection: sqlite3.Connection, table: str, **row: Any) -> None:
    names, marks = ", ".join(row), ", ".join("?" * len(row))
    connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(row.values()))


def add(connection: sqlite3.Connection, session_id: str, lines: Iterable[Json]) -> None:
    for seq, line in enumerate(lines):
        row = {"session_id": session_id, "seq": seq, "event_json": json.dumps(line)}
        insert(connection, "transcript_events", **row)


def named(connection: sqlite3.Connection, session_id: str, **node: Any) -> None:
    key = f"agent:main:{session_id}"
    insert(connection, "session_windows", session_id=session_id, session_key=key)
    insert(connection, "session_nodes", session_key=key, current_session_id=session_id, **node)


def client_of(home: Path) -> Client:
    client = create_client(home=home)
    client.adapters.register(ADAPTER)
    return client


def read_one(home: Path) -> Reading:
    [source] = sources_of(ADAPTER, home)
    return read_source(ADAPTER, source)


def test_a_label_is_the_title_and_a_display_name_is_not(tmp_path: Path) -> None:
    with database(tmp_path) as connection:
        add(connection, "s1", talk("s1"))
        add(connection, "s2", talk("s2"))
        named(connection, "s1", label="Mine", entry_json='{"lastChannel": "telegram"}')
        named(connection, "s2", display_name="Shown")
    client = client_of(tmp_path)
    session = client.sessions.get("openclaw", "s1")
    assert session.title == "Mine"
    assert session.raw["channel"] == "telegram"
    assert session.raw["sessionKey"] == "agent:main:s1"
    assert client.sessions.get("openclaw", "s2").title == "Hi"
    assert client.sessions.get("openclaw", "agent:main:s2").session_id == "s2"


def test_a_spawned_session_is_a_sub_agent_and_a_forked_one_a_fork(tmp_path: Path) -> None:
    with database(tmp_path) as connection:
        for name in ("s1", "s2", "s3"):
            add(connection, name, talk(name))
        named(connection, "s1")
        named(connection, "s2", spawned_by="agent:main:s1")
        named(connection, "s3", fork_source_session_id="s1")
    client = client_of(tmp_path)
    assert [c.session_id for c in client.sessions.get("openclaw", "s1").children] == ["s2"]
    assert client.sessions.get("openclaw", "s3").forked_from == "s1"
    assert sorted(s.session_id for s in client.sessions.list("openclaw")) == ["s1", "s3"]


@pytest.mark.parametrize(
    ("reason", "kind"),
    [("compaction", "continuation"), ("rewind", "fork"), ("reset", "session"), (None, "session")],
)
def test_why_a_session_took_over_says_what_it_is(
    tmp_path: Path, reason: str | None, kind: str
) -> None:
    with database(tmp_path) as connection:
        add(connection, "s1", talk("s1"))
        add(connection, "s2", talk("s2"))
        row = {"session_id": "s2", "previous_session_id": "s1", "reason": reason}
        insert(connection, "session_windows", **row)
    session = client_of(tmp_path).sessions.get("openclaw", "s2")
    assert (session.kind, session.parent) == (kind, None if kind == "session" else "s1")


def test_the_noted_leaf_chooses_the_branch(tmp_path: Path) -> None:
    lines = [*talk("s1"), user("u2", "u-s1", 5, "Elsewhere"), reply("a2", "u2", 6)]
    with database(tmp_path) as connection:
        add(connection, "s1", lines)
        state = {"session_id": "s1", "leaf_event_id": "a-s1", "needs_rebuild": 0}
        insert(connection, "session_transcript_index_state", **state)
    assert texts(read_one(tmp_path)) == ["Hi", "Yes."]
    with database(tmp_path) as connection:
        connection.execute("UPDATE session_transcript_index_state SET needs_rebuild = 1")
    assert texts(read_one(tmp_path)) == ["Hi", "Elsewhere", "Yes."]


def test_an_archive_comes_before_what_followed_the_reset(tmp_path: Path) -> None:
    old = "\n".join(map(json.dumps, talk("s1", "Before"))).encode()
    packed = zstandard.ZstdCompressor().compress(old)
    archive = {"generation": "g", "reason": "reset", "encoding": "zstd", "created_at": 1}
    with database(tmp_path) as connection:
        for name, blob in (("s1", packed), ("gone", old)):
            row = {"session_id": name, "archive_blob": blob, **archive}
            insert(connection, "session_transcript_archives", **row)
        after = [user("u9", None, 8, "After"), reply("a9", "u9", 9)]
        add(connection, "s1", [header("s1"), *after])
    client = client_of(tmp_path)
    session = client.sessions.get("openclaw", "s1")
    assert (session.title, session.archived, len(session.calls)) == ("After", False, 2)
    assert client.sessions.get("openclaw", "gone").archived
    assert [s.session_id for s in client.sessions.list("openclaw")] == ["s1"]


def test_without_a_decoder_the_place_of_long_events_is_still_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = talk("s1")
    packed = zstandard.ZstdCompressor().compress(json.dumps(lines[2]).encode())
    known = {"type": "message", "id": "a-s1", "parentId": "u-s1", "message": {"role": "assistant"}}
    with database(tmp_path) as connection:
        add(connection, "s1", lines[:2])
        navigation = json.dumps({"version": 1, "navigation": known})
        row = {"session_id": "s1", "seq": 2, "event_zstd": packed, "navigation_json": navigation}
        insert(connection, "transcript_events", **row)
    assert texts(read_one(tmp_path)) == ["Hi", "Yes."]
    monkeypatch.setitem(sys.modules, "zstandard", None)
    reading = read_one(tmp_path)
    assert [(m.role, m.content) for m in reading.messages] == [("user", "Hi"), ("assistant", "")]
    assert [problem.code for problem in reading.problems] == ["decoder-missing"]
    assert "usage-not-recorded" in reading.facts[0].gaps


def test_missing_tables_and_columns_are_tolerated(tmp_path: Path) -> None:
    with database(tmp_path) as connection:
        for table in ("session_nodes", "session_windows", "session_transcript_archives"):
            connection.execute(f"DROP TABLE {table}")
        connection.execute("ALTER TABLE transcript_events DROP COLUMN event_zstd")
        add(connection, "s1", talk("s1"))
    assert texts(read_one(tmp_path)) == ["Hi", "Yes."]


def test_a_database_without_events_is_a_problem(tmp_path: Path) -> None:
    with database(tmp_path) as connection:
        connection.execute("DROP TABLE transcript_events")
    reading = read_one(tmp_path)
    assert [problem.code for problem in reading.problems] == ["unknown-format"]
    assert reading.facts == []


def test_rows_that_are_only_in_the_log_are_seen_and_nothing_is_touched(tmp_path: Path) -> None:
    live, killed = tmp_path / "live", tmp_path / "killed"
    with database(live) as connection:
        connection.execute("PRAGMA journal_mode = wal")
        add(connection, "s1", talk("s1"))
        connection.commit()
        assert texts(read_one(live)) == ["Hi", "Yes."]
        shutil.copytree(live, killed)
    (killed / PLACE).with_name(f"{PLACE.name}-shm").unlink()
    before = fingerprint(killed)
    assert texts(read_one(killed)) == ["Hi", "Yes."]
    assert fingerprint(killed) == before


def statements_for(home: Path, sessions: int, monkeypatch: pytest.MonkeyPatch) -> int:
    with database(home) as connection:
        for number in range(sessions):
            add(connection, f"s{number}", talk(f"s{number}"))
            named(connection, f"s{number}")
    statements: list[str] = []
    connect = sqlite3.connect

    def traced(*args: Any, **more: Any) -> sqlite3.Connection:
        connection = connect(*args, **more)
        connection.set_trace_callback(statements.append)
        return connection

    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", traced)
        [source] = sources_of(ADAPTER, home)
        facts = [i for i in ADAPTER.read(source, want="facts") if isinstance(i, Facts)]
    assert len(facts) == sessions
    return len(statements)


def test_the_number_of_statements_does_not_grow_with_the_sessions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = statements_for(tmp_path / "one", 1, monkeypatch)
    assert statements_for(tmp_path / "many", 40, monkeypatch) == one


def test_events_without_a_session_or_content_are_problems(tmp_path: Path) -> None:
    with database(tmp_path) as connection:
        add(connection, "s1", talk("s1"))
        insert(connection, "transcript_events", session_id="s1", seq=9)
        insert(connection, "transcript_events", session_id=None, seq=1, event_json="{}")
    reading = read_one(tmp_path)
    assert texts(reading) == ["Hi", "Yes."]
    assert [problem.message for problem in reading.problems] == [
        "an event has no content",
        "some events have no session id",
    ]


CELLS = st.none() | st.integers(-(2**62), 2**62) | st.floats() | st.text() | st.binary()
CHANGED = {
    "session_nodes": ("session_key", "current_session_id", "entry_json", "label", "spawned_by"),
    "session_windows": ("session_id", "session_key", "reason", "channel"),
    "transcript_events": ("event_json", "event_zstd", "navigation_json"),
    "session_transcript_index_state": ("leaf_event_id", "needs_rebuild"),
    "session_transcript_archives": ("session_id", "archive_blob"),
}
COLUMNS = [(table, name) for table, names in CHANGED.items() for name in names]


@drawn(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(column=st.sampled_from(COLUMNS), value=CELLS)
def test_any_cell_may_hold_anything(tmp_path: Path, column: tuple[str, str], value: Any) -> None:
    (tmp_path / PLACE).unlink(missing_ok=True)
    table, name = column
    with database(tmp_path) as connection:
        for session_id in ("bad", "good"):
            add(connection, session_id, talk(session_id))
            named(connection, session_id, label="x", spawned_by=None)
            state = {"session_id": session_id, "needs_rebuild": 0}
            insert(connection, "session_transcript_index_state", **state)
            archive = {"session_id": session_id, "archive_blob": b"{}", "created_at": "x"}
            insert(connection, "session_transcript_archives", **archive)
        connection.execute(f"UPDATE {table} SET {name} = ? WHERE rowid = 1", (value,))
    reading = read_one(tmp_path)
    assert [m.content for m in reading.by_session()["good"]] == ["Hi", "Yes."]
