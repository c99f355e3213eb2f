"""The line being read, the trace of the lines before it, and the serialized state of a reading.

Each line gets a row in the trace before its kind is known; its kind is set later. Without a trace
(if it was not requested) the position of a line is its number, which has the same order.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, lru_cache
from typing import Any, Final, TypeVar, cast

import msgspec

from amux.adapters._kit.values import parse_time, to_millis
from amux.model.trace import LineKind, Trace

RawTime = str | float | None
"""A time as recorded in a line: most are never parsed."""


_LINE: Final = int(LineKind.LINE)  # a plain int: used for every line


class TraceRows:
    """The three columns of a trace."""

    __slots__ = ("keys", "kinds", "times")

    def __init__(self, keys: bytes = b"", times: bytes = b"", kinds: bytes = b"") -> None:
        self.keys = array("q", keys)
        self.times = array("q", times)
        self.kinds = bytearray(kinds)

    def add(self, key: int, at_ms: int) -> int:
        """Append a line of unknown kind; return its position."""
        self.keys.append(key)
        self.times.append(at_ms)
        self.kinds.append(_LINE)
        return len(self.kinds) - 1

    def columns(self) -> tuple[bytes, bytes, bytes]:
        """Return the columns as bytes."""
        return self.keys.tobytes(), self.times.tobytes(), bytes(self.kinds)


@dataclass(slots=True, kw_only=True)
class Cursor:
    """The line being read and the trace of the lines before it."""

    traced: bool
    line: int = 0
    position: int = 0
    ordinal: int | None = None
    raw_time: RawTime = None
    first_at: datetime | None = None
    last_at: datetime | None = None
    rows: TraceRows = field(default_factory=TraceRows)

    @property
    def key(self) -> int:
        """The ordinal of the line, or its number if it has no ordinal."""
        return self.line if self.ordinal is None else self.ordinal

    @property
    def at(self) -> datetime | None:
        """The time of the line."""
        return parse_time(self.raw_time)

    def repeat_row(self) -> None:
        """Add a second row for the current line, which holds two messages."""
        if self.traced:
            rows, position = self.rows, self.position
            self.position = rows.add(rows.keys[position], rows.times[position])

    def set_kind(self, position: int, kind: LineKind) -> None:
        """Set the kind of an earlier line once it is known."""
        if self.traced:
            self.rows.kinds[position] = kind

    def extend_time_span(self, at: datetime | None) -> None:
        """Extend the time span of the session."""
        self.first_at = self.first_at or at
        self.last_at = at or self.last_at

    def build(self) -> Trace:
        """Return the finished trace."""
        keys, times, kinds = self.rows.columns()
        return Trace(keys=keys, times=times, kinds=kinds)


@lru_cache(maxsize=2)  # lines written together have the same time
def millis(raw_time: RawTime) -> int:
    """Return the time of a line in milliseconds, as used in a trace."""
    return to_millis(parse_time(raw_time))


T = TypeVar("T")


def save(state: object) -> bytes | None:
    """Serialize a state; None if that is impossible (figures out of range, an undecodable path)."""
    try:
        return msgspec.msgpack.encode(state, enc_hook=TraceRows.columns)
    except (OverflowError, RecursionError, UnicodeError):
        return None


def restore(data: bytes, kind: type[T]) -> T | None:
    """Deserialize a state; None if it was written in another format."""
    try:
        return cast("T", _decoder(cast("Any", kind)).decode(data))
    except (msgspec.MsgspecError, ValueError):
        return None


@cache
def _decoder(kind: type[Any]) -> msgspec.msgpack.Decoder[Any]:
    # `TraceRows` is the only type of a state that is not plain data.
    return msgspec.msgpack.Decoder(kind, dec_hook=lambda _, columns: TraceRows(*columns))
