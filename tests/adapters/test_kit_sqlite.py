"""A foreign database is read in full and left exactly as it was."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from amux.adapters._kit.sqlite import SourceChangedError, open_foreign, read_foreign
from amux.errors import ParseError

CAPTURES = Path(__file__).parent.parent / "captures" / "codex"
CAPTURED_DATABASES = sorted(CAPTURES.rglob("*.sqlite"))

Snapshot = dict[str, tuple[bytes, int]]

WRITER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
for statement in sys.argv[2:]:
    connection.execute(statement).fetchall()
print("ready", flush=True)
for statement in sys.stdin:
    connection.execute(statement)
    print("done", flush=True)
"""
INSERT_TEN = (
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10)"
    " INSERT INTO t SELECT i, 'committed' FROM n"
)
# Enough pages that SQLite must write some of them into the database before the commit.
INSERT_MANY = (
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)"
    " INSERT INTO t SELECT i, hex(randomblob(500)) FROM n"
)
TABLE = "CREATE TABLE t (i INTEGER, text TEXT)"


@contextmanager
def writer(database: Path, *statements: str) -> Generator[subprocess.Popen[bytes]]:
    """Another process that ran the statements and keeps its connection open."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(database), *statements],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        try:
            yield process
        finally:
            process.kill()


def execute_in(process: subprocess.Popen[bytes], statement: str) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(statement.encode() + b"\n")
    process.stdin.flush()
    assert process.stdout.readline() == b"done\n"


def kill_writer(database: Path, *statements: str) -> None:
    with writer(database, *statements) as process:
        process.kill()
        process.wait()


def snapshot(folder: Path) -> Snapshot:
    return {
        entry.name: (entry.read_bytes(), entry.stat().st_mtime_ns)
        for entry in sorted(folder.iterdir())
        if entry.is_file()
    }


@contextmanager
def unchanged(folder: Path) -> Generator[None]:
    before = snapshot(folder)
    yield
    assert snapshot(folder) == before


def count(connection: sqlite3.Connection) -> int:
    rows: int = connection.execute("SELECT count(*) FROM t").fetchone()[0]
    return rows


def distinct_texts(connection: sqlite3.Connection) -> int:
    found: int = connection.execute("SELECT count(DISTINCT text) FROM t").fetchone()[0]
    return found


@pytest.fixture
def database(tmp_path: Path) -> Path:
    folder = tmp_path / "agent"
    folder.mkdir()
    return folder / "state.db"


def write_clean(database: Path, mode: str = "WAL") -> None:
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA journal_mode = {mode}")
        connection.execute(TABLE)
        connection.execute(INSERT_TEN)


@pytest.mark.parametrize("mode", ["WAL", "DELETE"])
def test_a_cleanly_closed_database_is_read(database: Path, mode: str) -> None:
    write_clean(database, mode)
    with unchanged(database.parent):
        assert read_foreign(database, count) == 10
    assert [entry.name for entry in database.parent.iterdir()] == ["state.db"]


def test_an_empty_wal_is_ignored(database: Path) -> None:
    write_clean(database)
    database.with_name("state.db-wal").touch()
    with unchanged(database.parent):
        assert read_foreign(database, count) == 10


def test_a_live_writer_with_an_open_transaction_is_read_up_to_its_last_commit(
    database: Path,
) -> None:
    statements = ("PRAGMA journal_mode = WAL", TABLE, INSERT_TEN, "BEGIN IMMEDIATE", INSERT_MANY)
    with writer(database, *statements), unchanged(database.parent):
        assert read_foreign(database, count) == 10


def test_a_live_writer_that_has_spilled_pages_is_read_up_to_its_last_commit(
    database: Path,
) -> None:
    spill = ("PRAGMA cache_size = 1", "BEGIN IMMEDIATE", INSERT_MANY)
    with (
        writer(database, "PRAGMA journal_mode = WAL", TABLE, INSERT_TEN, *spill),
        unchanged(database.parent),
    ):
        assert read_foreign(database, count) == 10


@pytest.mark.parametrize("keep_shm", [True, False])
def test_a_killed_writer_leaves_all_its_commits(database: Path, *, keep_shm: bool) -> None:
    kill_writer(database, "PRAGMA journal_mode = WAL", TABLE, INSERT_TEN)
    if not keep_shm:
        database.with_name("state.db-shm").unlink()
    assert database.with_name("state.db-wal").stat().st_size > 0
    with unchanged(database.parent):
        assert read_foreign(database, count) == 10


def test_a_writer_in_exclusive_locking_mode_is_read(database: Path) -> None:
    statements = ("PRAGMA locking_mode = EXCLUSIVE", "PRAGMA journal_mode = WAL", TABLE, INSERT_TEN)
    with writer(database, *statements), unchanged(database.parent):
        assert not database.with_name("state.db-shm").exists()
        assert read_foreign(database, count) == 10


def test_a_writer_that_went_into_exclusive_locking_mode_later_is_read(database: Path) -> None:
    open_wal = ("PRAGMA journal_mode = WAL", TABLE)
    with (
        writer(database, *open_wal, "PRAGMA locking_mode = EXCLUSIVE", INSERT_TEN),
        unchanged(database.parent),
    ):
        assert database.with_name("state.db-shm").exists()
        assert read_foreign(database, count) == 10


@pytest.mark.parametrize("killed", [True, False])
def test_a_hot_journal_hides_what_was_not_committed(database: Path, *, killed: bool) -> None:
    setup = ("PRAGMA journal_mode = DELETE", TABLE, INSERT_MANY, "PRAGMA cache_size = 1")
    overwrite = "UPDATE t SET text = 'uncommitted'"
    with writer(database, *setup, "BEGIN IMMEDIATE", overwrite) as process:
        if killed:
            process.kill()
            process.wait()
        assert database.with_name("state.db-journal").stat().st_size > 0
        assert b"uncommitted" in database.read_bytes()
        with unchanged(database.parent):
            assert read_foreign(database, distinct_texts) == 2000


@pytest.mark.parametrize("alive", [True, False])
def test_a_read_only_directory_can_be_read(database: Path, *, alive: bool) -> None:
    with writer(database, "PRAGMA journal_mode = WAL", TABLE, INSERT_TEN) as process:
        if not alive:
            process.kill()
            process.wait()
        for entry in database.parent.iterdir():
            entry.chmod(0o444)
        database.parent.chmod(0o555)
        try:
            with unchanged(database.parent):
                assert read_foreign(database, count) == 10
        finally:
            database.parent.chmod(0o755)


def test_a_change_while_reading_makes_the_query_run_again(database: Path) -> None:
    write_clean(database, "DELETE")
    seen: list[int] = []

    def count_and_disturb_once(connection: sqlite3.Connection) -> int:
        seen.append(count(connection))
        if len(seen) == 1:
            with closing(sqlite3.connect(database, isolation_level=None)) as other:
                other.execute(INSERT_TEN)
        return seen[-1]

    assert read_foreign(database, count_and_disturb_once) == 20
    assert seen == [10, 20]


def test_a_database_that_never_rests_is_read_from_a_copy(database: Path) -> None:
    write_clean(database, "DELETE")
    seen: list[int] = []

    def count_and_disturb(connection: sqlite3.Connection) -> int:
        seen.append(count(connection))
        with closing(sqlite3.connect(database, isolation_level=None)) as other:
            other.execute(INSERT_TEN)
        return seen[-1]

    assert read_foreign(database, count_and_disturb) == seen[-1]
    assert seen == [10, 20, 30, 40]


def test_an_open_connection_reports_that_it_cannot_be_trusted(database: Path) -> None:
    write_clean(database, "DELETE")

    def read_while_someone_writes() -> None:
        with open_foreign(database) as connection:
            count(connection)
            with closing(sqlite3.connect(database, isolation_level=None)) as other:
                other.execute(INSERT_TEN)

    with pytest.raises(SourceChangedError) as caught:
        read_while_someone_writes()
    assert caught.value.recoverable


def test_one_query_sees_one_state_of_a_growing_database(database: Path) -> None:
    with writer(database, "PRAGMA journal_mode = WAL", TABLE, INSERT_TEN) as process:
        with open_foreign(database) as connection:
            first = count(connection)
            execute_in(process, INSERT_TEN)
            assert (first, count(connection)) == (10, 10)
        assert read_foreign(database, count) == 20


@pytest.mark.parametrize(
    "content", [b"not a database, but long enough " * 40, b"SQLite format 3\0"]
)
def test_a_file_that_is_not_a_database_is_a_parse_error(database: Path, content: bytes) -> None:
    database.write_bytes(content)
    with unchanged(database.parent), pytest.raises(ParseError, match="not a database"):
        read_foreign(database, count)


def test_a_damaged_page_is_a_parse_error(database: Path) -> None:
    write_clean(database)
    content = bytearray(database.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    database.write_bytes(content)
    with unchanged(database.parent), pytest.raises(ParseError):
        read_foreign(database, count)


def test_a_missing_table_is_a_parse_error(database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE other (i)")
    with pytest.raises(ParseError, match="no such table"):
        read_foreign(database, count)


def test_a_mistake_of_the_caller_is_not_blamed_on_the_file(database: Path) -> None:
    write_clean(database)
    with pytest.raises(sqlite3.ProgrammingError):
        read_foreign(database, lambda c: c.execute("SELECT ?").fetchall())


def test_a_missing_file_is_an_os_error_and_is_not_created(database: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_foreign(database, count)
    assert not database.exists()


def test_an_empty_file_is_a_database_without_tables(database: Path) -> None:
    database.touch()
    with unchanged(database.parent):
        assert read_foreign(database, table_names) == ()


def test_text_that_is_not_utf8_is_replaced(database: Path) -> None:
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute(TABLE)
        connection.execute("INSERT INTO t VALUES (1, CAST(x'61ff62' AS TEXT))")
    text = read_foreign(database, lambda c: c.execute("SELECT text FROM t").fetchone()[0])
    assert text == "a\ufffdb"


def test_a_name_with_special_characters_is_opened(tmp_path: Path) -> None:
    folder = tmp_path / "a ?b#c%20é"
    folder.mkdir()
    write_clean(folder / "x?mode=rw.db")
    with unchanged(folder):
        assert read_foreign(folder / "x?mode=rw.db", count) == 10


def test_a_link_is_read_with_the_sidecars_of_its_target(database: Path, tmp_path: Path) -> None:
    kill_writer(database, "PRAGMA journal_mode = WAL", TABLE, INSERT_TEN)
    link = tmp_path / "link.db"
    link.symlink_to(database)
    with unchanged(database.parent):
        assert read_foreign(link, count) == 10
    assert not list(tmp_path.glob("link.db-*"))


def test_nothing_can_be_written_through_an_opened_database(database: Path) -> None:
    write_clean(database)
    with unchanged(database.parent), pytest.raises(ParseError, match="readonly"):
        read_foreign(database, lambda c: c.execute("DELETE FROM t").fetchall())


def table_names(connection: sqlite3.Connection) -> tuple[str, ...]:
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    return tuple(name for (name,) in rows)


def table_sizes(connection: sqlite3.Connection) -> dict[str, int]:
    return {
        name: connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0]
        for name in table_names(connection)
    }


def sizes_by_plain_sqlite(database: Path, folder: Path) -> dict[str, int]:
    """The independent answer: SQLite's own, on a copy of the files."""
    folder.mkdir()
    for suffix in ("", "-wal"):
        part = database.with_name(database.name + suffix)
        if part.exists():
            shutil.copyfile(part, folder / part.name)
    with closing(sqlite3.connect(folder / database.name)) as connection:
        return table_sizes(connection)


@pytest.mark.parametrize(
    "captured", CAPTURED_DATABASES, ids=lambda path: str(path.relative_to(CAPTURES))
)
def test_every_captured_database_is_read_in_full(captured: Path, tmp_path: Path) -> None:
    expected = sizes_by_plain_sqlite(captured, tmp_path / "oracle")
    home = tmp_path / "home"
    home.mkdir()
    for part in captured.parent.glob(f"{captured.name}*"):
        shutil.copy2(part, home / part.name)
    with unchanged(home):
        assert read_foreign(home / captured.name, table_sizes) == expected
    assert expected
