"""Pieces of files, for those who need the head or the tail of very many."""

from __future__ import annotations

import os
from typing import Final, Self

_FLAGS: Final = os.O_RDONLY | getattr(os, "O_BINARY", 0)


class Pieces:
    """An open file, without what a stream costs."""

    __slots__ = ("_file",)

    def __init__(self, place: str) -> None:
        self._file = os.open(place, _FLAGS)

    def __enter__(self) -> Self:
        """Use it in a `with` statement: it has to be closed."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        os.close(self._file)

    def next(self, size: int) -> bytes:
        """The bytes that come next; fewer only at the end."""
        return os.read(self._file, size)

    def last(self, size: int) -> bytes:
        """The bytes at the end."""
        try:
            os.lseek(self._file, -size, os.SEEK_END)
        except OSError:  # there are not so many
            os.lseek(self._file, 0, os.SEEK_SET)
        return os.read(self._file, size)
