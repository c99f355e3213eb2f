"""A database of any earlier version is upgraded on opening, and loses nothing."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st
from session_databases import OpenDB, create_old, raw, ticking_host

from amux import SessionDB, StoreError
from amux.store.session_db import schema

VERSIONS = range(1, 12)
DOCUMENTED_STEPS = {
    2: {"messages": {"finish_reason"}},
    3: {"sessions": {"title"}},
    5: {
        "sessions": {
            *("cache_read_tokens", "cache_write_tokens", "reasoning_tokens", "billing_provider"),
            *("billing_base_url", "billing_mode", "estimated_cost_usd", "actual_cost_usd"),
            *("cost_status", "cost_source", "pricing_version"),
        }
    },
    6: {"messages": {"reasoning", "reasoning_details", "codex_reasoning_items"}},
    7: {"messages": {"reasoning_content"}},
    8: {"sessions": {"api_call_count"}},
    9: {"messages": {"codex_message_items"}},
}
_INSERT_MESSAGE = (
    "INSERT INTO messages(session_id, role, content, tool_name, timestamp) VALUES (?, ?, ?, ?, ?)"
)
REAL = Path(__file__).parent.parent / "captures" / "hermes-oracle" / "0.13.0" / "state.db"


def old_rows(version: int, count: int = 3) -> list[tuple[str, tuple[object, ...]]]:
    """Sessions with messages, as the columns of a version hold them."""
    rows: list[tuple[str, tuple[object, ...]]] = []
    for number in range(count):
        name = f"s{number}"
        rows.append(
            (
                "INSERT INTO sessions(id, source, started_at, message_count) VALUES (?, ?, ?, 2)",
                (name, "cli", 1000.0 + number),
            )
        )
        prompt = f"docker 日本語テスト {number}"
        rows.append((_INSERT_MESSAGE, (name, "user", prompt, None, 1000.5 + number)))
        rows.append((_INSERT_MESSAGE, (name, "tool", None, f"grep_{number}", 1000.7 + number)))
        if version >= 3:
            rows.append(("UPDATE sessions SET title = ? WHERE id = ?", (f"T{number}", name)))
    return rows


def content(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of the two tables, in the columns of the first version."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    with raw(path) as connection:
        for table in (schema.SESSIONS, schema.MESSAGES):
            names = ", ".join(column.name for column in table.columns if column.since == 1)
            query = f"SELECT {names} FROM {table.name} ORDER BY rowid"
            found[table.name] = connection.execute(query).fetchall()
    return found


def columns(path: Path, table: str) -> set[str]:
    with raw(path) as connection:
        return {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_version_adds_the_documented_columns(version: int, tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    create_old(path, version, [])
    for table in ("sessions", "messages"):
        added = {
            name
            for step, tables in DOCUMENTED_STEPS.items()
            for name in tables.get(table, ())
            if step > version
        }
        documented = {
            column.name for each in schema.TABLES for column in each.columns if each.name == table
        } - {"cwd", "rewind_count", "archived", "active", "compacted"}
        assert columns(path, table) == documented - added


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_is_upgraded_with_all_rows(
    version: int, tmp_path: Path, open_db: OpenDB
) -> None:
    path = tmp_path / "old.db"
    create_old(path, version, old_rows(version))
    before = content(path)
    db = open_db("old.db")
    assert content(path) == before
    with raw(path) as connection:
        assert connection.execute("SELECT version FROM schema_version").fetchall() == [(11,)]
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert {hit["id"] for hit in db.search_messages("docker")} == {1, 3, 5}
    assert [hit["id"] for hit in db.search_messages("grep_1")] == [4]
    assert {hit["id"] for hit in db.search_messages("日本語テ")} == {1, 3, 5}
    assert db.append_message("s0", "user", "after the upgrade") == 7
    db.update_token_counts("s0", cache_read_tokens=3, api_call_count=1)
    assert [hit["id"] for hit in db.search_messages("upgrade")] == [7]
    if version >= 3:
        assert db.resolve_session_by_title("T2") == "s2"


@drawn(40)
@given(
    version=st.integers(1, 10),
    texts=st.lists(st.text(st.characters(codec="utf-8"), max_size=40), max_size=6),
)
def test_an_upgrade_keeps_any_text(
    tmp_path_factory: pytest.TempPathFactory, version: int, texts: list[str]
) -> None:
    path = tmp_path_factory.mktemp("upgrade") / "old.db"
    create_old(
        path,
        version,
        [
            ("INSERT INTO sessions(id, source, started_at) VALUES ('s', 'cli', 1.0)", ()),
            *((_INSERT_MESSAGE, ("s", "user", text, None, 1.0)) for text in texts),
        ],
    )
    before = content(path)
    with SessionDB(path, host=ticking_host(path.parent)) as db:
        assert db.message_count("s") == len(texts)
    assert content(path) == before


def test_opening_twice_changes_nothing(tmp_path: Path, open_db: OpenDB) -> None:
    create_old(tmp_path / "old.db", 7, old_rows(7))
    open_db("old.db").close()
    with raw(tmp_path / "old.db") as connection:
        before = [*connection.iterdump()]
        first = connection.execute("PRAGMA schema_version").fetchone()
    open_db("old.db").close()
    with raw(tmp_path / "old.db") as connection:
        assert [*connection.iterdump()] == before
        assert connection.execute("PRAGMA schema_version").fetchone() == first


def test_a_current_database_is_opened_without_a_write(
    open_db: OpenDB, statements: list[str]
) -> None:
    open_db().close()
    statements.clear()
    open_db()
    assert [each for each in statements if each.startswith(("CREATE", "ALTER", "BEGIN IMM"))] == []


def test_doubled_titles_are_numbered(tmp_path: Path, open_db: OpenDB) -> None:
    rows = old_rows(3, count=4)
    rows += [("UPDATE sessions SET title = 'X'", ())]
    create_old(tmp_path / "old.db", 3, rows)
    db = open_db("old.db")
    titles = {row["id"]: row["title"] for row in db.search_sessions()}
    assert titles == {"s0": "X", "s1": "X #2", "s2": "X #3", "s3": "X #4"}


def test_an_upgrade_that_was_interrupted_goes_on(tmp_path: Path, open_db: OpenDB) -> None:
    path = tmp_path / "old.db"
    create_old(path, 10, old_rows(10))
    with raw(path) as connection:  # as if step 11 had been undone after others had succeeded
        connection.execute("UPDATE schema_version SET version = 4")
    db = open_db("old.db")
    assert len(db.search_messages("docker")) == 3


def test_a_creation_that_recorded_no_version_goes_on(tmp_path: Path, open_db: OpenDB) -> None:
    path = tmp_path / "old.db"
    create_old(path, 11, old_rows(11))
    with raw(path) as connection:
        connection.execute("DELETE FROM schema_version")
    db = open_db("old.db")
    assert db.message_count() == 6
    with raw(path) as connection:
        assert connection.execute("SELECT version FROM schema_version").fetchall() == [(11,)]


def test_a_database_of_the_real_class_is_opened(tmp_path: Path, open_db: OpenDB) -> None:
    path = tmp_path / "real.db"
    shutil.copy(REAL, path)
    before = content(path)
    db = open_db("real.db")
    assert content(path) == before
    assert db.session_count() == len(before["sessions"]) == 10
    assert [hit["id"] for hit in db.search_messages("docker compose")] == [2]
    assert db.get_messages("s2")[2]["content"][0]["text"] == "look at this picture of a llama"
    db.append_message("s1", "user", "one more")
    session = db.get_session("s1")
    assert session is not None
    assert session["handoff_state"] is None  # a column of the other program stays


@pytest.mark.parametrize("version", [12, 22, -1])
def test_a_later_version_is_refused_in_one_sentence(version: int, tmp_path: Path) -> None:
    path = tmp_path / "later.db"
    create_old(path, 11, old_rows(11))
    with raw(path) as connection:
        connection.execute("UPDATE schema_version SET version = ?", (version,))
    before = path.read_bytes()
    with pytest.raises(StoreError) as caught:
        SessionDB(path)
    assert caught.value.code == "STORE_ERROR"
    assert caught.value.message == (
        f"`{path}` has schema version {version}, and this version of amux knows versions up to 11"
    )
    assert path.read_bytes() == before


@pytest.mark.parametrize("versions", [[3, 4], ["x"]])
def test_an_unusable_version_table_is_refused(versions: list[object], tmp_path: Path) -> None:
    path = tmp_path / "odd.db"
    create_old(path, 11, [])
    with raw(path) as connection:
        connection.execute("DELETE FROM schema_version")
        for version in versions:
            connection.execute("INSERT INTO schema_version(version) VALUES (?)", (version,))
    with pytest.raises(StoreError, match="schema version None"):
        SessionDB(path)


def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with raw(path) as connection:
        connection.execute("CREATE TABLE sessions (id TEXT PRIMARY KEY, name TEXT)")
    before = path.read_bytes()
    with pytest.raises(StoreError) as caught:
        SessionDB(path)
    assert caught.value.message == f"`{path}` is a database of another program"
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["other.db"]


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("no database at all, but long enough to have a header\n" * 100)
    before = path.read_bytes()
    with pytest.raises(StoreError) as caught:
        SessionDB(path)
    assert caught.value.message == f"`{path}` cannot be used: file is not a database"
    assert path.read_bytes() == before


def test_an_old_database_is_not_opened_read_only(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    create_old(path, 7, old_rows(7))
    with pytest.raises(StoreError) as caught:
        SessionDB(path, read_only=True)
    assert caught.value.message == f"`{path}` has schema version 7 and is opened read-only"
    assert caught.value.hint == "open it once for writing: that upgrades it to 11"


def test_a_read_only_database_answers_and_refuses_writes(open_db: OpenDB) -> None:
    db = open_db()
    db.create_session("s", "cli")
    db.append_message("s", "user", "some text")
    with SessionDB(db.db_path, read_only=True) as reader:
        assert len(reader.search_messages("text")) == 1
        with pytest.raises(StoreError, match="readonly"):
            reader.create_session("t", "cli")
    assert db.session_count() == 1


def test_the_documented_history_of_the_full_text_tables(tmp_path: Path) -> None:
    declared: dict[int, dict[str, str]] = {}
    for version in VERSIONS:
        path = tmp_path / f"{version}.db"
        create_old(path, version, [])
        with raw(path) as connection:
            rows = connection.execute(
                "SELECT name, sql FROM sqlite_master WHERE sql LIKE 'CREATE VIRTUAL%'"
            )
            declared[version] = dict(rows.fetchall())
    assert [{*tables} for tables in declared.values()] == [{"messages_fts"}] * 9 + [
        {"messages_fts", "messages_fts_trigram"}
    ] * 2
    external = ["content=messages" in tables["messages_fts"] for tables in declared.values()]
    assert external == [True] * 10 + [False]


def test_an_external_content_table_is_kept_in_step(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    create_old(path, 10, old_rows(10))
    with raw(path) as connection:
        connection.execute("DELETE FROM messages WHERE id = 1")
        connection.execute("UPDATE messages SET content = 'other' WHERE id = 3")
        found = connection.execute(
            "SELECT rowid FROM messages_fts WHERE messages_fts MATCH 'docker'"
        )
        assert found.fetchall() == [(5,)]
        with pytest.raises(sqlite3.OperationalError):
            connection.execute("SELECT active FROM messages")
