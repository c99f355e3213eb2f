"""What the disk itself shows to be missing from the usage of a session.

Two gaps show: an answer in a turn that has no usage at all, and a call that began to speak or was
under way when the turn was interrupted. A failed request leaves nothing behind and is no gap.
"""

from __future__ import annotations

from typing import Final

NOT_RECORDED: Final = "usage-not-recorded"
INTERRUPTED: Final = "call-interrupted"


class Gaps:
    """Follows the turns of one file."""

    def __init__(self) -> None:
        self._found: dict[str, None] = {}
        self._answered = False  # in this turn
        self._billed = False  # in this turn
        self._speaking = False  # words of a call whose usage has not come yet
        self._awaiting = False  # the model has been asked and has not been billed yet

    def prompted(self) -> None:
        """A new turn begins."""
        self._end_turn()
        self._awaiting = True

    def spoke(self) -> None:
        """The screen showed words of the model."""
        self._speaking = True

    def answered(self) -> None:
        """The model's answer is on disk."""
        self._answered = True

    def billed(self) -> None:
        """Usage of a call arrived."""
        self._billed = True
        self._speaking = self._awaiting = False

    def tool_returned(self, *, aborted: bool) -> None:
        """A tool's output goes to the model, unless it was stopped."""
        self._awaiting = not aborted

    def aborted(self) -> None:
        """The person interrupted the turn."""
        if self._speaking or self._awaiting:
            self._found[INTERRUPTED] = None
            self._answered = False  # said already
        self._speaking = self._awaiting = False

    def finish(self) -> tuple[str, ...]:
        """All gaps of the file."""
        self._end_turn()
        return tuple(sorted(self._found))

    def _end_turn(self) -> None:
        if self._answered and not self._billed:
            self._found[NOT_RECORDED] = None
        elif self._speaking:
            self._found[INTERRUPTED] = None
        self._answered = self._billed = self._speaking = self._awaiting = False
