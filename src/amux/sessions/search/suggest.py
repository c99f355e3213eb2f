"""Suggests words that a query may have meant: recorded words that differ in a letter or two.

A letter too many, too few, a different letter, or two swapped neighbours is one difference (the
optimal string alignment distance of Damerau and Levenshtein). Words of four to seven letters may
have one difference, longer ones two; shorter words, ideographs and words with a digit are never
corrected.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Final, Protocol

from amux.model.words import fold
from amux.sessions.search.query.grammar import Query, tokens
from amux.sessions.search.query.terms import Term, is_ideographic


class SpokenWords(Protocol):
    """A vocabulary that is available without reading texts."""

    def words(self) -> Iterable[str]:
        """Return the folded words of people and models."""
        ...

    def present(self, query: Query) -> Collection[Term]:
        """Return the terms of a query that occur anywhere."""
        ...


_SHORTEST, _LONG, _LONGEST = 4, 8, 40
_MAX_UNLIKE: Final = 1 << 16
"""The number of words that are remembered as unlike all of the query, to compare them once."""


def distance(one: str, other: str) -> int:
    """Return the number of differences between two words."""
    older: list[int] = []
    above = list(range(len(other) + 1))
    for i, letter in enumerate(one, start=1):
        row = [i]
        for j, counterpart in enumerate(other, start=1):
            changed = above[j - 1] + (letter != counterpart)
            best = min(above[j] + 1, row[j - 1] + 1, changed)
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == counterpart:
                best = min(best, older[j - 2] + 1)
            row.append(best)
        older, above = above, row
    return above[-1]


def tolerance(word: str) -> int:
    """Return how many differences a word may have; 0 if it is never corrected."""
    is_correctable = word.isalpha() and not is_ideographic(word)
    if not is_correctable or not _SHORTEST <= len(word) <= _LONGEST:
        return 0
    return 1 if len(word) < _LONG else 2


class NearWords:
    """Collects the words that are similar to those of a query."""

    def __init__(self, query: Query) -> None:
        words = (word for term in query.terms for word in term.words)
        self._tolerances = {word: tolerance(word) for word in words if tolerance(word)}
        self._near: dict[str, set[str]] = {word: set() for word in self._tolerances}
        self._unlike: set[str] = set()
        shortest = min((len(word) - most for word, most in self._tolerances.items()), default=1)
        longest = max((len(word) + most for word, most in self._tolerances.items()), default=1)
        self._word = re.compile(rf"(?<!\w)[^\W\d_]{{{shortest},{longest}}}(?!\w)")

    def __bool__(self) -> bool:
        return bool(self._tolerances)

    def read(self, folded: str) -> None:
        """Add the words of a folded text."""
        self.add(set(self._word.findall(folded)).difference(self._unlike))

    def add(self, words: Iterable[str]) -> None:
        """Add the words that are similar to one of the query."""
        for word in words:
            if word in self._unlike:
                continue
            near = [
                self._near[wanted]
                for wanted, most in self._tolerances.items()
                if word in self._near[wanted] or _is_near(wanted, word, most)
            ]
            for similar in near:
                similar.add(word)
            if not near:
                if len(self._unlike) >= _MAX_UNLIKE:
                    self._unlike.clear()
                self._unlike.add(word)

    def replacements(self, query: Query, present: Collection[Term]) -> dict[str, str]:
        """Return the most similar word for each word of a term that is not present.

        Of several words it is the first in alphabetical order, not the most frequent one: an index
        has only approximate frequencies.
        """
        missing = (word for term in query.terms if term not in present for word in term.words)
        found: dict[str, str] = {}
        for word in missing:
            near = self._near.get(word, set())
            if near and word not in near:
                _, found[word] = min((distance(word, one), one) for one in near)
        return found


def _is_near(wanted: str, word: str, most: int) -> bool:
    if abs(len(word) - len(wanted)) > most:
        return False
    # One difference removes at most one letter and adds at most one: a cheap test that few pass.
    return len(set(word) ^ set(wanted)) <= 2 * most and distance(wanted, word) <= most


def corrected(text: str, replacements: Mapping[str, str], *, now: datetime) -> str:
    """Return the query with words replaced; filters, expressions and exclusions do not change."""

    def replaced(match: re.Match[str]) -> str:
        return replacements.get(fold(match[0]), match[0])

    pieces: list[str] = []
    end = 0
    for token in tokens(text, now=now):
        if token.term is not None and token.term.words and not token.is_negated:
            start, stop = token.span
            pieces += [text[end:start], re.sub(r"\w+", replaced, text[start:stop])]
            end = stop
    return "".join([*pieces, text[end:]])
