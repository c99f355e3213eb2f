"""A few words around a hit, on one line, and where in them the hit is."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from amux.model.words import fold, fold_in_place, fold_spaces
from amux.sessions.search.query.terms import Term

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
    in_place = _folded_in_place(text, terms) if len(text) <= _STEP else None
    if in_place is not None:
        at = _first_place(text, in_place, terms)
        return None if at is None else _excerpt_at(text, at, terms, in_place)
    if len(text) > _LOOK_AT:
        at = _position(text[:_LOOK_AT], terms)
        if at is None:
            at = _position(text, terms)
        else:
            text = text[:_LOOK_AT]
    else:
        at = _position(text, terms, folded)
    return None if at is None else _excerpt_at(text, at, terms)


def _excerpt_at(text: str, at: int, terms: Sequence[Term], in_place: str | None = None) -> Excerpt:
    """A place of a text, with dots where text was cut, and the hits around it.

    `in_place` is the text folded with every character where it was, if somebody has that.
    """
    start = at - _LEAD if at > _LEAD else 0
    raw = text[start : start + 2 * SNIPPET_LENGTH]
    piece = fold_spaces(raw)
    cut = piece[:SNIPPET_LENGTH].rstrip()
    end, shown = start + len(raw), len(cut)
    ahead = "…" if start > 0 else ""
    behind = "…" if shown < len(piece) or end < len(text) else ""
    first = start - _AROUND if start > _AROUND else 0
    window = slice(first, end + _AROUND)
    hits = _found(text[window], terms, None if in_place is None else in_place[window])
    lost = len(raw) - len(piece)
    ranges = _ranges_in(raw, hits, start - first, lost=lost, shown=shown, shift=len(ahead))
    return Excerpt(f"{ahead}{cut}{behind}", _merged(ranges))


def _ranges_in(
    raw: str, hits: Iterable[Iterable[Range]], before: int, *, lost: int, shown: int, shift: int
) -> list[Range]:
    """Hits as ranges of what is shown of a text: of its first characters, with spaces folded.

    `before` is how much further ahead the hits begin to count, `lost` how much shorter spaces make
    the text, `shift` what stands ahead of it. The hits of each term come in order.
    """
    ranges: list[Range] = []
    for of_term in hits:
        for hit in of_term:
            begin, stop = max(hit[0] - before, 0), min(hit[1] - before, len(raw))
            if begin - lost >= shown:
                break  # nor is any behind it shown
            if begin >= stop:
                continue
            if lost:
                begin, stop = _place(raw, begin), _place(raw, stop)
            if begin < shown and begin < stop:
                ranges.append((begin + shift, min(stop, shown) + shift))
    return ranges


def _position(text: str, terms: Sequence[Term], folded: str | None = None) -> int | None:
    """Where the first hit begins in the original text."""
    if all(term.is_plain_word for term in terms):
        return _early_position(text, terms)
    in_place = _folded_in_place(text, terms)
    if in_place is not None:
        return _first_place(text, in_place, terms)
    if folded is None:
        folded = fold(text)
    best: int | None = None
    for term in terms:
        found = term.find(text if term.kind == "regex" else folded)
        if found is None:
            continue
        at = found if term.kind == "regex" else _unfolded(text, found)
        best = at if best is None else min(best, at)
    return best


def _first_place(text: str, in_place: str, terms: Sequence[Term]) -> int | None:
    """The same, where folding leaves every character in its place."""
    best: int | None = None
    for term in terms:
        at = term.find(text if term.kind == "regex" else in_place)
        if at is not None and (best is None or at < best):
            best = at
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
    if in_place is not None:
        return _first_place(step, in_place, terms)
    at = _first_place(step, fold(step), terms)
    return None if at is None else _unfolded(step, at)


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


def _found(
    text: str, terms: Sequence[Term], in_place: str | None = None
) -> Iterable[Iterable[Range]]:
    """The hits of each term in a short text, as ranges of the original."""
    if in_place is None:
        in_place = _folded_in_place(text, terms)
    folded = fold(text) if in_place is None else in_place
    found = [term.spans(text if term.kind == "regex" else folded) for term in terms]
    if in_place is None:
        ends = _ends(text)
        for place, term in enumerate(terms):
            if term.kind != "regex":
                found[place] = (_outer(ends, start, end) for start, end in found[place])
    return found


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
