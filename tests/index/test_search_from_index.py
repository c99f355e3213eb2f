"""Ranking sessions from the index alone gives the ranking that reading them gives."""

from __future__ import annotations

import random
import sqlite3
from array import array
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import NOW, ClaudeSession, open_client, uuid_of, write_codex
from test_search_equal import hits, indexed
from test_work import settle

from amux.assembly.cost import CostCalculator
from amux.host import Host
from amux.index.database import IndexDatabase
from amux.index.rows.stored_session import SearchRow, StoredSession
from amux.model.options import SearchSort, SessionQuery
from amux.model.reports import SearchReport
from amux.sessions.search.indexed_hits import SessionsByUnit
from amux.sessions.search.search import Search, SearchScope
from amux.wiring import Wiring

WORDS = (
    "alpha", "beta", "gamma", "delta", "naïve", "日本語", "error", "errors", "x_y", "グconfig",
    "\ufb01x",
)  # fmt: skip
QUERIES = (
    "alpha", "beta gamma", "alpha OR delta", "alpha NOT beta", "err*", '"alpha beta"', "日本",
    "rro", "naive", "alpha role:user", "gamma agent:codex", "beta project:p1", "x_y -alpha",
    "nothing", "title", "conf*", "fix", '"beta, gamma"', "delta alpha beta gamma",
)  # fmt: skip


def sentence(chance: random.Random, most: int = 30) -> str:
    return chance.choice((" ", "\n", ", ")).join(chance.choices(WORDS, k=chance.randrange(1, most)))


def write_some(home: Path, chance: random.Random, numbers: Sequence[int]) -> None:
    for number in numbers:
        session = ClaudeSession(home, uuid_of(number), cwd=f"/src/p{number % 3}")
        session.prompt(f"a title {sentence(chance, 3)}")
        for call in range(chance.randrange(8)):
            session.reply(sentence(chance)).prompt(sentence(chance, 4))
            session.tool_call(f"t{call}", {"command": sentence(chance, 3)})
            session.tool_result(f"t{call}", sentence(chance, chance.choice((5, 3000))))
        session.write()
        write_codex(home, 1000 + number, prompt=sentence(chance))


@pytest.fixture(scope="module")
def scope(tmp_path_factory: pytest.TempPathFactory) -> SearchScope:
    """Everything a search is given, from an index that is up to date."""
    place = tmp_path_factory.mktemp("search-from-index")
    home = place / "home"
    write_some(home, random.Random(7), range(1, 25))
    settle(home)
    host = Host(home, env={"AMUX_CACHE_DIR": str(place / "cache")}, now=lambda: NOW)
    parts = Wiring(host, project_dir=None, given=None, keeps_index=True)
    names = parts.registry.names()
    return parts.service.search_scope(names, by_words=True)


def run(scope: SearchScope, text: str, **more: Any) -> SearchReport:
    return Search(SessionQuery(text=text, **more), now=NOW).run(scope)


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("limit", [1, 5, None])
def test_ranking_from_the_index_equals_ranking_by_reading(
    scope: SearchScope, query: str, limit: int | None
) -> None:
    assert scope.hit_finder is not None
    from_index = run(scope, query, limit=limit)
    from_reading = run(replace(scope, hit_finder=None), query, limit=limit)
    assert from_index == from_reading


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("shown", [0, 1, 3])
def test_searching_spoken_text_from_the_index_equals_reading(
    scope: SearchScope, query: str, shown: int
) -> None:
    from_index = run(scope, query, said_only=True, hits=shown, limit=5)
    from_reading = replace(scope, hit_finder=None, candidates=None)
    assert from_index == run(from_reading, query, said_only=True, hits=shown, limit=5)


@pytest.mark.parametrize("sort", ["date", "cost"])
@pytest.mark.parametrize("shown", [0, 1, 7, None])
def test_ranking_from_the_index_equals_reading_for_every_order_and_number_of_hits(
    scope: SearchScope, sort: SearchSort, shown: int | None
) -> None:
    for query in ("alpha", "beta gamma", "title alpha"):
        from_index = run(scope, query, sort=sort, hits=shown, limit=4)
        assert from_index == run(
            replace(scope, hit_finder=None), query, sort=sort, hits=shown, limit=4
        )


def test_sessions_that_share_a_unit_are_not_resolved_by_the_lookup(tmp_path: Path) -> None:
    store, coster = IndexDatabase(tmp_path / "index.db"), calculator_of(tmp_path)
    rows = [row_of("one", 1, 3), row_of("two", 2, 3), row_of("three", 4), row_of("four")]
    sessions = [StoredSession(row, store, coster) for row in rows]
    lookup = SessionsByUnit(sessions, {"claude": {1: 11, 2: 12, 3: 13, 4: 14}})
    assert lookup.of_unit == {14: 2}
    assert lookup.unresolved == {0, 1, 3}


def row_of(name: str, *keys: int) -> SearchRow:
    packed = array("q", keys).tobytes()
    return SearchRow(1, "claude", name, name.encode(), name, 0, 0, 0.0, None, "", name, packed)


def calculator_of(home: Path) -> CostCalculator:
    client = open_client(home)
    return CostCalculator(client.models, client.run_index)


@pytest.mark.parametrize("seed", range(6))
def test_files_that_grow_shrink_or_are_replaced_are_searched_as_they_are(
    tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    home, cache = tmp_path / "home", tmp_path / "cache"
    write_some(home, chance, range(1, 5))
    for _ in range(3):
        settle(home)
        with indexed(home, cache) as client:
            for query in ("alpha", "beta gamma", "日本", "err*"):
                assert hits(client, query) == hits(open_client(home), query), query
        for path in chance.sample(sorted(home.rglob("*.jsonl")), 3):
            disturb(path, chance)


def disturb(path: Path, chance: random.Random) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    match chance.randrange(4):
        case 0:
            path.write_bytes(b"".join(lines[: chance.randrange(len(lines) + 1)]))
        case 1:
            path.write_bytes(b"".join([*lines, *chance.sample(lines, min(3, len(lines)))]))
        case 2:
            chance.shuffle(lines)
            path.write_bytes(b"".join(lines))
        case _:
            path.write_bytes(b"".join(lines)[: -chance.randrange(1, 40)])


def test_with_wrong_message_positions_the_file_is_read(tmp_path: Path) -> None:
    home, cache = tmp_path / "home", tmp_path / "cache"
    write_some(home, random.Random(1), range(1, 5))
    settle(home)
    with indexed(home, cache) as client:
        want = hits(client, "alpha")
    (texts,) = cache.glob("texts-*.db")
    database = sqlite3.connect(texts)
    with database:
        database.execute("UPDATE text_locations SET locations = zeroblob(length(locations))")
    database.close()
    with indexed(home, cache) as client:
        assert hits(client, "alpha") == want
