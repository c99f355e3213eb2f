"""OpenCode's `run --format json`: finished parts of messages, with the tokens of every step."""

from __future__ import annotations

from collections.abc import Iterator

from amux.model.usage import Tokens
from amux.runs.events import AgentEvent
from amux.runs.readers.base import EventReader, Record, count_of, record_of, text_of, usd_of


class OpenCodeReader(EventReader):
    """Reads the events of one run; every record names the session."""

    def __init__(self, *, action: str = "new", version: str | None = None) -> None:
        super().__init__(action=action, version=version)
        self._session: str | None = None

    def record(self, record: Record) -> Iterator[AgentEvent]:
        """Yield the events of a record, after the session if it is new."""
        session_id = text_of(record.get("sessionID"))
        if session_id is not None and session_id != self._session:
            self._session = session_id
            yield AgentEvent(type="session", session_id=session_id)
        yield from super().record(record)

    def text(self, record: Record) -> Iterator[AgentEvent]:
        """Report an answer."""
        self.answer = text_of(record_of(record.get("part")).get("text")) or ""
        yield AgentEvent(type="text", text=self.answer)

    def reasoning(self, record: Record) -> Iterator[AgentEvent]:
        """Report a thought."""
        text = text_of(record_of(record.get("part")).get("text"))
        yield AgentEvent(type="thinking", text=text)

    def tool(self, record: Record) -> Iterator[AgentEvent]:
        """Report a tool call together with its result: the record comes when both are known."""
        part = record_of(record.get("part"))
        state = record_of(part.get("state"))
        tool, call_id = text_of(part.get("tool")), text_of(part.get("callID"))
        yield AgentEvent(type="tool_call", tool=tool, call_id=call_id, input=state.get("input"))
        exit_code = record_of(state.get("metadata")).get("exit")
        yield AgentEvent(
            type="tool_result",
            tool=tool,
            call_id=call_id,
            text=text_of(state.get("output")) or text_of(state.get("error")),
            is_error=state.get("status") == "error" or exit_code not in (None, 0),
        )

    def step(self, record: Record) -> Iterator[AgentEvent]:
        """Report the tokens and the cost of one model call."""
        part = record_of(record.get("part"))
        tokens = _tokens(record_of(part.get("tokens")))
        if tokens is not None:
            yield AgentEvent(type="usage", tokens=tokens, scope="call")
        cost = usd_of(part.get("cost"))
        if cost is not None:
            yield AgentEvent(type="cost", cost_usd=cost, scope="call")

    def error(self, record: Record) -> Iterator[AgentEvent]:
        """Report that the run failed."""
        error = record_of(record.get("error"))
        data = record_of(error.get("data"))
        text = text_of(data.get("message")) or text_of(error.get("name"))
        yield AgentEvent(type="end", text=text, is_error=True)

    handlers = {
        "text": text,
        "reasoning": reasoning,
        "tool_use": tool,
        "step_finish": step,
        "error": error,
    }


def _tokens(figures: Record) -> Tokens | None:
    """Return the tokens of a step; reasoning is apart from the output if the total says so."""
    if "input" not in figures:
        return None
    cache = record_of(figures.get("cache"))
    sent, answered = count_of(figures.get("input")), count_of(figures.get("output"))
    thought = count_of(figures.get("reasoning"))
    read, written = count_of(cache.get("read")), count_of(cache.get("write"))
    is_apart = count_of(figures.get("total")) == sent + answered + thought + read + written
    return Tokens(
        input=sent,
        cache_read=read,
        cache_write=written,
        output=answered + thought if is_apart else answered,
        thinking=thought,
    )
