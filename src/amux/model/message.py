"""Messages of a session, as defined by the specification, with optional extensions."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from amux.model.base import Model
from amux.model.cost import CostRecord

Role = Literal["user", "assistant", "system", "tool"]


class TokenUsage(Model, frozen=True, kw_only=True):
    """The token usage of the call that produced a message. The counts do not overlap."""

    input_tokens: int
    output_tokens: int
    thinking_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class SessionToolCall(Model, frozen=True, kw_only=True):
    """A tool call of an assistant message. `output` is that of the matching result."""

    tool_call_id: str
    tool_name: str
    input: Any
    output: Any = None
    duration_ms: int | None = None
    is_error: bool | None = None


class ToolResult(Model, frozen=True, kw_only=True):
    """The result of a tool call."""

    tool_call_id: str
    tool_name: str
    output: Any
    is_error: bool | None = None


class SessionMessage(Model, frozen=True, kw_only=True):
    """One message, merged from all its records: an answer streamed over five lines is one message.

    `synthetic` is true for text that neither the user nor a model wrote: injected context, command
    echoes, caveats, error notices. Such a message counts as neither prompt, title nor turn. With
    the role "assistant" it is a notice of the agent, mostly an error in place of an answer.
    """

    role: Role
    content: str
    timestamp: datetime | None = None
    tool_calls: tuple[SessionToolCall, ...] = ()
    tool_result: ToolResult | None = None
    token_usage: TokenUsage | None = None
    cost: CostRecord | None = None
    thinking: str | None = None
    model: str | None = None
    id: str | None = None
    parent_id: str | None = None
    synthetic: bool = False
    images: tuple[str, ...] = ()  # data: URLs of pasted images
    compaction: bool = False  # a summary that replaces earlier history
