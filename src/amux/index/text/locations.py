"""Packs the locations of the messages of a text unit into the columns that the index stores."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Final

from amux.model.texts import TextDoc
from amux.reading.message_locations import MessageLocations

_LIMIT: Final = 1 << 32
_LAST_KIND: Final = 255


def pack_locations(docs: Iterable[TextDoc], before: MessageLocations | None = None) -> bytes:
    """Return the columns of some messages and of those in `before`; b"" if none is recorded."""
    docs = list(docs)
    known = sorted(
        (doc.ordinal, *doc.location)
        for doc in docs
        if doc.location is not None
        and doc.location.length < _LIMIT
        and doc.location.kind <= _LAST_KIND
    )
    if before is not None:
        first = min((doc.ordinal for doc in docs), default=_LIMIT)
        known = [*((each, *location) for each, location in before.up_to(first)), *known]
    if not known:
        return b""
    ordinals, offsets, lengths, kinds = zip(*known, strict=True)
    columns = (array("I", ordinals), array("q", offsets), array("I", lengths))
    return b"".join(column.tobytes() for column in columns) + bytes(kinds)
