"""Calls that were made and never answered: the agent was killed, or is still at work.

Claude Code writes an answer when it is complete, and a call that failed as a notice. Of a call that
was cut short nothing is left but, in the newest versions, the record of the request. In others it
shows only where a file ends with tool results, for these go to the model at once. A prompt alone
proves no call.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from amux.adapters.claude.records import Entry
from amux.model.trace import Mark

_TOOL: Final = Mark.TOOL


class Unanswered(msgspec.Struct):
    """Follows one conversation from tool results over the request to the answer."""

    cut_short: bool = False  # a request was given up
    state: Literal["idle", "tools-back", "requested"] = "idle"

    @property
    def pending(self) -> bool:
        """Whether the conversation ends where an answer ought to follow."""
        return self.state != "idle"

    @property
    def requested(self) -> bool:
        """Whether it ends with a request on record."""
        return self.state == "requested"

    def see_notice(self, entry: Entry) -> None:
        """A line began a notice in place of an answer."""
        if entry.line.is_api_error_message is True:
            self.state = "idle"
        else:
            self._give_up()  # taken up again, the agent closed what it found open

    def see_message(self, entry: Entry, mark: Mark, *, tools_at_work: bool) -> None:
        """A line began any other message."""
        comes_back = mark is _TOOL and not tools_at_work and not entry.copied
        self.state = "tools-back" if comes_back else "idle"

    def see_record(self, kind: str) -> None:
        """A line that is no message."""
        if kind == "api-request" and self.pending:
            self.state = "requested"
        elif kind == "cost-state":  # the process ended
            self._give_up()

    def _give_up(self) -> None:
        self.cut_short |= self.requested
        self.state = "idle"
