"""The query language of the store's search, and the matcher that decides what a hit is.

Words are combined with AND; `OR` separates alternatives, `NOT` excludes, quotes make a phrase.
`pars*` matches words that begin so, `*arser` words that end so, `*arse*` words that contain it.
Letter case and accents do not matter. A term with ideographs, kana or hangul matches anywhere in
the text. Nothing a person types is an error:
operators without operands and unmatched quotes are ignored.

An index may propose candidates in its own way; this module decides.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import msgspec

MAX_QUERY: Final = 2048
SNIPPET_LENGTH: Final = 160
CONTEXT_LENGTH: Final = 200
MARKS: Final = (">>>", "<<<")

_TOKEN: Final = re.compile(r'"([^"]*)"(\*?)|([^\s"]+)')
_WORD: Final = re.compile(r"\w+")
_UNSPACED: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]")


class SearchTerm(msgspec.Struct, frozen=True):
    """A word or a phrase. A `substring` matches anywhere in a text.

    The last word of a `prefix` may be the beginning of a word, the first one of a `suffix` its end.
    """

    words: tuple[str, ...]
    prefix: bool = False
    suffix: bool = False
    substring: bool = False

    @property
    def text(self) -> str:
        """Return the words with single spaces."""
        return " ".join(self.words)


class SearchAlternative(msgspec.Struct, frozen=True):
    """One side of OR: terms that a text must have, and terms that it must not have."""

    required: tuple[SearchTerm, ...]
    excluded: tuple[SearchTerm, ...] = ()


def parse_search(text: str) -> tuple[SearchAlternative, ...]:
    """Return the alternatives of a query; empty if it requires nothing."""
    alternatives: list[SearchAlternative] = []
    required: list[SearchTerm] = []
    excluded: list[SearchTerm] = []
    negated = False
    for match in _TOKEN.finditer(text[:MAX_QUERY]):
        phrase, star, word = match.groups()
        if word == "OR":
            alternatives.append(SearchAlternative(tuple(required), tuple(excluded)))
            required, excluded, negated = [], [], False
        elif word in {"AND", "NOT"}:
            negated = word == "NOT"
        else:
            term = _term(phrase if word is None else word, prefix=bool(star))
            if term is not None:
                (excluded if negated else required).append(term)
            negated = False
    alternatives.append(SearchAlternative(tuple(required), tuple(excluded)))
    return tuple(each for each in alternatives if each.required)


def _term(text: str, *, prefix: bool) -> SearchTerm | None:
    prefix = prefix or text.endswith("*")
    folded = fold(text)
    if _UNSPACED.search(folded):
        return SearchTerm((folded.strip("*"),), substring=True)
    words = tuple(_WORD.findall(folded))
    return SearchTerm(words, prefix=prefix, suffix=text.startswith("*")) if words else None


def fold(text: str) -> str:
    """Return a text without letter case and accents."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    plain = "".join(char for char in decomposed if not unicodedata.combining(char))
    return unicodedata.normalize("NFC", plain)


def match_text(alternatives: Sequence[SearchAlternative], text: str) -> tuple[str, ...] | None:
    """Return the terms that occur in a text that matches; None if it does not match."""
    folded = fold(text)
    words = _WORD.findall(folded)
    for alternative in alternatives:
        if all(_occurs(term, folded, words) for term in alternative.required) and not any(
            _occurs(term, folded, words) for term in alternative.excluded
        ):
            return tuple(term.text for term in alternative.required)
    return None


def _occurs(term: SearchTerm, folded: str, words: list[str]) -> bool:
    if term.substring:
        return term.text in folded
    if len(term.words) == 1:
        return any(_fits(term, term.words[0], word) for word in words)
    first, *inner, last = term.words
    size = len(term.words)
    return any(
        words[start + 1 : start + size - 1] == inner
        and (words[start].endswith(first) if term.suffix else words[start] == first)
        and (end.startswith(last) if term.prefix else end == last)
        for start, end in enumerate(words[size - 1 :])
    )


def _fits(term: SearchTerm, wanted: str, word: str) -> bool:
    if term.prefix:
        return wanted in word if term.suffix else word.startswith(wanted)
    return word.endswith(wanted) if term.suffix else word == wanted


def snippet_of(text: str, terms: Sequence[str]) -> str:
    """Return the part of a text around the first term, with the occurrences marked."""
    plain = " ".join(text.split())
    ranges = _ranges(plain, {word for term in terms for word in term.split()})
    start = max(0, (ranges[0][0] if ranges else 0) - SNIPPET_LENGTH // 3)
    end = start + SNIPPET_LENGTH
    parts, done = ["..." if start else ""], start
    for first, last in ranges:
        if last <= end:
            parts += (plain[done:first], MARKS[0], plain[first:last], MARKS[1])
            done = last
    parts += (plain[done:end], "..." if end < len(plain) else "")
    return "".join(parts)


def _ranges(text: str, words: set[str]) -> list[tuple[int, int]]:
    """Return where the words occur in a text; letter case and accents do not matter."""
    if not words:
        return []
    pattern = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
    if text.isascii():
        return [found.span() for found in re.finditer(pattern, text.lower())]
    folded = [(number, part) for number, char in enumerate(text) for part in _fold_char(char)]
    positions = [number for number, _ in folded]
    found = re.finditer(pattern, "".join(part for _, part in folded))
    return [(positions[each.start()], positions[each.end() - 1] + 1) for each in found]


@lru_cache(maxsize=4096)
def _fold_char(char: str) -> str:
    return fold(char)
