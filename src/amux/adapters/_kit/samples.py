"""Records kept as they stand, few and small: what is shown of data that is not understood.

A hostile file could hold millions of such records, each of megabytes, and what is kept of them is
read with the facts of the session. So number and size have bounds.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from amux.adapters._kit.values import document

_NO_JSON: Final = (OverflowError, RecursionError, TypeError, UnicodeError)


def json_of(record: object) -> bytes:
    """A record as JSON; nothing for one that JSON cannot hold."""
    try:
        return msgspec.json.encode(record)
    except _NO_JSON:
        return b""


def bounded(data: bytes, largest: int) -> Any:
    """The record of a JSON text; of a longer one its beginning, as text."""
    if len(data) <= largest:
        found = document(data)
        if found is not None:
            return found
    return {"truncated": data[:largest].decode("utf-8", "replace")}


class Pool:
    """Takes records until there are too many bytes of them."""

    def __init__(self, *, largest: int, total: int) -> None:
        self._largest = largest
        self._rest = total

    def take(self, record: object) -> Any:
        """The record, or its beginning; None when there is no room any more."""
        data = json_of(record)
        size = min(len(data), self._largest)
        if not size or size > self._rest:
            return None
        self._rest -= size
        return bounded(data, self._largest)
