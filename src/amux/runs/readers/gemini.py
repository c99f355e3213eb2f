"""Gemini CLI's `-o stream-json` (since 0.11) and its older `-o json`, one document at the end."""

from __future__ import annotations

from collections.abc import Iterator

from amux.model.usage import Tokens
from amux.runs.events import AgentEvent
from amux.runs.readers.base import (
    DocumentReader,
    EventReader,
    Record,
    count_of,
    record_of,
    text_of,
    tokens_from,
)


class GeminiReader(EventReader):
    """Reads the stream of one run."""

    def init(self, record: Record) -> Iterator[AgentEvent]:
        """Report the session."""
        session_id = text_of(record.get("session_id"))
        if session_id is not None:
            yield AgentEvent(
                type="session", session_id=session_id, model=text_of(record.get("model"))
            )

    def message(self, record: Record) -> Iterator[AgentEvent]:
        """Report a part of the answer; the prompt is repeated, too."""
        if record.get("role") == "assistant":
            text = text_of(record.get("content")) or ""
            is_delta = record.get("delta") is True
            self.answer = (self.answer or "") + text if is_delta else text
            yield AgentEvent(type="text", text=text, is_delta=is_delta)

    def tool_use(self, record: Record) -> Iterator[AgentEvent]:
        """Report that a tool begins; the answer begins anew after it."""
        self.answer = None
        yield AgentEvent(
            type="tool_call",
            tool=text_of(record.get("tool_name")),
            call_id=text_of(record.get("tool_id")),
            input=record.get("parameters"),
        )

    def tool_result(self, record: Record) -> Iterator[AgentEvent]:
        """Report the result of a tool."""
        output = text_of(record.get("output"))
        if output is None:
            output = text_of(record_of(record.get("error")).get("message"))
        yield AgentEvent(
            type="tool_result",
            call_id=text_of(record.get("tool_id")),
            text=output,
            is_error=record.get("status") == "error",
        )

    def error(self, record: Record) -> Iterator[AgentEvent]:
        """Report a warning or an error."""
        yield AgentEvent(type="error", text=text_of(record.get("message")))

    def result(self, record: Record) -> Iterator[AgentEvent]:
        """Report the tokens of the run, and its end."""
        tokens = tokens_from(
            _with_thoughts(record_of(record.get("stats"))),
            input="input_tokens",
            output="output_tokens",
            cached="cached",
            thinking="thoughts",
            is_cache_in_input=True,
            is_thinking_in_output=False,
        )
        if tokens is not None:
            yield AgentEvent(type="usage", tokens=tokens, scope="run")
        error = text_of(record_of(record.get("error")).get("message"))
        is_error = record.get("status") == "error"
        yield AgentEvent(type="end", text=error if is_error else self.answer, is_error=is_error)

    handlers = {
        "init": init,
        "message": message,
        "tool_use": tool_use,
        "tool_result": tool_result,
        "error": error,
        "result": result,
    }


def _with_thoughts(stats: Record) -> Record:
    """Return the figures of a stream with the thoughts, which only its total includes."""
    if "total_tokens" not in stats:
        return stats
    named = count_of(stats.get("input_tokens")) + count_of(stats.get("output_tokens"))
    return {**stats, "thoughts": max(count_of(stats.get("total_tokens")) - named, 0)}


class GeminiDocumentReader(DocumentReader):
    """Reads the document that older versions print at the end."""

    def kind_of(self, record: Record) -> str:
        """Return one kind for every document."""
        return "document" if record.keys() & {"response", "stats", "error"} else ""

    def document(self, record: Record) -> Iterator[AgentEvent]:
        """Report the answer, the tokens by model and the end."""
        session_id = text_of(record.get("session_id"))
        if session_id is not None:
            yield AgentEvent(type="session", session_id=session_id)
        self.answer = text_of(record.get("response"))
        if self.answer:
            yield AgentEvent(type="text", text=self.answer)
        models = record_of(record_of(record.get("stats")).get("models"))
        for model, figures in models.items():
            tokens = _tokens(record_of(record_of(figures).get("tokens")))
            if tokens is not None:
                yield AgentEvent(type="usage", tokens=tokens, model=model, scope="call")
        error = record_of(record.get("error"))
        text = text_of(error.get("message")) if error else self.answer
        yield AgentEvent(type="end", text=text, is_error=bool(error))

    handlers = {"document": document}


def _tokens(figures: Record) -> Tokens | None:
    return tokens_from(
        figures,
        input="prompt",
        output="candidates",
        cached="cached",
        thinking="thoughts",
        is_cache_in_input=True,
        is_thinking_in_output=False,
    )
