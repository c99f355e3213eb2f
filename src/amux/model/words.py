"""The forms in which texts are compared: pure functions, the same for every reader of texts."""

from __future__ import annotations

import re
import unicodedata

_ACCENTS = re.compile("[\u0300-\u036f]+")


def fold(text: str) -> str:
    """The form in which texts are compared: lower case, without accents."""
    if text.isascii():
        return text.lower()
    return _ACCENTS.sub("", unicodedata.normalize("NFKD", text)).casefold()


def fold_spaces(text: str) -> str:
    """White space of any kind and length is one space."""
    return " ".join(text.split())
