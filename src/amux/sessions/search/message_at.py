"""Reads single messages at their recorded locations, without the lines before them.

This works only while the file is the one that was indexed. Reading stops at the first message that
cannot be read with certainty; the caller then reads the source as a whole.
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


def message_reader(adapter: Adapter) -> ReadsMessageAt | None:
    """Return the adapter if it can read single messages; None otherwise."""
    return cast("ReadsMessageAt", adapter) if _can_read_at(type(adapter)) else None


@lru_cache  # the check takes longer than reading a message
def _can_read_at(kind: type[Adapter]) -> bool:
    return issubclass(kind, ReadsMessageAt)


def read_messages_at(
    reader: ReadsMessageAt, locations: MessageLocations, numbers: Sequence[int], *, tools: bool
) -> Iterator[SessionMessage]:
    """Yield the messages with these numbers (from 1), up to the first that cannot be read."""
    try:
        handle = os.open(locations.path, _READ_ONLY)
    except (OSError, ValueError):  # the file is missing, or the path is invalid
        return
    try:
        found = os.fstat(handle)
        if file_fingerprint(found).encode() != locations.fingerprint:
            return
        for number in numbers:
            location = locations.at(number - 1)
            if location is None or not 0 <= location.offset <= found.st_size - location.length:
                return
            os.lseek(handle, location.offset, os.SEEK_SET)
            data = os.read(handle, location.length)
            message = reader.read_message_at(data, location.kind, tools=tools)
            if message is None:
                return
            yield message
    except OSError:
        return
    finally:
        os.close(handle)
