"""`amux store import` of databases of agent frameworks, without the frameworks."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from cli_process import Cli, copied_home


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(copied_home(tmp_path))


def openai_database(path: Path) -> Path:
    """Write a file with the tables that the OpenAI Agents SDK 0.24 makes."""
    with sqlite3.connect(path) as connection:
        connection.executescript(
            "CREATE TABLE agent_sessions (session_id TEXT PRIMARY KEY, created_at TIMESTAMP, "
            "updated_at TIMESTAMP); CREATE TABLE agent_messages (id INTEGER PRIMARY KEY, "
            "session_id TEXT, message_data TEXT, created_at TIMESTAMP)"
        )
        for text in ("Why is the sky blue?", "Because of Rayleigh."):
            item = json.dumps({"role": "user", "content": text})
            connection.execute(
                "INSERT INTO agent_messages (session_id, message_data, created_at) "
                "VALUES ('sky', ?, '2026-02-03 04:05:06')",
                (item,),
            )
        connection.execute(
            "INSERT INTO agent_messages (session_id, message_data) VALUES ('torn', '{')"
        )
    return path


def test_a_database_is_imported_with_a_report(cli: Cli, tmp_path: Path) -> None:
    path = openai_database(tmp_path / "chats.db")
    done = cli("store", "import", str(path))
    assert done.code == 0
    ids = done.out.split()
    assert len(ids) == 2
    assert "note: openai-agents: 2 sessions with 2 records imported" in done.err
    assert "item 1 of session `torn` is not a JSON object" in done.err
    (hit,) = cli("search", "rayleigh", "--json").json()
    assert hit["sessionId"] in ids
    (again,) = cli("store", "import", str(path), "--json").json()
    assert (again["framework"], again["skipped"]) == ("openai-agents", ["sky", "torn"])
    shown = cli("show", f"amux:{ids[0]}", "--json").json()
    assert shown["createdAt"] == "2026-02-03T04:05:06Z"


def test_checkpoints_need_langgraph(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "graph.db"
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE TABLE checkpoints (thread_id, checkpoint_ns, checkpoint_id, checkpoint)"
        )
    refused = cli("store", "import", str(path))
    assert refused.code == 1
    assert "without the package `lang" in refused.err
    assert 'hint: pip install "agent-mux[langgraph]"' in refused.err


def test_pickled_events_are_never_loaded(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "adk.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(
            "CREATE TABLE sessions (app_name, user_id, id, state, create_time, update_time); "
            "CREATE TABLE events (app_name, user_id, session_id, id, timestamp, actions BLOB)"
        )
    refused = cli("store", "import", str(path))
    assert refused.code == 2
    assert "pickled Python objects, which amux never loads" in refused.err


def test_a_database_without_sessions_is_refused(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE notes (text)")
    assert cli("store", "import", str(path)).code == 2
