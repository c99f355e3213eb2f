"""A few words around a hit, on one line, and where in them the hit is."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from amux.model.words import fold, fold_spaces
from amux.sessions.terms import Term

SNIPPET_LENGTH: Final = 160
_LEAD: Final = 50
_LOOK_AT: Final = 200_000
_AROUND: Final = 64
"""Characters before and behind a snippet that decide whether a word begins or ends with it."""

Range = tuple[int, int]


class Excerpt(NamedTuple):
    """A piece of a text on one line, and the ranges of it that a query wants, in order."""

    text: str
    ranges: tuple[Range, ...]


def cut_excerpt(text: str, terms: Sequence[Term]) -> Excerpt:
    """The surroundings of the first hit, with dots where text was cut, and the hits in them."""
    at = _position(text[:_LOOK_AT], terms)
    if at is None:
        at = _position(text, terms) or 0 if len(text) > _LOOK_AT else 0
    else:
        text = text[:_LOOK_AT]
    start = max(0, at - _LEAD)
    end = min(len(text), start + 2 * SNIPPET_LENGTH)
    piece = fold_spaces(text[start:end])
    cut = piece[:SNIPPET_LENGTH].rstrip()
    ahead = "…" if start > 0 else ""
    behind = "…" if len(cut) < len(piece) or end < len(text) else ""
    first = max(0, start - _AROUND)
    found = _found(text[first : end + _AROUND], terms)
    within = ((a + first - start, b + first - start) for a, b in found)
    places = _places(text[start:end])
    moved = (_moved(places, one, offset=len(ahead), length=len(cut)) for one in within)
    return Excerpt(f"{ahead}{cut}{behind}", _merged(one for one in moved if one is not None))


def _position(text: str, terms: Sequence[Term]) -> int | None:
    """Where the first hit begins in the original text."""
    folded = fold(text)
    best: int | None = None
    for term in terms:
        match = term.pattern.search(text if term.kind == "regex" else folded)
        if match is None:
            continue
        at = match.start() if term.kind == "regex" else _unfolded(text, folded, match.start())
        best = at if best is None else min(best, at)
    return best


def _unfolded(text: str, folded: str, position: int) -> int:
    """The place in the original; folding may change lengths, so walk where it did."""
    if len(text) == len(folded):
        return position
    length = 0
    for index, character in enumerate(text):
        if length >= position:
            return index
        length += len(fold(character))
    return len(text)


def _found(text: str, terms: Sequence[Term]) -> Iterator[Range]:
    """Every hit of a short text, as ranges of the original."""
    folded = fold(text)
    # ends[i]: how much of the folded text the first i characters make.
    ends: Sequence[int] = range(len(text) + 1)
    if not text.isascii():
        ends = [0, *accumulate(len(fold(character)) for character in text)]
    for term in terms:
        if term.kind == "regex":
            yield from (match.span() for match in term.pattern.finditer(text))
            continue
        for match in term.pattern.finditer(folded):
            yield _outer(ends, match.start(), match.end())


def _outer(ends: Sequence[int], start: int, end: int) -> Range:
    """The characters of the original that a range of the folded text is made of."""
    first, last = bisect_right(ends, start) - 1, bisect_right(ends, end) - 1
    return first, last if ends[last] == end else last + 1


def _places(text: str) -> list[int]:
    """For each character, and the end, its place once white space is folded."""
    places: list[int] = []
    length, is_after_word = 0, False
    for character in text:
        if not character.isspace():
            places.append(length)
            length, is_after_word = length + 1, True
        else:
            places.append(length)
            length, is_after_word = length + is_after_word, False
    return [*places, length]


def _moved(places: Sequence[int], found: Range, *, offset: int, length: int) -> Range | None:
    """A range of the raw piece as one of the snippet; None when nothing of it is shown."""
    last = len(places) - 1
    start, end = (places[min(max(edge, 0), last)] for edge in found)
    start, end = min(start, length), min(end, length)
    return (start + offset, end + offset) if start < end else None


def _merged(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """In order, without overlaps."""
    merged: list[Range] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)
