"""Streams the messages of a session from its sources, each tool call with its result.

A message with tool calls is delayed until all their results have been read, or until a limit of
messages or characters is reached. Whole sessions and streams use this one way, so both are equal.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

import msgspec

from amux.adapters._base import Adapter, Head, Want
from amux.assembly.session import MessageSources
from amux.model.message import SessionMessage, SessionToolCall, ToolResult
from amux.model.problems import Problem

_MAX_MESSAGES = 256
_MAX_CHARACTERS = 4_000_000


def read_messages(
    adapter: Adapter, sources: MessageSources, *, want: Want
) -> Iterator[SessionMessage | Problem]:
    """Yield the messages in order and the problems met; reads lazily."""
    seen: set[str] = set()
    for each in sources.slices:
        inside = False
        for item in adapter.read(each.source, want=want, only=each.session_id, until=each.until):
            if isinstance(item, Head):
                inside = item.session_id == each.session_id
            elif isinstance(item, Problem):
                yield item
            elif inside and isinstance(item, SessionMessage) and item.id not in seen:
                yield item
                if sources.in_fragments and item.id is not None:
                    seen.add(item.id)


def with_tool_results(messages: Iterable[SessionMessage]) -> Iterator[SessionMessage]:
    """Yield the messages in order, with the output of their tool calls filled in."""
    window = _Window()
    for message in messages:
        window.push(message)
        while window.messages and window.is_ready():
            yield window.pop()
    while window.messages:
        yield window.pop()


class _Window:
    """Delayed messages, and the results read so far for their tool calls."""

    def __init__(self) -> None:
        self.messages: deque[SessionMessage] = deque()
        self._results: dict[str, ToolResult | None] = {}
        self._characters = 0

    def push(self, message: SessionMessage) -> None:
        self.messages.append(message)
        self._characters += len(message.content)
        for call in message.tool_calls:
            self._results.setdefault(call.tool_call_id, None)
        result = message.tool_result
        if result is not None and self._results.get(result.tool_call_id, result) is None:
            self._results[result.tool_call_id] = result

    def is_ready(self) -> bool:
        is_full = len(self.messages) > _MAX_MESSAGES or self._characters > _MAX_CHARACTERS
        calls = self.messages[0].tool_calls
        return is_full or all(self._results.get(call.tool_call_id) is not None for call in calls)

    def pop(self) -> SessionMessage:
        message = self.messages.popleft()
        self._characters -= len(message.content)
        if not message.tool_calls:
            return message
        calls = tuple(self._completed(call) for call in message.tool_calls)
        return msgspec.structs.replace(message, tool_calls=calls)

    def _completed(self, call: SessionToolCall) -> SessionToolCall:
        result = self._results.pop(call.tool_call_id, None)
        if result is None or call.output is not None:
            return call
        return msgspec.structs.replace(call, output=result.output, is_error=result.is_error)
