"""The lines of a log.

Types are wide on purpose: a field of an unexpected type is as good as absent and costs neither the
line nor the session.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

Wide = str | int | float | bool | list[Any] | dict[str, Any] | None
"""Any JSON value: for fields that are looked at only when they have the expected type."""

Odd = str | int | float | bool | list[Any] | None
"""Any JSON value but an object: what may stand where a struct is expected."""

KNOWN_TYPES: Final = frozenset(
    {
        "session_start",
        "message",
        "compaction_state",
        "agent_turn_outcome",
        "session_end",
        "todo_state",
    }
)
"""Types of lines that are understood or known to hold nothing for us."""


class Block(msgspec.Struct, gc=False):
    """A content block: text, thinking, a tool's call or result, an image."""

    type: Wide = None
    text: Wide = None
    thinking: Wide = None
    id: Wide = None
    name: Wide = None
    input: Wide = None
    tool_use_id: Wide = None
    is_error: Wide = None
    content: Wide = None
    source: Wide = None

    @property
    def kind(self) -> str:
        """The type, "" when it is none."""
        return self.type if isinstance(self.type, str) else ""


class Message(msgspec.Struct, rename="camel", gc=False):
    """Who said what."""

    role: Wide = None
    content: str | int | float | bool | list[Block | Odd] | dict[str, Any] | None = None
    model_id: Wide = None
    visibility: Wide = None

    @property
    def blocks(self) -> list[Block]:
        """The content as blocks; a plain string is one text block."""
        if isinstance(self.content, str):
            return [Block(type="text", text=self.content)]
        if not isinstance(self.content, list):
            return []
        return [
            Block(type="text", text=block) if isinstance(block, str) else block
            for block in self.content
            if isinstance(block, Block | str)
        ]


class Line(msgspec.Struct, rename="camel", gc=False):
    """One line. Every field is optional; which ones there are depends on `type` and version."""

    type: Wide = None
    id: Wide = None
    timestamp: Wide = None
    message: Message | Odd = None
    title: Wide = None
    session_title: Wide = None
    is_session_title_manually_set: Wide = None
    cwd: Wide = None
    parent: Wide = None
    forked_at_message_id: Wide = None
    calling_session_id: Wide = None
    calling_tool_use_id: Wide = None
    summary_text: Wide = None
    summary_kind: Wide = None


LINES: Final = msgspec.json.Decoder(Line)
