"""Words that a query may have meant: those that somebody said and that differ in a letter or two.

A letter too many, too few, another one, or two neighbours swapped is one difference (the distance
of Damerau and Levenshtein, nothing changed twice). Words of four to seven letters may have one,
longer ones two; shorter words, ideographs and words with a digit are never doubted.
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
    """Knows words without reading texts."""

    def words(self) -> Iterable[str]:
        """Those that somebody said, folded."""
        ...

    def held(self, query: Query) -> Collection[Term]:
        """The terms of a query that occur anywhere."""
        ...


_SHORTEST, _LONG, _LONGEST = 4, 8, 40
_REMEMBERED: Final = 1 << 16
"""How many words are remembered as unlike all of the query, so as not to compare them again."""


def distance(one: str, other: str) -> int:
    """How many differences make one word the other."""
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
    """How many differences a word may have; 0: it is taken as it is."""
    is_doubtful = word.isalpha() and not is_ideographic(word)
    if not is_doubtful or not _SHORTEST <= len(word) <= _LONGEST:
        return 0
    return 1 if len(word) < _LONG else 2


class NearWords:
    """Collects, from the texts that are read, the words like those of a query."""

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
        """Take the words of a folded text, each once."""
        self.add(set(self._word.findall(folded)).difference(self._unlike))

    def add(self, words: Iterable[str]) -> None:
        """Take some words."""
        for word in words:
            if word not in self._unlike and not self._file(word):
                if len(self._unlike) >= _REMEMBERED:
                    self._unlike.clear()
                self._unlike.add(word)

    def replacements(self, query: Query, held: Collection[Term]) -> dict[str, str]:
        """For each word of a term that nothing holds, the most similar one.

        Of several the first in the alphabet: how often a word occurs an index knows only roughly.
        """
        missing = (word for term in query.terms if term not in held for word in term.words)
        found: dict[str, str] = {}
        for word in missing:
            near = self._near.get(word, set())
            if near and word not in near:
                _, found[word] = min((distance(word, one), one) for one in near)
        return found

    def _file(self, word: str) -> bool:
        """Note the word if it is near to one of the query; whether it is."""
        is_near = False
        for wanted, most in self._tolerances.items():
            near = self._near[wanted]
            if word in near or _is_near(wanted, word, most):
                near.add(word)
                is_near = True
        return is_near


def _is_near(wanted: str, word: str, most: int) -> bool:
    if abs(len(word) - len(wanted)) > most:
        return False
    # One difference takes one letter away and brings one in at most: cheap to see, and rare.
    return len(set(word) ^ set(wanted)) <= 2 * most and distance(wanted, word) <= most


def corrected(text: str, replacements: Mapping[str, str], *, now: datetime) -> str:
    """The query with some of its words replaced; filters, expressions and NOT are left alone."""
    pieces: list[str] = []
    end = 0
    for token in tokens(text, now=now):
        is_wanted = token.term is not None and token.term.words and not token.is_negated
        if not is_wanted:
            continue
        start = token.span[0]
        pieces += [text[end:start], _replaced(text[slice(*token.span)], replacements)]
        end = token.span[1]
    return "".join([*pieces, text[end:]])


def _replaced(text: str, replacements: Mapping[str, str]) -> str:
    return re.sub(r"\w+", lambda match: replacements.get(fold(match[0]), match[0]), text)
