from __future__ import annotations

import unicodedata

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from amux.faces.cli.safety import safe_json, safe_text

ANY_TEXT = st.text(alphabet=st.characters(codec=None, categories=None))
HOSTILE = st.text(alphabet="\x00\x07\x1b\x7f\x85\x9b\u2028\u202e\u2066\ud800[31m;]0\r\n\tab")
BIDI = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


def steers(char: str) -> bool:
    """A second opinion, from the Unicode database."""
    return unicodedata.category(char) in ("Cc", "Cs") or unicodedata.bidirectional(char) in BIDI


@given(ANY_TEXT | HOSTILE)
def test_no_control_character_survives_in_a_line(text: str) -> None:
    assert not any(steers(char) for char in safe_text(text))
    assert len(safe_text(text).splitlines()) <= 1


@given(ANY_TEXT | HOSTILE)
def test_a_block_keeps_line_feeds_and_tabs_and_no_other_control_character(text: str) -> None:
    kept = safe_text(text, multiline=True)
    assert {char for char in kept if steers(char)} <= {"\n", "\t"}
    assert kept.count("\n") == text.count("\n")


@given(ANY_TEXT | HOSTILE, st.integers(min_value=0))
def test_escaping_the_pieces_of_a_text_equals_escaping_the_text(text: str, at: int) -> None:
    for multiline in (False, True):
        pieces = (text[:at], text[at:])
        assert safe_text(text, multiline=multiline) == "".join(
            safe_text(piece, multiline=multiline) for piece in pieces
        )


@given(st.text() | st.text(alphabet="\x7f\x85\x9b\u2028\u202e\u2066\\\"'"))
def test_escaped_json_is_the_same_value_without_control_characters(text: str) -> None:
    escaped = safe_json(msgspec.json.encode(text).decode())
    assert msgspec.json.decode(escaped) == text
    assert not any(steers(char) for char in escaped)


def test_replaced_control_characters_stay_visible() -> None:
    assert safe_text("a\x1b[31mb") == "a\u241b[31mb"
    assert safe_text("日本語 naïve 🎉") == "日本語 naïve 🎉"
    assert safe_text("one\ntwo\tthree") == "one two three"
