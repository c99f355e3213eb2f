"""Regular expressions match as in Python, and each search ends within a time limit."""

from __future__ import annotations

import re
import time
import warnings
from pathlib import Path

import pytest
from builders import open_client, write_claude
from drawn import drawn
from hypothesis import assume, given
from hypothesis import strategies as st

from amux.errors import ValidationError
from amux.model.options import SessionQuery
from amux.sessions.search.query.regex import TIME_LIMIT, is_valid
from amux.sessions.search.query.terms import Term

ATOMS = st.sampled_from(
    ["a", "b", "c", "ab", "x", r"\w", r"\s", ".", "[ab]", "[^a]", "(ab|c)", "(a|ab)", "(?:abc|b)",
     "b?", "(.*)", "(a.*b)", r"\b", "^", "$", r"\n", "(?=b)", "(?<=a)", "(?s:.)", " ", "|",
     "{e}", "{", "}", "{a<=1}", "[[:alpha:]]", "[[a]", r"[\[b]", r"[\\[:a]", "[]a]", r"\{",
     "&&", "[a&&b]", "[a--b]", "[a||b]", "(?#[)", "(?#a]b)", "(?<!a)", "(?!b)", "(?i:A)", "(?-i:A)",
     "(?>a|ab)"]
)  # fmt: skip
OFTEN = st.sampled_from(["", "", "*", "+", "?", "{2}", "{1,2}", "{2,}", "*?", "+?", "*+"])
PIECES = st.tuples(ATOMS, OFTEN).map("".join) | st.sampled_from([".*", ".+", ".*?"])
FLAGS = st.sampled_from(["", "", "", "(?s)", "(?m)", "(?x)"])
TEXTS = st.text(st.sampled_from("aabbcx \nABd{e}<=1[:]lph&-|"), max_size=14)


@drawn(1500)
@given(flags=FLAGS, pattern=st.lists(PIECES, min_size=1, max_size=6).map("".join), text=TEXTS)
def test_an_expression_is_found_where_python_finds_it(flags: str, pattern: str, text: str) -> None:
    assume(is_valid(flags + pattern))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        expression = re.compile(flags + pattern, re.IGNORECASE)
    expected = [match.span() for match in expression.finditer(text) if match.group()]
    assert [*Term("regex", flags + pattern).spans(text)] == expected


def test_a_regular_expression_yields_every_match() -> None:
    term = Term("regex", "from.*?import")
    assert [*term.spans("from a import b\nfrom\nx from c import d import")] == [(0, 13), (23, 36)]


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("(?<=über )straße", "Über STRASSE, über Straße", ["Straße"]),
        (r"(?<![\w-])café(?!s)", "Cafés CAFÉ xcafé -café", ["CAFÉ"]),
        ("検索.?引", "全文検索索引", ["検索索引"]),
        (
            r"\N{EM DASH}+[\N{EN DASH}b]",
            "a\u2014\u2013 \u2014\u2014B",
            ["\u2014\u2013", "\u2014\u2014B"],
        ),
        (r"(?P<word>\w+) (?P=word)", "the the end", ["the the"]),
        (r"\U0001f642{2}", "\U0001f642" * 5, ["\U0001f642" * 2] * 2),
    ],
)
def test_look_around_and_unicode_mean_what_they_mean_in_python(
    pattern: str, text: str, found: list[str]
) -> None:
    assert [text[start:end] for start, end in Term("regex", pattern).spans(text)] == found
    assert [match.group() for match in re.finditer(pattern, text, re.IGNORECASE)] == found


@pytest.mark.parametrize(
    "pattern",
    ["a{4294967294}", ".{100001}", "(?:a{600}){600}", "(?:(?:ab){40}c){2000,}", "x{9}" * 12_000]
    + ["(?:" * depth + "a" + ")" * depth for depth in (200, 400)],
    ids=lambda pattern: pattern[:24],
)
def test_an_expression_that_would_take_much_memory_is_searched_for_as_text(
    home: Path, pattern: str
) -> None:
    assert not is_valid(pattern)
    write_claude(home, 1, prompt=f"why not /{pattern}/ then")
    report = open_client(home).search_report(SessionQuery(text=f"/{pattern}/"))
    assert [note.rpartition("` ")[2] for note in report.notes] == [
        "is not a valid regular expression; it is searched for as text"
    ]


@pytest.mark.parametrize(
    "pattern",
    ["a{100000}", r"\d{4}-\d{2}-\d{2}T" * 100, "(?:[0-9a-f]{40} ){9}", "(?:" * 50 + "a" + ")" * 50],
)
def test_an_expression_with_many_repeats_is_one(pattern: str) -> None:
    assert is_valid(pattern)


@pytest.mark.parametrize("pattern", [r"(\w+\s?)+$", "(a|aa)+$", "x.*x.*x.*x.*q"])
def test_an_expression_that_takes_too_long_ends_with_an_error(pattern: str) -> None:
    text = "a" * 60 + " x" * 3000 + "!"
    begin = time.process_time()
    with pytest.raises(ValidationError, match="takes more than 2 seconds") as caught:
        Term("regex", pattern).count(text, text)
    assert f"`/{pattern}/`" in str(caught.value)
    assert time.process_time() - begin < 5 * TIME_LIMIT


@pytest.mark.parametrize(
    "pattern",
    ["a*a*a*a*a*a*a*a*b", ".*.*.*.*=.*q", ".*import.*zzz.*", "(?:xa|a)+q", "[ax ]+q", r"\s+$",
     "(?>a+b?)+q"],
)  # fmt: skip
def test_a_text_that_an_expression_needs_and_lacks_ends_the_search_at_once(pattern: str) -> None:
    for text in ("a" * 60 + "ab" * 40 + " x" * 3000, "a" * 3000, "ab" * 1500):
        Term("regex", pattern).count(text, text)
