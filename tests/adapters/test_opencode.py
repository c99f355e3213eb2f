"""OpenCode: the published suite on every capture, the locations of its stores, the commands."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from opencode_store import (
    START,
    TABLES,
    Database,
    answer,
    client_on,
    data_dir,
    tokens,
    user,
    write_session,
)

from amux.adapters.opencode import ADAPTER
from amux.host import Host
from amux.testing import AdapterSuite, find_captures
from amux.testing.captures import fingerprint
from amux.testing.reading import read_source, sources_of

CAPTURES = Path(__file__).parent.parent / "captures"


class TestOpenCode(AdapterSuite):
    adapter = ADAPTER
    captures = find_captures(CAPTURES, "opencode")
    relocation = {"XDG_DATA_HOME": "elsewhere"}


# where


@pytest.mark.parametrize(
    ("platform", "places"),
    [
        ("linux", [".local/share/opencode"]),
        ("darwin", [".local/share/opencode", "Library/Application Support/opencode"]),
        ("win32", [".local/share/opencode", "AppData/Local/opencode"]),
    ],
)
def test_the_data_directory_follows_the_platform(
    platform: str, places: list[str], tmp_path: Path
) -> None:
    roots = ADAPTER.roots(Host(tmp_path, platform=platform))
    assert list(roots) == [tmp_path / place for place in places]


def test_xdg_data_home_replaces_the_default(tmp_path: Path) -> None:
    host = Host(tmp_path, env={"XDG_DATA_HOME": "/data"}, platform="linux")
    assert list(ADAPTER.roots(host)) == [Path("/data/opencode")]


@pytest.mark.parametrize(
    ("value", "added"),
    [("/x/mine.db", [Path("/x")]), ("mine.db", []), (":memory:", []), ("", [])],
)
def test_opencode_db_adds_a_place_when_it_is_a_path(
    value: str, added: list[Path], tmp_path: Path
) -> None:
    roots = ADAPTER.roots(Host(tmp_path, env={"OPENCODE_DB": value}, platform="linux"))
    assert list(roots) == [*added, data_dir(tmp_path)]


def test_databases_of_other_channels_are_found_and_strangers_are_left_alone(
    tmp_path: Path,
) -> None:
    Database(tmp_path, "opencode-dev.db").session("ses_dev")
    Database(tmp_path, "mine.db").session("ses_mine")
    Database(tmp_path, "stranger.db", tables="CREATE TABLE t (x)")
    (data_dir(tmp_path) / "link.db").symlink_to(data_dir(tmp_path) / "mine.db")
    readings = [read_source(ADAPTER, source) for source in sources_of(ADAPTER, tmp_path)]
    assert [facts.session_id for one in readings for facts in one.facts] == ["ses_mine", "ses_dev"]
    assert [problem for one in readings for problem in one.problems] == []


def test_a_database_of_its_name_without_its_tables_is_a_problem(tmp_path: Path) -> None:
    Database(tmp_path, tables="CREATE TABLE t (x)")
    (source,) = sources_of(ADAPTER, tmp_path)
    assert [problem.code for problem in read_source(ADAPTER, source).problems] == ["unknown-format"]


@pytest.mark.parametrize("closed", ["session", "message"])
def test_an_unreadable_folder_is_a_problem(
    closed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_session(tmp_path, "ses_a", [user("Go", START)])
    scandir = os.scandir

    def guarded(folder: Any) -> Any:
        if isinstance(folder, Path) and closed in folder.parts:
            raise PermissionError(13, "Permission denied", str(folder))
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", guarded)
    readings = [read_source(ADAPTER, source) for source in sources_of(ADAPTER, tmp_path)]
    assert [problem.code for one in readings for problem in one.problems] == ["unreadable"]


# reading a database


def fill(database: Database, sessions: int) -> None:
    for number in range(sessions):
        at = START + 1000 * number
        database.session(f"ses_{number}", at=at)
        database.message(f"ses_{number}", user("Go", at))
        database.message(f"ses_{number}", answer("Done", at + 5, tokens(5, 7, total=12)))


def count_statements(monkeypatch: pytest.MonkeyPatch, action: Callable[[], Any]) -> int:
    """How many statements SQLite was given."""
    statements: list[str] = []
    connect = sqlite3.connect

    def connect_and_listen(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*arguments, **options)
        connection.set_trace_callback(statements.append)
        return connection

    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", connect_and_listen)
        action()
    return sum(statement.startswith("SELECT") for statement in statements)


def test_a_list_costs_as_many_statements_for_many_sessions_as_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[int] = []
    for number in (1, 25):
        home = tmp_path / str(number)
        fill(Database(home), number)
        listing = partial(client_on(home).sessions.list, "opencode", limit=None)
        counts.append(count_statements(monkeypatch, listing))
        assert len(listing()) == number
    assert counts[0] == counts[1]


def test_committed_rows_of_a_live_writer_are_seen_and_nothing_is_touched(tmp_path: Path) -> None:
    database = Database(tmp_path)
    fill(database, 1)
    with closing(sqlite3.connect(database.path, isolation_level=None)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("INSERT INTO session (id, title) VALUES ('ses_live', 'In the log')")
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("INSERT INTO session (id, title) VALUES ('ses_open', 'Not committed')")
        before = fingerprint(tmp_path)
        listed = client_on(tmp_path).sessions.list("opencode")
        assert {session.session_id for session in listed} == {"ses_0", "ses_live"}
        assert fingerprint(tmp_path) == before
        writer.execute("ROLLBACK")


def test_a_bad_row_affects_only_itself(tmp_path: Path) -> None:
    database = Database(tmp_path)
    fill(database, 2)
    database.insert("message", id="msg_bad", session_id="ses_0", time_created=START, data="{torn")
    database.insert("part", id="prt_bad", message_id="msg_bad", session_id="ses_0", data=b"\xff")
    (source,) = sources_of(ADAPTER, tmp_path)
    reading = read_source(ADAPTER, source)
    assert [problem.code for problem in reading.problems] == ["bad-record"]
    contents = {id: [m.content for m in found] for id, found in reading.by_session().items()}
    assert contents == {"ses_0": ["Go", "Done"], "ses_1": ["Go", "Done"]}


def test_one_session_of_many_is_read_alone(tmp_path: Path) -> None:
    fill(Database(tmp_path), 3)
    (source,) = sources_of(ADAPTER, tmp_path)
    whole = [f for f in read_source(ADAPTER, source).facts if f.session_id == "ses_1"]
    alone = list(ADAPTER.read(source, want="all", only="ses_1"))
    assert alone[-1] == whole[0]
    assert len(alone) == 5


def test_tables_without_the_newer_columns_are_read(tmp_path: Path) -> None:
    tables = TABLES.replace("time_archived INTEGER", "x").replace("revert TEXT,", "")
    fill(Database(tmp_path, tables=tables), 1)
    (summary,) = client_on(tmp_path).sessions.list("opencode")
    assert summary.title == "A title"


def test_messages_without_their_columns_are_a_problem(tmp_path: Path) -> None:
    tables = TABLES.replace("session_id TEXT, time_created INTEGER, data TEXT", "x TEXT")
    Database(tmp_path, tables=tables).session("ses_0")
    (source,) = sources_of(ADAPTER, tmp_path)
    assert [problem.code for problem in read_source(ADAPTER, source).problems] == ["unknown-format"]


# starting it


def test_commands_name_the_session_and_never_take_a_prompt_for_an_option() -> None:
    def argv(action: Any, **more: Any) -> tuple[str, ...] | None:
        command = ADAPTER.command(action, **more)
        return None if command is None else command.argv

    assert argv("new") == ("opencode",)
    assert argv("new", prompt="Hi") == ("opencode", "run", "Hi")
    assert argv("new", prompt="--help") == ("opencode", "run", "--", "--help")
    assert argv("resume", session_id="s") == ("opencode", "--session", "s")
    assert argv("fork", session_id="s", prompt="Hi") == (
        "opencode", "run", "--session", "s", "--fork", "Hi",
    )  # fmt: skip
    assert argv("fork", session_id="s", version="1.1.65") is None
    assert argv("resume") is None
    assert argv("fork") is None
