"""Decodes the lines of a log, without message bodies.

Field types are wide on purpose: a field of an unexpected type is treated as absent, and neither
the line nor the session is lost. All facts are computed from these structs, so that they are equal
whether bodies are read (see `reader`) or not.

A line is an entry of the tree that wraps a `message`, or (as specified) a message that is an entry
itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final, Protocol, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from amux.adapters._kit.values import moment, text
from amux.model.problems import Problem

T = TypeVar("T")

Wide = str | int | float | bool | list[Any] | dict[str, Any] | None
"""Any JSON value, for fields that are used only if they have the expected type."""

Odd = str | int | float | bool | list[Any] | None
"""Any JSON value except an object, where a struct is expected."""

MESSAGE_TYPES: Final = frozenset({"user", "assistant", "toolResult", "tool", "system"})
"""Types of lines that are messages although their type is not `message`."""

REPLY_ROLES: Final = frozenset({"assistant", "model"})
TOOL_ROLES: Final = frozenset({"toolResult", "tool"})
SUMMARY_TYPES: Final = frozenset({"compaction", "branch_summary"})
FAILED_STOPS: Final = frozenset({"error", "aborted"})

KNOWN_TYPES: Final = frozenset(
    {
        "branch_summary",
        "compaction",
        "context_edit",
        "credential_pin",
        "custom",
        "custom_message",
        "label",
        "message",
        "mode_change",
        "model_change",
        "model_usage",
        "reset",
        "reset_boundary",
        "service_tier_change",
        "session",
        "session_info",
        "session_init",
        "thinking_level_change",
        "title",
        "title_change",
        "ttsr_injection",
        "usage",
    }
)
"""Types of lines that are read, or known to hold nothing that amux shows."""


class Block(msgspec.Struct, gc=False):
    """A content block without its body."""

    type: Wide = None
    text: Wide = None
    id: Wide = None
    tool_call_id: Wide = msgspec.field(default=None, name="toolCallId")


Content = str | int | float | bool | list[Block | Odd] | dict[str, Any] | None


class Message(msgspec.Struct, rename="camel", gc=False):
    """A message without its body: role, model and usage."""

    role: Wide = None
    content: Content = None
    timestamp: Wide = None
    created_at: Wide = None
    api: Wide = None
    provider: Wide = None
    model: Wide = None
    response_id: Wide = None
    usage: Wide = None
    token_usage: Wide = None
    token_usage_: Wide = msgspec.field(default=None, name="token_usage")
    tokens: Wide = None
    cost: Wide = None
    stop_reason: Wide = None
    tool_call_id: Wide = None
    attribution: Wide = None
    synthetic: Wide = None
    provenance: Wide = None


class Line(Message, rename="camel", gc=False):
    """One line. Every field is optional; which ones are present depends on `type` and version."""

    type: Wide = None
    id: Wide = None
    parent_id: Wide | UnsetType = UNSET
    message: Message | Odd = None
    version: Wide = None
    cwd: Wide = None
    parent_session: Wide = None
    branched_from: Wide = None
    name: Wide = None
    title: Wide = None
    model_id: Wide = None
    custom_type: Wide = None
    data: Wide = None
    details: Wide = None
    thinking_level: Wide = None
    target_id: Wide = None
    label: Wide = None
    task: Wide = None


FILE_SHIFT: Final = 40
"""File n of a session numbers its lines from n << FILE_SHIFT."""


def line_in_file(number: int) -> int:
    """Return the number of a line in its own file."""
    return number & ((1 << FILE_SHIFT) - 1)


LINES: Final = msgspec.json.Decoder(Line)
BODIES: Final = msgspec.json.Decoder(dict[str, Any])


class LineSource(Protocol):
    """A source of lines that can be read several times."""

    def decode(
        self, decoder: msgspec.json.Decoder[T], *, cut_texts: bool
    ) -> Iterator[tuple[int, T | Problem]]:
        """Yield every line, or its problem, with its number; 0 for a problem without a line."""
        ...


_PROGRAM: Final = "openclaw"
_PROGRAM_MODELS: Final = frozenset({"delivery-mirror", "gateway-injected"})
_DOUBLES_REASONING: Final = "openai-completions"


class Entry:
    """A line with its number and the values that several rules need."""

    __slots__ = ("at", "id", "line", "message", "number", "role", "stamp", "type")

    def __init__(self, number: int, line: Line) -> None:
        self.number, self.line = number, line
        self.type = text(line.type) or ""
        self.id = text(line.id)
        inner = line.message
        self.message: Message = inner if isinstance(inner, Message) else line
        self.role = ""  # for lines that are no messages
        if self.type in MESSAGE_TYPES:
            self.role = text(self.message.role) or self.type
        elif self.type in {"message", ""}:
            self.role = text(self.message.role) or ""
        times = (line.timestamp, self.message.timestamp, line.created_at)
        self.at: datetime | None = next(filter(None, map(moment, times)), None)
        self.stamp = "|".join(str(time) for time in times[:2] if isinstance(time, str | int))

    @property
    def blocks(self) -> list[Block]:
        """The content as blocks; a plain string is one text block."""
        content = self.message.content
        if isinstance(content, str):
            return [Block(type="text", text=content)]
        if not isinstance(content, list):
            return []
        return [
            Block(type="text", text=block) if isinstance(block, str) else block
            for block in content
            if isinstance(block, Block | str)
        ]

    @property
    def said(self) -> str:
        """The text blocks of the content, one below the other."""
        return "\n".join(
            found for block in self.blocks if block.type == "text" and (found := text(block.text))
        )

    @property
    def is_by_program(self) -> bool:
        """Whether OpenClaw wrote an answer itself: a copy of a delivery, or a command's result."""
        message = self.message
        return message.provider == _PROGRAM and message.model in _PROGRAM_MODELS

    @property
    def doubles_reasoning(self) -> bool:
        """Whether the output of an answer may contain its reasoning twice.

        Before 0.70, the library of Pi added the reasoning to the `completion_tokens` of this
        interface, which include it. It takes the output of all other interfaces as it is.
        """
        return self.message.api == _DOUBLES_REASONING and any(
            block.type == "thinking" for block in self.blocks
        )
