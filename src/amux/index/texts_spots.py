"""Where messages lie in their sources, so that one can be read without those before it.

Kept by unit beside the words, in columns of fixed width: nothing has to be decoded to find one.
They hold only as long as the file is the one they were read from, which its mark tells.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

from amux.model.texts import Spot, TextDoc

_WIDTH: Final = 17  # ordinal 4, offset 8, length 4, kind 1
_MOST: Final = 1 << 32
_LAST_KIND: Final = 255


class Spots:
    """The places of a unit's messages in one file."""

    __slots__ = ("_kinds", "_lengths", "_offsets", "_ordinals", "mark", "path")

    def __init__(self, path: bytes, mark: bytes, columns: bytes) -> None:
        self.path = path
        self.mark = mark  # what `file_mark` said of the file that was read
        count = len(columns) // _WIDTH
        self._ordinals = array("I", columns[: 4 * count])
        self._offsets = array("q", columns[4 * count : 12 * count])
        self._lengths = array("I", columns[12 * count : 16 * count])
        self._kinds = columns[16 * count :]

    def at(self, ordinal: int) -> Spot | None:
        """Where a message lies; None when nobody knows."""
        place = bisect_left(self._ordinals, ordinal)
        if place == len(self._ordinals) or self._ordinals[place] != ordinal:
            return None
        return Spot(self._offsets[place], self._lengths[place], self._kinds[place])

    def up_to(self, ordinal: int) -> list[tuple[int, int, int, int]]:
        """The messages before one: ordinal, offset, length and kind of each."""
        count = bisect_left(self._ordinals, ordinal)
        columns = (self._ordinals, self._offsets, self._lengths, self._kinds)
        return list(zip(*(column[:count] for column in columns), strict=True))


def pack_spots(docs: Iterable[TextDoc], before: Spots | None = None) -> bytes:
    """The places of some messages, and of those before them; b"" when none is known."""
    docs = list(docs)
    known = sorted(
        (doc.ordinal, *doc.spot)
        for doc in docs
        if doc.spot is not None and doc.spot.length < _MOST and doc.spot.kind <= _LAST_KIND
    )
    if before is not None:
        first = min((doc.ordinal for doc in docs), default=_MOST)
        known = [*before.up_to(first), *known]
    if not known:
        return b""
    ordinals, offsets, lengths, kinds = zip(*known, strict=True)
    columns = (array("I", ordinals), array("q", offsets), array("I", lengths))
    return b"".join(column.tobytes() for column in columns) + bytes(kinds)
