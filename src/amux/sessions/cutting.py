"""Single messages, read from where they lie: no line before them is looked at.

Only as long as the file is the one that was indexed; else nothing is cut, and whoever asked reads
in another way.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from amux.adapters._base import TextCut
from amux.index.stamps import file_mark
from amux.index.texts_spots import Spots
from amux.model.message import SessionMessage
from amux.model.texts import Spot

_READ_ONLY: Final = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)


class Piece(NamedTuple):
    """The bytes of one message."""

    number: int
    data: bytes
    spot: Spot
    adapter: TextCut

    def message(self) -> SessionMessage | None:
        """The message; None when these bytes hold none."""
        return self.adapter.cut_text(self.data, self.spot.kind)


def cut_pieces(adapter: TextCut, spots: Spots, numbers: Sequence[int]) -> list[Piece] | None:
    """The bytes of the messages of these numbers, which count from 1; None: they are to be read."""
    places = [spots.at(number - 1) for number in numbers]
    known = [spot for spot in places if spot is not None]
    if len(known) < len(places):
        return None
    try:
        with _opened(spots) as (handle, size):
            if any(not 0 <= spot.offset <= size - spot.length for spot in known):
                return None
            return [
                Piece(number, os.pread(handle, spot.length, spot.offset), spot, adapter)
                for number, spot in zip(numbers, known, strict=True)
            ]
    except OSError:
        return None


@contextmanager
def _opened(spots: Spots) -> Generator[tuple[int, int]]:
    """The file and its size; an OSError when it is another than that which was indexed."""
    handle = os.open(spots.path, _READ_ONLY)
    try:
        found = os.fstat(handle)
        if file_mark(found).encode() != spots.mark:
            raise FileNotFoundError(os.fsdecode(spots.path))
        yield handle, found.st_size
    finally:
        os.close(handle)
