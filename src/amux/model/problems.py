"""Problems: parts of a source that could not be read. They are values, never dropped silently."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from amux.model.base import Model

ProblemCode = Literal[
    "torn-tail",  # the last line is unfinished: the writer was interrupted or is still writing
    "bad-line",  # a line that is not JSON
    "bad-record",  # JSON of an unexpected shape
    "unknown-format",  # nothing usable, or a format version newer than this version of amux
    "unreadable",  # the operating system denied access
    "missing-parent",  # the history refers to a session that does not exist any more
    "orphan-result",  # a tool result without its call
    "decoder-missing",  # an optional decoder is not installed
]


class Problem(Model, frozen=True, kw_only=True):
    """One part of a source that could not be read, and its location."""

    code: ProblemCode
    message: str
    path: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        where = "" if self.path is None else f" in {self.path}"
        at = "" if self.line is None else f" line {self.line}"
        return f"{self.message}{where}{at}"


def in_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Return the distinct problems sorted by path and line, independent of the order of reading."""
    return tuple(
        sorted(
            set(problems), key=lambda one: (one.path or "", one.line or 0, one.code, one.message)
        )
    )
