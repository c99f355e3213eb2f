"""A list reads only the sessions of a database that it can show, and equals a full read."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from agent_logs import write_database
from database_stores import NAMES, conversation, stores, write_conversations, write_store
from drawn import drawn
from hermes_stores import START
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from list_both_ways import EVERYTHING, listed, listed_from_everything
from newest_captures import newest_of_each
from opencode_store import START as OPENCODE_START
from opencode_store import Database, answer, tokens

from amux.model.options import SessionListOptions
from amux.testing import find_captures

CAPTURES = find_captures(Path(__file__).parent.parent / "captures", "hermes", "opencode")
BEGAN = datetime.fromtimestamp(START, UTC)
OPENCODE_BEGAN = datetime.fromtimestamp(OPENCODE_START / 1000, UTC)


def any_options(began: datetime, places: list[str]) -> st.SearchStrategy[SessionListOptions]:
    marks = [began + timedelta(seconds=tens * 10) for tens in range(1, 5)]
    moments = st.sampled_from([None, None, None, None, *marks])
    return st.builds(
        SessionListOptions,
        since=moments,
        until=moments,
        model=st.sampled_from([None, None, None, "m-large"]),
        limit=st.sampled_from([None, 0, 1, 1, 2, 2, 3]),
        sort=st.sampled_from(["date", "date", "date", "updated", "cost", "turns"]),
        sort_direction=st.sampled_from(["desc", "asc"]),
        cwd=st.sampled_from([None, None, *places]),
        include_children=st.booleans(),
        include_archived=st.booleans(),
    )


# Captures


@pytest.fixture(scope="module", params=newest_of_each(CAPTURES))
def captured(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, str]:
    """A copy of a home, and the agent whose it is."""
    return request.param.copy_to(tmp_path_factory.mktemp("capture")), request.param.agent


@given(data=st.data())
@drawn(15, suppress_health_check=[HealthCheck.too_slow])
def test_every_list_of_a_capture_is_the_one_that_reads_everything(
    captured: tuple[Path, str], data: st.DataObject
) -> None:
    home, agent = captured
    everything = listed(home, agent, EVERYTHING).sessions
    places = sorted({session.cwd for session in everything if session.cwd})
    moments = st.sampled_from([None, *(session.created_at for session in everything)])
    options = msgspec.structs.replace(
        data.draw(any_options(BEGAN, places)), since=data.draw(moments), until=data.draw(moments)
    )
    assert listed(home, agent, options) == listed_from_everything(home, agent, options)


# Databases made by hand


@given(stores(), any_options(BEGAN, ["/src/app", "/src/other"]))
@drawn(80, suppress_health_check=[HealthCheck.too_slow])
def test_every_list_of_any_hermes_database_is_the_one_that_reads_everything(
    store: dict[str, Any], options: SessionListOptions
) -> None:
    with TemporaryDirectory(prefix="amux-list-") as folder:
        home = Path(folder)
        write_store(home, store)
        assert listed(home, "hermes", options) == listed_from_everything(home, "hermes", options)


ODD_MOMENTS = [
    *(None, "", "never", b"blob", -1, 0, 9e17, float("inf"), True, f"{START}", START + 20.0000004),
    *(START + 20.0000011, (START + 20) * 1000, (START + 20) * 10**6, (START + 20) * 10**6 + 1),
    *("2026-02-02T02:40:00", "1066-10-14", "9999-12-31T23:59:59.999999", 7_500_000_000_000_000),
]
ODD_TEXTS = [
    None,
    "",
    " ",
    7,
    0.5,
    b"/src/app",
    "/src/app",
    "/src/app/",
    "C:\\src",
    "\ufffd",
    "a\0b",
]
SESSION_CELLS = {
    "id": st.sampled_from([*NAMES] * 30 + ODD_TEXTS),
    "source": st.sampled_from(["cli", "cli", "subagent", *ODD_TEXTS]),
    "model_config": st.sampled_from(
        [
            *(None, None, None, "{}", "[", '{"_delegate_from": "s1"}', '{"_delegate_from": " "}'),
            *(b'{"_branched_from": "s2"}', '{"_branched_from": 5}'),
            '{"\\u005fbranched_from": "s0"}',
        ]
    ),
    "parent_session_id": st.sampled_from([None] * 9 + NAMES + ODD_TEXTS),
    "started_at": st.sampled_from([*(START + tens * 10 for tens in range(6))] * 3 + ODD_MOMENTS),
    "ended_at": st.sampled_from([None, START + 25, START + 30, *ODD_MOMENTS]),
    "end_reason": st.sampled_from(["compression", "branched", *ODD_TEXTS]),
    "cwd": st.sampled_from(["/src/app"] * 9 + ODD_TEXTS),
    "archived": st.sampled_from([0, 0, 0, 1, None, "1", "yes", 2, 0.0, 0.5, -1, b"1"]),
}


@given(
    st.lists(
        st.fixed_dictionaries(SESSION_CELLS),
        min_size=3,
        max_size=7,
        unique_by=lambda session: repr(session["id"]),
    ),
    st.sets(st.sampled_from([*SESSION_CELLS][1:])),
    any_options(BEGAN, ["/src/app", "/src/app/", "c:/src", "C:/src", "/"]),
)
@drawn(120, suppress_health_check=[HealthCheck.too_slow])
def test_cells_that_hold_anything_mislead_no_list(
    sessions: list[dict[str, Any]], absent: set[str], options: SessionListOptions
) -> None:
    with TemporaryDirectory(prefix="amux-list-") as folder:
        home = Path(folder)
        (home / ".hermes").mkdir()
        names = [name for name in SESSION_CELLS if name not in absent]
        connection = sqlite3.connect(home / ".hermes" / "state.db", isolation_level=None)
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute(f"CREATE TABLE sessions ({', '.join(names)})")  # of any type, any id
        connection.execute("CREATE TABLE messages (session_id, role, content, timestamp)")
        connection.executemany(
            f"INSERT INTO sessions VALUES ({', '.join(f':{name}' for name in names)})", sessions
        )
        connection.close()
        assert listed(home, "hermes", options) == listed_from_everything(home, "hermes", options)


@given(st.lists(stores(), min_size=2, max_size=3), any_options(BEGAN, ["/src/app", "/src/other"]))
@drawn(40, suppress_health_check=[HealthCheck.too_slow])
def test_every_list_of_several_databases_is_the_one_that_reads_everything(
    profiles: list[dict[str, Any]], options: SessionListOptions
) -> None:
    with TemporaryDirectory(prefix="amux-list-") as folder:
        home = Path(folder)
        for number, store in enumerate(profiles):
            write_store(home / f"{number}", store)
            place = home / ".hermes" / "profiles" / f"{number}" if number else home / ".hermes"
            (home / f"{number}" / ".hermes").rename(place)
            (home / ".hermes" / "profiles").mkdir(exist_ok=True)
        assert listed(home, "hermes", options) == listed_from_everything(home, "hermes", options)


@given(st.data())
@drawn(40, suppress_health_check=[HealthCheck.too_slow])
def test_every_list_of_any_agent_database_is_the_one_that_reads_everything(
    data: st.DataObject,
) -> None:
    moments = [f"2026-02-02 02:40:{second:02} +0000 UTC" for second in range(0, 60, 10)]
    began = datetime(2026, 2, 2, 2, 40, tzinfo=UTC)
    cells = st.tuples(
        st.sampled_from(["/src/app", "/src/other"]), st.sampled_from(["never", *moments])
    )
    sessions = data.draw(st.dictionaries(st.sampled_from(NAMES), cells, max_size=8))
    entries = data.draw(
        st.lists(st.tuples(st.sampled_from([*NAMES, "gone"]), st.sampled_from(moments)))
    )
    options = data.draw(any_options(began, ["/src/app", "/src/other"]))
    with TemporaryDirectory(prefix="amux-list-") as folder:
        home = Path(folder)
        connection = sqlite3.connect(write_database(home / ".agent"), isolation_level=None)
        connection.execute("PRAGMA synchronous = OFF")
        connection.executemany(
            "INSERT INTO sessions VALUES (?, 'coder', ?, ?, ?)",
            [(id, cwd, at, at) for id, (cwd, at) in sessions.items()],
        )
        connection.executemany(
            "INSERT INTO entries (session_id, kind, role, content, event_type, created_at)"
            " VALUES (?, 'message', 'user', 'Hi.', '', ?)",
            entries,
        )
        connection.close()
        assert listed(home, "agent", options) == listed_from_everything(home, "agent", options)


@given(
    st.lists(conversation(), min_size=5, max_size=8),
    any_options(OPENCODE_BEGAN, ["/src/app", "/src/other"]),
)
@drawn(120, suppress_health_check=[HealthCheck.too_slow])
def test_every_list_of_any_opencode_database_is_the_one_that_reads_everything(
    sessions: list[dict[str, Any]], options: SessionListOptions
) -> None:
    with TemporaryDirectory(prefix="amux-list-") as folder:
        home = Path(folder)
        write_conversations(home, sessions)
        found = listed(home, "opencode", options)
        assert found == listed_from_everything(home, "opencode", options)


def plain(second: int, **cells: Any) -> dict[str, Any]:
    """A session whose one answer nobody else has."""
    known = {"title": "A title", "parent_id": None, "directory": "/src/app", "time_archived": None}
    answers = [(second, 1, False)]
    return {**known, "at": OPENCODE_START + second * 1000, "answers": answers, **cells}


TRAPS = {
    "a fork that names nobody": [plain(1), plain(5, answers=[(1, 1, True), (5, 1, False)])],
    "a fork whose origin is gone": [plain(1), plain(5, parent_id="gone", answers=[(0, 1, True)])],
    "a fork that names its origin": [plain(1), plain(5, parent_id="s0", answers=[(1, 1, False)])],
    "a fork by its title": [plain(1), plain(5, parent_id="s0", title="A title (fork #2)")],
    "a sub-agent": [plain(1), plain(5, parent_id="s0"), plain(7, parent_id="s1")],
    "a place that only messages tell": [plain(1), plain(5, directory=None)],
    "a session without a row": [plain(1), plain(5, title=None)],
    "an archived one": [plain(1), plain(5, time_archived=OPENCODE_START)],
}


@pytest.mark.parametrize("trap", TRAPS)
def test_what_rows_do_not_tell_of_a_session_misleads_no_list(trap: str, tmp_path: Path) -> None:
    write_conversations(tmp_path, [*TRAPS[trap], plain(9)])
    for limit, since, cwd, has_children, direction in product(
        (None, 1, 2), (None, 2), (None, "/src/app", "/src/other"), (False, True), ("asc", "desc")
    ):
        options = SessionListOptions(
            limit=limit,
            since=None if since is None else OPENCODE_BEGAN + timedelta(seconds=since),
            cwd=cwd,
            include_children=has_children,
            sort_direction=direction,
        )
        found = listed(tmp_path, "opencode", options)
        assert found == listed_from_everything(tmp_path, "opencode", options)


def test_parts_of_what_is_not_shown_are_not_read(tmp_path: Path, statements: list[str]) -> None:
    database = Database(tmp_path)
    for number in range(20):
        at = OPENCODE_START + number * 1000
        database.session(f"ses_{number}", at=at)
        database.message(f"ses_{number}", answer("Yes.", at, tokens(1, 1)))
    statements.clear()
    report = listed(tmp_path, "opencode", SessionListOptions(limit=1))
    assert ([one.session_id for one in report.sessions], report.truncated) == (["ses_19"], 19)
    (parts,) = [one for one in statements if "JOIN part" in one]
    assert "ses_19" in parts


# Effort


def write_many(home: Path, count: int) -> None:
    sessions = {
        f"s{number}": {"source": "cli", "started_at": START + number} for number in range(count)
    }
    write_store(home, {"sessions": sessions, "messages": [(id, 1) for id in sessions]})


def test_the_number_of_statements_does_not_depend_on_the_number_of_sessions(
    tmp_path: Path, statements: list[str]
) -> None:
    counts: list[int] = []
    for size in (10, 200):
        home = tmp_path / str(size)
        write_many(home, size)
        statements.clear()
        report = listed(home, "hermes", SessionListOptions(limit=5))
        assert [session.session_id for session in report.sessions] == [
            f"s{size - number}" for number in range(1, 6)
        ]
        assert report.truncated == size - 5
        counts.append(len(statements))
    assert counts[0] == counts[1]
    asked = [one for one in statements if "FROM messages" in one and "s199" in one]
    assert asked, "messages are read"
    assert not any("s100" in one for one in asked), "but only those of sessions that are shown"


def test_a_list_from_a_day_on_reads_only_what_began_since(
    tmp_path: Path, statements: list[str]
) -> None:
    write_many(tmp_path, 50)
    statements.clear()
    options = SessionListOptions(limit=None, since=BEGAN + timedelta(seconds=48))
    assert {one.session_id for one in listed(tmp_path, "hermes", options).sessions} == {
        "s48",
        "s49",
    }
    assert not any("s47" in one for one in statements)


def test_filter_order_and_limit_are_those_of_one_statement(
    tmp_path: Path, statements: list[str]
) -> None:
    write_many(tmp_path / "hermes", 50)
    Database(tmp_path / "opencode").session("ses_1", at=OPENCODE_START)
    write_database(tmp_path / "agent" / ".agent")
    options = SessionListOptions(limit=7, since=BEGAN + timedelta(seconds=3), cwd="/src/app")
    for agent in ("hermes", "opencode", "agent"):
        statements.clear()
        listed(tmp_path / agent, agent, options)
        (asked,) = [one for one in statements if "LIMIT" in one]
        assert "ORDER BY began DESC" in asked
        assert "WHERE began >= 17" in asked
        assert "amux_directory(cwd) = '/src/app'" in asked
        assert "NOT nested AND NOT archived" in asked
        assert "LIMIT 7" in asked


def test_choosing_takes_one_statement_and_reading_the_chosen_four(
    tmp_path: Path, statements: list[str]
) -> None:
    write_many(tmp_path, 50)
    statements.clear()
    listed(tmp_path, "hermes", SessionListOptions(limit=5))
    about_tables = [one for one in statements if "FROM sessions" in one or "FROM messages" in one]
    assert ["LIMIT" in one for one in about_tables] == [True] + [False] * (len(about_tables) - 1)
    assert len(about_tables) <= 5
