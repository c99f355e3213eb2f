"""Several processes write to one session database: none fails, and no message is lost."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from child_processes import child_env
from in_threads import PATIENCE_S, at_once
from session_databases import (
    NoPauses,
    OpenDB,
    Ticks,
    create_old,
    raw,
    ticking_host,
)

from amux import SessionDB, SessionNotFoundError, StoreBusyError, StoreError
from amux.store.session_db import connection as recipe

WRITER = Path(__file__).parent / "session_db_writer.py"


def start_writer(path: Path, name: str, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(WRITER), str(path), name, str(count)],
        env=child_env(HOME=str(path.parent)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def write_at_once(path: Path, processes: int, count: int) -> None:
    """Let processes write at the same time, and check that everything is there."""
    writers = [start_writer(path, f"writer-{number}", count) for number in range(processes)]
    for writer in writers:
        output, errors = writer.communicate(timeout=PATIENCE_S * 5)
        assert (writer.returncode, errors) == (0, "")
        assert len(output.splitlines()) == count
    with SessionDB(path, read_only=True) as db:
        assert db.message_count() == processes * count
        for number in range(processes):
            name = f"writer-{number}"
            stored = [row["content"] for row in db.get_messages(name)]
            assert stored == [f"message {each} of {name}" for each in range(count)]
            session = db.get_session(name)
            assert session is not None
            assert session["message_count"] == count
            assert len(db.search_messages(f'"{name}"', limit=count * 2)) == count


def test_the_recipe_is_the_documented_one() -> None:
    assert recipe.BUSY_TIMEOUT_S == 1.0
    assert recipe.WRITE_TRIES == 15
    assert (recipe.RETRY_MIN_S, recipe.RETRY_MAX_S) == (0.020, 0.150)
    assert recipe.CHECKPOINT_EVERY == 50


def test_processes_write_at_once(tmp_path: Path) -> None:
    write_at_once(tmp_path / "state.db", processes=4, count=40)


@pytest.mark.slow
def test_eight_processes_write_five_hundred_messages_each(tmp_path: Path) -> None:
    write_at_once(tmp_path / "state.db", processes=8, count=500)


def test_processes_upgrade_at_once(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    create_old(path, 3, [])
    write_at_once(path, processes=4, count=3)


def test_threads_write_at_once(open_db: OpenDB) -> None:
    db = open_db()

    def work(number: int) -> list[int]:
        name = f"thread-{number}"
        db.create_session(name, "cli")
        return [db.append_message(name, "user", f"message {each}") for each in range(25)]

    ids = at_once([lambda number=number: work(number) for number in range(8)])
    assert sorted(each for written in ids for each in written) == [*range(1, 201)]


def test_threads_read_while_one_writes(open_db: OpenDB) -> None:
    db = open_db()
    db.create_session("s", "cli")

    def write() -> int:
        for number in range(100):
            db.append_message("s", "user", f"message {number}")
        return db.message_count("s")

    def read() -> int:
        for _ in range(50):
            found = db.get_messages("s")
            assert [row["content"] for row in found] == [
                f"message {number}" for number in range(len(found))
            ]
        return 0

    assert at_once([write, read, read]) == [100, 0, 0]


def test_a_killed_writer_leaves_a_readable_database(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    acknowledged = 0
    for round_ in range(3):
        writer = start_writer(path, f"killed-{round_}", 100_000)
        assert writer.stdout is not None
        assert writer.stderr is not None
        lines = 0
        for _ in writer.stdout:
            lines += 1
            if lines == 30 * (round_ + 1):
                writer.send_signal(signal.SIGKILL)
                break
        lines += len(writer.stdout.read().splitlines())
        writer.wait(PATIENCE_S)
        writer.stdout.close()
        writer.stderr.close()
        acknowledged += lines
        with SessionDB(path) as db:
            stored = db.message_count(f"killed-{round_}")
            assert stored in {lines, lines + 1}  # killed between storing and saying so
            session = db.get_session(f"killed-{round_}")
            assert session is not None
            assert session["message_count"] == stored
            assert db.append_message(f"killed-{round_}", "user", "after the kill") > acknowledged
        with raw(path) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_write_waits_for_another_writer_with_random_pauses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = sqlite3.connect

    def impatient(*arguments: Any, **options: Any) -> sqlite3.Connection:
        """SQLite itself does not wait: the test is about the tries."""
        return connect(*arguments, **(options | {"timeout": 0}))

    monkeypatch.setattr(sqlite3, "connect", impatient)
    path = tmp_path / "state.db"
    clock = NoPauses()
    with SessionDB(path, host=ticking_host(tmp_path, clock=clock)) as db:
        db.create_session("s", "cli")
        with raw(path) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreBusyError) as caught:
                db.append_message("s", "user", "too early")
            other.execute("ROLLBACK")
        assert db.append_message("s", "user", "in time") == 1
    assert caught.value.recoverable
    assert caught.value.code == "STORE_BUSY"
    assert caught.value.message == f"`{path}` is in use by another process"
    assert len(clock.pauses) == 14
    assert all(0.020 <= pause <= 0.150 for pause in clock.pauses)
    assert len(set(clock.pauses)) == 14


def test_the_log_is_written_back_after_fifty_writes_and_at_the_end(
    open_db: OpenDB, statements: list[str]
) -> None:
    db = open_db()
    db.create_session("s", "cli")
    statements.clear()
    for number in range(100):
        db.append_message("s", "user", f"message {number}")
    assert statements.count("PRAGMA wal_checkpoint(PASSIVE)") == 2
    db.close()
    assert statements.count("PRAGMA wal_checkpoint(TRUNCATE)") == 1
    assert [path.name for path in db.db_path.parent.iterdir()] == ["state.db"]


def test_the_search_index_is_merged_after_a_thousand_writes(
    open_db: OpenDB, statements: list[str]
) -> None:
    db = open_db()
    for number in range(1005):
        db.set_meta("number", str(number))
    merges = [each for each in statements if "'merge'" in each]
    assert len(merges) == 2  # of words and of trigrams


def test_a_transaction_stores_all_or_nothing(open_db: OpenDB) -> None:
    db = open_db()
    with db.transaction():
        for number in range(20):
            db.create_session(f"s{number}", "cli")
            db.append_messages(f"s{number}", [{"role": "user", "content": "text"}] * 3)
    assert (db.session_count(), db.message_count()) == (20, 60)
    with pytest.raises(SessionNotFoundError), db.transaction():  # noqa: PT012 - two writes
        db.create_session("t", "cli")
        db.append_message("missing", "user")
    assert db.session_count() == 20


def test_a_write_that_fails_in_a_transaction_undoes_itself_alone(open_db: OpenDB) -> None:
    db = open_db()
    with db.transaction():
        db.create_session("s", "cli")
        with pytest.raises(StoreError):
            db.append_messages("s", [{"role": "user"}, {"role": "user", "content": _Unusable()}])
        with db.transaction():  # joins the first one
            db.append_message("s", "user", "good")
    assert [row["content"] for row in db.get_messages("s")] == ["good"]


class _Unusable:
    """Content whose text cannot be had."""

    def __str__(self) -> str:
        raise sqlite3.OperationalError("no text")


def test_a_transaction_sees_its_own_writes_and_takes_one_commit(
    open_db: OpenDB, statements: list[str]
) -> None:
    db = open_db(ticks=Ticks())
    statements.clear()
    with db.transaction():
        db.create_session("s", "cli")
        assert db.session_count() == 1
        db.append_message("s", "user", "text")
        assert len(db.search_messages("text")) == 1
    assert statements.count("COMMIT") == 1


def test_a_closed_database_says_so(open_db: OpenDB) -> None:
    db = open_db()
    db.close()
    db.close()
    with pytest.raises(StoreError, match="is closed"):
        db.session_count()
