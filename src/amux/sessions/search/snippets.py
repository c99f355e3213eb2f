"""Cuts the text around a hit to one line, with the ranges of the hits in it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from amux.model.words import fold, fold_in_place, fold_spaces
from amux.sessions.search.query.terms import Term

SNIPPET_LENGTH: Final = 160
_LEAD: Final = 50
_SEARCHED_FIRST: Final = 200_000
_AROUND: Final = 64
"""Characters before and after a snippet that decide whether a word begins or ends with it."""

_STEP: Final = 4096
_MAX_CACHED: Final = 1 << 16

Range = tuple[int, int]


class Excerpt(NamedTuple):
    """A piece of a text on one line, and the ranges of the wanted terms in it, in order."""

    text: str
    ranges: tuple[Range, ...]


def cut_excerpt(text: str, terms: Sequence[Term], folded: str | None = None) -> Excerpt:
    """Return the text around the first hit, or the beginning of the text if there is no hit.

    `folded` is the folded text, if the caller has computed it already.
    """
    return find_excerpt(text, terms, folded) or _excerpt_at(text, 0, terms)


def cut_title(title: str, terms: Sequence[Term], folded: str) -> str:
    """Return the part of a title around the first hit."""
    return _excerpt_at(title, _first_hit(title, terms, folded) or 0, ()).text


def find_excerpt(text: str, terms: Sequence[Term], folded: str | None = None) -> Excerpt | None:
    """Return the text around the first hit; None if there is no hit."""
    in_place = _folded_in_place(text, terms) if len(text) <= _STEP else None
    if in_place is not None:
        at = _first_in(text, in_place, terms)
        return None if at is None else _excerpt_at(text, at, terms, in_place)
    if len(text) > _SEARCHED_FIRST:
        at = _first_hit(text[:_SEARCHED_FIRST], terms)
        if at is None:
            at = _first_hit(text, terms)
        else:
            text = text[:_SEARCHED_FIRST]
    else:
        at = _first_hit(text, terms, folded)
    return None if at is None else _excerpt_at(text, at, terms)


def _excerpt_at(text: str, at: int, terms: Sequence[Term], in_place: str | None = None) -> Excerpt:
    """Return the text around an offset, with an ellipsis where it was cut, and the hits in it.

    `in_place` is the folded text if folding keeps the offset of every character.
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
    hits = _find_all(text[window], terms, None if in_place is None else in_place[window])
    lost = len(raw) - len(piece)
    ranges = _ranges_in(raw, hits, start - first, lost=lost, shown=shown, shift=len(ahead))
    return Excerpt(f"{ahead}{cut}{behind}", _merged(ranges))


def _ranges_in(
    raw: str, hits: Iterable[Iterable[Range]], before: int, *, lost: int, shown: int, shift: int
) -> list[Range]:
    """Convert hits to ranges of the shown text: the first characters of `raw`, with spaces folded.

    `before` is the number of characters before `raw` from which the hits are counted, `lost` the
    number of characters that folding of spaces removes, `shift` the length of the ellipsis before
    the shown text. The hits of each term are in order.
    """
    ranges: list[Range] = []
    for of_term in hits:
        for hit in of_term:
            begin, stop = max(hit[0] - before, 0), min(hit[1] - before, len(raw))
            if begin - lost >= shown:
                break  # the hits after this one are not shown either
            if begin >= stop:
                continue
            if lost:
                begin, stop = _offset_in_folded(raw, begin), _offset_in_folded(raw, stop)
            if begin < shown and begin < stop:
                ranges.append((begin + shift, min(stop, shown) + shift))
    return ranges


def _first_hit(text: str, terms: Sequence[Term], folded: str | None = None) -> int | None:
    """Return the offset of the first hit in the original text; None if there is no hit."""
    if all(term.is_plain_word for term in terms):
        return _first_word(text, terms)
    in_place = _folded_in_place(text, terms)
    if in_place is not None:
        return _first_in(text, in_place, terms)
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


def _first_in(text: str, folded: str, terms: Sequence[Term]) -> int | None:
    """Return the offset of the first hit in the folded text; expressions search the original."""
    found = (term.find(text if term.kind == "regex" else folded) for term in terms)
    return min((at for at in found if at is not None), default=None)


def _first_word(text: str, terms: Sequence[Term]) -> int | None:
    """Return the offset of the first hit of plain words, folding no more of the text than needed.

    No word contains a space, and the text before a space is folded independently of the rest.
    """
    start = 0
    while start < len(text):
        end = text.find(" ", start + _STEP)
        step = text[start : len(text) if end < 0 else end]
        in_place = _folded_in_place(step, terms)
        at = _first_in(step, fold(step) if in_place is None else in_place, terms)
        if at is not None:
            return start + (_unfolded(step, at) if in_place is None else at)
        start += len(step) + (end >= 0)
    return None


def _folded_in_place(text: str, terms: Sequence[Term]) -> str | None:
    """Return the text folded with every character at its offset; None if that is impossible."""
    if text.isascii():
        return text.lower()
    return fold_in_place(text) if all(term.is_ascii_word for term in terms) else None


def _unfolded(text: str, offset: int) -> int:
    """Return the offset in the original of an offset in the folded text."""
    return offset if text.isascii() else bisect_left(_folded_offsets(text), offset)


def _folded_offsets(text: str) -> Sequence[int]:
    """Return for each offset in a text the length of the folded text before it."""
    return [0, *accumulate(map(_FOLDED_LENGTHS.__getitem__, text))]


class _FoldedLengths(dict[str, int]):
    """The length of each character after folding."""

    def __missing__(self, character: str) -> int:
        length = len(fold(character))
        if len(self) < _MAX_CACHED:
            self[character] = length
        return length


_FOLDED_LENGTHS: Final = _FoldedLengths()


def _find_all(
    text: str, terms: Sequence[Term], in_place: str | None = None
) -> Iterable[Iterable[Range]]:
    """Return the hits of each term in a short text, as ranges of the original."""
    if in_place is None:
        in_place = _folded_in_place(text, terms)
    folded = fold(text) if in_place is None else in_place
    found = [term.spans(text if term.kind == "regex" else folded) for term in terms]
    if in_place is None:
        offsets = _folded_offsets(text)
        for position, term in enumerate(terms):
            if term.kind != "regex":
                found[position] = (_outer(offsets, *span) for span in found[position])
    return found


def _outer(offsets: Sequence[int], start: int, end: int) -> Range:
    """Return the range of the original that a range of the folded text was folded from."""
    first, last = bisect_right(offsets, start) - 1, bisect_right(offsets, end) - 1
    return first, last if offsets[last] == end else last + 1


def _offset_in_folded(text: str, offset: int) -> int:
    """Return the offset of a character after the folding of white space."""
    before = text[:offset]
    folded = fold_spaces(before)
    return len(folded) + before[-1].isspace() if folded else 0


def _merged(ranges: Sequence[Range]) -> tuple[Range, ...]:
    """Return the ranges in order, without overlaps."""
    if len(ranges) <= 1:
        return tuple(ranges)
    merged: list[Range] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)
