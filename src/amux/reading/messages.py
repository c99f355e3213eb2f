"""Streaming the messages of a session from its sources, each tool call with its result."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

import msgspec

from amux.adapters._base import Adapter, Head, SourceRef, Want
from amux.assembly.session import MessageSources
from amux.model.message import SessionMessage, SessionToolCall, ToolResult
from amux.model.problems import Problem

MAX_HELD_MESSAGES = 256
MAX_HELD_CHARACTERS = 4_000_000


def read_messages(
    adapter: Adapter, conversation: MessageSources, *, want: Want
) -> Iterator[SessionMessage | Problem]:
    """Messages in order, and what could not be read. Streams."""
    seen: set[str] = set()
    for source, wanted, until in _locations(conversation):
        inside = False
        for item in adapter.read(source, want=want, only=wanted, until=until):
            if isinstance(item, Head):
                inside = item.session_id == wanted
            elif isinstance(item, Problem):
                yield item
            elif inside and isinstance(item, SessionMessage) and item.id not in seen:
                yield item
                if conversation.in_fragments and item.id is not None:
                    seen.add(item.id)


def _locations(conversation: MessageSources) -> Iterator[tuple[SourceRef, str, int | None]]:
    return ((each.source, each.session_id, each.until) for each in conversation.slices)


def with_tool_results(messages: Iterable[SessionMessage]) -> Iterator[SessionMessage]:
    """Yield the messages in order, tool calls completed."""
    window = _Window()
    for message in messages:
        window.push(message)
        yield from window.ready()
    yield from window.rest()


class _Window:
    """Messages held back, and the results seen for their open calls."""

    def __init__(self) -> None:
        self._held: deque[SessionMessage] = deque()
        self._open: dict[str, ToolResult | None] = {}
        self._characters = 0

    def push(self, message: SessionMessage) -> None:
        self._held.append(message)
        self._characters += len(message.content)
        for call in message.tool_calls:
            self._open.setdefault(call.tool_call_id, None)
        result = message.tool_result
        if result is not None and self._open.get(result.tool_call_id, result) is None:
            self._open[result.tool_call_id] = result

    def ready(self) -> Iterator[SessionMessage]:
        while self._held and (self._is_complete(self._held[0]) or self._is_full()):
            yield self._pop()

    def rest(self) -> Iterator[SessionMessage]:
        while self._held:
            yield self._pop()

    def _is_full(self) -> bool:
        return len(self._held) > MAX_HELD_MESSAGES or self._characters > MAX_HELD_CHARACTERS

    def _is_complete(self, message: SessionMessage) -> bool:
        return all(self._open.get(call.tool_call_id) is not None for call in message.tool_calls)

    def _pop(self) -> SessionMessage:
        message = self._held.popleft()
        self._characters -= len(message.content)
        if not message.tool_calls:
            return message
        calls = tuple(self._completed(call) for call in message.tool_calls)
        return msgspec.structs.replace(message, tool_calls=calls)

    def _completed(self, call: SessionToolCall) -> SessionToolCall:
        result = self._open.pop(call.tool_call_id, None)
        if result is None or call.output is not None:
            return call
        return msgspec.structs.replace(call, output=result.output, is_error=result.is_error)
