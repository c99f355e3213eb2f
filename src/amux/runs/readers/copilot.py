"""Copilot CLI's `--output-format json`: the events of its session log, and a result at the end.

A token count includes what was read from and written to the cache. Events of sub-agents carry an
`agentId`: their texts are not the answer.
"""

from __future__ import annotations

from collections.abc import Iterator

from amux.runs.events import AgentEvent
from amux.runs.readers.base import EventReader, Record, record_of, records_of, text_of, tokens_from


class CopilotReader(EventReader):
    """Reads the events of one run."""

    def __init__(self, *, action: str = "new", version: str | None = None) -> None:
        super().__init__(action=action, version=version)
        self._streamed: set[str] = set()  # the messages whose parts were reported

    def session(self, record: Record) -> Iterator[AgentEvent]:
        """Report the session."""
        data = record_of(record.get("data"))
        session_id = text_of(data.get("sessionId"))
        if session_id is not None:
            model = text_of(data.get("selectedModel"))
            yield AgentEvent(type="session", session_id=session_id, model=model)

    def delta(self, record: Record) -> Iterator[AgentEvent]:
        """Report a part of the answer."""
        data = record_of(record.get("data"))
        self._streamed.add(text_of(data.get("messageId")) or "")
        text = text_of(data.get("deltaContent")) or ""
        yield AgentEvent(type="text", text=text, is_delta=True)

    def thought(self, record: Record) -> Iterator[AgentEvent]:
        """Report a part of a thought."""
        text = text_of(record_of(record.get("data")).get("deltaContent")) or ""
        yield AgentEvent(type="thinking", text=text, is_delta=True)

    def message(self, record: Record) -> Iterator[AgentEvent]:
        """Report an answer and the tools that it calls."""
        data = record_of(record.get("data"))
        text = text_of(data.get("content"))
        is_streamed = (text_of(data.get("messageId")) or "") in self._streamed
        is_main = record.get("agentId") is None and data.get("parentToolCallId") is None
        if text and is_main:
            self.answer = text
            if not is_streamed:
                yield AgentEvent(type="text", text=text)
        for call in records_of(data.get("toolRequests")):
            yield AgentEvent(
                type="tool_call",
                tool=text_of(call.get("name")),
                call_id=text_of(call.get("toolCallId")),
                input=call.get("arguments"),
            )

    def tool_result(self, record: Record) -> Iterator[AgentEvent]:
        """Report the result of a tool."""
        data = record_of(record.get("data"))
        result, error = record_of(data.get("result")), record_of(data.get("error"))
        exit_code = record_of(data.get("shellExecution")).get("exitCode")
        yield AgentEvent(
            type="tool_result",
            tool=text_of(data.get("toolName")),
            call_id=text_of(data.get("toolCallId")),
            text=text_of(result.get("content")) or text_of(error.get("message")),
            is_error=data.get("success") is False or exit_code not in (None, 0),
        )

    def usage(self, record: Record) -> Iterator[AgentEvent]:
        """Report the tokens of one model call."""
        data = record_of(record.get("data"))
        figures = record_of(data.get("usage")) or data
        tokens = tokens_from(
            figures,
            input="inputTokens",
            output="outputTokens",
            cached="cacheReadTokens",
            written="cacheWriteTokens",
            thinking="reasoningTokens",
            is_cache_in_input=True,
        )
        if tokens is not None:
            model = text_of(figures.get("model"))
            yield AgentEvent(type="usage", tokens=tokens, model=model, scope="call")

    def error(self, record: Record) -> Iterator[AgentEvent]:
        """Report an error."""
        yield AgentEvent(type="error", text=text_of(record_of(record.get("data")).get("message")))

    def result(self, record: Record) -> Iterator[AgentEvent]:
        """Report the end."""
        yield AgentEvent(
            type="end",
            session_id=text_of(record.get("sessionId")),
            text=self.answer,
            is_error=record.get("exitCode") not in (None, 0),
        )

    handlers = {
        "session.start": session,
        "session.resume": session,
        "assistant.message_delta": delta,
        "assistant.reasoning_delta": thought,
        "assistant.message": message,
        "assistant.usage": usage,
        "tool.execution_complete": tool_result,
        "session.error": error,
        "result": result,
    }
