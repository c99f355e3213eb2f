"""Single messages, read from where they lie: no line before them is looked at.

Only as long as the file is the one that was indexed. What cannot be cut for sure is not cut: the
messages end there, and whoever asked reads on in another way.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from amux.adapters._base import TextCut
from amux.index.stamps import file_mark
from amux.index.texts_spots import Spots
from amux.model.message import SessionMessage

_READ_ONLY = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)


class Cutter:
    """Reads messages of one agent by their spots."""

    def __init__(self, adapter: TextCut) -> None:
        self._adapter = adapter

    def messages(self, spots: Spots, numbers: Sequence[int]) -> Iterator[SessionMessage]:
        """The messages of these numbers, which count from 1; it ends where one cannot be cut."""
        try:
            handle = os.open(spots.path, _READ_ONLY)
        except OSError:
            return
        try:
            found = os.fstat(handle)
            if file_mark(found).encode() == spots.mark:
                yield from self._cut(handle, found.st_size, spots, numbers)
        except OSError:
            return
        finally:
            os.close(handle)

    def _cut(
        self, handle: int, size: int, spots: Spots, numbers: Sequence[int]
    ) -> Iterator[SessionMessage]:
        for number in numbers:
            spot = spots.at(number - 1)
            if spot is None or spot.offset < 0 or spot.offset + spot.length > size:
                return
            data = os.pread(handle, spot.length, spot.offset)
            message = self._adapter.cut_text(data, spot.kind)
            if message is None:
                return
            yield message
