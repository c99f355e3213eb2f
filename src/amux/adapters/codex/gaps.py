"""What the disk itself shows to be missing from the usage of a session.

Two gaps show: an answer in a turn that has no usage at all, and a call that began to speak or was
under way when the turn was interrupted. A failed request leaves nothing behind and is no gap.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import msgspec

from amux.adapters.codex.tools import was_aborted

NOT_RECORDED: Final = "usage-not-recorded"
INTERRUPTED: Final = "call-interrupted"


@dataclass(slots=True, kw_only=True)
class Gaps:
    """Follows the turns of one file."""

    found: set[str] = field(default_factory=set[str])
    has_answer: bool = False  # in this turn
    is_billed: bool = False  # in this turn
    speaking: bool = False  # words of a call whose usage has not come yet
    awaiting: bool = False  # the model has been asked and has not been billed yet
    returned: msgspec.Raw | None = None  # by a tool, which may have been stopped

    def prompted(self) -> None:
        """A new turn begins."""
        self._end_turn()
        self.awaiting = True

    def spoke(self) -> None:
        """The screen showed words of the model."""
        self.speaking = True

    def answered(self) -> None:
        """The model's answer is on disk."""
        self.has_answer = True

    def billed(self) -> None:
        """Usage of a call arrived."""
        self.is_billed = True
        self.speaking = self.awaiting = False

    def tool_returned(self, output: msgspec.Raw) -> None:
        """A tool's output goes to the model, unless it was stopped: that is seen if it matters."""
        self.awaiting = True
        self.returned = output

    def settle(self) -> None:
        """Look at the newest output: it holds a piece of the file, so it is not put away."""
        if self.returned is not None:
            self.awaiting = self.awaiting and not was_aborted(self.returned)
            self.returned = None

    def aborted(self) -> None:
        """The person interrupted the turn."""
        self.settle()
        if self.speaking or self.awaiting:
            self.found.add(INTERRUPTED)
            self.has_answer = False  # said already
        self.speaking = self.awaiting = False

    def finish(self) -> tuple[str, ...]:
        """All gaps of the file."""
        self._end_turn()
        return tuple(sorted(self.found))

    def _end_turn(self) -> None:
        if self.has_answer and not self.is_billed:
            self.found.add(NOT_RECORDED)
        elif self.speaking:
            self.found.add(INTERRUPTED)
        self.has_answer = self.is_billed = self.speaking = self.awaiting = False
        self.returned = None
