"""The lines of a log, as narrowly as the rules need them.

Types are wide on purpose: a field of an unexpected type is as good as absent and costs neither the
line nor the session. Message bodies are not here (see `bodies`): what the rules decide is decided
from these structs alone, so that facts are the same whether bodies are wanted or not.

A line is an entry of the tree with a `message` inside, or (as the specification draws it) a message
that is an entry itself.
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
"""Any JSON value: for fields that are looked at only when they have the expected type."""

Odd = str | int | float | bool | list[Any] | None
"""Any JSON value but an object: what may stand where a struct is expected."""

MESSAGE_TYPES: Final = frozenset({"user", "assistant", "toolResult", "tool", "system"})
"""Types of lines that are messages without saying so."""

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
"""Types of lines that are understood or known to hold nothing for us."""


class Block(msgspec.Struct, gc=False):
    """A content block without its body."""

    type: Wide = None
    text: Wide = None
    id: Wide = None
    tool_call_id: Wide = msgspec.field(default=None, name="toolCallId")


Content = str | int | float | bool | list[Block | Odd] | dict[str, Any] | None


class Message(msgspec.Struct, rename="camel", gc=False):
    """Who spoke, and what it cost."""

    role: Wide = None
    content: Content = None
    timestamp: Wide = None
    created_at: Wide = None
    model: Wide = None
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
    """One line. Every field is optional; which ones there are depends on `type` and version."""

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
    thinking_level: Wide = None
    target_id: Wide = None
    label: Wide = None
    task: Wide = None


FILE_SHIFT: Final = 40
"""Lines of a session's further files are numbered from multiples of two to this power on."""


def line_in_file(number: int) -> int:
    """The number a line has in its own file."""
    return number & ((1 << FILE_SHIFT) - 1)


LINES: Final = msgspec.json.Decoder(Line)
BODIES: Final = msgspec.json.Decoder(dict[str, Any])


class LineSource(Protocol):
    """Where lines come from; may be gone through several times."""

    def decode(
        self, decoder: msgspec.json.Decoder[T], *, cut_texts: bool
    ) -> Iterator[tuple[int, T | Problem]]:
        """Every line with its number, or the problem it is; 0 numbers what is no line."""
        ...


class Entry:
    """A line in its place, with what several rules need of it."""

    __slots__ = ("at", "id", "line", "message", "number", "role", "stamp", "type")

    def __init__(self, number: int, line: Line) -> None:
        self.number, self.line = number, line
        self.type = text(line.type) or ""
        self.id = text(line.id)
        inner = line.message
        self.message: Message = inner if isinstance(inner, Message) else line
        self.role = self._speaker()
        times = (line.timestamp, self.message.timestamp, line.created_at)
        self.at: datetime | None = next(filter(None, map(moment, times)), None)
        self.stamp = "|".join(str(time) for time in times[:2] if isinstance(time, str | int))

    def _speaker(self) -> str:
        """The role of a message; "" for every other line."""
        role = text(self.message.role)
        if self.type in MESSAGE_TYPES:
            return role or self.type
        return (role or "") if self.type in {"message", ""} else ""

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
