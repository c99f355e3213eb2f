"""Labels: names and topics that strangers choose, made safe to show to a person or a model.

A label is one line of visible characters with a length limit. In a prompt it stands between double
quotes, and the characters that could end the quotes or begin a tag are escaped, so that it stays
data whatever it says.
"""

from __future__ import annotations

from typing import Final

MAX_LABEL: Final = 120
"""The characters of a label that are shown."""

_MAX_READ: Final = 4096  # characters: what lies behind them is never shown
_INVISIBLE: Final = frozenset({"Cc", "Cf", "Cs"})
_SELECTORS: Final = (range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0))
_ESCAPES: Final = str.maketrans(
    {"\\": "\\\\", '"': '\\"', "<": "\\u003c", ">": "\\u003e", "`": "\\u0060"}
)


def visible_text(text: str) -> str:
    """Return text as one line without invisible characters.

    Line breaks and runs of white space become one space. Control characters, marks of the writing
    direction, zero-width characters, tag characters and variation selectors disappear.
    """
    kept = (_visible(character) for character in text[:_MAX_READ])
    return " ".join("".join(kept).split())


def _visible(character: str) -> str:
    if character.isprintable() and not _is_selector(character):
        return character
    if character.isspace():
        return " "
    import unicodedata

    if unicodedata.category(character) in _INVISIBLE or _is_selector(character):
        return ""
    return character  # a character that this version of Python does not know


def _is_selector(character: str) -> bool:
    return any(ord(character) in selectors for selectors in _SELECTORS)


def cut_label(text: str, limit: int = MAX_LABEL) -> str:
    """Return text with at most `limit` characters; an ellipsis stands for the rest."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def clean_label(text: str) -> str:
    """Return a label for people: one line of visible characters, at most `MAX_LABEL` of them."""
    return cut_label(visible_text(text))


def quote_label(text: str) -> str:
    """Return a label for a prompt: clean, between double quotes, without tags or code marks."""
    return f'"{clean_label(text).translate(_ESCAPES)}"'
