"""The search grammar: every text is a valid query; a second evaluation checks its meaning."""

from __future__ import annotations

import re

import pytest
from drawn import drawn
from hypothesis import example, given
from hypothesis import strategies as st

from amux.model.words import fold
from amux.sessions.search.match import MatchState
from amux.sessions.search.query.grammar import Query, parse_query
from amux.sessions.search.query.terms import Term, TermKind
from amux.sessions.search.snippets import SNIPPET_LENGTH, cut_excerpt

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


def test_all_words_must_occur_in_any_order() -> None:
    assert holds("red blue", "blue and red")
    assert not holds("red blue", "only red")
    assert holds("red AND blue", "blue and red")


def test_and_binds_tighter_than_or() -> None:
    assert holds("a1 b2 OR c3", "c3")
    assert holds("a1 b2 OR c3", "b2 a1")
    assert not holds("a1 b2 OR c3", "a1")


def test_not_excludes_within_its_alternative() -> None:
    assert holds("red NOT blue", "red green")
    assert not holds("red NOT blue", "red blue")
    assert holds("red NOT blue OR green", "red blue green")
    assert not holds('red NOT "blue green"', "red blue green")


@pytest.mark.parametrize("query", ["NOT red", "NOT", "OR", "", "  ", '""', "( )", "red OR NOT x"])
def test_a_query_of_exclusions_only_matches_nothing(query: str) -> None:
    assert not holds(query, "green")


def test_operators_are_upper_case_words() -> None:
    assert holds("black or white", "black or white")
    assert not holds("black or white", "black and white")
    assert holds('"AND"', "this and that"), "quoted, an operator is a word"


def test_a_phrase_is_its_words_in_order_whatever_the_spaces_between() -> None:
    assert holds('"red  blue"', "red\n\tblue")
    assert not holds('"red blue"', "blue red")
    assert holds('"red blue', "red blue"), "a forgotten quote is closed at the end"


@pytest.mark.parametrize(
    "text", ["Not  found", "not-found", "not, found!", "(NOT\nFOUND)", "nót found"]
)
def test_between_the_words_of_a_phrase_stands_anything_but_a_word(text: str) -> None:
    assert holds('"not found"', text)


@pytest.mark.parametrize(
    "text", ["cannot found", "not founded", "not_found", "notfound", "found not"]
)
def test_a_phrase_consists_of_whole_words(text: str) -> None:
    assert not holds('"not found"', text)


def test_one_word_in_quotes_is_a_whole_word() -> None:
    assert holds('"cat"', "the cat.")
    assert not holds('"cat"', "concatenate")
    assert not holds('"cat"', "cat_id")


@pytest.mark.parametrize(
    ("query", "text", "fits"),
    [
        ('"100% sure"', "not 100%  sure", True),
        ('"100% sure"', "100 sure", False),
        ('"a.b(c)"', "xa.b(c)d", True),
        ('"a.b(c)"', "a b c", False),
        ('"-x"', "run-x", True),
    ],
)
def test_a_phrase_with_other_signs_is_that_very_text(query: str, text: str, fits: bool) -> None:
    assert holds(query, text) is fits


@pytest.mark.parametrize(
    ("query", "text", "fits"),
    [
        ('"日本"', "日本語の文章", True),
        ('"文章"', "日本語の文章", True),
        ('"日本 文章"', "日本、文章", True),
        ('"日本 文章"', "日本語 文章", False),
        ('"use 日本"', "reuse 日本語", False),
        ('"use 日本"', "use: 日本語", True),
        ('"が"', "日本語が", True),
    ],
)
def test_scripts_without_spaces_have_no_word_edges(query: str, text: str, fits: bool) -> None:
    assert holds(query, text) is fits


def test_a_dash_before_a_word_excludes_it() -> None:
    assert not holds("red -blue", "red blue")
    assert holds("red -blue", "red green")
    assert not holds('red -"blue green"', "red blue green")
    assert not holds("red -/bl.e/", "red blue")
    assert not holds("red -bl*", "red blue")
    assert not holds("red NOT -blue", "red blue"), "twice not is not once not"
    assert holds("well-known", "a well-known fact"), "inside a word it is a sign"
    assert holds("--json", "amux --json"), "an option is a word"
    assert holds("-", "a - b")


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
    assert holds("/time(d )?out/", "it timed out")
    assert holds("blue /red gr.*n/ und", "und blue red  green red green")
    assert holds("cd /tmp ; ls /", "cd /tmp ; ls /"), "no expression begins or ends with a space"


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("/[/", "is not a valid regular expression"),
        ("/foo(/", "is not a valid regular expression"),
        (r"/\p{L}/", "is not a valid regular expression"),
        ("/a(?i)b/", "is not a valid regular expression"),
    ],
)
def test_an_expression_that_cannot_be_used_is_text_and_a_note_says_why(
    query: str, reason: str
) -> None:
    parsed = parse_query(query)
    assert parsed.terms == (Term("text", fold(query)),)
    (note,) = parsed.notes
    assert f"`{query}`" in note
    assert reason in note


@pytest.mark.parametrize(
    "query",
    [r"/(?>\w+\s?)+$/", r"/(\w++ )+x/", "/(ab|c?d){2}+e*/", r"/(a\+[+*]\*)+/", "/(a{3}b)*/",
     "/(foo|bar|baz)+!/", r"/(\d{1,3}\.){3}\d+/", r"/(,?\d)*;/", r"/(.|\n)*x/", r"/\w+\s*=\s*\w+/",
     r"/[\w.+-]+@[\w-]+\.[\w.]+/", r"/(\w+) \1/", r"/class\s+\w+.*foo.*bar/", "/(.*)x(.*)y/",
     "/.*.*.*.*=.*q/", "/a*a*a*a*a*a*a*a*b/", r"/(error|warn(ing)?): .*line \d+/"],
)  # fmt: skip
def test_harmless_regular_expressions_are_accepted(query: str) -> None:
    assert parse_query(query).notes == ()
    assert parse_query(query).terms[0].kind == "regex"


def test_operators_with_nothing_to_join_are_text() -> None:
    assert holds("OR", "this or that")
    assert holds("NOT", "why not")
    assert holds("(", "f(x)")
    assert holds(") OR (", "a ) or ( b")


def test_parentheses_group() -> None:
    assert holds("(red OR blue) green", "green blue")
    assert not holds("(red OR blue) green", "red")
    assert not holds("red -(green OR blue)", "red blue")
    assert holds("red NOT (green blue)", "red blue")
    assert holds("print(red)", "red: print")
    assert holds("((red OR (blue", "blue"), "one that is missing stands at the end"
    assert holds("red) blue", "blue red")


def test_parentheses_that_stand_for_too_much_are_ignored() -> None:
    query = " ".join(f"(a{number} OR b{number})" for number in range(40))
    parsed = parse_query(query)
    assert parsed.notes == ("the parentheses expand to over 64 alternatives and are ignored",)
    assert len(parsed.alternatives) == 41
    assert parse_query("(" * 5000 + "red" + ")" * 5000).terms == (Term("text", "red"),)


@pytest.mark.parametrize(
    "literal", ["%", "_", "a_b", "100%", "c++", "[x]", "a.b", "$HOME", "^x", "\\d"]
)
def test_punctuation_is_literal(literal: str) -> None:
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


@drawn(300)
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


def written(tree: Tree, *, no: str = "NOT ") -> str:
    marks = {"word": "{}", "prefix": "{}*", "phrase": '"{}"'}
    return " OR ".join(
        " ".join(
            (no if negated else "") + marks[kind].format(text)
            for negated, (kind, text) in alternative
        )
        for alternative in tree
    )


def naive(tree: Tree, text: str) -> bool:
    """The words of a text are between its spaces and dashes."""
    words = text.replace("-", " ").split()

    def present(kind: str, wanted: str) -> bool:
        if kind == "prefix":
            return any(word.startswith(wanted) for word in words)
        if kind == "phrase":
            return f" {wanted} " in f" {' '.join(words)} "
        return wanted in text

    return any(
        any(not negated for negated, _ in alternative)
        and all(present(*atom) is not negated for negated, atom in alternative)
        for alternative in tree
    )


@drawn(400)
@given(
    tree=TREES,
    words=st.lists(st.sampled_from(WORDS), max_size=5),
    between=st.sampled_from([" ", "-", " - "]),
    no=st.sampled_from(["NOT ", "-"]),
)
def test_a_query_means_what_its_tree_says(
    tree: Tree, words: list[str], between: str, no: str
) -> None:
    text = between.join(words)
    assert holds(written(tree, no=no), text) is naive(tree, text)


# The same with parentheses: what nested lists of AND, OR and NOT say of a text.

Nested = tuple[str, bool, "str | list[Nested]"]  # operator, negated, what it joins

NESTED: st.SearchStrategy[Nested] = st.recursive(
    st.tuples(st.just(""), st.booleans(), st.sampled_from(WORDS)),
    lambda inner: st.tuples(
        st.sampled_from([" ", " AND ", " OR "]),
        st.booleans(),
        st.lists(inner, min_size=1, max_size=3),
    ),
    max_leaves=6,
)


def written_nested(tree: Nested, *, no: str) -> str:
    operator, negated, inner = tree
    if isinstance(inner, str):
        return f"{no if negated else ''}{inner}"
    joined = operator.join(written_nested(each, no=no) for each in inner)
    return f"{no if negated else ''}({joined})"


def naive_nested(tree: Nested, text: str) -> bool:
    operator, negated, inner = tree
    if isinstance(inner, str):
        return (inner in text) is not negated
    fits = [naive_nested(each, text) for each in inner]
    return (any(fits) if operator == " OR " else all(fits)) is not negated


@drawn(400)
@given(
    tree=NESTED,
    words=st.lists(st.sampled_from(WORDS), max_size=5),
    no=st.sampled_from(["NOT ", "-"]),
)
def test_groups_mean_what_their_tree_says(tree: Nested, words: list[str], no: str) -> None:
    query, text = f"yes {written_nested(tree, no=no)}", " ".join(["yes", *words])
    if not parse_query(query).notes:
        assert holds(query, text) is naive_nested(tree, text)


def test_repeated_terms_are_parsed_once() -> None:
    query: Query = parse_query("red RED Réd NOT x NOT x")
    assert query.terms == (Term("text", "red"),)
    assert query.unwanted == (Term("text", "x"),)


# Windows: a huge text is looked through in pieces, and a cut is no edge of a word.


@pytest.mark.parametrize("query", ['"not found"', "not*", '"found"'])
def test_a_cut_is_not_a_word_boundary(query: str) -> None:
    (term,) = parse_query(query).terms
    assert term.count("", "not found") == 1
    cut_off = (query != '"found"', query != "not*")
    assert term.count("", "not found", cut=cut_off) == 0
    assert term.count("", "so not found it", cut=(True, True)) == 1


@drawn(50)
@given(
    ends=st.lists(st.integers(0, 3 << 20), min_size=1, max_size=3),
    before=st.sampled_from(["", "can"]),
    behind=st.sampled_from(["", "ed"]),
    query=st.sampled_from(['"not found"', "not*", "found"]),
)
def test_matching_by_windows_equals_matching_the_whole_text(
    ends: list[int], before: str, behind: str, query: str
) -> None:
    text = ""
    for end in sorted(ends):
        text = text.ljust(end, ".") + f"{before}not found{behind}"
    parsed = parse_query(query)
    tally = MatchState(parsed)
    tally.add(text)
    assert tally.is_match is holds(query, text)


# Snippets


@drawn(200)
@given(
    before=st.text(alphabet="ab é\n日", max_size=400),
    after=st.text(alphabet="ab é\n日", max_size=400),
    word=st.sampled_from(["Needle", "nädel", "針", "ﬁx"]),
)
def test_a_snippet_holds_the_hit_on_one_short_line(before: str, after: str, word: str) -> None:
    text = f"{before} {word} {after}"
    snippet = cut_excerpt(text, parse_query(word).terms).text
    assert fold(word) in fold(snippet)
    assert len(snippet) <= SNIPPET_LENGTH + 2
    assert not re.search(r"\s\s|\n", snippet)
    inner = snippet.strip("…").strip()
    assert inner in " ".join(text.split()), "nothing is invented"


def test_a_snippet_has_dots_where_text_was_cut() -> None:
    terms = parse_query("needle").terms
    assert cut_excerpt("a needle here", terms).text == "a needle here"
    long = "x" * 500 + " needle " + "y" * 500
    assert cut_excerpt(long, terms).text.startswith("…")
    assert cut_excerpt(long, terms).text.endswith("…")


def test_a_hit_far_inside_a_huge_text_is_shown() -> None:
    text = "ä " * 150_000 + "needle" + " z" * 10
    assert "needle" in cut_excerpt(text, parse_query("needle").terms).text
    assert "needle" in cut_excerpt(text, parse_query("/needle/").terms).text


def test_a_text_without_the_hit_is_shown_from_its_start() -> None:
    assert cut_excerpt("nothing here", parse_query("needle").terms).text == "nothing here"


@drawn(200)
@given(
    before=st.text(alphabet="ab é\n日\u0301", max_size=400),
    after=st.text(alphabet="ab é\n日", max_size=400),
    word=st.sampled_from(["Needle", "nädel", "針", "ﬁx", "STRAẞE"]),
    times=st.integers(1, 3),
)
def test_the_ranges_of_an_excerpt_are_the_wanted_words(
    before: str, after: str, word: str, times: int
) -> None:
    text = f"{before} {' '.join([word] * times)} {after}"
    shown, ranges = cut_excerpt(text, parse_query(word).terms)
    assert ranges
    assert [shown[start:end] for start, end in ranges] == [word] * min(times, len(ranges))
    flat = [edge for one in ranges for edge in one]
    assert flat == sorted(set(flat)), "in order, none empty, none touching"


def test_overlapping_words_are_one_range_and_an_expression_has_ranges_too() -> None:
    shown, ranges = cut_excerpt("a redder one", parse_query("red edder /o.e/").terms)
    assert [shown[start:end] for start, end in ranges] == ["redder", "one"]


def test_a_cut_word_is_not_marked_where_it_does_not_begin() -> None:
    text = "x" * 60 + "auth " + "authority"
    shown, ranges = cut_excerpt(text, parse_query("auth*").terms)
    assert [shown[start:end] for start, end in ranges] == ["auth"]
    assert shown.endswith("authority")


@given(st.text("ab_ é", max_size=30), st.text("ab", min_size=1, max_size=3))
def test_beginnings_of_words_are_counted_as_the_pattern_counts_them(text: str, part: str) -> None:
    term, folded = Term("prefix", part), fold(text)
    for cut in [(False, False), (True, False), (False, True), (True, True)]:
        matches = [match.span() for match in term.pattern.finditer(folded)]
        whole = [
            (start, end)
            for start, end in matches
            if not (cut[0] and start == 0) and not (cut[1] and end == len(folded))
        ]
        assert term.count(text, folded, cut=cut) == len(whole)


@pytest.mark.parametrize(
    ("text", "noted"), [("NOT hello", True), ("-a -b", True), ("", False), ("a -b", False)]
)
def test_a_query_of_exclusions_only_gets_a_note(text: str, noted: bool) -> None:
    assert any("only exclusions" in note for note in parse_query(text).notes) is noted


@drawn(300)
@given(
    text=st.text(st.sampled_from("ab_ .-\u00e9\u65e5"), max_size=30),
    words=st.lists(st.text(st.sampled_from("ab_\u65e5"), min_size=1, max_size=2), max_size=3),
    kind=st.sampled_from(["phrase", "text", "prefix"]),
)
def test_words_in_a_row_are_found_where_the_pattern_finds_them(
    text: str, words: list[str], kind: TermKind
) -> None:
    term = Term(kind, " ".join(words) or "a")
    assert list(term.spans(text)) == [match.span() for match in term.pattern.finditer(text)]
