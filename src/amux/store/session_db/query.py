"""Search queries as people type them, turned into expressions that FTS5 understands.

FTS5 has a grammar of its own: an unmatched quote or a stray operator is an error there. A query is
cleaned of such characters, and words with dots, underscores or hyphens become phrases, because
FTS5 would take the hyphen for an operator.
"""

from __future__ import annotations

import re
from typing import Final

LONGEST: Final = 2048
"""The characters of a query that are used."""

OPERATORS: Final = frozenset({"AND", "OR", "NOT"})

_PHRASE: Final = r'("[^"]*")|'  # comes first in each pattern: what is quoted stays as it is
_SPECIAL: Final = re.compile(_PHRASE + r'[+{}():"^\x00]')
_STARS: Final = re.compile(_PHRASE + r"\*+")
_LEADING_STAR: Final = re.compile(_PHRASE + r"(?:^|(?<=\s))\*")
_COMPOUND: Final = re.compile(_PHRASE + r"\b\w+(?:[._-]\w+)+\b")
_FIRST_OPERATOR: Final = re.compile(r"^(?:AND|OR|NOT)\b\s*", re.IGNORECASE)
_LAST_OPERATOR: Final = re.compile(r"\s+(?:AND|OR|NOT)$", re.IGNORECASE)
_UNSPACED: Final = re.compile(
    "[\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0002fa1f]"
)
"""Characters of Chinese, Japanese and Korean, whose words need not be separated by spaces."""

_TRIGRAM: Final = 3
_TERM: Final = re.compile(r'"[^"]*"\*?|\S+')
_WRAPPING: Final = '"*'


def sanitize(query: str) -> str:
    """Return a query without the characters that FTS5 would reject; "" if nothing is left."""
    text = _SPECIAL.sub(lambda found: found[1] or " ", query[:LONGEST])
    text = _STARS.sub(lambda found: found[1] or "*", text)
    text = _LEADING_STAR.sub(lambda found: found[1] or "", text)
    text = _FIRST_OPERATOR.sub("", text.strip())
    text = _LAST_OPERATOR.sub("", text.strip())
    return _COMPOUND.sub(lambda found: found[1] or f'"{found[0]}"', text).strip()


def is_unspaced(query: str) -> bool:
    """Return whether a query has characters of a script without spaces between words."""
    return _UNSPACED.search(query) is not None


def as_trigrams(query: str) -> str | None:
    """Return a cleaned query as an expression for the table of trigrams.

    None if a word of a script without spaces is shorter than a trigram: that table cannot find it.
    """
    words = _TERM.findall(query)
    lengths = (len(_UNSPACED.findall(word)) for word in words)
    if any(0 < length < _TRIGRAM for length in lengths):
        return None
    return " ".join(word if word in OPERATORS else f'"{word.strip(_WRAPPING)}"' for word in words)


def words_of(query: str) -> list[str]:
    """Return the words and phrases of a cleaned query, without operators, quotes and stars."""
    words = (word.strip(_WRAPPING) for word in _TERM.findall(query) if word not in OPERATORS)
    return [word for word in words if word]
