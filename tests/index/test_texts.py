"""The text index finds what a scan of every text finds."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import pytest
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st
from naive_terms import holds
from text_strategies import terms, texts

from amux.index.text.engine import UNPLACED_TEXT, Table, TextIndex
from amux.index.text.plan import WIDEST, TermKind
from amux.model.texts import TextDoc
from amux.model.words import OVERLAP, PIECE, fold

UNIT = 7


def in_memory() -> TextIndex:
    return TextIndex(sqlite3.connect(":memory:", isolation_level=None))


def spoken(*said: str) -> list[TextDoc]:
    """One message for every text."""
    return [TextDoc(ordinal, (text,), ()) for ordinal, text in enumerate(said)]


def tools(*done: str) -> list[TextDoc]:
    return [TextDoc(ordinal, (), (text,)) for ordinal, text in enumerate(done)]


def ordinals(index: TextIndex, kind: TermKind, text: str, *, exact: bool = True) -> set[int]:
    """The messages of `UNIT` that hold a term."""
    found = index.documents(kind, fold(text))
    assert found.exact is exact
    assert found.ids is not None
    assert {key >> 20 for key in found.ids} <= {UNIT}
    return {key & 0xFFFFF for key in found.ids}


@drawn(200)
@given(st.data())
def test_documents_with_all_terms_are_those_that_have_each(data: st.DataObject) -> None:
    said = data.draw(st.lists(texts, max_size=6))
    wanted = data.draw(st.lists(terms(said), min_size=2, max_size=3))
    index = in_memory()
    index.add(1, spoken(*said))
    index.add(2, spoken(*said))
    index.add(3, tools(*said))
    index.drop(1)
    found = index.documents_with_all(wanted, table="spoken")
    want = [
        2 << 20 | number
        for number, text in enumerate(said)
        if all(holds(kind, term, text) for kind, term in wanted)
    ]
    assert found is None or found == want  # None: it is not sure
    index.close()


def test_texts_without_a_message_prevent_combining_terms(index: TextIndex) -> None:
    both: list[tuple[TermKind, str]] = [("word", "alpha"), ("prefix", "bet")]
    index.add(1, spoken("alpha", "alpha beta", "beta"))
    assert index.documents_with_all(both, table="spoken") == [1 << 20 | 1]
    index.add(2, [TextDoc(UNPLACED_TEXT, ("alpha",), ())])
    assert index.documents_with_all(both, table="spoken") is None


@pytest.fixture
def index() -> Iterator[TextIndex]:
    made = in_memory()
    yield made
    made.close()


@drawn(300)
@given(st.data())
def test_documents_equal_those_found_by_checking_every_text(data: st.DataObject) -> None:
    said = data.draw(st.lists(texts, max_size=5))
    done = data.draw(st.lists(texts, max_size=5))
    held: dict[Table, list[str]] = {"spoken": said, "tools": done}
    index = in_memory()
    bulk = data.draw(st.booleans())
    if bulk:
        index.begin_bulk()
    index.add(1, spoken(*said))
    index.add(2, tools(*done))
    if bulk:
        index.finish_bulk()
    for _ in range(4):
        kind, term = data.draw(terms([*said, *done]))
        for unit, (table, all_texts) in enumerate(held.items(), start=1):
            got = index.documents(kind, term, tables=(table,))
            want = {
                unit << 20 | number
                for number, text in enumerate(all_texts)
                if holds(kind, term, text)
            }
            assert got.ids is not None
            assert got.ids == sorted(set(got.ids))
            assert set(got.ids) == want if got.exact else want.issubset(got.ids)
    index.close()


def test_a_character_that_unicode_does_not_know_is_no_part_of_a_word(index: TextIndex) -> None:
    index.add(UNIT, spoken("aaa\U0002ffffa", "\u65e5\U0002ffff\u672c"))
    assert ordinals(index, "phrase", "aaa a") == {0}
    assert ordinals(index, "phrase", "\u65e5\u672c") == set()


def test_a_word_is_found_anywhere_in_a_text(index: TextIndex) -> None:
    index.add(
        UNIT, [*spoken("An ErrorHandler", "terror", "café"), TextDoc(3, (), ("stderr: error",))]
    )
    assert ordinals(index, "word", "error") == {0, 1, 3}
    assert ordinals(index, "word", "CAFE") == {2}
    assert ordinals(index, "word", "nothing") == set()


def test_a_prefix_is_found_where_a_word_begins(index: TextIndex) -> None:
    index.add(UNIT, spoken("config", "reconfig", "修正config", "グconfig"))
    # A voicing mark is what folding leaves of グ, and no word character: a word begins behind it.
    assert ordinals(index, "prefix", "conf") == {0, 3}


def test_a_phrase_is_consecutive_whole_words(index: TextIndex) -> None:
    index.add(UNIT, spoken("the red, fox", "the red foxes", "red the fox", "RED -- fox!"))
    assert ordinals(index, "phrase", "red fox") == {0, 3}


def test_a_phrase_does_not_run_from_one_text_of_a_message_into_the_next(index: TextIndex) -> None:
    index.add(UNIT, [TextDoc(0, ("ends in red", "fox begins"), ()), TextDoc(1, ("red fox",), ())])
    assert ordinals(index, "phrase", "red fox") == {1}


def test_a_phrase_is_found_in_single_tool_texts(index: TextIndex) -> None:
    index.add(UNIT, tools("red fox", "fox red", "red"))
    index.add(UNIT, [TextDoc(3, (), ("ends in red", "fox begins")), TextDoc(4, ("red",), ("fox",))])
    assert ordinals(index, "phrase", "red fox") == {0}


@drawn(300)
@given(st.data())
def test_no_term_is_found_across_two_texts_of_a_message(data: st.DataObject) -> None:
    parts = st.lists(texts, max_size=4)
    said, done = data.draw(parts), data.draw(parts)
    index = in_memory()
    index.add(1, [TextDoc(0, tuple(said), tuple(done))])
    held: dict[Table, list[str]] = {"spoken": said, "tools": done}
    for _ in range(4):
        kind, term = data.draw(terms([" ".join(said), "".join(done), "\n".join(done)]))
        for table, some in held.items():
            got = index.documents(kind, term, tables=(table,))
            is_held = any(holds(kind, term, text) for text in some)
            assert got.ids is not None
            assert is_held is bool(got.ids) if got.exact else is_held <= bool(got.ids)
    index.close()


def test_a_literal_selects_candidates_by_its_words(index: TextIndex) -> None:
    index.add(UNIT, spoken("see src/main.pyi", "src main py", "src/main.rs", "main py src"))
    assert ordinals(index, "literal", "rc/main.py", exact=False) == {0, 1, 3}


@pytest.mark.parametrize("term", ["検", "索", "検索", "索エンジン", "検索エンジン構築"])
def test_chinese_and_japanese_are_found_from_one_character_up(index: TextIndex, term: str) -> None:
    index.add(UNIT, spoken("全文検索エンジン構築中", "検品と索引", "エンジン"))
    want = {0, 1} if len(term) == 1 else {0}
    assert ordinals(index, "word", term) == want


@pytest.mark.parametrize("term", ["2024年", "24年度", "v2の2024年", "年度report", "の2024"])
def test_words_of_two_scripts_are_found_as_they_are_written(index: TextIndex, term: str) -> None:
    index.add(UNIT, spoken("v2の2024年度reports", "v2 の 2024 年 度 report"))
    assert ordinals(index, "word", term) == {0}


def test_korean_is_found_within_a_word(index: TextIndex) -> None:
    index.add(UNIT, spoken("한국어로 검색", "영어"))
    assert ordinals(index, "word", "국어") == {0}


def test_no_text_is_too_odd_to_be_added_or_looked_for(index: TextIndex) -> None:
    odd = "\ud800 nul\x00nul \x7f \" ' * ( ) AND \U0010ffff"
    index.add(UNIT, spoken(odd))
    assert ordinals(index, "word", "nul") == {0}
    for kind in ("word", "prefix", "phrase", "literal"):
        for term in ('"', "*", "a\x00b", "\ud800", "NOT", "x\x7fy", "{a b} : c", ""):
            index.documents(kind, fold(term))


def test_a_regular_expression_does_not_restrict_the_candidates(index: TextIndex) -> None:
    index.add(UNIT, spoken("one", "two"))
    found = index.documents("regex", "o.e")
    assert found.ids is None
    assert not found.exact


def test_a_letter_in_too_many_words_does_not_restrict_the_candidates(index: TextIndex) -> None:
    index.begin_bulk()
    index.add(UNIT, spoken(" ".join(f"x{number}e" for number in range(WIDEST + 1)), "none"))
    index.finish_bulk()
    found = index.documents("word", "e")
    assert found.ids is None
    assert not found.exact
    assert ordinals(index, "prefix", "x1") == {0}


def test_words_of_thousands_of_letters_are_found_by_any_part(index: TextIndex) -> None:
    letters = "".join(chr(ord("a") + number * number % 26) for number in range(50))
    long = "".join(f"{letters}{number}" for number in range(PIECE // 10))
    index.add(UNIT, spoken(f"{long} end", f"{long}検"))
    for start in range(0, len(long), PIECE - OVERLAP // 3):
        assert ordinals(index, "word", long[start : start + OVERLAP]) == {0, 1}
    assert ordinals(index, "prefix", long[:OVERLAP]) == {0, 1}
    assert ordinals(index, "prefix", long[PIECE - OVERLAP : PIECE]) == set()
    assert ordinals(index, "word", long, exact=False) == {0, 1}
    assert ordinals(index, "phrase", f"{long} end", exact=False) == {0}


def test_a_dropped_unit_is_no_longer_found(index: TextIndex) -> None:
    for unit in (1, 2, 3, 4, 5):
        index.add(unit, spoken("same words"))
    index.drop(2)
    assert index.documents("word", "words").ids == [unit << 20 for unit in (1, 3, 4, 5)]
    assert index.documents("phrase", "same words").ids == [unit << 20 for unit in (1, 3, 4, 5)]
    assert index.units() == {1: 1, 3: 1, 4: 1, 5: 1}
    assert index.document_counts() == (1, 5)


def test_a_message_that_has_grown_may_be_added_again(index: TextIndex) -> None:
    index.begin_bulk()
    index.add(UNIT, spoken("first", "half a"))
    index.finish_bulk()
    index.add(UNIT, [TextDoc(1, ("half a sentence",), ("tool",)), TextDoc(2, ("half more",), ())])
    assert ordinals(index, "phrase", "half a sentence") == {1}
    assert ordinals(index, "word", "half") == {1, 2}
    assert ordinals(index, "word", "ool") == {1}


def test_a_text_without_a_message_makes_its_unit_uncertain(index: TextIndex) -> None:
    index.add(
        1,
        [
            *spoken("alpha"),
            TextDoc(UNPLACED_TEXT, (), ("beta",)),
            TextDoc(UNPLACED_TEXT + 1, (), ("gamma",)),
        ],
    )
    index.add(2, spoken("alpha", "beta"))
    alpha, beta = (index.documents("word", word) for word in ("alpha", "beta"))
    assert alpha.ids is not None
    assert beta.ids is not None
    assert (
        set(alpha.ids).intersection(beta.ids)
        == alpha.unsure
        == beta.unsure
        == {1 << 20 | UNPLACED_TEXT}
    )
    gamma = index.documents("word", "gamma")
    assert gamma == ([1 << 20 | UNPLACED_TEXT], {1 << 20 | UNPLACED_TEXT})


def test_the_vocabulary_counts_messages(index: TextIndex) -> None:
    index.add(UNIT, [TextDoc(0, ("Red red fox",), ("bash",)), TextDoc(1, ("red 検索abc",), ())])
    assert dict(index.vocabulary()) == {
        "red": 2, "fox": 1, "bash": 1, "検索": 1, "索": 1
    }  # fmt: skip
    assert dict(index.vocabulary(tables=("tools",))) == {"bash": 1}
