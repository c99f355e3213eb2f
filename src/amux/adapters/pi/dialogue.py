"""Who waits for whom: prompts for answers, tool calls for results.

A call that was cut off leaves no record; it shows by what is missing after the question. Copied
lines do not count: what is missing after them is missing in another session.
"""

from __future__ import annotations

from amux.adapters._kit.values import text
from amux.adapters.pi.records import Entry
from amux.model.trace import LineKind


class Dialogue:
    """Follows the messages of one log in the order of writing."""

    def __init__(self) -> None:
        self._model_is_asked = False
        self._by_person = False
        self._was_interrupted = False
        self._tool_calls: set[str] = set()
        self._unknown_calls: list[tuple[str, int]] = []

    @property
    def lacks_a_call(self) -> bool:
        """Whether the model was asked somewhere and nothing came."""
        return self._was_interrupted or self._model_is_asked

    @property
    def has_tool_calls(self) -> bool:
        """Whether the model has called any tool."""
        return bool(self._tool_calls)

    def take(self, entry: Entry, mark: LineKind, *, copied: bool) -> None:
        """A message was written."""
        if mark in {LineKind.REPLY, LineKind.NOTICE}:
            self.rest()
            calls = (text(block.id) for block in entry.blocks if block.type == "toolCall")
            self._tool_calls.update(call or "" for call in calls)
        elif mark is LineKind.PROMPT:
            self._was_interrupted |= self._model_is_asked and self._by_person
            self._ask(by_person=True, copied=copied)
        elif mark is LineKind.TOOL:
            self._ask(by_person=False, copied=copied)
            call = text(entry.message.tool_call_id) or ""
            if call not in self._tool_calls:
                self._unknown_calls.append((call, entry.number))
        elif entry.role == "user":
            self._ask(by_person=False, copied=copied)

    def _ask(self, *, by_person: bool, copied: bool) -> None:
        self._model_is_asked, self._by_person = not copied, by_person

    def rest(self) -> None:
        """The model has answered, or the agent was ended in good order."""
        self._model_is_asked = False

    def orphans(self) -> list[int]:
        """Numbers of the lines with a result that no call in the log asked for."""
        return [number for call, number in self._unknown_calls if call not in self._tool_calls]
