"""The tools of one conversation: which are at work, and which result belongs to which call.

A result usually follows its call. Versions that write an answer when it is complete (seen in
2.1.119) may write the result of one of its tools before: such a result waits for its call. Results
that wait are limited in number, so that a hostile file costs no memory; one that finds no call
is a problem.

Whether a call is under way depends on the tools at work alone. This part is equal at every depth of
reading, so it remembers results only from the answer before the newest one on (see `cost_lines`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

EARLY_LIMIT: Final = 256
"""Number of results that may wait for their calls."""


class OpenTools(msgspec.Struct):
    """Tools without a result, and results without a call. Plain data, so it can be serialized."""

    answers: int = 0  # number of answers that have begun
    at_work: set[str] = set()  # tools called by the newest answer, without result
    returned: set[str] = set()  # results of other tools since the newest answer began
    early: set[str] = set()  # those from the answer before it until it began
    names: dict[str, str] | None = None  # names of all open tools; None if not needed
    unclaimed: dict[str, int] = {}  # lines of results without a call so far, if names are needed

    def begin_answer(self) -> None:
        """Record that the model has received all results so far."""
        self.answers += 1
        self.at_work.clear()
        if self.early or self.returned:
            self.early, self.returned = self.returned, set()

    def call(self, id: str, name: str) -> None:
        """Record a tool call of the newest answer, whose result may have come before."""
        if not self.returned and not self.early:
            self.at_work.add(id)
        elif id in self.returned:
            self.returned.discard(id)
        elif id in self.early:
            self.early.discard(id)
        else:
            self.at_work.add(id)
        names = self.names
        if names is not None and (not self.unclaimed or self.unclaimed.pop(id, None) is None):
            names[id] = name

    def take_back(self, id: str) -> None:
        """Record a result; it ends the work of its tool."""
        if id in self.at_work:
            self.at_work.discard(id)
        elif id and len(self.returned) < EARLY_LIMIT:
            self.returned.add(id)

    def take_result(self, id: str, line: int, orphans: list[int]) -> str | None:
        """Record a result and return the name of its tool; add lines of results without a call.

        The name is None if the call has not come yet, or if names are not needed.
        """
        names = self.names
        name = None if names is None else names.pop(id, None)  # a call has one result
        if id in self.at_work:
            self.at_work.discard(id)
        else:
            self.take_back(id)
        if name is None and names is not None:
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

    def replay(self, results: Iterable[str], at_work: set[str], *, answers: int) -> None:
        """Record results that were skipped before an answer began, after `answers` others.

        `at_work` are the tools that were at work before them.
        """
        before = self.returned if self.answers == answers else self.early
        for id in results:
            if id in at_work:
                at_work.discard(id)
            elif id and len(before) < EARLY_LIMIT:
                before.add(id)
