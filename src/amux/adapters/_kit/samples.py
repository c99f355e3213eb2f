"""Records kept as they stand, few and small: what is shown of data that is not understood.

A hostile file could hold millions of such records, each of megabytes, and what is kept of them is
read with the facts of the session. So number and size have bounds.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from amux.adapters._kit.values import document

_MOST_TYPES: Final = 50  # a hostile file could have a new type in every line
_OF_EACH_TYPE: Final = 2
_MOST_SAMPLES: Final = 20
_LARGEST_SAMPLE: Final = 2 << 10
_JSON: Final = (bytes, bytearray, msgspec.Raw)
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


class Unknowns(msgspec.Struct):
    """Records of types that are not known: how many of each, and the first ones as they stand."""

    counts: dict[str, int] = {}
    records: list[bytes] = []  # as JSON

    def take(self, kind: str, record: object) -> None:
        """Count one; `record` is a value, or the bytes of its JSON."""
        if self.count(kind):
            self.keep(record)

    def count(self, kind: str) -> bool:
        """Count one; whether it is one of the first of its type, which are kept."""
        known = self.counts.get(kind, 0)
        if not known and len(self.counts) >= _MOST_TYPES:
            return False
        self.counts[kind] = known + 1
        return known < _OF_EACH_TYPE

    def keep(self, record: object) -> None:
        """Keep one that was counted."""
        if len(self.records) < _MOST_SAMPLES:
            data = bytes(record) if isinstance(record, _JSON) else json_of(record)
            self.records += [data[: _LARGEST_SAMPLE + 1]] if data else []

    def raw(self) -> dict[str, Any]:
        """What `raw` says of them; nothing when there are none."""
        if not self.counts:
            return {}
        samples = [bounded(data, _LARGEST_SAMPLE) for data in self.records]
        found = {"unknownTypes": dict(sorted(self.counts.items())), "unknownRecords": samples}
        return {name: value for name, value in found.items() if value}


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
