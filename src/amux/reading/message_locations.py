"""The byte ranges of messages in a file, so that one message can be read without those before it.

They are stored in columns of fixed width: nothing has to be decoded to find one. They are valid
only while the fingerprint of the file is the one that was stored with them.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from struct import Struct
from typing import Final

from amux.model.texts import MessageLocation

_WIDTH: Final = 17  # ordinal 4, offset 8, length 4, kind 1
_OFFSET: Final = Struct("=q")
_LENGTH: Final = Struct("=I")


class MessageLocations:
    """The locations of the messages of one text unit in one file.

    `fingerprint` is the `file_fingerprint` of the file when it was read.
    """

    __slots__ = ("_columns", "_ordinals", "fingerprint", "path")

    def __init__(self, path: bytes, fingerprint: bytes, columns: bytes) -> None:
        self.path = path
        self.fingerprint = fingerprint
        self._columns = columns
        self._ordinals = array("I", columns[: 4 * (len(columns) // _WIDTH)])

    def at(self, ordinal: int) -> MessageLocation | None:
        """Return the location of a message; None if it was not recorded."""
        count = len(self._ordinals)
        position = bisect_left(self._ordinals, ordinal)
        if position == count or self._ordinals[position] != ordinal:
            return None
        (offset,) = _OFFSET.unpack_from(self._columns, 4 * count + 8 * position)
        (length,) = _LENGTH.unpack_from(self._columns, 12 * count + 4 * position)
        return MessageLocation(offset, length, self._columns[16 * count + position])

    def up_to(self, ordinal: int) -> list[tuple[int, MessageLocation]]:
        """Return the ordinals below `ordinal` with their locations."""
        found = ((each, self.at(each)) for each in self._ordinals if each < ordinal)
        return [(each, location) for each, location in found if location is not None]
