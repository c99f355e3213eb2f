"""Single messages, read from where they lie: no line before them is looked at.

Only as long as the file is the one that was indexed. What cannot be cut for sure is not cut: the
messages end there, and whoever asked reads on in another way.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, cast

from amux.adapters._base import Adapter, ReadsMessageAt
from amux.model.message import SessionMessage
from amux.reading.fingerprint import file_fingerprint
from amux.reading.message_locations import MessageLocations

_READ_ONLY: Final = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)

_CAN_READ_AT: Final = hasattr(os, "pread")  # it is not everywhere


def cutter_of(adapter: Adapter) -> ReadsMessageAt | None:
    """The adapter, if it can cut."""
    return cast("ReadsMessageAt", adapter) if _can_cut(type(adapter)) else None


@lru_cache
def _can_cut(kind: type[Adapter]) -> bool:
    return issubclass(kind, ReadsMessageAt)  # which takes longer than cutting


def cut_messages(
    adapter: ReadsMessageAt, spots: MessageLocations, numbers: Sequence[int], *, tools: bool
) -> Iterator[SessionMessage]:
    """The messages of these numbers, which count from 1, up to one that cannot be cut."""
    try:
        handle = os.open(spots.path, _READ_ONLY)
    except (OSError, ValueError):  # gone, or no path at all
        return
    try:
        found = os.fstat(handle)
        if file_fingerprint(found).encode() != spots.fingerprint:
            return
        for number in numbers:
            spot = spots.at(number - 1)
            if spot is None or not 0 <= spot.offset <= found.st_size - spot.length:
                return
            data = _read_at(handle, spot.offset, spot.length)
            message = adapter.read_message_at(data, spot.kind, tools=tools)
            if message is None:
                return
            yield message
    except OSError:
        return
    finally:
        os.close(handle)


def _read_at(handle: int, offset: int, length: int) -> bytes:
    if _CAN_READ_AT:
        return os.pread(handle, length, offset)
    os.lseek(handle, offset, os.SEEK_SET)
    return os.read(handle, length)
