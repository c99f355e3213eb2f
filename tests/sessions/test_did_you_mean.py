"""Suggestions for a query without hits."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import timedelta
from functools import cache
from pathlib import Path

import pytest
from builders import NOW, START, open_client, write_claude
from hypothesis import given
from hypothesis import strategies as st
from search_scope import scope_of
from search_scope import search as search_in

from amux.client import Client
from amux.model.options import SessionQuery
from amux.model.reports import SearchReport
from amux.model.words import fold
from amux.sessions.search.query.grammar import Query, parse_query
from amux.sessions.search.query.terms import Term
from amux.sessions.search.suggest import NearWords, corrected, distance, tolerance

WORDS = st.text(alphabet="abc", max_size=6)


@cache
def by_definition(one: str, other: str) -> int:
    """The distance from the ends of the words backwards, without a table."""
    if not one or not other:
        return len(one) + len(other)
    ways = [
        by_definition(one[:-1], other) + 1,
        by_definition(one, other[:-1]) + 1,
        by_definition(one[:-1], other[:-1]) + (one[-1] != other[-1]),
    ]
    if len(one) > 1 and len(other) > 1 and one[-2:] == other[-1] + other[-2]:
        ways.append(by_definition(one[:-2], other[:-2]) + 1)
    return min(ways)


@given(one=WORDS, other=WORDS)
def test_the_distance_is_what_its_definition_says(one: str, other: str) -> None:
    assert distance(one, other) == by_definition(one, other) == distance(other, one)


@pytest.mark.parametrize(
    ("word", "differences"),
    [
        ("abc", 0),
        ("abcd", 1),
        ("abcdefg", 1),
        ("abcdefgh", 2),
        ("abc4", 0),
        ("日本語文", 0),
        ("a" * 41, 0),
    ],
)
def test_longer_words_may_differ_more(word: str, differences: int) -> None:
    assert tolerance(word) == differences


def guess(query: str, words: Iterable[str]) -> dict[str, str]:
    parsed = parse_query(query)
    near = NearWords(parsed)
    near.add(words)
    return near.replacements(parsed, present=())


def test_the_nearest_word_is_chosen_then_the_first_in_the_alphabet() -> None:
    assert guess("paymnet", ["payment", "payments", "payments"]) == {"paymnet": "payment"}
    assert guess("bold", ["gold", "gold", "cold"]) == {"bold": "cold"}
    assert guess("configurtaoin", ["configuration"]) == {"configurtaoin": "configuration"}


def test_words_that_occur_or_are_short_or_too_different_are_not_corrected() -> None:
    assert guess("payment", ["payment", "payments"]) == {}
    assert guess("cta", ["cat"]) == {}
    assert guess("zebra", ["horse"]) == {}
    assert guess("paym* /paymnt/ NOT paymnet", ["payment"]) == {}


@given(text=st.text(alphabet="ab cdABÉ.,\n日_1", max_size=80))
def test_the_words_of_a_text_are_found_in_it(text: str) -> None:
    parsed = parse_query("abcd")
    near = NearWords(parsed)
    near.read(fold(text))
    one_by_one = NearWords(parsed)
    one_by_one.add(word for word in re.findall(r"\w+", fold(text)) if word.isalpha())
    assert near.replacements(parsed, present=()) == one_by_one.replacements(parsed, present=())


@pytest.mark.parametrize(
    ("text", "rewritten"),
    [
        ("paymnet", "payment"),
        ('"the Paymnet" OR x', '"the payment" OR x'),
        ("paymnet.py -paymnet", "payment.py -paymnet"),
        (
            "a NOT paymnet tool:paymnet /paymnet/ paymnet*",
            "a NOT paymnet tool:paymnet /paymnet/ paymnet*",
        ),
    ],
)
def test_excluded_words_are_not_corrected(text: str, rewritten: str) -> None:
    assert corrected(text, {"paymnet": "payment"}, now=NOW) == rewritten


# In a search


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Client:
    home = tmp_path_factory.mktemp("typos")
    write_claude(home, 1, prompt="the payment service", answer="connection refused")
    write_claude(home, 2, prompt="the basement", answer="flaky test", at=START + timedelta(days=1))
    return open_client(home)


def search(client: Client, text: str, *, exact: bool = False) -> SearchReport:
    return client.search_report(SessionQuery(text=text, exact=exact))


def test_a_query_without_a_hit_is_tried_with_the_words_that_occur(client: Client) -> None:
    report = search(client, "paymnet service")
    assert (report.did_you_mean, report.corrected_to) == ("payment service",) * 2
    assert [session.title for session in report.sessions] == ["the payment service"]
    (hit,) = report.sessions[0].hits
    assert [hit.snippet[start:end] for start, end in hit.ranges] == ["payment", "service"]


def test_a_query_with_a_hit_is_not_corrected(client: Client) -> None:
    report = search(client, "pay")
    assert (len(report.sessions), report.did_you_mean, report.corrected_to) == (1, None, None)


def test_exact_disables_corrections(client: Client) -> None:
    report = search(client, "paymnet", exact=True)
    assert (report.sessions, report.did_you_mean, report.corrected_to) == ((), None, None)
    assert client.sessions.search("paymnet") == [], "a list cannot say that it is a guess"
    assert len(client.sessions.search("paymnet", exact=False)) == 1


def test_a_correction_without_a_hit_is_only_suggested(client: Client) -> None:
    report = search(client, "paymnet flaky")
    assert (report.sessions, report.did_you_mean, report.corrected_to) == (
        (),
        "payment flaky",
        None,
    )


def test_filters_apply_to_corrections_and_their_vocabulary(client: Client) -> None:
    assert search(client, "paymnet role:assistant").corrected_to is None, "no assistant says it"
    assert search(client, "paymnet role:user").corrected_to == "payment role:user"
    assert search(client, "conection role:assistant").corrected_to == "connection role:assistant"
    assert search(client, "is:eror").did_you_mean is None


def test_two_words_may_be_wrong_at_once(client: Client) -> None:
    assert search(client, '"conection refusde"').corrected_to == '"connection refused"'


def test_without_similar_words_there_is_no_correction(client: Client) -> None:
    assert search(client, "xylophone").did_you_mean is None
    assert search(client, "").did_you_mean is None


class _Known:
    """Knows two words, one of which no session has."""

    def words(self) -> list[str]:
        return ["service", "payments"]

    def present(self, query: Query) -> tuple[Term, ...]:
        del query
        return ()


def test_corrections_use_the_given_vocabulary(tmp_path: Path) -> None:
    write_claude(tmp_path, 1, prompt="the payment service")
    scope = scope_of(tmp_path, vocabulary=_Known())
    assert search_in(scope, "servcie", exact=False).corrected_to == "service"
    report = search_in(scope, "paymnets", exact=False)
    assert (report.did_you_mean, report.corrected_to) == ("payments", None)
