"""`client.index`, and lists from kept rows: the same as the long way, or nothing."""

from __future__ import annotations

import os
import sqlite3
import time
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from builders import START, write_claude, write_codex

from amux import AmuxError, create_client
from amux.client import Client
from amux.model.options import SessionListOptions
from amux.model.usage import Tokens
from amux.sessions.upkeep import IndexManager

USED = Tokens(input=10, output=20)


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


def test_the_state_of_the_index_is_told(home: Path, tmp_path: Path) -> None:
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


def test_without_an_index_there_is_nothing_to_tell(home: Path) -> None:
    client = create_client(home=home)
    assert client.index.status().path is None
    assert client.index.check().checked == 0


def test_a_rebuilt_index_says_the_same(home: Path, tmp_path: Path) -> None:
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


def test_texts_that_cannot_be_indexed_are_told_of(home: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with indexed(home, cache) as client:
        assert client.index.update(texts=True).trouble is None
    obstructed(cache, "texts-*.db")
    with indexed(home, cache) as client:
        assert client.index.update().trouble is None
        assert "unable to open" in (client.index.update(texts=True).trouble or "")


def test_an_index_that_cannot_be_used_says_why(home: Path, tmp_path: Path) -> None:
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
def test_a_quick_list_is_the_list(wanted: dict[str, object], home: Path, tmp_path: Path) -> None:
    names = {"descending": "sort_direction", "children": "include_children"}
    names["archived"] = "include_archived"
    options = {names.get(name, name): value for name, value in wanted.items()}
    if "sort_direction" in options:
        options["sort_direction"] = "asc"
    with indexed(home, tmp_path / "cache") as client:
        assert client.quick_list(None, **wanted) is None, "nothing is known yet"
        report = client.list_report(
            None, msgspec.convert({"limit": None, **options}, SessionListOptions)
        )
    with indexed(home, tmp_path / "cache") as client:
        quick = client.quick_list(None, **wanted)
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


def test_a_quick_list_knows_when_something_has_changed(home: Path, tmp_path: Path) -> None:
    with indexed(home, tmp_path / "cache") as client:
        client.list_report(None, SessionListOptions())
        assert client.quick_list(None) is not None
        assert client.quick_list(["claude"]) is not None
    write_claude(home, 60, tokens=USED)
    with indexed(home, tmp_path / "cache") as client:
        assert client.quick_list(None) is None
        assert client.quick_list(["codex"]) is not None
    (home / ".agent-mux").mkdir()
    (home / ".agent-mux" / "config.toml").write_text("", encoding="utf-8")
    with indexed(home, tmp_path / "cache") as client:
        assert client.quick_list(["codex"]) is None, "settings may say anything"
