"""Regular expressions match as in Python, and each search ends within a time limit."""

from __future__ import annotations

import subprocess
import sys

import pytest
from child_processes import SOURCES
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st

from amux.sessions.search.query.regex import compile_regex, objection
from amux.sessions.search.query.terms import Term

ATOMS = st.sampled_from(
    ["a", "b", "c", "ab", "x", r"\w", r"\s", ".", "[ab]", "[^a]", "(ab|c)", "(a|ab)", "(?:abc|b)",
     "b?", "(.*)", "(a.*b)", r"\b", "^", "$", r"\n", "(?=b)", "(?<=a)", "(?s:.)", " ", "|"]
)  # fmt: skip
OFTEN = st.sampled_from(["", "", "*", "+", "?", "{2}", "{1,2}", "{2,}", "*?", "+?", "*+"])
PIECES = st.tuples(ATOMS, OFTEN).map("".join) | st.sampled_from([".*", ".+", ".*?"])
FLAGS = st.sampled_from(["", "", "", "(?s)", "(?m)"])
TEXTS = st.text(st.sampled_from("aabbcx \nABd"), max_size=14)


@drawn(1500)
@given(flags=FLAGS, pattern=st.lists(PIECES, min_size=1, max_size=6).map("".join), text=TEXTS)
def test_an_expression_is_found_where_python_finds_it(flags: str, pattern: str, text: str) -> None:
    expression = compile_regex(flags + pattern)
    if expression is None or objection(flags + pattern):
        return
    expected = any(match.group() for match in expression.finditer(text))
    assert bool(Term("regex", flags + pattern).count(text, text)) is expected


def test_a_regular_expression_yields_every_match() -> None:
    term = Term("regex", "from.*import")
    assert [*term.spans("from a import b\nfrom\nx from c import d import")] == [(0, 13), (23, 36)]


HOSTILE = """
import sys
from amux.sessions.search.query.regex import objection
from amux.sessions.search.query.terms import Term
texts = ["a" * 60 + "ab" * 40 + " x" * 3000, "a" * 3000, "ab" * 1500]
for pattern in sys.argv[1:]:
    assert objection(pattern) is None, pattern
    for text in texts:
        Term("regex", pattern).count(text, text)
"""
LET_THROUGH = [
    "a*a*a*a*a*a*a*a*b", ".*.*.*.*=.*q", ".*import.*zzz.*", "x.*x.*x.*q", "(.*)x(.*)x(.*)q",
    "(?s)a.*a.*a.*q", "a.*?a.*?a.*?q", "a+.*a+.*a+.*q", "(?:xa|a)+q", "(ab?)+q", r"(\w+) \1q",
    "[ax ]+q", r"\s+$", "(?>a+b?)+q",
]  # fmt: skip


@pytest.mark.no_cover
def test_accepted_regular_expressions_end_soon_on_hostile_texts() -> None:
    # In a process of its own: nothing else can stop an expression.
    subprocess.run(
        [sys.executable, "-c", HOSTILE, *LET_THROUGH],
        check=True,
        timeout=60,
        env={"PYTHONPATH": SOURCES},
    )
