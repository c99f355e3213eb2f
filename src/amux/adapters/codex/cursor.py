"""Where reading stands: the line that is being read, and the trace of the lines before it.

Every line has a place before it is known what it is; it is marked when that is clear. Without a
trace (nobody asked for it) a place is the number of the line, which keeps the same order.

What a reading of a rollout knows at the end of a line, put away as bytes and taken up again.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, lru_cache
from typing import Any, Final, TypeVar, cast

import msgspec

from amux.adapters._kit.times import parse_time, to_millis
from amux.model.trace import Mark, Trace

RawTime = str | float | None
"""A time as a line has it: most are never looked at."""


_LINE: Final = int(Mark.LINE)  # the plain number: this runs for every line


class TraceRows:
    """The three columns of a trace."""

    __slots__ = ("keys", "marks", "times")

    def __init__(self, keys: bytes = b"", times: bytes = b"", marks: bytes = b"") -> None:
        self.keys = array("q", keys)
        self.times = array("q", times)
        self.marks = bytearray(marks)

    def add(self, key: int, at_ms: int) -> int:
        """Append a line that is nothing yet; its position."""
        self.keys.append(key)
        self.times.append(at_ms)
        self.marks.append(_LINE)
        return len(self.marks) - 1

    def columns(self) -> tuple[bytes, bytes, bytes]:
        """The columns as bytes."""
        return self.keys.tobytes(), self.times.tobytes(), bytes(self.marks)


@dataclass(slots=True, kw_only=True)
class Cursor:
    """The line that is being read, and what is remembered of those before it."""

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
        """The ordinal of the line, or its number where there are no ordinals."""
        return self.line if self.ordinal is None else self.ordinal

    @property
    def at(self) -> datetime | None:
        """The time of the line."""
        return parse_time(self.raw_time)

    def repeat_row(self) -> None:
        """A second place for the same line, which holds two messages."""
        if self.traced:
            rows, position = self.rows, self.position
            self.position = rows.add(rows.keys[position], rows.times[position])

    def set_mark(self, position: int, mark: Mark) -> None:
        """Say what an earlier line is, now that a later one has told."""
        if self.traced:
            self.rows.marks[position] = mark

    def extend_time_span(self, at: datetime | None) -> None:
        """Widen the time span of the session."""
        self.first_at = self.first_at or at
        self.last_at = at or self.last_at

    def build(self) -> Trace:
        """The finished trace."""
        keys, times, marks = self.rows.columns()
        return Trace(keys=keys, times=times, marks=marks)


@lru_cache(maxsize=2)  # lines that were written together have the same time
def millis(raw_time: RawTime) -> int:
    """The time of a line as a trace wants it."""
    return to_millis(parse_time(raw_time))


T = TypeVar("T")


def save(state: object) -> bytes | None:
    """A state as bytes; None for what has none: odd figures, a file's name that is no text."""
    try:
        return msgspec.msgpack.encode(state, enc_hook=TraceRows.columns)
    except (OverflowError, RecursionError, UnicodeError):
        return None


def restore(data: bytes, kind: type[T]) -> T | None:
    """A state again; None when it is nothing that this version understands."""
    try:
        found: T = _decoder(cast("Any", kind)).decode(data)
    except (msgspec.MsgspecError, ValueError):
        return None
    return found


@cache
def _decoder(kind: type[Any]) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(kind, dec_hook=_rows)


def _rows(kind: type, columns: list[bytes]) -> TraceRows:
    """The only type of a state that is no plain data."""
    del kind
    return TraceRows(*columns)
