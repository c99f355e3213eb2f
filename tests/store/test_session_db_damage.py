"""Damage costs no message: the search index is rebuilt, and the rest is said in one sentence."""

from __future__ import annotations

import logging
import os
import sqlite3
import stat
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from session_databases import OpenDB, raw, ticking_host

from amux import SessionDB, StoreError

Damage = str

FULLTEXT = ("messages_fts", "messages_fts_trigram")
DAMAGES: dict[str, list[str]] = {
    "garbled data": [f"UPDATE {table}_data SET block = x'00ff00ff00'" for table in FULLTEXT],
    "empty data": [f"DELETE FROM {table}_data" for table in FULLTEXT],
    "garbled config": [f"UPDATE {table}_config SET v = 99" for table in FULLTEXT],
    "missing data": [f"DROP TABLE {table}_data" for table in FULLTEXT],
    "missing tables": [f"DROP TABLE {table}" for table in FULLTEXT],
}


@pytest.fixture
def filled(open_db: OpenDB) -> Path:
    """The path of a database with two messages, closed."""
    db = open_db()
    db.create_session("s", "cli")
    db.append_message("s", "user", "alpha 日本語テスト")
    db.append_message("s", "assistant", "beta", tool_name="grep")
    db.close()
    return db.db_path


def damage(path: Path, statements: list[str]) -> None:
    with raw(path) as connection:
        connection.execute("PRAGMA writable_schema = ON")  # as no program should
        for statement in statements:
            connection.execute(statement)


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_search_index_does_not_keep_from_writing(
    kind: str, filled: Path, open_db: OpenDB
) -> None:
    damage(filled, DAMAGES[kind])
    db = open_db()
    assert db.append_message("s", "user", "gamma") == 3
    assert [hit["id"] for hit in db.search_messages("gamma")] == [3]
    assert [hit["id"] for hit in db.search_messages("alpha")] == [1]
    assert [hit["id"] for hit in db.search_messages("日本語テ")] == [1]
    session = db.get_session("s")
    assert session is not None
    assert session["message_count"] == 3
    db.close()
    with raw(filled) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.parametrize("kind", sorted(DAMAGES.keys() - {"garbled data"}))
def test_a_damaged_search_index_is_rebuilt_by_a_search(
    kind: str, filled: Path, open_db: OpenDB
) -> None:
    damage(filled, DAMAGES[kind])
    assert [hit["id"] for hit in open_db().search_messages("alpha")] == [1]


@pytest.mark.parametrize("kind", sorted(DAMAGES.keys() - {"garbled data"}))
def test_a_damaged_search_index_of_a_read_only_database_is_not_used(
    kind: str, filled: Path
) -> None:
    damage(filled, DAMAGES[kind])
    with SessionDB(filled, read_only=True) as db:
        assert [hit["id"] for hit in db.search_messages("alpha")] == [1]


def test_damage_in_a_transaction_is_repaired_and_the_transaction_repeated(
    filled: Path, open_db: OpenDB
) -> None:
    damage(filled, DAMAGES["garbled data"])
    db = open_db()
    with pytest.raises(StoreError) as caught, db.transaction():
        db.append_message("s", "user", "gamma")
    assert caught.value.recoverable
    assert caught.value.hint == "repeat the transaction"
    assert db.message_count() == 2
    with db.transaction():
        db.append_message("s", "user", "gamma")
    assert len(db.search_messages("gamma")) == 1


def test_the_search_index_can_be_rebuilt_and_optimized(filled: Path, open_db: OpenDB) -> None:
    with raw(filled) as connection:
        connection.execute("DELETE FROM messages_fts")
    db = open_db()
    assert db.search_messages("alpha") == []
    assert db.rebuild_fts() == 2
    assert len(db.search_messages("alpha")) == 1
    assert db.optimize_fts() == 2
    db.vacuum()
    assert len(db.search_messages("alpha")) == 1


def test_a_schema_that_cannot_be_read_is_repaired_after_a_copy(
    filled: Path, open_db: OpenDB, caplog: pytest.LogCaptureFixture
) -> None:
    columns = "type, name, tbl_name, rootpage, sql"
    doubled = f"SELECT {columns} FROM sqlite_master WHERE name = 'messages_fts_trigram_data'"
    damage(filled, [f"INSERT INTO sqlite_master({columns}) {doubled}"])
    with pytest.raises(sqlite3.DatabaseError, match="malformed"), raw(filled) as connection:
        connection.execute("SELECT * FROM sessions").fetchall()
    damaged = filled.read_bytes()
    db = open_db()
    assert [row["content"] for row in db.get_messages("s")] == ["alpha 日本語テスト", "beta"]
    assert db.append_message("s", "user", "gamma") == 3
    assert [hit["id"] for hit in db.search_messages("日本語テ")] == [1]
    (copy,) = filled.parent.glob("state.db.damaged-*")
    assert copy.name == "state.db.damaged-20250615T150641Z"
    assert copy.read_bytes() == damaged
    assert f"{filled} was damaged and is repaired; {copy} is a copy" in caplog.messages
    db.close()
    with raw(filled) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_schema_beyond_repair_is_left_alone(filled: Path, tmp_path: Path) -> None:
    damage(filled, ["UPDATE sqlite_master SET sql = 'CREATE TABLE (' WHERE name = 'sessions'"])
    before = filled.read_bytes()
    with pytest.raises(StoreError) as caught:
        SessionDB(filled, host=ticking_host(tmp_path))
    assert caught.value.message.startswith(f"`{filled}` is damaged beyond repair: ")
    assert filled.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["state.db"]


@pytest.mark.parametrize("size", [0, 60, 4096])
def test_a_truncated_file_is_an_empty_database_or_an_error(
    size: int, filled: Path, tmp_path: Path
) -> None:
    os.truncate(filled, size)
    try:
        with SessionDB(filled, host=ticking_host(tmp_path)) as db:
            assert db.session_count() == 0
            assert size == 0
    except StoreError:
        assert size > 0


class WithoutModules(sqlite3.Connection):
    """A connection of an SQLite library without full-text search."""

    missing = "no such module: fts5"
    needle = "fts5"

    def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
        is_create = "CREATE VIRTUAL TABLE" in sql and self.needle in sql
        if is_create or (self.needle == "fts5" and "FROM messages_fts" in sql):
            raise sqlite3.OperationalError(self.missing)
        return super().execute(sql, *arguments)


class WithoutTrigrams(WithoutModules):
    """A connection of an SQLite library that has no trigrams."""

    missing = "no such tokenizer: trigram"
    needle = "trigram"


class WithoutLog(sqlite3.Connection):
    """A connection on a file system that cannot share memory."""

    def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
        if sql == "PRAGMA journal_mode = WAL":
            raise sqlite3.OperationalError("locking protocol")
        return super().execute(sql, *arguments)


def use(monkeypatch: pytest.MonkeyPatch, factory: type[sqlite3.Connection]) -> None:
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=factory))


def test_without_full_text_search_the_messages_are_read(
    open_db: OpenDB, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patch:
        use(patch, WithoutModules)
        db = open_db()
        db.create_session("s", "cli")
        db.append_message("s", "user", "alpha_beta 100% 日本")
        db.append_message("s", "user", "alphaXbeta")
        assert [hit["id"] for hit in db.search_messages("alpha_beta")] == [1]
        assert [hit["id"] for hit in db.search_messages("日本")] == [1]
        assert [hit["id"] for hit in db.search_messages("alpha")] == [2, 1]
        assert [hit["id"] for hit in db.search_messages("alpha", sort="oldest")] == [1, 2]
        assert db.optimize_fts() == 0
        assert db.rebuild_fts() == 0
        db.close()
    (warning,) = caplog.messages
    assert warning == (
        f"{db.db_path}: this SQLite library cannot use messages_fts and messages_fts_trigram; "
        "searches that need it read every message"
    )
    db = open_db()  # with a library that has it
    assert [hit["snippet"] for hit in db.search_messages("alphaXbeta")] == [">>>alphaXbeta<<<  "]


def test_a_library_without_the_module_writes_to_a_database_that_uses_it(
    filled: Path, open_db: OpenDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        use(patch, WithoutModules)
        db = open_db()
        db.append_message("s", "user", "gamma")
        db.close()
    assert [hit["id"] for hit in open_db().search_messages("gamma")] == [3]


def test_without_trigrams_short_and_long_words_are_read(
    open_db: OpenDB, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    use(monkeypatch, WithoutTrigrams)
    db = open_db()
    db.create_session("s", "cli")
    db.append_message("s", "user", "alpha 日本語テスト")
    assert [hit["snippet"] for hit in db.search_messages("alpha")] == [">>>alpha<<< 日本語テスト  "]
    assert [hit["id"] for hit in db.search_messages("日本語テ")] == [1]
    (warning,) = caplog.messages
    assert "cannot use messages_fts_trigram;" in warning


def test_without_a_log_a_rollback_journal_is_used(
    open_db: OpenDB, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    use(monkeypatch, WithoutLog)
    db = open_db()
    db.create_session("s", "cli")
    with raw(db.db_path) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_a_database_that_has_a_log_is_not_switched_back(
    filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, WithoutLog)
    with pytest.raises(StoreError, match="uses write-ahead logging") as caught:
        SessionDB(filled)
    assert caught.value.hint
    monkeypatch.undo()
    with raw(filled) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_the_files_are_private(open_db: OpenDB, tmp_path: Path) -> None:
    db = open_db("below/this/state.db")
    db.create_session("s", "cli")
    modes = {
        path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "below").rglob("*")
    }
    assert modes == {
        "this": 0o700,
        "state.db": 0o600,
        "state.db-wal": 0o600,
        "state.db-shm": 0o600,
    }


def test_the_default_file_is_in_our_data_directory(tmp_path: Path) -> None:
    with SessionDB(host=ticking_host(tmp_path)) as db:
        assert db.db_path == tmp_path / ".local" / "share" / "amux" / "state.db"


def test_a_missing_file_is_not_created_read_only(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be opened"):
        SessionDB(tmp_path / "missing.db", read_only=True)
    assert [*tmp_path.iterdir()] == []


def test_a_folder_in_which_nothing_can_be_created_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be opened"):
        SessionDB(tmp_path / "file" / "state.db")


@pytest.mark.parametrize("kind", ["empty data", "missing tables"])
@pytest.mark.parametrize("read_only", [False, True])
def test_damage_that_appears_later_is_noticed_by_a_search(
    filled: Path, read_only: bool, kind: str
) -> None:
    with SessionDB(filled, read_only=read_only) as db:
        assert len(db.search_messages("alpha")) == 1
        damage(filled, DAMAGES[kind])
        assert [hit["id"] for hit in db.search_messages("alpha")] == [1]
        assert [hit["id"] for hit in db.search_messages("日本語テ")] == [1]


def test_damage_ends_a_transaction_whose_error_is_caught(filled: Path, open_db: OpenDB) -> None:
    db = open_db()
    damage(filled, DAMAGES["garbled data"])
    with pytest.raises(StoreError, match="was undone after an error"), db.transaction():  # noqa: PT012
        with pytest.raises(StoreError):
            db.append_message("s", "user", "gamma")
        db.append_message("s", "user", "delta")
    assert db.message_count() == 2


def test_values_that_another_program_damaged_are_returned_as_they_are(
    filled: Path, open_db: OpenDB
) -> None:
    with raw(filled) as connection:
        connection.execute("UPDATE messages SET content = ? WHERE id = 1", ("\x00json:[broken",))
        connection.execute("UPDATE messages SET tool_calls = '[broken' WHERE id = 2")
        connection.execute("UPDATE sessions SET model_config = '[broken'")
    first, second = open_db().get_messages("s")
    assert (first["content"], second["tool_calls"]) == ("\x00json:[broken", "[broken")


def test_a_vacuum_is_refused_inside_a_transaction(filled: Path, open_db: OpenDB) -> None:
    db = open_db()
    with pytest.raises(StoreError, match="not possible inside a transaction"), db.transaction():
        db.vacuum()
