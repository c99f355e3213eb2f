"""The tools of one conversation: which are at work, and which result belongs to which call.

A result usually follows its call. Versions that write an answer when it is complete (seen in
2.1.119) may write the result of one of its tools before: such a result waits for its call. Results
that wait are limited in number, so that a hostile file costs no memory; one that finds no call
is a problem.
"""

from __future__ import annotations

from typing import Final

import msgspec

EARLY_LIMIT: Final = 256
"""Number of results that may wait for their calls."""


class OpenTools(msgspec.Struct):
    """Tools without a result, and results without a call. Plain data, so it can be serialized."""

    at_work: set[str] = set()  # tools called by the newest answer, without result
    names: dict[str, str] = {}  # names of all tools without result
    unclaimed: dict[str, int] = {}  # lines of results without a call so far

    def call(self, id: str, name: str) -> None:
        """Record a tool call of the newest answer, whose result may have come before."""
        if not self.unclaimed or self.unclaimed.pop(id, None) is None:
            self.at_work.add(id)
            self.names[id] = name

    def take_result(self, id: str, line: int, orphans: list[int]) -> str | None:
        """Record a result and return the name of its tool; add lines of results without a call.

        The name is None if the call has not come yet.
        """
        self.at_work.discard(id)
        name = self.names.pop(id, None)  # a call has one result
        if name is None:
            self._wait(id, line, orphans)
        return name

    def _wait(self, id: str, line: int, orphans: list[int]) -> None:
        """Let a result wait for its call; a repeated one, or one too many, has none."""
        if not id:
            orphans.append(line)
            return
        if (repeated := self.unclaimed.pop(id, None)) is not None:
            orphans.append(repeated)
        self.unclaimed[id] = line
        if len(self.unclaimed) > EARLY_LIMIT:
            orphans.append(self.unclaimed.pop(next(iter(self.unclaimed))))
