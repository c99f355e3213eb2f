"""`client.index`: status, rebuild and check; a list from the index equals a list from reading."""

from __future__ import annotations

import os
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from builders import START, ClaudeSession, uuid_of, write_claude, write_codex

from amux import AmuxError, create_client
from amux.client import Client
from amux.model.options import SessionListOptions
from amux.model.reports import IndexedSources
from amux.model.usage import Tokens
from amux.sessions.index_manager import IndexManager

USED = Tokens(input=10, output=20)
EVERYTHING = SessionListOptions(limit=None, include_archived=True, include_children=True)


def indexed(home: Path, cache: Path) -> Client:
    env = {"AMUX_CACHE_DIR": str(cache), "HOME": str(home)}
    return create_client(home=home, env=env)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    for number in range(1, 9):
        at = START + timedelta(hours=number)
        write_claude(home, number, prompt=f"number {number}", tokens=USED, at=at)
    write_codex(home, 100, tokens=USED)
    past = time.time() - 60
    for path in home.rglob("*"):
        os.utime(path, (past, past))
    return home


def test_status_counts_sources_stale_sources_and_sessions(home: Path, tmp_path: Path) -> None:
    with indexed(home, tmp_path / "cache") as client:
        assert client.index.status().agents == ()
        status = client.index.update(texts=True)
        assert {(a.agent, a.sources, a.kept, a.stale, a.sessions) for a in status.agents} == {
            ("claude", 8, 8, 0, 8),
            ("codex", 1, 1, 0, 1),
        }
        assert status.bytes > 0
        assert status.text_bytes > 0
        write_claude(home, 50, prompt="new", tokens=USED)
        (claude,) = (a for a in client.index.status().agents if a.agent == "claude")
        assert (claude.sources, claude.kept, claude.stale) == (9, 8, 1)
        assert claude.stale_bytes > 0


def sources_of(client: Client, agent: str) -> IndexedSources:
    (found,) = (a for a in client.index.status().agents if a.agent == agent)
    return found


def test_sub_agents_are_counted_separately_from_sessions(
    tmp_path: Path, copy_capture: Callable[[str], Path]
) -> None:
    with indexed(copy_capture("claude-2.1.50"), tmp_path / "cache") as client:
        listed = client.list_report(["claude"], EVERYTHING).sessions
        expected = Counter(session.kind == "subagent" for session in listed)
        assert expected[True] > 0
        client.index.update()
        kept = sources_of(client, "claude")
        assert (kept.sessions, kept.subagents) == (expected[False], expected[True])


def test_status_counts_the_sources_in_the_text_index(home: Path, tmp_path: Path) -> None:
    with indexed(home, tmp_path / "cache") as client:
        assert client.index.update().agents
        assert (sources_of(client, "claude").texts, sources_of(client, "codex").texts) == (0, 0)
        assert not [*(tmp_path / "cache").glob("texts-*")], "asking makes nothing"
        status = client.index.update(texts=True)
        assert (sources_of(client, "claude").texts, sources_of(client, "codex").texts) == (8, 1)
        assert status.texts_have_tools
        write_claude(home, 50, prompt="new", tokens=USED)
        ClaudeSession(home, uuid_of(1)).prompt("another").write()
        (home / ".claude/projects/-src-app" / f"{uuid_of(2)}.jsonl").unlink()
        claude = sources_of(client, "claude")
        assert (claude.sources, claude.texts) == (8, 6), "one is new, one changed, one gone"


def test_an_agent_whose_own_index_finds_everything_has_no_texts_here(
    tmp_path: Path, copy_capture: Callable[[str], Path]
) -> None:
    home = copy_capture("hermes-0.19.0")
    with indexed(home, tmp_path / "cache") as client:
        client.index.update(texts=True)
        assert sources_of(client, "hermes").texts == 1, "it has thinking"
    plain = (
        "tool_calls = NULL, reasoning = NULL, reasoning_content = NULL, reasoning_details = NULL"
    )
    with closing(sqlite3.connect(home / ".hermes/state.db", isolation_level=None)) as connection:
        connection.execute(f"UPDATE messages SET content = 'plain words', {plain}")
    with indexed(home, tmp_path / "cache") as client:
        client.index.update(texts=True)
        kept = sources_of(client, "hermes")
        assert kept.sources > 0
        assert kept.texts is None
        assert "texts" not in kept.to_dict()
        assert client.sessions.search("plain words", agent="hermes")


def test_an_agent_with_thinking_that_its_own_index_lacks_has_texts_here(
    tmp_path: Path, copy_capture: Callable[[str], Path]
) -> None:
    with indexed(copy_capture("hermes-0.13.0"), tmp_path / "cache") as client:
        client.index.update(texts=True)
        kept = sources_of(client, "hermes")
        assert kept.texts == kept.sources > 0
        assert len(client.sessions.search("role:thinking done", agent="hermes")) == 4


def test_an_unreadable_text_index_has_no_count_of_texts(home: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with indexed(home, cache) as client:
        client.index.update(texts=True)
    obstructed(cache, "texts-*.db")
    with indexed(home, cache) as client:
        status = client.index.status()
        assert {each.texts for each in status.agents} == {None}
        assert "unable to open" in (status.text_trouble or "")


def test_status_reports_a_damaged_text_index_without_changing_it(
    home: Path, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    with indexed(home, cache) as client:
        client.index.update(texts=True)
    (path,) = cache.glob("texts-*.db")
    path.write_bytes(b"no database" * 1000)
    with indexed(home, cache) as client:
        assert "damaged" in (client.index.status().text_trouble or "")
    assert path.read_bytes().startswith(b"no database"), "asking changes nothing"


def test_without_an_index_the_status_is_empty(home: Path) -> None:
    client = create_client(home=home)
    assert client.index.status().path is None
    assert client.index.check().checked == 0


def test_a_rebuilt_index_has_the_same_status(home: Path, tmp_path: Path) -> None:
    with indexed(home, tmp_path / "cache") as client:
        first = client.index.update()
        assert client.index.rebuild().agents == first.agents


def test_a_check_compares_with_the_sources(home: Path, tmp_path: Path) -> None:
    with indexed(home, tmp_path / "cache") as client:
        path = Path(client.index.update().path or "")
        assert client.index.check(sample=None).mismatches == ()
        assert client.index.check(sample=3).checked == 3
    database = sqlite3.connect(path)
    (other,) = database.execute(
        "SELECT facts FROM reading JOIN source USING (id) WHERE agent = 'claude' LIMIT 1"
    ).fetchone()
    database.execute(
        "UPDATE reading SET facts = ? WHERE id IN (SELECT id FROM source WHERE agent = 'claude')",
        (other,),
    )
    database.commit()
    database.close()
    with indexed(home, tmp_path / "cache") as client:
        report = client.index.check(sample=None)
        assert len(report.mismatches) == 7
        assert all("session_id" in each.fields for each in report.mismatches)


def obstructed(cache: Path, pattern: str) -> None:
    """A folder in the place of a file, which no program can open as a database."""
    (path,) = cache.glob(pattern)
    for each in cache.glob(f"{pattern}*"):
        each.unlink()
    path.mkdir()


def test_an_update_reports_an_unusable_text_index(home: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with indexed(home, cache) as client:
        assert client.index.update(texts=True).trouble is None
    obstructed(cache, "texts-*.db")
    with indexed(home, cache) as client:
        assert client.index.update().trouble is None
        assert "unable to open" in (client.index.update(texts=True).trouble or "")


def test_an_unusable_index_reports_the_reason(home: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with indexed(home, cache) as client:
        client.index.update()
    obstructed(cache, "index-*.db")
    for ask in (IndexManager.status, IndexManager.update):
        with indexed(home, cache) as client:
            assert "unable to open" in (ask(client.index).trouble or "")
    with indexed(home, cache) as client, pytest.raises(AmuxError, match="unable to open") as caught:
        client.index.check()
    assert caught.value.code == "STORE_ERROR"
    assert caught.value.hint


WANTED = [
    {},
    {"limit": 3},
    {"sort": "updated", "descending": False},
    {"sort": "turns"},
    {"sort": "cost", "limit": 2},
    {"since": START + timedelta(hours=3), "until": START + timedelta(hours=6)},
    {"model": "m-small"},
    {"children": True, "archived": True},
]


@pytest.mark.parametrize("wanted", WANTED)
def test_a_fast_list_equals_the_full_list(
    wanted: dict[str, object], home: Path, tmp_path: Path
) -> None:
    names = {"descending": "sort_direction", "children": "include_children"}
    names["archived"] = "include_archived"
    options = {names.get(name, name): value for name, value in wanted.items()}
    if "sort_direction" in options:
        options["sort_direction"] = "asc"
    with indexed(home, tmp_path / "cache") as client:
        assert client.fast_list(None, **wanted) is None, "nothing is known yet"
        report = client.list_report(
            None, msgspec.convert({"limit": None, **options}, SessionListOptions)
        )
    with indexed(home, tmp_path / "cache") as client:
        quick = client.fast_list(None, **wanted)
        assert quick is not None
        shown = [(s.unified_id, s.title, s.turn_count, s.created_at) for s in quick.sessions]
        assert shown == [
            (s.unified_id, s.title, s.turn_count, s.created_at) for s in report.sessions
        ]
        assert (quick.truncated, quick.hidden_children) == (
            report.truncated,
            report.hidden_children,
        )
        assert [s.cost.total_usd if s.cost else None for s in quick.sessions] == [
            s.cost.total_usd if s.cost else None for s in report.sessions
        ]


def test_a_fast_list_notices_changes(home: Path, tmp_path: Path) -> None:
    with indexed(home, tmp_path / "cache") as client:
        client.list_report(None, SessionListOptions())
        assert client.fast_list(None) is not None
        assert client.fast_list(["claude"]) is not None
    write_claude(home, 60, tokens=USED)
    with indexed(home, tmp_path / "cache") as client:
        assert client.fast_list(None) is None
        assert client.fast_list(["codex"]) is not None
    (home / ".agent-mux").mkdir()
    (home / ".agent-mux" / "config.toml").write_text("", encoding="utf-8")
    with indexed(home, tmp_path / "cache") as client:
        assert client.fast_list(["codex"]) is None, "settings may say anything"
