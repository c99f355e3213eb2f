"""A search over an up-to-date index reads only the sources of the results that it shows."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from builders import ClaudeSession, open_client, uuid_of, write_claude, write_codex
from msgspec.structs import replace
from test_search_equal import hits, indexed
from test_work import age, opened_below, settle

from amux.adapters import load_builtin
from amux.client import Client
from amux.model.options import SearchSort, SessionQuery

SESSIONS = 30


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    for number in range(1, SESSIONS + 1):
        rare = f"needle{number}" if number <= 3 else "hay"
        write_claude(home, number, cwd=f"/src/p{number % 3}", prompt=f"common {rare} words")
        write_codex(home, 1000 + number)
    settle(home)
    return home


@pytest.fixture
def cache(home: Path, tmp_path: Path) -> Path:
    """The index of the home, up to date."""
    with indexed(home, tmp_path / "cache") as client:
        client.sessions.search("anything")
    return tmp_path / "cache"


def paths_of(home: Path, *numbers: int) -> list[str]:
    names = {uuid_of(number) for number in numbers}
    return sorted(str(path) for path in home.rglob("*.jsonl") if path.stem in names)


def test_only_the_sessions_that_are_found_are_opened(home: Path, cache: Path) -> None:
    with indexed(home, cache) as client, opened_below(home) as opened:
        assert len(client.sessions.search("needle2")) == 1
        assert opened() == paths_of(home, 2)


def test_only_shown_sessions_are_opened(home: Path, cache: Path) -> None:
    with indexed(home, cache) as client, opened_below(home) as opened:
        report = client.search_report(SessionQuery(text="common", limit=2))
        assert len(report.sessions) == 2
        assert report.truncated == SESSIONS - 2
        assert len(opened()) == 2


@pytest.mark.parametrize(
    "query",
    ["nothingofthekind", "common project:p9", "common model:unknown", "common since:2099-01-01",
     "common agent:codex", "needle1 tag:none", "needle1 is:starred", "project:p1"],
)  # fmt: skip
def test_queries_answered_by_rows_and_words_open_no_file(
    home: Path, cache: Path, query: str
) -> None:
    with indexed(home, cache) as client, opened_below(home) as opened:
        found = client.sessions.search(query)
        assert bool(found) == (query == "project:p1")
        assert opened() == []


def test_a_search_reads_only_new_sessions_and_shown_hits(home: Path, cache: Path) -> None:
    new = write_claude(home, 500, prompt="another needle2").path
    age(new)
    with indexed(home, cache) as client, opened_below(home) as opened:
        assert len(client.sessions.search("needle2")) == 2
        assert opened() == sorted([str(new), *paths_of(home, 2)])


def test_a_long_running_client_uses_what_others_have_written(home: Path, cache: Path) -> None:
    with indexed(home, cache) as staying:
        assert len(staying.sessions.search("needle2")) == 1
        write_claude(home, 501, prompt="one more needle2")
        with indexed(home, cache) as other:
            assert len(other.sessions.search("needle2")) == 2
        assert len(staying.sessions.search("needle2")) == 2


def test_only_part_of_a_long_session_is_read_for_its_hits(tmp_path: Path) -> None:
    home = tmp_path / "home"
    session = ClaudeSession(home, uuid_of(1))
    for number in range(200):
        session.prompt(f"the common word {number}").reply("x" * 10_000)
    session.write()
    settle(home)
    direct = open_client(home)
    with indexed(home, tmp_path / "cache") as client:
        (found,) = client.sessions.search("common")
        assert found.hit_count == 200
        assert [hit.message_number for hit in found.hits] == [1, 3, 5]
        assert hits(client, "common") == hits(direct, "common")
        (everything,) = client.sessions.search("common", hits=None)
        assert len(everything.hits) == 200


def test_of_a_phrase_in_tool_text_only_the_shown_messages_are_decoded(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for number in range(1, 11):
        session = ClaudeSession(home, uuid_of(number)).prompt("go")
        for call in range(20):
            text = "one common phrase" if call % 2 else "phrase of one more common word"
            session.tool_call(f"t{call}", {"command": "ls"}).tool_result(f"t{call}", text)
        session.reply().write()
    settle(home)
    query = SessionQuery(text='"common phrase"', limit=3)
    direct = open_client(home).search_report(query)
    with indexed(home, tmp_path / "cache") as client:
        client.search_report(SessionQuery(text="anything"))
        with counted_decodings() as decoded:
            report = client.search_report(query)
    assert [each.hits for each in report.sessions] == [each.hits for each in direct.sessions]
    assert [each.hit_count for each in report.sessions] == [10, 10, 10]
    assert decoded() == sum(len(each.hits) for each in report.sessions) == 9


def test_of_a_very_large_session_only_the_shown_messages_are_decoded(tmp_path: Path) -> None:
    home = tmp_path / "home"
    session = ClaudeSession(home, uuid_of(1))
    for _ in range(14):
        session.prompt("the common word").reply("0123456789" * 300_000)
    session.write()
    assert session.path.stat().st_size > 40 << 20
    settle(home)
    with indexed(home, tmp_path / "cache") as client:
        client.sessions.search("anything")
        with counted_decodings() as decoded:
            (found,) = client.sessions.search("common")
    assert found.hit_count == 14
    assert decoded() == len(found.hits) == 3


@contextmanager
def counted_decodings() -> Generator[Callable[[], int]]:
    """Count the messages that are read from where they lie, and readings of whole sources."""
    claude, count = load_builtin("claude"), 0
    with ExitStack() as patched:
        for member in ("read_message_at", "read"):
            original = getattr(claude, member)

            def counted(*given: Any, original: Any = original, **named: Any) -> Any:
                nonlocal count
                count += 1
                return original(*given, **named)

            patched.enter_context(patch.object(claude, member, counted, create=True))
        yield lambda: count


FILTERS = [
    "common project:p1", "common -project:p1", "project:p2", "common agent:claude", "agent:codex",
    "common model:sonnet", "model:gpt", "common since:2020-01-01", "common until:2020-01-01",
    "common tag:mine", "-tag:mine common", "common is:starred", "-is:starred needle1",
    "common role:user", "common role:assistant", "common tool:Bash", "common is:error",
]  # fmt: skip


@pytest.fixture
def annotated(home: Path, tmp_path: Path) -> tuple[Client, Client]:
    """The same sessions and the same stars and tags, with and without an index."""
    env = {"AMUX_DATA_DIR": str(tmp_path / "data")}
    direct = open_client(home, env=env)
    direct.annotations.star(f"claude:{uuid_of(1)}")
    direct.annotations.tag(f"claude:{uuid_of(2)}", "mine")
    return direct, open_client(home, env={**env, "AMUX_CACHE_DIR": str(tmp_path / "cache")})


@pytest.mark.no_cover
@pytest.mark.parametrize("query", FILTERS)
def test_filters_select_the_same_sessions_with_an_index(
    annotated: tuple[Client, Client], query: str
) -> None:
    direct, by_rows = annotated
    assert hits(by_rows, query) == hits(direct, query)


@pytest.mark.parametrize("sort", ["date", "cost"])
def test_the_order_of_results_is_the_same_with_an_index(
    home: Path, cache: Path, sort: SearchSort
) -> None:
    query = SessionQuery(text="common", sort=sort, limit=7)
    with indexed(home, cache) as client:
        kept = client.search_report(query)
    direct = open_client(home).search_report(query)
    assert [one.unified_id for one in kept.sessions] == [one.unified_id for one in direct.sessions]
    assert kept.truncated == direct.truncated


def test_results_are_as_complete_as_without_an_index(home: Path, tmp_path: Path) -> None:
    env = {"AMUX_CACHE_DIR": str(tmp_path / "cache")}
    direct = open_client(home).sessions.search("common", sort="date", limit=None)
    with open_client(home, env=env) as client:
        kept = client.sessions.search("common", sort="date", limit=None)
    for one, other in zip(kept, direct, strict=True):
        assert replace(one, relevance_score=None) == replace(other, relevance_score=None)


@pytest.mark.parametrize("seed", range(12))
def test_damage_that_shows_only_while_searching_changes_no_answer(
    home: Path, cache: Path, seed: int
) -> None:
    direct = hits(open_client(home), "needle2")
    (texts,) = cache.glob("texts-*.db")
    data, chance = bytearray(texts.read_bytes()), random.Random(seed)
    page = chance.randrange(3, len(data) // 8192) * 8192
    data[page : page + 8192] = chance.randbytes(8192)
    texts.write_bytes(data)
    for _ in range(2):
        with indexed(home, cache) as client:
            assert hits(client, "needle2") == direct
