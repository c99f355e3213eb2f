"""A search for titles finds what a scan of every title finds, however often it is repeated."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from amux.model.words import fold
from amux.sessions.search.query.grammar import parse_query
from amux.sessions.search.query.terms import Term
from amux.sessions.search.titles import Titles

OFTEN = 50
WORDS = (
    "fix",
    "prefix",
    "fix_it",
    "日本語",
    "日本",
    "Été",
    "a",
    "it",
    "x1",
    "_",
    "-",
    "\n",
    "fix-it",
)
titles = st.lists(st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join), max_size=6)
QUERIES = (
    "fix", "fix*", "it", "it*", "日", "本語", "ete", "é*", "a", "_", "_it", "x1*", "fix-it",
    "fix_*", '"fix it"', '"日本"', "İ", "ß*",
)  # fmt: skip
queries = st.sampled_from(QUERIES)


def looked_at(all_titles: list[str], term: Term) -> set[int]:
    return {n for n, title in enumerate(all_titles) if term.count(title, fold(title))}


@given(titles, queries)
def test_a_title_search_equals_checking_each_title(all_titles: list[str], query: str) -> None:
    (term,) = parse_query(query).terms
    assert Titles(all_titles).containing(term) == looked_at(all_titles, term)


@given(titles, st.lists(queries, min_size=1, max_size=3))
def test_repeated_title_searches_give_the_same_answers(
    all_titles: list[str], asked: list[str]
) -> None:
    kept = Titles(all_titles)
    for _ in range(OFTEN):
        for query in asked:
            (term,) = parse_query(query).terms
            assert kept.containing(term) == looked_at(all_titles, term)


@given(titles)
def test_titles_are_returned_folded(all_titles: list[str]) -> None:
    kept = Titles(all_titles)
    assert [kept.folded(n) for n in range(len(all_titles))] == [*map(fold, all_titles)]
