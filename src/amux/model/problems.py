"""What could not be read in a source. A problem is a value; it is never dropped in silence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from amux.model.base import Model

ProblemCode = Literal[
    "torn-tail",  # the last line has no end: the writer was interrupted or is still writing
    "bad-line",  # a line that is not JSON
    "bad-record",  # JSON of an unexpected shape
    "unknown-format",  # nothing usable, or a format version newer than known
    "unreadable",  # the operating system refused
    "missing-parent",  # history refers to a session that is gone
    "orphan-result",  # a tool result without its call
    "decoder-missing",  # needs an optional decoder
]


class Problem(Model, frozen=True, kw_only=True):
    """One thing that could not be read: what, where."""

    code: ProblemCode
    message: str
    path: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        where = "" if self.path is None else f" in {self.path}"
        at = "" if self.line is None else f" line {self.line}"
        return f"{self.message}{where}{at}"


def in_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Each once, by place: in whatever order the sources were read."""
    return tuple(
        sorted(
            set(problems), key=lambda one: (one.path or "", one.line or 0, one.code, one.message)
        )
    )
