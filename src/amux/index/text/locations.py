"""Where messages lie in their sources, so that one can be read without those before it.

Kept by unit beside the words, in columns of fixed width: nothing has to be decoded to find one.
They hold only as long as the file is the one they were read from, which its mark tells.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable
from struct import Struct
from typing import Final

from amux.model.texts import MessageLocation, TextDoc

_WIDTH: Final = 17  # ordinal 4, offset 8, length 4, kind 1
_OFFSET: Final = Struct("=q")
_LENGTH: Final = Struct("=I")
_MOST: Final = 1 << 32
_LAST_KIND: Final = 255


class MessageLocations:
    """The places of a unit's messages in one file."""

    __slots__ = ("_columns", "_ordinals", "mark", "path")

    def __init__(self, path: bytes, mark: bytes, columns: bytes) -> None:
        self.path = path
        self.mark = mark  # what `file_mark` said of the file that was read
        self._columns = columns
        self._ordinals = array("I", columns[: 4 * (len(columns) // _WIDTH)])

    def at(self, ordinal: int) -> MessageLocation | None:
        """Where a message lies; None when nobody knows."""
        count = len(self._ordinals)
        place = bisect_left(self._ordinals, ordinal)
        if place == count or self._ordinals[place] != ordinal:
            return None
        (offset,) = _OFFSET.unpack_from(self._columns, 4 * count + 8 * place)
        (length,) = _LENGTH.unpack_from(self._columns, 12 * count + 4 * place)
        return MessageLocation(offset, length, self._columns[16 * count + place])

    def up_to(self, ordinal: int) -> list[tuple[int, MessageLocation]]:
        """The messages before one, with their places."""
        known = ((each, self.at(each)) for each in self._ordinals if each < ordinal)
        return [(each, spot) for each, spot in known if spot is not None]


def pack_locations(docs: Iterable[TextDoc], before: MessageLocations | None = None) -> bytes:
    """The places of some messages, and of those before them; b"" when none is known."""
    docs = list(docs)
    known = sorted(
        (doc.ordinal, *doc.location)
        for doc in docs
        if doc.location is not None
        and doc.location.length < _MOST
        and doc.location.kind <= _LAST_KIND
    )
    if before is not None:
        first = min((doc.ordinal for doc in docs), default=_MOST)
        known = [*((each, *spot) for each, spot in before.up_to(first)), *known]
    if not known:
        return b""
    ordinals, offsets, lengths, kinds = zip(*known, strict=True)
    columns = (array("I", ordinals), array("q", offsets), array("I", lengths))
    return b"".join(column.tobytes() for column in columns) + bytes(kinds)
