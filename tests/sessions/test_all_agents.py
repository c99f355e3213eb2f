"""A home with sessions of every agent: each agent is read as if it were alone.

The home contains the newest capture of every agent, and never two versions of one agent, because
their message ids repeat.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from builders import CAPTURES, SharedHome, open_client
from newest_captures import version_key

from amux.adapters import BUILTIN
from amux.client import Client
from amux.model.cost import CostSummary
from amux.model.options import SessionListOptions
from amux.model.session import SessionSummary
from amux.testing import fingerprint

pytestmark = pytest.mark.no_cover  # what each agent is read by is measured where it is alone

NEAR_USD = 1e-9
TOKENS = (
    "input_tokens",
    "output_tokens",
    "thinking_tokens",
    "cached_tokens",
    "cache_write_tokens",
)
EVERYTHING = SessionListOptions(limit=None, include_children=True, include_archived=True)


NEWEST = {
    capture.agent: capture
    for capture in sorted(CAPTURES, key=version_key)
    if capture.folder == capture.agent
}


def copy_together(home: Path) -> Path:
    """One home out of all of them; no file of one agent replaces another's."""
    taken: set[Path] = set()
    for capture in NEWEST.values():
        files = {p.relative_to(capture.home) for p in capture.home.rglob("*") if p.is_file()}
        assert taken.isdisjoint(files)
        taken |= files
        shutil.copytree(capture.home, home, symlinks=True, dirs_exist_ok=True)
    return home


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    home = copy_together(tmp_path_factory.mktemp("together"))
    before = fingerprint(home)
    yield open_client(home)
    assert fingerprint(home) == before


@pytest.fixture(scope="module")
def alone(shared_home: SharedHome) -> Mapping[str, Client]:
    return {agent: open_client(shared_home(capture)) for agent, capture in NEWEST.items()}


def summary_of(session: SessionSummary) -> tuple[object, ...]:
    """What a session is, wherever its home lies."""
    return (
        *(session.unified_id, session.title, session.kind, session.parent, session.cost),
        *(session.created_at, session.updated_at, session.model, session.message_count),
        *(session.turn_count, session.archived, session.cwd),
    )


def listed(client: Client, agent: str) -> list[tuple[object, ...]]:
    return [summary_of(session) for session in client.sessions.list(agent, EVERYTHING)]


def tokens(cost: CostSummary) -> list[int]:
    return [getattr(cost, name) for name in (*TOKENS, "session_count")]


def distinct_word(client: Client, agent: str) -> str:
    """A word of one of the agent's titles."""
    titles = [session.title for session in client.sessions.list(agent)]
    return max((word for title in titles for word in re.findall(r"[a-z]+", title)), key=len)


def test_every_agent_with_captures_is_in_the_home_once() -> None:
    assert NEWEST.keys() == BUILTIN.keys() - {"agent"}
    assert {agent: NEWEST[agent].version for agent in ("claude", "codex", "gemini")} == {
        "claude": "2.1.325",
        "codex": "0.166.0",
        "gemini": "0.61.0",
    }


@pytest.mark.parametrize("agent", NEWEST)
def test_an_agent_among_others_has_the_sessions_it_has_alone(
    together: Client, alone: Mapping[str, Client], agent: str
) -> None:
    expected = listed(alone[agent], agent)
    assert expected
    assert listed(together, agent) == expected


def test_the_list_of_all_agents_is_the_sum_of_theirs_without_duplicates(
    together: Client, alone: Mapping[str, Client]
) -> None:
    report = together.list_report(None, EVERYTHING)
    ids = [session.unified_id for session in report.sessions]
    assert len(ids) == len(set(ids))
    assert {summary_of(session) for session in report.sessions} == {
        session for agent, client in alone.items() for session in listed(client, agent)
    }


def test_the_total_is_the_sum_of_the_agents_and_of_the_homes(
    together: Client, alone: Mapping[str, Client]
) -> None:
    total = together.sessions.total_cost()
    by_agent = [together.sessions.total_cost(agent=agent) for agent in BUILTIN]
    by_home = [client.sessions.total_cost() for client in alone.values()]
    for parts in (by_agent, by_home):
        columns = zip(*(tokens(part) for part in parts), strict=True)
        assert tokens(total) == [sum(column) for column in columns]
        assert total.total_usd == pytest.approx(
            sum(part.total_usd for part in parts), rel=0, abs=NEAR_USD
        )


def test_the_groups_of_the_total_are_the_agents(together: Client) -> None:
    groups = together.sessions.total_cost(group_by="agent").breakdowns
    assert groups is not None
    for agent, group in groups.items():
        own = together.sessions.total_cost(agent=agent)
        assert [getattr(group, name) for name in TOKENS] == tokens(own)[:-1]
        assert group.total_usd == pytest.approx(own.total_usd, rel=0, abs=NEAR_USD)


@pytest.mark.parametrize("agent", NEWEST)
def test_search_finds_in_every_agent_what_it_finds_there_alone(
    together: Client, alone: Mapping[str, Client], agent: str
) -> None:
    word = distinct_word(alone[agent], agent)
    expected = {summary_of(hit) for hit in alone[agent].sessions.search(word, limit=None)}
    found = together.sessions.search(word, limit=None)
    assert expected
    assert {summary_of(hit) for hit in found if hit.agent == agent} == expected
    assert {
        summary_of(h) for h in together.sessions.search(word, agent=agent, limit=None)
    } == expected


@pytest.mark.parametrize("agent", BUILTIN)
def test_an_empty_home_has_no_session_of_any_agent(home: Path, agent: str) -> None:
    client = open_client(home)
    assert client.sessions.list(agent, EVERYTHING) == []
    assert client.sessions.search("hello", agent=agent) == []
    assert client.sessions.total_cost(agent=agent).session_count == 0


# Beside a writer

DATABASES = {
    "opencode": (".local/share/opencode/opencode.db", "session"),
    "hermes": (".hermes/state.db", "sessions"),
}
WRITER = """
import sqlite3, sys
mode, *pairs = sys.argv[1:]
connections = []
for path, table in zip(pairs[::2], pairs[1::2]):
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(f"PRAGMA journal_mode={mode}")
    connection.execute("PRAGMA cache_size=1")  # half of what it does is already in the files
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("CREATE TABLE unfinished AS SELECT * FROM sqlite_master")
    connection.execute(f"DELETE FROM {table}")
    connections.append(connection)
print("ready", flush=True)
sys.stdin.read()
"""


@contextmanager
def open_transactions(home: Path, journal: str) -> Generator[None]:
    """Another process has deleted every session in two databases and has not committed."""
    words = [word for path, table in DATABASES.values() for word in (str(home / path), table)]
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, journal, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as writer:
        assert writer.stdout is not None
        try:
            assert writer.stdout.readline() == "ready\n"
            yield
        finally:
            writer.kill()


@contextmanager
def read_only(home: Path) -> Generator[None]:
    """Nobody may write; the bits come back at the end, else nobody could clean up."""
    modes = {path: path.stat().st_mode for path in (home, *home.rglob("*"))}
    for path, mode in modes.items():
        path.chmod(mode & ~0o222)
    try:
        yield
    finally:
        for path, mode in modes.items():
            path.chmod(mode)


def answers(client: Client, agent: str) -> tuple[object, ...]:
    """Whatever can be asked of one agent."""
    sessions = client.sessions
    summaries = sessions.list(agent, EVERYTHING)
    word = distinct_word(client, agent)
    return (
        listed(client, agent),
        [len(sessions.get(agent, each.session_id).messages) for each in summaries],
        [summary_of(hit) for hit in sessions.search(word, agent=agent, limit=None)],
        tokens(sessions.total_cost(agent=agent)),
    )


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_a_closed_home_with_unfinished_writes_gives_the_old_answers_and_stays_as_it_is(
    tmp_path: Path, alone: Mapping[str, Client], journal: str
) -> None:
    home = copy_together(tmp_path / "home")
    with open_transactions(home, journal), read_only(home):
        beside = {"wal": "-wal", "delete": "-journal"}[journal]
        assert all(Path(f"{home / path}{beside}").stat().st_size for path, _ in DATABASES.values())
        before = fingerprint(home)
        client = open_client(home)
        for agent in DATABASES:
            assert answers(client, agent) == answers(alone[agent], agent)
        assert client.list_report(None, EVERYTHING).problems == ()
        assert fingerprint(home) == before


def test_reading_a_closed_home_leaves_no_file_beside_a_database(tmp_path: Path) -> None:
    home = copy_together(tmp_path / "home")
    for path, _ in DATABASES.values():  # as a writer leaves it that ended well
        script = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('VACUUM')"
        subprocess.run([sys.executable, "-c", script, str(home / path)], check=True)
        assert not Path(f"{home / path}-wal").exists()
    with read_only(home):
        before = fingerprint(home)
        client = open_client(home)
        for agent in NEWEST:
            assert answers(client, agent)
        assert fingerprint(home) == before
