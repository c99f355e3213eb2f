"""How good a hit can be at most, told from its raw bytes: most need not be decoded.

A word that a text holds stands in its bytes, too, as long as nothing else becomes its letters: no
character that folding turns into ASCII or leaves out, and no escape that stands for a letter. Where
that is not so, or a term has no plain word, nothing is known.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Final

from amux.model.words import fold
from amux.sessions.matching import saturated
from amux.sessions.terms import Term

UNKNOWN: Final = math.inf

_ASCII: Final = bytes(range(128))
_PLAIN_WORD: Final = re.compile("[a-z0-9_]+")
_ODD_ESCAPE: Final = re.compile(rb"\\u(?!00[01])")  # all but control characters
_MOST_REMEMBERED: Final = 1 << 16


class Bounds:
    """Upper bounds of the scores of messages, for one query."""

    def __init__(self, terms: Sequence[Term]) -> None:
        words = [_longest_word(term) for term in terms]
        self._words = [word.encode() for word in words if word]
        self._is_known = len(self._words) == len(words)

    def highest(self, data: bytes, weight: float) -> float:
        """What a message can score whose passages have at most this weight; may be UNKNOWN."""
        if not self._is_known or not _is_plain(data):
            return UNKNOWN
        lowered = data.lower()
        return sum(saturated(weight * count) for word in self._words if (count := lowered.count(word)))


def _longest_word(term: Term) -> str:
    """What is in every text that holds the term."""
    if term.kind == "regex":
        return ""
    return max(_PLAIN_WORD.findall(term.text), key=len, default="")


def _is_plain(data: bytes) -> bool:
    """Whether ASCII letters of the folded texts are ASCII letters of the bytes."""
    if _ODD_ESCAPE.search(data):
        return False
    foreign = data.translate(None, _ASCII)
    return not foreign or all(map(_INERT.__getitem__, set(foreign.decode("utf-8", "replace"))))


class _Inert(dict[str, bool]):
    """Characters that folding turns into others than ASCII."""

    def __missing__(self, character: str) -> bool:
        folded = fold(character)
        is_inert = bool(folded) and not any(one.isascii() for one in folded)
        if len(self) < _MOST_REMEMBERED:
            self[character] = is_inert
        return is_inert


_INERT: Final = _Inert()
