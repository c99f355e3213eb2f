"""Every sample of the specification of the session database, in its order."""

from __future__ import annotations

from typing import Any

import pytest
from session_databases import DAY_S, OpenDB, Ticks, raw

from amux import SessionDB

TABLES = {
    "sessions": (
        "id source user_id model model_config system_prompt parent_session_id started_at ended_at "
        "end_reason message_count tool_call_count input_tokens output_tokens cache_read_tokens "
        "cache_write_tokens reasoning_tokens billing_provider billing_base_url billing_mode "
        "estimated_cost_usd actual_cost_usd cost_status cost_source pricing_version title "
        "api_call_count"
    ),
    "messages": (
        "id session_id role content tool_call_id tool_calls tool_name timestamp token_count "
        "finish_reason reasoning reasoning_content reasoning_details codex_reasoning_items "
        "codex_message_items"
    ),
    "state_meta": "key value",
    "schema_version": "version",
    "messages_fts": "content",
    "messages_fts_trigram": "content",
}
INDEXES = {
    "idx_sessions_source": "sessions(source)",
    "idx_sessions_parent": "sessions(parent_session_id)",
    "idx_sessions_started": "sessions(started_at DESC)",
    "idx_sessions_title_unique": "sessions(title) WHERE title IS NOT NULL",
    "idx_messages_session": "messages(session_id, timestamp)",
}
ANCESTORS = """
WITH RECURSIVE lineage AS (
    SELECT * FROM sessions WHERE id = ?
    UNION ALL
    SELECT s.* FROM sessions s JOIN lineage l ON s.id = l.parent_session_id
)
SELECT id, title, started_at, parent_session_id FROM lineage
"""
DESCENDANTS = """
WITH RECURSIVE descendants AS (
    SELECT * FROM sessions WHERE id = ?
    UNION ALL
    SELECT s.* FROM sessions s JOIN descendants d ON s.parent_session_id = d.id
)
SELECT id, title, started_at FROM descendants
"""
RECENT = """
SELECT s.id,
    COALESCE((SELECT SUBSTR(m.content, 1, 63) FROM messages m
        WHERE m.session_id = s.id AND m.role = 'user' AND m.content IS NOT NULL
        ORDER BY m.timestamp, m.id LIMIT 1), '') AS preview,
    COALESCE((SELECT MAX(m2.timestamp) FROM messages m2 WHERE m2.session_id = s.id), s.started_at)
        AS last_active
FROM sessions s ORDER BY s.started_at DESC LIMIT 20
"""
BY_MODEL = """
SELECT model, COUNT(*), SUM(input_tokens), SUM(output_tokens), SUM(estimated_cost_usd) AS total_cost
FROM sessions WHERE model IS NOT NULL GROUP BY model ORDER BY total_cost DESC
"""
HIGHEST = """
SELECT id, title, model, input_tokens + output_tokens AS total_tokens, estimated_cost_usd
FROM sessions ORDER BY total_tokens DESC LIMIT 10
"""


@pytest.fixture
def filled(db: SessionDB) -> SessionDB:
    """A database with the session of the samples and some text to search."""
    db.create_session(
        session_id="sess_abc123",
        source="cli",
        model="anthropic/claude-sonnet-4.6",
        user_id="user_1",
        parent_session_id=None,
    )
    db.append_message("sess_abc123", "user", "help: docker deployment fails with an exact phrase")
    db.append_message(
        session_id="sess_abc123",
        role="assistant",
        content="Here's the answer...",
        tool_calls=[{"id": "call_1", "function": {"name": "terminal", "arguments": "{}"}}],
        token_count=150,
        finish_reason="stop",
        reasoning="Let me think about this...",
    )
    db.create_session("chat", "telegram", model="m2")
    db.append_message("chat", "user", "an error, a bug: deploying kubernetes with python, not java")
    db.append_message("chat", "assistant", "python error, chat-send and hello")
    return db


def found(db: SessionDB, query: str, **options: Any) -> list[int]:
    return sorted(hit["id"] for hit in db.search_messages(query, **options))


@pytest.mark.parametrize("table", TABLES)
def test_every_documented_column_is_there(db: SessionDB, table: str) -> None:
    with raw(db.db_path) as connection:
        names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    documented = TABLES[table].split()
    assert [name for name in names if name in documented] == documented


def test_the_documented_indexes_are_there(db: SessionDB) -> None:
    with raw(db.db_path) as connection:
        rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'index'")
        targets = {name: sql.partition(" ON ")[2] for name, sql in rows if sql}
    assert targets == INDEXES


def test_the_version_is_11_and_the_log_is_written_ahead(db: SessionDB) -> None:
    db.set_meta("key", "value")
    with raw(db.db_path) as connection:
        assert connection.execute("SELECT * FROM schema_version").fetchall() == [(11,)]
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    names = {path.name for path in db.db_path.parent.iterdir()}
    assert names == {"state.db", "state.db-wal", "state.db-shm"}


def test_a_session_is_created_ended_and_reopened(filled: SessionDB) -> None:
    filled.end_session("sess_abc123", end_reason="user_exit")
    ended = filled.get_session("sess_abc123")
    assert ended is not None
    assert (ended["end_reason"], ended["user_id"]) == ("user_exit", "user_1")
    assert ended["ended_at"] > ended["started_at"]
    filled.reopen_session("sess_abc123")
    reopened = filled.get_session("sess_abc123")
    assert reopened is not None
    assert (reopened["ended_at"], reopened["end_reason"]) == (None, None)


def test_a_message_is_stored_with_all_its_fields(filled: SessionDB) -> None:
    message = filled.get_messages("sess_abc123")[1]
    assert message["tool_calls"] == [
        {"id": "call_1", "function": {"name": "terminal", "arguments": "{}"}}
    ]
    assert (message["token_count"], message["finish_reason"]) == (150, "stop")
    session = filled.get_session("sess_abc123")
    assert session is not None
    assert (session["message_count"], session["tool_call_count"]) == (2, 1)
    with raw(filled.db_path) as connection:
        row = connection.execute("SELECT tool_calls, typeof(timestamp) FROM messages WHERE id = 2")
        assert row.fetchone() == (
            '[{"id": "call_1", "function": {"name": "terminal", "arguments": "{}"}}]',
            "real",
        )


def test_a_conversation_has_the_shape_of_the_api(filled: SessionDB) -> None:
    assert filled.get_messages_as_conversation("sess_abc123") == [
        {"role": "user", "content": "help: docker deployment fails with an exact phrase"},
        {
            "role": "assistant",
            "content": "Here's the answer...",
            "tool_calls": [{"id": "call_1", "function": {"name": "terminal", "arguments": "{}"}}],
            "finish_reason": "stop",
            "reasoning": "Let me think about this...",
        },
    ]


def test_titles_are_set_resolved_and_numbered(filled: SessionDB) -> None:
    filled.set_session_title("sess_abc123", "Fix Docker Build")
    assert filled.resolve_session_by_title("Fix Docker Build") == "sess_abc123"
    assert filled.get_next_title_in_lineage("Fix Docker Build") == "Fix Docker Build #2"


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("docker deployment", [1]),
        ('"exact phrase"', [1]),
        ("docker OR kubernetes", [1, 3]),
        ("python NOT java", [4]),
        ("deploy*", [1, 3]),
        ("terminal", [2]),
        ("chat-send", [4]),
        ("hello AND", [4]),
        ('"exact', [1]),
    ],
)
def test_the_query_syntax_finds(filled: SessionDB, query: str, ids: list[int]) -> None:
    assert found(filled, query) == ids


def test_a_search_is_filtered(filled: SessionDB) -> None:
    assert found(filled, "error", source_filter=["cli"]) == []
    assert found(filled, "error", source_filter=["telegram"]) == [3, 4]
    assert found(filled, "bug", exclude_sources=["telegram", "discord"]) == []
    assert found(filled, "help", role_filter=["user"]) == [1]
    assert found(filled, "python", role_filter=["assistant"]) == [4]


def test_a_result_has_a_snippet_its_neighbours_and_its_session(filled: SessionDB) -> None:
    (hit,) = filled.search_messages("phrase")
    session = filled.get_session("sess_abc123")
    assert session is not None
    assert hit == {
        "id": 1,
        "session_id": "sess_abc123",
        "role": "user",
        "timestamp": filled.get_messages("sess_abc123")[0]["timestamp"],
        "snippet": "help: docker deployment fails with an exact >>>phrase<<<  ",
        "context": [
            {"role": "user", "content": "help: docker deployment fails with an exact phrase"},
            {"role": "assistant", "content": "Here's the answer..."},
        ],
        "tool_name": None,
        "source": "cli",
        "model": "anthropic/claude-sonnet-4.6",
        "session_started": session["started_at"],
    }


def test_the_documented_queries_agree_with_the_methods(open_db: OpenDB) -> None:
    ticks = Ticks()
    db = open_db(ticks=ticks)
    for number in range(6):
        parent = f"s{number - 1}" if number else None
        db.create_session(f"s{number}", "cli", model=f"m{number % 2}", parent_session_id=parent)
        db.append_message(f"s{number}", "user", f"prompt {number} " + "x" * 80 * (number % 2))
        db.update_token_counts(
            f"s{number}",
            input_tokens=number * 10,
            output_tokens=1,
            estimated_cost_usd=number / 8,
            cost_status="estimated",
        )
    db.create_session("empty", "cli")
    with raw(db.db_path) as connection:
        line = [row[0] for row in connection.execute(ANCESTORS, ("s3",))]
        assert [row["id"] for row in db.ancestors("s3")] == line
        young = {row[0] for row in connection.execute(DESCENDANTS, ("s3",))}
        assert {row["id"] for row in db.descendants("s3")} == young
        recent = [(row["id"], row["preview"], row["last_active"]) for row in db.recent_sessions()]
        assert recent == connection.execute(RECENT).fetchall()
        usage = [tuple(row.values())[:5] for row in db.usage_by_model()]
        assert usage == connection.execute(BY_MODEL).fetchall()
        top = [tuple(row.values()) for row in db.top_sessions()]
        assert top[:6] == connection.execute(HIGHEST).fetchall()[:6]


def test_sessions_are_exported_pruned_cleared_and_deleted(open_db: OpenDB) -> None:
    ticks = Ticks()
    db = open_db(ticks=ticks)
    for name, source in (("old", "cli"), ("chat", "telegram"), ("live", "cli")):
        db.create_session(name, source)
        db.append_message(name, "user", f"text of {name}")
    db.end_session("old", "done")
    db.end_session("chat", "done")

    data = db.export_session("live")
    assert data is not None
    assert [each["content"] for each in data["messages"]] == ["text of live"]
    assert {each["id"] for each in db.export_all(source="cli")} == {"old", "live"}

    ticks.seconds += 60 * DAY_S
    assert db.prune_sessions(older_than_days=90) == 0
    assert db.prune_sessions(older_than_days=30, source="telegram") == 1
    ticks.seconds += 60 * DAY_S
    assert db.prune_sessions(older_than_days=90) == 1
    assert [row["id"] for row in db.search_sessions()] == ["live"]

    db.clear_messages("live")
    cleared = db.get_session("live")
    assert cleared is not None
    assert cleared["message_count"] == 0
    assert db.search_messages("text") == []
    assert db.delete_session("live")
    assert db.get_session("live") is None
