"""Pi's and oh-my-pi's `--mode json`: the header of the session, then the events of the agent.

A message is streamed in parts and repeated whole at its end, with the usage of its model call.
"""

from __future__ import annotations

from collections.abc import Iterator

from amux.runs.events import AgentEvent
from amux.runs.readers.base import (
    EventReader,
    Record,
    joined_text,
    record_of,
    records_of,
    text_of,
    tokens_from,
    usd_of,
)

_FAILED = ("error", "aborted")


class PiReader(EventReader):
    """Reads the events of one run."""

    def __init__(self, *, action: str = "new", version: str | None = None) -> None:
        super().__init__(action=action, version=version)
        self._is_streamed = False  # whether parts of the current message were reported
        self._failure: str | None = None

    def session(self, record: Record) -> Iterator[AgentEvent]:
        """Report the session."""
        session_id = text_of(record.get("id"))
        if session_id is not None:
            yield AgentEvent(type="session", session_id=session_id)

    def update(self, record: Record) -> Iterator[AgentEvent]:
        """Report a part of an answer or of a thought."""
        event = record_of(record.get("assistantMessageEvent"))
        text = text_of(event.get("delta"))
        kind = event.get("type")
        if text is not None and kind in ("text_delta", "thinking_delta"):
            self._is_streamed = True
            is_text = kind == "text_delta"
            yield AgentEvent(type="text" if is_text else "thinking", text=text, is_delta=True)

    def message(self, record: Record) -> Iterator[AgentEvent]:
        """Report the usage of an answer, and its blocks if they were not streamed."""
        message = record_of(record.get("message"))
        if message.get("role") != "assistant":
            return
        blocks = records_of(message.get("content"))
        self.answer = joined_text([each for each in blocks if each.get("type") == "text"])
        is_failed = message.get("stopReason") in _FAILED
        self._failure = text_of(message.get("errorMessage")) or "the agent stopped"
        self._failure = self._failure if is_failed else None
        if not self._is_streamed:
            yield from _blocks(blocks)
        self._is_streamed = False
        usage = record_of(message.get("usage"))
        model = text_of(message.get("model"))
        tokens = tokens_from(
            usage,
            input="input",
            output="output",
            cached="cacheRead",
            written="cacheWrite",
            thinking="reasoningTokens" if "reasoningTokens" in usage else "reasoning",
        )
        if tokens is not None:
            yield AgentEvent(type="usage", tokens=tokens, model=model, scope="call")
        cost = usd_of(record_of(usage.get("cost")).get("total"))
        if cost is not None:
            yield AgentEvent(type="cost", cost_usd=cost, model=model, scope="call")

    def tool_call(self, record: Record) -> Iterator[AgentEvent]:
        """Report that a tool begins."""
        yield AgentEvent(
            type="tool_call",
            tool=text_of(record.get("toolName")),
            call_id=text_of(record.get("toolCallId")),
            input=record.get("args"),
        )

    def tool_result(self, record: Record) -> Iterator[AgentEvent]:
        """Report the result of a tool."""
        yield AgentEvent(
            type="tool_result",
            tool=text_of(record.get("toolName")),
            call_id=text_of(record.get("toolCallId")),
            text=joined_text(record_of(record.get("result")).get("content")),
            is_error=record.get("isError") is True,
        )

    def end(self, record: Record) -> Iterator[AgentEvent]:
        """Report the end."""
        del record
        text = self._failure or self.answer
        yield AgentEvent(type="end", text=text, is_error=self._failure is not None)

    handlers = {
        "session": session,
        "message_update": update,
        "message_end": message,
        "tool_execution_start": tool_call,
        "tool_execution_end": tool_result,
        "agent_end": end,
    }


def _blocks(blocks: list[Record]) -> Iterator[AgentEvent]:
    for block in blocks:
        if block.get("type") == "text":
            yield AgentEvent(type="text", text=text_of(block.get("text")) or "")
        elif block.get("type") == "thinking":
            yield AgentEvent(type="thinking", text=text_of(block.get("thinking")) or "")
