"""Codex's `exec --json`: items of a thread (since 0.44), and the events of older versions.

Items begin, may be updated and complete. The usage of a turn is the total of the thread, which
includes earlier runs and the history of a fork. Older versions wrap an event in `msg`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from amux.model.usage import Tokens
from amux.runs.events import AgentEvent, Scope
from amux.runs.readers.base import (
    EventReader,
    Record,
    joined_text,
    record_of,
    text_of,
    tokens_from,
)


class CodexReader(EventReader):
    """Reads the events of one run."""

    def kind_of(self, record: Record) -> str:
        """Return the type of a record, of its item, or of the event that it wraps."""
        kind = super().kind_of(record)
        if not kind and isinstance(record.get("msg"), dict):
            return f"msg:{super().kind_of(record_of(record['msg']))}"
        if kind.startswith("item."):
            item = super().kind_of(record_of(record.get("item")))
            return f"{kind}:{item}" if f"{kind}:{item}" in self.handlers else kind
        return kind

    def thread(self, record: Record) -> Iterator[AgentEvent]:
        """Report the session."""
        session_id = text_of(record.get("thread_id"))
        if session_id is not None:
            yield AgentEvent(type="session", session_id=session_id)

    def message(self, record: Record) -> Iterator[AgentEvent]:
        """Report an answer."""
        self.answer = text_of(record_of(record.get("item")).get("text")) or ""
        yield AgentEvent(type="text", text=self.answer)

    def reasoning(self, record: Record) -> Iterator[AgentEvent]:
        """Report a thought."""
        text = text_of(record_of(record.get("item")).get("text")) or ""
        yield AgentEvent(type="thinking", text=text)

    def begun(self, record: Record) -> Iterator[AgentEvent]:
        """Report that a tool begins."""
        item = record_of(record.get("item"))
        tool, input = _call_in(item)
        yield AgentEvent(type="tool_call", tool=tool, call_id=text_of(item.get("id")), input=input)

    def done(self, record: Record) -> Iterator[AgentEvent]:
        """Report the result of a tool."""
        item = record_of(record.get("item"))
        failed = item.get("status") in ("failed", "declined") or item.get("exit_code") not in (
            None,
            0,
        )
        output = item.get("aggregated_output")
        if output is None:
            output = record_of(item.get("result")).get("content")
        yield AgentEvent(
            type="tool_result",
            tool=_call_in(item)[0],
            call_id=text_of(item.get("id")),
            text=joined_text(output),
            is_error=failed,
        )

    def item_error(self, record: Record) -> Iterator[AgentEvent]:
        """Report a warning of the agent."""
        message = text_of(record_of(record.get("item")).get("message"))
        yield AgentEvent(type="error", text=message)

    def turn_completed(self, record: Record) -> Iterator[AgentEvent]:
        """Report the tokens of a turn, and its end."""
        tokens = _tokens(record_of(record.get("usage")))
        if tokens is not None:
            yield AgentEvent(type="usage", tokens=tokens, scope=self._scope())
        yield AgentEvent(type="end", text=self.answer)

    def failure(self, record: Record) -> Iterator[AgentEvent]:
        """Report that the turn failed."""
        text = text_of(record_of(record.get("error")).get("message"))
        yield AgentEvent(type="end", text=text or text_of(record.get("message")), is_error=True)

    def error(self, record: Record) -> Iterator[AgentEvent]:
        """Report an error, after which the agent may try again."""
        yield AgentEvent(type="error", text=text_of(record.get("message")))

    def old_event(self, record: Record) -> Iterator[AgentEvent]:
        """Report an event of a version before 0.44."""
        event = record_of(record.get("msg"))
        match event.get("type"):
            case "session_configured":
                session_id = text_of(event.get("session_id"))
                model = text_of(event.get("model"))
                yield AgentEvent(type="session", session_id=session_id, model=model)
            case "agent_message":
                self.answer = text_of(event.get("message")) or ""
                yield AgentEvent(type="text", text=self.answer)
            case "agent_reasoning":
                yield AgentEvent(type="thinking", text=text_of(event.get("text")) or "")
            case "exec_command_begin":
                yield AgentEvent(
                    type="tool_call",
                    tool="command_execution",
                    call_id=text_of(event.get("call_id")),
                    input={"command": event.get("command")},
                )
            case "exec_command_end":
                output = text_of(event.get("stdout")) or text_of(event.get("aggregated_output"))
                yield AgentEvent(
                    type="tool_result",
                    tool="command_execution",
                    call_id=text_of(event.get("call_id")),
                    text=output,
                    is_error=event.get("exit_code") not in (None, 0),
                )
            case "token_count":
                info = record_of(event.get("info"))
                tokens = _tokens(record_of(info.get("total_token_usage")) or event)
                if tokens is not None:
                    yield AgentEvent(type="usage", tokens=tokens, scope=self._scope())
            case "task_complete":
                yield AgentEvent(type="end", text=self.answer)
            case _:
                yield AgentEvent(type="error", text=text_of(event.get("message")))

    def _scope(self) -> Scope:
        return "run" if self.action == "new" else "session"

    handlers = {
        "thread.started": thread,
        "item.completed:agent_message": message,
        "item.completed:reasoning": reasoning,
        "item.started:command_execution": begun,
        "item.started:mcp_tool_call": begun,
        "item.started:web_search": begun,
        "item.started:collab_tool_call": begun,
        "item.completed:command_execution": done,
        "item.completed:file_change": done,
        "item.completed:mcp_tool_call": done,
        "item.completed:web_search": done,
        "item.completed:collab_tool_call": done,
        "item.completed:error": item_error,
        "turn.completed": turn_completed,
        "turn.failed": failure,
        "error": error,
        "msg:session_configured": old_event,
        "msg:agent_message": old_event,
        "msg:agent_reasoning": old_event,
        "msg:exec_command_begin": old_event,
        "msg:exec_command_end": old_event,
        "msg:token_count": old_event,
        "msg:task_complete": old_event,
        "msg:error": old_event,
    }


def _call_in(item: Record) -> tuple[str | None, Any]:
    """Return the name and the input of a tool, in the words of its kind of item."""
    match item.get("type"):
        case "command_execution":
            return "command_execution", {"command": item.get("command")}
        case "file_change":
            return "file_change", {"changes": item.get("changes")}
        case "web_search":
            return "web_search", {"query": item.get("query")}
        case "mcp_tool_call":
            return f"{item.get('server')}.{item.get('tool')}", item.get("arguments")
        case kind:
            return text_of(item.get("tool")) or text_of(kind), item.get("prompt")


def _tokens(usage: Record) -> Tokens | None:
    return tokens_from(
        usage,
        input="input_tokens",
        output="output_tokens",
        cached="cached_input_tokens",
        written="cache_write_input_tokens",
        thinking="reasoning_output_tokens",
        is_cache_in_input=True,
    )
