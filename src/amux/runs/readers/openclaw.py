"""OpenClaw's `agent --json`: one document at the end, indented over many lines."""

from __future__ import annotations

from collections.abc import Iterator

from amux.runs.events import AgentEvent
from amux.runs.readers.base import (
    DocumentReader,
    Record,
    record_of,
    records_of,
    text_of,
    tokens_from,
)


class OpenClawReader(DocumentReader):
    """Reads the result of one turn, from the program itself or through its gateway."""

    def kind_of(self, record: Record) -> str:
        """Return one kind for every document."""
        return "document" if record.keys() & {"payloads", "result", "meta"} else ""

    def document(self, record: Record) -> Iterator[AgentEvent]:
        """Report the answer, the tokens and the end."""
        result = record_of(record.get("result")) or record
        meta = record_of(result.get("meta"))
        agent = record_of(meta.get("agentMeta"))
        model, session_id = text_of(agent.get("model")), text_of(agent.get("sessionId"))
        if session_id is not None:
            yield AgentEvent(type="session", session_id=session_id, model=model)
        payloads = records_of(result.get("payloads"))
        texts = [text for each in payloads if (text := text_of(each.get("text")))]
        for text in texts:
            yield AgentEvent(type="text", text=text)
        tokens = tokens_from(
            record_of(agent.get("usage")),
            input="input",
            output="output",
            cached="cacheRead",
            written="cacheWrite",
        )
        if tokens is not None:
            yield AgentEvent(type="usage", tokens=tokens, model=model, scope="run")
        self.answer = "\n\n".join(texts) or None
        error = text_of(record_of(meta.get("error")).get("message"))
        is_error = error is not None or record.get("status") == "error"
        yield AgentEvent(type="end", text=error or self.answer, is_error=is_error)

    handlers = {"document": document}
