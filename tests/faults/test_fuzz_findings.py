"""Regression tests for inputs that fuzzing found, each reduced to the smallest that failed."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from amux.adapters import load_builtin
from amux.testing.reading import Reading, read_source, sources_of


def readings(agent: str, home: Path) -> dict[str, Reading]:
    """The only source of a home, read in every way."""
    adapter = load_builtin(agent)
    assert adapter is not None
    [source] = sources_of(adapter, home)
    return {
        "facts": read_source(adapter, source, "facts"),
        "texts": read_source(adapter, source, "texts"),
        "all": read_source(adapter, source, "all"),
    }


def write_log(path: Path, *lines: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_time_larger_than_any_float_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / ".claude/projects/-src/00000000-0000-4000-8000-000000000001.jsonl"
    said = {"type": "user", "uuid": "u1", "message": {"role": "user", "content": "Hi"}}
    write_log(path, {**said, "timestamp": 10**400})
    reading = readings("claude", tmp_path)["all"]
    assert [message.content for message in reading.messages] == ["Hi"]
    assert reading.facts[0].created_at is None


def test_a_session_whose_id_is_not_valid_text_is_listed_with_and_without_bodies(
    tmp_path: Path,
) -> None:
    path = tmp_path / ".hermes/state.db"
    path.parent.mkdir()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(
            """CREATE TABLE sessions (id, title);
            CREATE TABLE messages (session_id, role, content);
            INSERT INTO sessions VALUES (CAST(x'61FF' AS TEXT), 'broken'), ('b', 'whole');
            INSERT INTO messages VALUES ('b', 'user', 'neighbour');"""
        )
    found = readings("hermes", tmp_path)
    assert [facts.name for facts in found["facts"].facts] == ["broken", "whole"]
    assert found["all"].facts == found["texts"].facts == found["facts"].facts
    assert [problem.code for problem in found["all"].problems] == ["bad-record"]
    assert [message.content for message in found["all"].messages] == ["neighbour"]


def test_a_sub_agent_with_a_name_too_long_for_a_file_has_no_file(tmp_path: Path) -> None:
    session_id = "11111111-2222-4333-8444-555555555555"
    event = {"event.name": "qwen-code.api_response", "subagent_id": "x" * 5000}
    event |= {"input_token_count": 7, "output_token_count": 3, "model": "m"}
    said = {"type": "user", "message": {"role": "user", "parts": [{"text": "Hi"}]}}
    shared = {"sessionId": session_id, "timestamp": "2026-01-01T00:00:00Z"}
    write_log(
        tmp_path / f".qwen/projects/-src/chats/{session_id}.jsonl",
        {"uuid": "1", "parentUuid": None, **shared, **said},
        {
            "uuid": "2",
            "parentUuid": "1",
            "type": "system",
            "subtype": "ui_telemetry",
            "systemPayload": {"uiEvent": event},
            **shared,
        },
    )
    reading = readings("qwen", tmp_path)["all"]
    assert [message.content for message in reading.messages] == ["Hi"]
    assert [call.tokens.input for facts in reading.facts for call in facts.calls] == [7]


def test_a_damaged_schema_that_is_not_even_text_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / ".local/share/opencode/opencode.db"
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE session (id)")
    damaged = (
        path.read_bytes().replace(b"tablesession", b"table\xffession").replace(b"(id)", b"(id(")
    )
    path.write_bytes(damaged)
    reading = readings("opencode", tmp_path)["all"]
    assert [problem.code for problem in reading.problems] == ["unknown-format"]


def test_a_later_header_does_not_change_the_id_of_a_chat(tmp_path: Path) -> None:
    head = {"sessionId": "2c3b37e6-d068-4bb6-bd93-a5679dbef71d", "projectHash": "h"}
    said = {"id": "u", "timestamp": "2026-11-15T20:25:59Z", "type": "user", "content": "Hi"}
    path = tmp_path / ".gemini/tmp/p/chats/session-2026-11-15T20-25-2c3b37e6.jsonl"
    write_log(path, head, said, {**head, "kind": "subagent"}, {**said, "id": "v"})
    found = readings("gemini", tmp_path)
    assert [facts.session_id for facts in found["facts"].facts] == [head["sessionId"]]
    assert found["all"].facts == found["texts"].facts == found["facts"].facts
