"""A search with a limit returns the first results of the full ranking."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
from builders import NOW, open_client, write_claude
from hypothesis import given
from hypothesis import strategies as st
from test_work import settle

from amux.assembly.cost import CostCalculator
from amux.host import Host
from amux.index.database import IndexDatabase
from amux.index.rows.session_row import microseconds
from amux.index.rows.stored_session import SearchRow, StoredSession
from amux.sessions.search.indexed_hits import (
    IndexedHits,
    SessionsByUnit,
    TextAnswer,
    TextCandidates,
)
from amux.sessions.search.query.grammar import parse_query
from amux.sessions.search.ranking import Ranking
from amux.wiring import Wiring

UNIT = 20  # bits of a document's number within its unit


class IndexedSession(NamedTuple):
    """A session: how many messages fit, which have the second word too, its title and age."""

    hits: int
    both: int
    title: str
    age: timedelta


sessions = st.lists(
    st.builds(
        IndexedSession,
        st.integers(0, 9),
        st.integers(0, 9),
        st.sampled_from(("alpha", "beta", "alpha beta", "other", "other", "other")),
        st.sampled_from([timedelta(days=age) for age in (0, 1, 1, 90, 200, 900)]),
    ),
    max_size=30,
)


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> TextCandidates:
    """Candidates of any index: nothing is asked of it here."""
    place = tmp_path_factory.mktemp("foremost")
    write_claude(place / "home", 1)
    settle(place / "home")
    host = Host(place / "home", env={"AMUX_CACHE_DIR": str(place / "cache")}, now=lambda: NOW)
    parts = Wiring(host, project_dir=None, given=None, keeps_index=True)
    names = parts.registry.names()
    found = parts.service.search_scope(names, by_words=True).candidates
    assert isinstance(found, TextCandidates)
    return found


@pytest.mark.parametrize("query", ["alpha", "alpha beta", "alpha OR beta"])
@given(kept=sessions, limit=st.integers(0, 12))
def test_a_limit_returns_the_first_results_of_the_full_ranking(
    texts: TextCandidates, query: str, kept: list[IndexedSession], limit: int
) -> None:
    every = ranked(texts, query, kept, None)
    assert ranked(texts, query, kept, limit) == every[:limit]


def ranked(
    texts: TextCandidates, query: str, kept: Sequence[IndexedSession], limit: int | None
) -> list[tuple[str, float]]:
    parsed = parse_query(query)
    place = Path("nowhere")
    client = open_client(place)
    coster = CostCalculator(client.models, client.run_index)
    rows = [
        StoredSession(row(n, each), IndexDatabase(place), coster) for n, each in enumerate(kept)
    ]
    lookup = SessionsByUnit(rows, {"claude": {n + 1: n + 1 for n in range(len(kept))}})
    fitting = documents(each.hits for each in kept)
    alpha, beta = fitting, documents(min(each.both, each.hits) for each in kept)
    own = (alpha, beta) if "OR" in query else (fitting, fitting)
    answer = TextAnswer(fitting, frozenset(), dict(zip(parsed.terms, own, strict=False)))
    told = IndexedHits(lookup, texts, parsed, answer)
    told.add_titles()
    ranking = Ranking([], told, len(kept), now=NOW)
    found = ranking.first(limit, sort="relevance", max_hits=1)
    return [(finding.session.fields.unified_id, finding.relevance) for finding in found]


def documents(counts: Iterable[int]) -> list[int]:
    """The first messages of each session, of which there are so many."""
    return [
        (session + 1) << UNIT | number
        for session, count in enumerate(counts)
        for number in range(count)
    ]


def row(number: int, session: IndexedSession) -> SearchRow:
    at = microseconds(NOW - session.age)
    keys = array("q", [number + 1]).tobytes()
    name = f"s{number}"
    return SearchRow(
        1, "claude", name, name.encode(), name, at, at, 0.0, None, "", session.title, keys
    )
