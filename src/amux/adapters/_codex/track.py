"""Where reading stands: the line that is being read, and the trace of the lines before it.

Every line has a place before it is known what it is; it is marked when that is clear. Without a
trace (nobody asked for it) a place is the number of the line, which keeps the same order.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache

from amux.adapters._kit.times import parse_time, to_millis
from amux.model.trace import Mark, Trace

Moment = str | float | datetime | None
"""A time as a line has it, parsed or not."""


@dataclass(slots=True, kw_only=True)
class Track:
    """The line that is being read, and what is remembered of those before it."""

    traced: bool
    line: int = 0
    position: int = 0
    ordinal: int | None = None
    moment: Moment = None
    first_at: datetime | None = None
    last_at: datetime | None = None
    keys: array[int] = field(default_factory=lambda: array("q"))
    times: array[int] = field(default_factory=lambda: array("q"))
    marks: bytearray = field(default_factory=bytearray)

    @property
    def key(self) -> int:
        """The ordinal of the line, or its number where there are no ordinals."""
        return self.line if self.ordinal is None else self.ordinal

    @property
    def at(self) -> datetime | None:
        """The time of the line."""
        return time_of(self.moment)

    def place(self, key: int) -> None:
        """Give the line its place."""
        if not self.traced:
            self.position = self.line
            return
        self.position = len(self.marks)
        self.keys.append(key)
        self.times.append(_millis(self.moment))
        self.marks.append(Mark.LINE)

    def place_again(self) -> int:
        """A second place for the same line, which holds two messages."""
        if self.traced:
            self.keys.append(self.keys[self.position])
            self.times.append(self.times[self.position])
            self.marks.append(Mark.LINE)
            self.position = len(self.marks) - 1
        return self.position

    def remark(self, position: int, mark: Mark) -> None:
        """Say what an earlier line is, now that a later one has told."""
        if self.traced:
            self.marks[position] = mark

    def pass_time(self, at: datetime | None) -> None:
        """Widen the time span of the session."""
        self.first_at = self.first_at or at
        self.last_at = at or self.last_at

    def build(self) -> Trace:
        """The finished trace."""
        return Trace(keys=self.keys.tobytes(), times=self.times.tobytes(), marks=bytes(self.marks))


def time_of(moment: Moment) -> datetime | None:
    """The time that a line names."""
    return moment if isinstance(moment, datetime) else parse_time(moment)


@lru_cache(maxsize=64)  # lines that were written together have the same time
def _millis(moment: Moment) -> int:
    return to_millis(time_of(moment))
