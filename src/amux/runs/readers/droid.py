"""Factory Droid's `exec -o stream-json`. Tokens are reported at the end, if at all.

A resumed run reports the tokens of the whole session, and a thought may be reported twice (seen:
0.225.2).
"""

from __future__ import annotations

from collections.abc import Iterator

from amux.runs.events import AgentEvent, Scope
from amux.runs.readers.base import (
    EventReader,
    Record,
    joined_text,
    record_of,
    text_of,
    tokens_from,
)
from amux.runs.readers.claude import usage_of


class DroidReader(EventReader):
    """Reads the stream of one run."""

    def __init__(self, *, action: str = "new", version: str | None = None) -> None:
        super().__init__(action=action, version=version)
        self._thought: tuple[str | None, str] | None = None  # the last one, and its message

    def init(self, record: Record) -> Iterator[AgentEvent]:
        """Report the session."""
        session_id = _session_in(record)
        if session_id is not None:
            model = text_of(record.get("model"))
            yield AgentEvent(type="session", session_id=session_id, model=model)

    def message(self, record: Record) -> Iterator[AgentEvent]:
        """Report an answer; the prompt is repeated, too."""
        if record.get("role") == "assistant":
            self.answer = text_of(record.get("text")) or ""
            yield AgentEvent(type="text", text=self.answer)

    def reasoning(self, record: Record) -> Iterator[AgentEvent]:
        """Report a thought, once."""
        thought = (text_of(record.get("id")), text_of(record.get("text")) or "")
        if thought != self._thought:
            self._thought = thought
            yield AgentEvent(type="thinking", text=thought[1])

    def tool_call(self, record: Record) -> Iterator[AgentEvent]:
        """Report that a tool begins."""
        yield AgentEvent(
            type="tool_call",
            tool=text_of(record.get("toolName")) or text_of(record.get("toolId")),
            call_id=text_of(record.get("id")),
            input=record.get("parameters"),
        )

    def tool_result(self, record: Record) -> Iterator[AgentEvent]:
        """Report the result of a tool."""
        yield AgentEvent(
            type="tool_result",
            tool=text_of(record.get("toolName")) or text_of(record.get("toolId")),
            call_id=text_of(record.get("id")),
            text=joined_text(record.get("value")) or text_of(record.get("error")),
            is_error=record.get("isError") is True,
        )

    def completion(self, record: Record) -> Iterator[AgentEvent]:
        """Report the tokens of the run, and its end."""
        usage = record_of(record.get("usage"))
        tokens = usage_of(usage) or tokens_from(
            usage,
            input="inputTokens",
            output="outputTokens",
            cached="cacheReadTokens",
            written="cacheCreationTokens",
            thinking="thinkingTokens",
        )
        if tokens is not None:
            scope: Scope = "session" if self.action == "resume" else "run"
            yield AgentEvent(type="usage", tokens=tokens, scope=scope)
        self.answer = (
            text_of(record.get("finalText")) or text_of(record.get("result")) or self.answer
        )
        yield AgentEvent(
            type="end",
            session_id=_session_in(record),
            text=self.answer,
            is_error=record.get("is_error") is True,
        )

    def error(self, record: Record) -> Iterator[AgentEvent]:
        """Report that the run failed."""
        text = text_of(record.get("message")) or text_of(record.get("error"))
        yield AgentEvent(type="end", text=text, is_error=True)

    handlers = {
        "system": init,
        "message": message,
        "reasoning": reasoning,
        "tool_call": tool_call,
        "tool_result": tool_result,
        "completion": completion,
        "result": completion,
        "error": error,
    }


def _session_in(record: Record) -> str | None:
    return text_of(record.get("session_id")) or text_of(record.get("sessionId"))
