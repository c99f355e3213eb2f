"""The titles of all sessions, to find those that hold a term.

Titles are looked through as one text. Who is asked more often keeps their words as well, each once
and with the titles it is in: what stands in a title without anything between it stands in one of
its words. Both in a few long objects: there may be thousands of sessions.
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
_ASKED_OFTEN: Final = 20  # from here on listing the words has paid for itself


class Titles:
    """The titles of sessions, which are known by their places."""

    def __init__(self, titles: Iterable[str]) -> None:
        folded = [fold(title) for title in titles]
        self._text = "\n".join(folded)
        self._begins = array("I", [0, *accumulate(len(title) + 1 for title in folded)])
        self._words: _Words | None = None
        self._asked = 0

    def holding(self, term: Term) -> set[int]:
        """The places of those that hold a term; no expression."""
        longest, is_prefix = max(term.parts, key=len), term.kind == "prefix"
        words = self._listed() if is_word(longest) else None
        if words is None:
            found = set(self._with_word(longest))
        else:
            found = words.holding(longest, only_ahead=is_prefix and term.is_plain_word)
        is_sure = term.is_plain_word and (words is not None or not is_prefix)
        return found if is_sure else {n for n in found if term.find(self.folded(n)) is not None}

    def folded(self, place: int) -> str:
        """A title as it is compared."""
        return self._text[self._begins[place] : self._begins[place + 1] - 1]

    def _with_word(self, word: str) -> Iterator[int]:
        at = self._text.find(word)
        while at >= 0:
            place = bisect_right(self._begins, at) - 1
            yield place
            at = self._text.find(word, self._begins[place + 1])

    def _listed(self) -> _Words | None:
        """All words, once they are worth it."""
        self._asked += 1
        if self._words is None and self._asked > _ASKED_OFTEN:
            self._words = _Words([self.folded(place) for place in range(len(self._begins) - 1)])
        return self._words


class _Words:
    """The distinct words of some texts, and in which of them each is."""

    def __init__(self, texts: Sequence[str]) -> None:
        holders: dict[str, list[int]] = {}
        for place, text in enumerate(texts):
            for word in set(_WORD.findall(text)):
                holders.setdefault(word, []).append(place)
        encoded = [f"\n{word}".encode() for word in holders]
        self._text = b"".join(encoded)  # half the size of a text that is not all ASCII
        self._begins = array("I", accumulate(map(len, encoded), initial=0))
        self._ends = array("I", accumulate(map(len, holders.values()), initial=0))
        self._holders = array("I", (place for some in holders.values() for place in some))

    def holding(self, part: str, *, only_ahead: bool) -> set[int]:
        """The texts with a word that holds something, or begins with it."""
        wanted = (f"\n{part}" if only_ahead else part).encode()
        found = set[int]()
        at = self._text.find(wanted)
        while at >= 0:
            number = bisect_right(self._begins, at) - 1
            found.update(self._holders[self._ends[number] : self._ends[number + 1]])
            at = self._text.find(wanted, self._begins[number + 1])
        return found
