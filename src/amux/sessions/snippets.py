"""A few words around a hit, on one line, and where in them the hit is."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain
from typing import Final, NamedTuple

from amux.model.words import fold, fold_in_place, fold_spaces
from amux.sessions.terms import Term

SNIPPET_LENGTH: Final = 160
_LEAD: Final = 50
_LOOK_AT: Final = 200_000
_AROUND: Final = 64
"""Characters before and behind a snippet that decide whether a word begins or ends with it."""

_STEP: Final = 4096
_MOST_REMEMBERED: Final = 1 << 16

Range = tuple[int, int]


class Excerpt(NamedTuple):
    """A piece of a text on one line, and the ranges of it that a query wants, in order."""

    text: str
    ranges: tuple[Range, ...]


def cut_excerpt(text: str, terms: Sequence[Term], folded: str | None = None) -> Excerpt:
    """The surroundings of the first hit, or of the beginning where there is none.

    `folded` is the text folded, if somebody has that already.
    """
    return find_excerpt(text, terms, folded) or _excerpt_at(text, 0, terms)


def cut_title(title: str, terms: Sequence[Term], folded: str) -> str:
    """The same of a title, without what the query wants of it."""
    return _excerpt_at(title, _position(title, terms, folded) or 0, ()).text


def find_excerpt(text: str, terms: Sequence[Term], folded: str | None = None) -> Excerpt | None:
    """The surroundings of the first hit; None when there is none."""
    if len(text) > _LOOK_AT:
        at = _position(text[:_LOOK_AT], terms)
        if at is None:
            at = _position(text, terms)
        else:
            text = text[:_LOOK_AT]
    else:
        at = _position(text, terms, folded)
    return None if at is None else _excerpt_at(text, at, terms)


def _excerpt_at(text: str, at: int, terms: Sequence[Term]) -> Excerpt:
    """A place of a text, with dots where text was cut, and the hits around it."""
    start = max(0, at - _LEAD)
    raw = text[start : start + 2 * SNIPPET_LENGTH]
    piece = fold_spaces(raw)
    cut = piece[:SNIPPET_LENGTH].rstrip()
    end, lost, shown = start + len(raw), len(raw) - len(piece), len(cut)
    ahead = "…" if start > 0 else ""
    behind = "…" if shown < len(piece) or end < len(text) else ""
    first = max(0, start - _AROUND)
    ranges: list[Range] = []
    for hit in _found(text[first : end + _AROUND], terms):
        begin, stop = max(first + hit[0], start) - start, min(first + hit[1], end) - start
        if begin >= stop or begin - lost >= shown:
            continue  # not in what is shown
        if lost:
            begin, stop = _place(raw, begin), _place(raw, stop)
        if begin < shown and begin < stop:
            ranges.append((begin + len(ahead), min(stop, shown) + len(ahead)))
    return Excerpt(f"{ahead}{cut}{behind}", _merged(ranges))


def _position(text: str, terms: Sequence[Term], folded: str | None = None) -> int | None:
    """Where the first hit begins in the original text."""
    if all(term.is_plain_word for term in terms):
        return _early_position(text, terms)
    in_place = _folded_in_place(text, terms)
    if in_place is not None:
        folded = in_place
    elif folded is None:
        folded = fold(text)
    best: int | None = None
    for term in terms:
        found = term.find(text if term.kind == "regex" else folded)
        if found is None:
            continue
        at = found if in_place is not None or term.kind == "regex" else _unfolded(text, found)
        best = at if best is None else min(best, at)
    return best


def _early_position(text: str, terms: Sequence[Term]) -> int | None:
    """The same for words: of a long text no more is folded than has to be.

    No word runs across a space, and what stands before one is folded by itself.
    """
    start = 0
    while start < len(text):
        end = text.find(" ", start + _STEP)
        step = text[start : len(text) if end < 0 else end]
        at = _position_in_step(step, terms)
        if at is not None:
            return start + at
        start += len(step) + (end >= 0)
    return None


def _position_in_step(step: str, terms: Sequence[Term]) -> int | None:
    in_place = _folded_in_place(step, terms)
    folded = fold(step) if in_place is None else in_place
    places = [at for term in terms if (at := term.find(folded)) is not None]
    if not places:
        return None
    return min(places) if in_place is not None else _unfolded(step, min(places))


def _folded_in_place(text: str, terms: Sequence[Term]) -> str | None:
    """The text folded, with every character where it was; None where that cannot be."""
    if text.isascii():
        return text.lower()
    if all(term.is_ascii_word for term in terms):
        return fold_in_place(text)
    return None


def _unfolded(text: str, position: int) -> int:
    """The place in the original; folding may change lengths."""
    return position if text.isascii() else bisect_left(_ends(text), position)


def _ends(text: str) -> Sequence[int]:
    """For each place in a text, how much of the folded text is before it."""
    return [0, *accumulate(map(_FOLDED_LENGTHS.__getitem__, text))]


class _FoldedLengths(dict[str, int]):
    """How many characters folding makes of one."""

    def __missing__(self, character: str) -> int:
        length = len(fold(character))
        if len(self) < _MOST_REMEMBERED:
            self[character] = length
        return length


_FOLDED_LENGTHS: Final = _FoldedLengths()


def _found(text: str, terms: Sequence[Term]) -> Iterable[Range]:
    """Every hit of a short text, as ranges of the original."""
    in_place = _folded_in_place(text, terms)
    folded = fold(text) if in_place is None else in_place
    found = [term.spans(text if term.kind == "regex" else folded) for term in terms]
    if in_place is None:
        ends = _ends(text)
        for place, term in enumerate(terms):
            if term.kind != "regex":
                found[place] = (_outer(ends, start, end) for start, end in found[place])
    return chain.from_iterable(found)


def _outer(ends: Sequence[int], start: int, end: int) -> Range:
    """The characters of the original that a range of the folded text is made of."""
    first, last = bisect_right(ends, start) - 1, bisect_right(ends, end) - 1
    return first, last if ends[last] == end else last + 1


def _place(text: str, index: int) -> int:
    """The place of a character once white space is folded."""
    before = text[:index]
    folded = fold_spaces(before)
    return len(folded) + before[-1].isspace() if folded else 0


def _merged(ranges: Sequence[Range]) -> tuple[Range, ...]:
    """In order, without overlaps."""
    if len(ranges) <= 1:
        return tuple(ranges)
    merged: list[Range] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)
