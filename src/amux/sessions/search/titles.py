"""The titles of all sessions, to find those that contain a term.

Titles are searched as one text. After a number of queries their distinct words are listed as well,
each with the titles that contain it: a part of a title without a separator is part of one of its
words. Both are stored in a few long objects, because there can be thousands of sessions.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final

from amux.model.words import fold
from amux.sessions.search.query.terms import Term, is_word

_WORD: Final = re.compile(r"\w+")
_QUERIES_BEFORE_LISTING: Final = 20  # from here on the word list is cheaper


class Titles:
    """The titles of sessions, which are identified by their positions."""

    def __init__(self, titles: Iterable[str]) -> None:
        folded = [fold(title) for title in titles]
        self._text = "\n".join(folded)
        self._begins = array("I", [0, *accumulate(len(title) + 1 for title in folded)])
        self._words: _Words | None = None
        self._queries = 0

    def containing(self, term: Term) -> set[int]:
        """Return the positions of the titles that contain a term other than an expression."""
        longest, is_prefix = max(term.parts, key=len), term.kind == "prefix"
        words = self._word_list() if is_word(longest) else None
        if words is None:
            found = set(self._with_text(longest))
        else:
            found = words.containing(longest, only_at_start=is_prefix and term.is_plain_word)
        is_sure = term.is_plain_word and (words is not None or not is_prefix)
        return found if is_sure else {n for n in found if term.find(self.folded(n)) is not None}

    def folded(self, position: int) -> str:
        """Return a title in folded form."""
        return self._text[self._begins[position] : self._begins[position + 1] - 1]

    def _with_text(self, text: str) -> Iterator[int]:
        at = self._text.find(text)
        while at >= 0:
            position = bisect_right(self._begins, at) - 1
            yield position
            at = self._text.find(text, self._begins[position + 1])

    def _word_list(self) -> _Words | None:
        self._queries += 1
        if self._words is None and self._queries > _QUERIES_BEFORE_LISTING:
            self._words = _Words([self.folded(n) for n in range(len(self._begins) - 1)])
        return self._words


class _Words:
    """The distinct words of some texts, each with the positions of the texts that contain it."""

    def __init__(self, texts: Sequence[str]) -> None:
        positions: dict[str, list[int]] = {}
        for position, text in enumerate(texts):
            for word in set(_WORD.findall(text)):
                positions.setdefault(word, []).append(position)
        encoded = [f"\n{word}".encode() for word in positions]
        self._text = b"".join(encoded)  # half the size of a string that is not all ASCII
        self._begins = array("I", accumulate(map(len, encoded), initial=0))
        self._ends = array("I", accumulate(map(len, positions.values()), initial=0))
        self._positions = array("I", (each for some in positions.values() for each in some))

    def containing(self, part: str, *, only_at_start: bool) -> set[int]:
        """Return the positions of the texts with a word that contains, or starts with, a part."""
        wanted = (f"\n{part}" if only_at_start else part).encode()
        found = set[int]()
        at = self._text.find(wanted)
        while at >= 0:
            number = bisect_right(self._begins, at) - 1
            found.update(self._positions[self._ends[number] : self._ends[number + 1]])
            at = self._text.find(wanted, self._begins[number + 1])
        return found
