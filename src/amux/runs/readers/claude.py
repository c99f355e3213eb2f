"""Claude Code's `--output-format stream-json`, and that of Qwen Code, which is modelled on it.

Records: system (init), assistant and user (one message of the API each), stream_event, result. The
total of a result is that of the run, but newer versions begin a resumed run with the cost so far.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from amux.launchers import is_since, parse_version
from amux.model.usage import Tokens
from amux.runs.events import AgentEvent, Scope
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

_CUMULATIVE_COST: Final = (2, 1, 201)
"""The first version whose `total_cost_usd` includes earlier runs (seen: 2.1.325, not 2.1.200)."""


class ClaudeReader(EventReader):
    """Reads the stream of one run."""

    def __init__(self, *, action: str = "new", version: str | None = None) -> None:
        super().__init__(action=action, version=version)
        self._billed: set[str] = set()  # the ids of the messages whose usage was reported

    def init(self, record: Record) -> Iterator[AgentEvent]:
        """Report the session; other system records have no meaning here."""
        self.version = text_of(record.get("claude_code_version")) or self.version
        session_id = text_of(record.get("session_id"))
        if record.get("subtype") == "init" and session_id is not None:
            yield AgentEvent(
                type="session", session_id=session_id, model=text_of(record.get("model"))
            )

    def assistant(self, record: Record) -> Iterator[AgentEvent]:
        """Report the blocks of an answer, and its usage once."""
        message = record_of(record.get("message"))
        for block in records_of(message.get("content")):
            yield from _block(block)
        tokens = self.tokens_of(record_of(message.get("usage")))
        key = text_of(message.get("id")) or ""
        if tokens is not None and key not in self._billed:
            self._billed.add(key)
            model = text_of(message.get("model"))
            yield AgentEvent(type="usage", tokens=tokens, model=model, scope="call")

    def user(self, record: Record) -> Iterator[AgentEvent]:
        """Report the results of tools."""
        for block in records_of(record_of(record.get("message")).get("content")):
            if block.get("type") == "tool_result":
                yield AgentEvent(
                    type="tool_result",
                    call_id=text_of(block.get("tool_use_id")),
                    text=joined_text(block.get("content")),
                    is_error=block.get("is_error") is True,
                )

    def result(self, record: Record) -> Iterator[AgentEvent]:
        """Report the totals of the run, and its end."""
        is_error = record.get("is_error") is True
        self.answer = text_of(record.get("result")) or self.answer
        tokens = self.tokens_of(record_of(record.get("usage")))
        if tokens is not None:
            yield AgentEvent(type="usage", tokens=tokens, scope=self.usage_scope())
        cost = usd_of(record.get("total_cost_usd"))
        if cost is not None:
            yield AgentEvent(type="cost", cost_usd=cost, scope=self._cost_scope())
        yield AgentEvent(
            type="end",
            session_id=text_of(record.get("session_id")),
            text=self.answer,
            is_error=is_error,
        )

    def tokens_of(self, usage: Record) -> Tokens | None:
        """Return the tokens of a message or a run."""
        return usage_of(usage)

    def usage_scope(self) -> Scope:
        """Return what the tokens of a result are the sum of."""
        return "run"

    def _cost_scope(self) -> Scope:
        known = parse_version(self.version) is not None
        is_of_the_run = known and not is_since(self.version, _CUMULATIVE_COST)
        return "run" if self.action == "new" or is_of_the_run else "session"

    handlers = {"system": init, "assistant": assistant, "user": user, "result": result}


class QwenReader(ClaudeReader):
    """Reads the stream of Qwen Code.

    The input includes what was read from the cache, and the result of a resumed run is the sum of
    the session (seen: 0.24.4).
    """

    def tokens_of(self, usage: Record) -> Tokens | None:
        """Return the tokens of a message or a run."""
        return tokens_from(
            usage,
            input="input_tokens",
            output="output_tokens",
            cached="cache_read_input_tokens",
            is_cache_in_input=True,
        )

    def usage_scope(self) -> Scope:
        """Return what the tokens of a result are the sum of."""
        return "run" if self.action == "new" else "session"


def usage_of(usage: Record) -> Tokens | None:
    """Return the tokens of a message of the API."""
    return tokens_from(
        usage,
        input="input_tokens",
        output="output_tokens",
        cached="cache_read_input_tokens",
        written="cache_creation_input_tokens",
    )


def _block(block: Record) -> Iterator[AgentEvent]:
    match block.get("type"):
        case "text":
            yield AgentEvent(type="text", text=text_of(block.get("text")) or "")
        case "thinking":
            yield AgentEvent(type="thinking", text=text_of(block.get("thinking")) or "")
        case "tool_use" | "server_tool_use":
            yield AgentEvent(
                type="tool_call",
                tool=text_of(block.get("name")),
                call_id=text_of(block.get("id")),
                input=block.get("input"),
            )
        case _:
            pass
