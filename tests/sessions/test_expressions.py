"""The texts that every match of a regular expression must contain."""

from __future__ import annotations

import re

import pytest
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st

from amux.model.words import fold
from amux.sessions.search.query.regex import expression_spans, is_valid, needed_text


@pytest.mark.parametrize(
    ("pattern", "needed"),
    [
        ("connect(ed|ing) to", "connect"),
        ("time(d )?out", "out"),
        ("Error: +E[A-Z]+ refused", "refused"),
        ("colou?r", "colo"),
        ("abcd*ef", "abc"),
        ("abcd{0,2}e", "abc"),
        ("abc+def", "abc"),
        (r"foo\.bar_baz", "bar_baz"),
        (r"\bwarn\b", "warn"),
        ("notification", "not"),
        ("one|other", None),
        ("(?:one|other)", None),
        ("(?x) a b c d e f", None),
        ("[abc]def", "def"),
        (r"\d{4}-\d\d", None),
        ("a.b.c", None),
        ("(((", None),
        ("x{123}y", None),
        ("abcx{123}", "abc"),
        (r"\x41bcd", None),
        (r"(a)\1bcd", None),
        ("abc(?#comment)*d", None),
    ],
)
def test_the_longest_part_of_a_word_that_every_match_has(pattern: str, needed: str | None) -> None:
    assert needed_text(pattern) == needed


PIECES = st.sampled_from(
    [*"abcdeiks1_ ", "abc", "skin", "(ab|cd)", "(?:ef)?", "[a-f]", "x*", "y+", "z?", r"\w", r"\.",
     "a{0,1}", "b{2}", r"\x61", "c{100}", "|", ".", "(?i:gh)", "(?=a)", "(?!b)", "a??", "c*+",
     "^", "$"]
)  # fmt: skip
LETTERS = st.sampled_from(
    [*"abcdefghikswxyz1_ .", "I", "K", "S", "\u0131", "\u0130", "\u017f", "\u212a"]
)


@drawn(600)
@given(pattern=st.lists(PIECES, min_size=1, max_size=6).map("".join), data=st.data())
def test_every_match_of_an_expression_contains_its_required_text(
    pattern: str, data: st.DataObject
) -> None:
    needed = needed_text(pattern) if is_valid(pattern) else None
    if needed is None:
        return
    matching = st.from_regex(re.compile(pattern, re.IGNORECASE)) | st.text(LETTERS, max_size=12)
    text = data.draw(matching)
    if any(expression_spans(pattern, text)):
        assert needed in fold(text)
