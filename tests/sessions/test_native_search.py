"""Hermes answers from its own full-text index; everything else is the same grammar and matcher."""

from __future__ import annotations

from pathlib import Path

import pytest

from amux import create_client
from amux.testing import find_captures, fingerprint

CAPTURES = find_captures(Path(__file__).parent.parent / "captures", "hermes")
QUERIES = ["hello", "hello characters", '"hello.txt"', "README", "日本", "zzzz"]


@pytest.fixture(params=CAPTURES, ids=[capture.name for capture in CAPTURES])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    home: Path = request.param.copy_to(tmp_path)
    return home


def test_the_agents_own_index_is_asked(home: Path, statements: list[str]) -> None:
    assert create_client(home=home).sessions.search("hello", agent="hermes")
    assert any("MATCH" in statement for statement in statements)


def ids(home: Path, query: str) -> set[str]:
    hits = create_client(home=home).sessions.search(query, agent="hermes", limit=None)
    return {hit.session_id for hit in hits}


@pytest.mark.parametrize("query", QUERIES)
def test_the_index_finds_what_reading_everything_finds(home: Path, query: str) -> None:
    # A regular expression no index can answer: every text is read, and the query decides.
    assert ids(home, query) == ids(home, f"/(?s)./ {query}")


def test_alternatives_are_the_union(home: Path) -> None:
    assert ids(home, "hello OR bonjour") == ids(home, "hello") | ids(home, "bonjour")


def test_searching_leaves_no_trace(home: Path) -> None:
    before = fingerprint(home)
    create_client(home=home).sessions.search("hello", agent="hermes")
    assert fingerprint(home) == before
