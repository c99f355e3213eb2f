"""cursor-agent's `--output-format stream-json`. It reports no tokens and no cost."""

from __future__ import annotations

from collections.abc import Iterator

from amux.runs.events import AgentEvent
from amux.runs.readers.base import EventReader, Record, joined_text, record_of, text_of


class CursorReader(EventReader):
    """Reads the stream of one run."""

    def init(self, record: Record) -> Iterator[AgentEvent]:
        """Report the session."""
        session_id = text_of(record.get("session_id"))
        if session_id is not None:
            model = text_of(record.get("model"))
            yield AgentEvent(type="session", session_id=session_id, model=model)

    def assistant(self, record: Record) -> Iterator[AgentEvent]:
        """Report a part of the answer."""
        text = joined_text(record_of(record.get("message")).get("content"))
        yield AgentEvent(type="text", text=text)

    def thinking(self, record: Record) -> Iterator[AgentEvent]:
        """Report a part of a thought."""
        if record.get("subtype") != "completed":
            yield AgentEvent(type="thinking", text=text_of(record.get("text")), is_delta=True)

    def tool(self, record: Record) -> Iterator[AgentEvent]:
        """Report that a tool begins, or its result; the name of the tool is a key."""
        call_id = text_of(record.get("call_id"))
        for name, value in record_of(record.get("tool_call")).items():
            call = record_of(value)
            tool = name.removesuffix("ToolCall")
            if record.get("subtype") == "started":
                yield AgentEvent(
                    type="tool_call", tool=tool, call_id=call_id, input=call.get("args")
                )
            else:
                result = record_of(call.get("result"))
                yield AgentEvent(
                    type="tool_result",
                    tool=tool,
                    call_id=call_id,
                    text=joined_text(record_of(result.get("success")).get("content")),
                    is_error="success" not in result,
                )
            return

    def result(self, record: Record) -> Iterator[AgentEvent]:
        """Report the end."""
        self.answer = text_of(record.get("result")) or self.answer
        yield AgentEvent(
            type="end",
            session_id=text_of(record.get("session_id")),
            text=self.answer,
            is_error=record.get("is_error") is True,
        )

    handlers = {
        "system": init,
        "assistant": assistant,
        "thinking": thinking,
        "tool_call": tool,
        "result": result,
    }
