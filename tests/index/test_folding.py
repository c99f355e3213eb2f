"""How texts are folded and split into words for the text index."""

from __future__ import annotations

import re
import sqlite3
import unicodedata

import pytest
from drawn import drawn
from hypothesis import example, given
from hypothesis import strategies as st
from text_strategies import texts

from amux.index.text.engine import TextIndex
from amux.model.texts import TextDoc
from amux.model.words import (
    JOINT,
    PIECE,
    fold,
    fold_in_place,
    fold_spaces,
    stored_tokens,
    token_text,
    words,
)

J = JOINT


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("Fix it_now, 2x!", ["fix", "it_now", "2x"]),
        ("Crème brûlée", ["creme", "brulee"]),
        ("検索構築", ["検索", "索構", "構築", "築"]),
        ("bug修正fix_it", [f"bug{J}", "修正", "正", f"{J}fix_it"]),
        ("がfix", ["か\u3099", "\u3099", "fix"]),
        ("a\x00b\x7fc", ["a", "b", "c"]),
        ("", []),
    ],
)
def test_a_text_is_cut_into_words(text: str, want: list[str]) -> None:
    assert words(text) == want


@given(texts)
def test_ascii_words_are_the_runs_of_word_characters(text: str) -> None:
    runs = re.findall(r"\w+", fold(text))
    whole = [word for word in words(text) if J not in word and re.fullmatch(r"[a-z0-9_]+", word)]
    assert whole == [run for run in runs if re.fullmatch(r"[a-z0-9_]+", run)]


@drawn(400)
@given(st.one_of(texts, st.text(max_size=40)))
@example("e\u0301\u0345 ǅ İi\u0307 ﬁ ﾊﾟ \u13a0 \ud800 Σς")
def test_folding_removes_accents_and_case(text: str) -> None:
    parts = unicodedata.normalize("NFKD", text)
    assert fold(text) == re.sub("[\u0300-\u036f]", "", parts).casefold()


@given(texts)
def test_folding_ignores_case_and_white_space(text: str) -> None:
    assert fold(text.swapcase()) == fold(text) or not text.isascii()
    assert fold_spaces(text).split(" ") == (text.split() or [""])


@drawn(400)
@given(st.one_of(texts, st.text(max_size=60)))
@example("x" * (PIECE + 1))
@example("é" * (PIECE * 2) + "字" + "y" * (PIECE * 3))
@example("".join(map(chr, range(128))))
def test_the_index_holds_exactly_the_words(text: str) -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    index = TextIndex(connection)
    index.add(1, [TextDoc(0, (text,), ())])
    connection.execute("CREATE VIRTUAL TABLE instances USING fts5vocab(spoken, instance)")
    held = connection.execute('SELECT term FROM instances ORDER BY "offset"').fetchall()
    assert [term for (term,) in held] == words(text)
    assert stored_tokens(token_text(text)) == set(words(text))
    index.close()


@given(texts, st.text("abcefilnorst_0", min_size=1, max_size=3))
@example("\uff25rror", "error")
@example("e\u0301rror", "error")
@example("\ufb01x", "fix")
@example("İ", "i")
@example("グconf", "conf")
def test_folding_in_place_preserves_the_positions_of_ascii_words(text: str, word: str) -> None:
    in_place = fold_in_place(text)
    if in_place is None:
        assert not text.isascii()
        return
    assert len(in_place) == len(text)
    assert in_place.count(word) == fold(text).count(word)
    begins = re.compile(rf"(?<!\w){word}")
    assert len(begins.findall(in_place)) == len(begins.findall(fold(text)))
    at = in_place.find(word)
    assert at < 0 or fold(text[at : at + len(word)]) == word
