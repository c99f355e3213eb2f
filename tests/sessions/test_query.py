"""The search grammar. No text is a wrong query; what it means is checked by a second evaluation."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from amux.model.words import fold
from amux.sessions.query import Query, parse_query
from amux.sessions.snippets import SNIPPET_LENGTH, cut_snippet
from amux.sessions.terms import Term

WORDS = ("red", "green", "blue", "redder", "bluegreen", "und")
MALFORMED = (
    '"',
    '""',
    '"""',
    "(",
    "((a)",
    ")",
    "*",
    "**",
    "a**",
    "AND",
    "OR",
    "NOT",
    "NOT NOT",
    "a AND",
    "OR b",
    "a OR OR b",
    "NOT (",
    "a NOT",
    ":",
    "a:b",
    "col:*",
    "//",
    "/[/",
    "/(/",
    "/a{99999999999999999999}/",
    "/" + "(" * 3000 + "/",
    "/[[a]/",
    "/[a--b]/",
    "/(?i)x/",
    "/x(?i)y/",
    "/\\/",
    "^",
    "-",
    "--",
    "\\",
    "'",
    ";",
    "\x00",
    "NEAR(a b)",
    "a\u0301",
    "\u0301",
    "\u00b4",
)


def holds(query: str, text: str) -> bool:
    """Whether one text is a hit."""
    parsed = parse_query(query)
    terms = {*parsed.terms, *parsed.unwanted}
    return parsed.matches({term for term in terms if term.count(text, fold(text))})


def test_words_stand_for_and_in_any_order() -> None:
    assert holds("red blue", "blue and red")
    assert not holds("red blue", "only red")
    assert holds("red AND blue", "blue and red")


def test_and_binds_tighter_than_or() -> None:
    assert holds("a1 b2 OR c3", "c3")
    assert holds("a1 b2 OR c3", "b2 a1")
    assert not holds("a1 b2 OR c3", "a1")


def test_not_takes_back_what_stands_before_it_in_its_alternative() -> None:
    assert holds("red NOT blue", "red green")
    assert not holds("red NOT blue", "red blue")
    assert holds("red NOT blue OR green", "red blue green")
    assert not holds('red NOT "blue green"', "red blue green")


@pytest.mark.parametrize("query", ["NOT red", "NOT", "OR", "", "  ", '""', "( )", "red OR NOT x"])
def test_a_query_without_anything_wanted_matches_nothing_of_it(query: str) -> None:
    assert not holds(query, "green")


def test_operators_are_upper_case_words() -> None:
    assert holds("black or white", "black or white")
    assert not holds("black or white", "black and white")
    assert holds('"AND"', "this and that"), "quoted, an operator is a word"


def test_a_phrase_is_its_words_in_order_whatever_the_spaces_between() -> None:
    assert holds('"red  blue"', "red\n\tblue")
    assert not holds('"red blue"', "blue red")
    assert holds('"red blue', "red blue"), "a forgotten quote is closed at the end"


def test_a_prefix_is_found_where_a_word_begins() -> None:
    assert holds("gre*", "blue-green")
    assert not holds("reen*", "green")
    assert holds("reen", "green"), "a plain word is found anywhere"
    assert holds("*", "2 * 3")


def test_a_regular_expression_stands_between_slashes() -> None:
    assert holds(r"/r.d\b/", "Red!")
    assert not holds(r"/^blue/", "red blue")
    assert holds(r"/src\/main/", "see src/main.py")
    assert holds("/usr/bin/env", "run /usr/bin/env"), "a path is no expression"
    assert holds("/[/", "a literal /[/ here"), "what does not compile is taken as text"
    assert not holds("/x*/", "abc"), "an empty match is no hit"


@pytest.mark.parametrize(
    "literal", ["%", "_", "a_b", "100%", "c++", "[x]", "a.b", "$HOME", "^x", "\\d"]
)
def test_signs_are_literal(literal: str) -> None:
    assert holds(literal, f"before {literal} after")
    assert not holds(literal, "aXb 100 c x HOME 5")


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("ÉCLAIR", "eclair"),
        ("eclair", "Éclair"),
        ("straße", "STRASSE"),
        ("ﬁle", "file"),
        ("日本", "日本語の文章"),
        ("語", "日本語の文章"),
        ("한", "한국어"),
        ("ไทย", "ภาษาไทย"),
        ("naive", "nai\u0308ve"),
        ("ΣΑΣ", "σας"),
        ("\uff11\uff12", "12"),
    ],
)
def test_case_accents_and_widths_are_folded_and_unspaced_scripts_found(
    query: str, text: str
) -> None:
    assert holds(query, text)


@given(text=st.text(max_size=60))
def test_every_word_of_a_text_finds_it(text: str) -> None:
    for word in text.split():
        if '"' not in word and fold(word).strip():
            assert holds(f'"{word}"', text)


@given(text=st.text())
def test_folding_twice_is_folding_once(text: str) -> None:
    assert fold(fold(text)) == fold(text)


SIGNS = st.text(alphabet='"*()/:\\ aORNTD[]{}?+.^$|-\x00\n', max_size=30)


@settings(max_examples=300)
@given(query=st.text(max_size=30) | SIGNS, text=st.text(max_size=30))
@example(query="/(a*)*b/", text="aaaaaaaaaa")
def test_no_query_is_an_error(query: str, text: str) -> None:
    assert holds(query, text) in {True, False}


@pytest.mark.parametrize("query", MALFORMED, ids=range(len(MALFORMED)))
def test_no_malformed_query_is_an_error(query: str) -> None:
    assert holds(query, "some text: a b (c) * x y") in {True, False}


# Queries as trees, written down and evaluated by a second, naive implementation.

Atom = tuple[str, str]  # kind and text
Tree = list[list[tuple[bool, Atom]]]  # alternatives of (negated, atom)

ATOMS = st.one_of(
    st.tuples(st.just("word"), st.sampled_from(WORDS)),
    st.tuples(st.just("prefix"), st.sampled_from(["re", "blue", "gr", "u"])),
    st.tuples(st.just("phrase"), st.tuples(*[st.sampled_from(WORDS)] * 2).map(" ".join)),
)
TREES = st.lists(
    st.lists(st.tuples(st.booleans(), ATOMS), min_size=1, max_size=3), min_size=1, max_size=3
)


def written(tree: Tree) -> str:
    marks = {"word": "{}", "prefix": "{}*", "phrase": '"{}"'}
    return " OR ".join(
        " ".join(
            ("NOT " if negated else "") + marks[kind].format(text)
            for negated, (kind, text) in alternative
        )
        for alternative in tree
    )


def naive(tree: Tree, text: str) -> bool:
    def present(kind: str, wanted: str) -> bool:
        if kind == "prefix":
            return any(word.startswith(wanted) for word in text.split())
        if kind == "phrase":
            return f" {wanted} " in f" {text} "
        return wanted in text

    return any(
        any(not negated for negated, _ in alternative)
        and all(present(*atom) is not negated for negated, atom in alternative)
        for alternative in tree
    )


@settings(max_examples=400)
@given(tree=TREES, words=st.lists(st.sampled_from(WORDS), max_size=5))
def test_a_query_means_what_its_tree_says(tree: Tree, words: list[str]) -> None:
    text = " ".join(words)
    assert holds(written(tree), text) is naive(tree, text)


def test_a_term_is_named_once_however_often_it_is_written() -> None:
    query: Query = parse_query("red RED Réd NOT x NOT x")
    assert query.terms == (Term("text", "red"),)
    assert query.unwanted == (Term("text", "x"),)


# Snippets


@settings(max_examples=200)
@given(
    before=st.text(alphabet="ab é\n日", max_size=400),
    after=st.text(alphabet="ab é\n日", max_size=400),
    word=st.sampled_from(["Needle", "nädel", "針", "ﬁx"]),
)
def test_a_snippet_holds_the_hit_on_one_short_line(before: str, after: str, word: str) -> None:
    text = f"{before} {word} {after}"
    snippet = cut_snippet(text, parse_query(word).terms)
    assert fold(word) in fold(snippet)
    assert len(snippet) <= SNIPPET_LENGTH + 2
    assert not re.search(r"\s\s|\n", snippet)
    inner = snippet.strip("…").strip()
    assert inner in " ".join(text.split()), "nothing is invented"


def test_a_snippet_has_dots_where_text_was_cut() -> None:
    terms = parse_query("needle").terms
    assert cut_snippet("a needle here", terms) == "a needle here"
    long = "x" * 500 + " needle " + "y" * 500
    assert cut_snippet(long, terms).startswith("…")
    assert cut_snippet(long, terms).endswith("…")


def test_a_hit_far_inside_a_huge_text_is_shown() -> None:
    text = "ä " * 150_000 + "needle" + " z" * 10
    assert "needle" in cut_snippet(text, parse_query("needle").terms)
    assert "needle" in cut_snippet(text, parse_query("/needle/").terms)


def test_a_text_without_the_hit_is_shown_from_its_start() -> None:
    assert cut_snippet("nothing here", parse_query("needle").terms) == "nothing here"
