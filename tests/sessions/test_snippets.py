"""Snippets around a hit: long texts are cut like short ones, although only a part is scanned."""

from __future__ import annotations

from drawn import drawn
from hypothesis import example, given
from hypothesis import strategies as st

from amux.model.words import fold, fold_spaces
from amux.sessions.search.match import MatchState
from amux.sessions.search.query.grammar import parse_query
from amux.sessions.search.query.terms import Term, phrase_term, text_term, word_term
from amux.sessions.search.snippets import SNIPPET_LENGTH, cut_excerpt, find_excerpt

PIECES = (
    "error",
    "Error",
    "naïve",
    "e\u0301rror",
    "ﬁx",
    "日本",
    "x_error",
    "  ",
    "\n",
    " ",
    ".",
    "…",
)
pieces = st.lists(st.sampled_from(PIECES), max_size=30)
terms = st.sampled_from(
    [
        text_term("error"),
        word_term("err*"),
        text_term("fix"),
        text_term("本"),
        phrase_term("error error"),
        phrase_term("naive error"),
        phrase_term("日本 error"),
        phrase_term("a b"),
    ]
)


def first_place(text: str, term: Term) -> int | None:
    """Where the term begins in the original: character by character, of the whole text."""
    match = term.pattern.search(fold(text))
    if match is None:
        return None
    length = 0
    for index, character in enumerate(text):
        if length >= match.start():
            return index
        length += len(fold(character))
    return len(text)


def around(text: str, at: int) -> str:
    start = max(0, at - 50)
    end = min(len(text), start + 2 * SNIPPET_LENGTH)
    folded = fold_spaces(text[start:end])
    cut = folded[:SNIPPET_LENGTH].rstrip()
    is_cut = len(cut) < len(folded) or end < len(text)
    return ("…" if start else "") + cut + ("…" if is_cut else "")


@drawn(300)
@given(pieces, st.integers(0, 400), pieces, terms)
@example(["x"], 2047, ["error"], text_term("error"))
@example(["日本"], 400, ["e\u0301rror"], text_term("error"))
def test_the_first_hit_is_shown_wherever_it_stands(
    before: list[str], fill: int, behind: list[str], term: Term | None
) -> None:
    assert term is not None
    text = "".join(before) + " filler" * fill + "".join(behind)
    at = first_place(text, term)
    found = find_excerpt(text, (term,))
    if at is None:
        assert found is None
        assert cut_excerpt(text, (term,)).text == around(text, 0)
        return
    assert found is not None
    assert found.text == around(text, at)
    assert cut_excerpt(text, (term,), fold(text)) == found
    for start, end in found.ranges:
        assert fold(found.text[start:end]).strip("…") != ""


@given(
    st.lists(st.sampled_from((*PIECES, "fix", "…error", "日error", "_", "\u3099")), max_size=12),
    st.sampled_from(['"error error"', '"fix"', '"x_error" error', '"error fix" -err*', "fix err*"]),
)
def test_a_message_fits_where_the_patterns_of_its_folded_text_do(
    some: list[str], written: str
) -> None:
    query, text = parse_query(written), "".join(some)
    tally = MatchState(query)
    tally.add(text)
    folded = fold(text)
    assert tally.present == {term for term in query.all_terms if term.pattern.search(folded)}


@given(pieces, terms)
def test_marked_ranges_match_the_term(some: list[str], term: Term | None) -> None:
    assert term is not None
    text = "".join(some)
    found = find_excerpt(text, (term,))
    if found is not None:
        shown = [found.text[start:end] for start, end in found.ranges]
        assert shown
        assert all(term.pattern.search(fold(each)) for each in shown[:1])


@given(
    st.text("ab_ .\n日é", max_size=40),
    st.sampled_from(['"a b"', '"a.b"', "a*", "ab", '"b a b"', '"日 a"', '".a"', "a.*"]),
)
def test_occurrences_are_those_of_the_pattern(text: str, written: str) -> None:
    term = phrase_term(written.strip('"')) if written.startswith('"') else word_term(written)
    assert term is not None
    folded = fold(text)
    assert list(term.spans(folded)) == [match.span() for match in term.pattern.finditer(folded)]
    assert term.count(text, folded) == len(term.pattern.findall(folded))
