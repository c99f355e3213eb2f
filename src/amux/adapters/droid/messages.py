"""Decodes the lines of a log and builds their messages.

Field types are wide on purpose: a field of an unexpected type is treated as absent, and neither
the line nor the session is lost.

A line with the role `user` may hold several tool results besides typed text. Each result becomes a
separate message, because a message has at most one result.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from amux.adapters._kit.injected import InjectedTexts
from amux.adapters._kit.values import (
    Odd,
    Wide,
    image_url,
    is_items,
    items,
    mapping,
    moment,
    plain_text,
    text,
)
from amux.adapters.droid.injected import INJECTED_TEXTS
from amux.model.message import Role, SessionMessage, SessionToolCall, ToolResult

_INJECTED: Final = InjectedTexts(INJECTED_TEXTS)
_INJECTED_IDS: Final = ("context-", "task-completion:")


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
"""Types of lines that are read, or known to hold nothing that amux shows."""


class Block(msgspec.Struct, gc=False):
    """A content block: text, thinking, a tool call, a tool result or an image."""

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
        """The type, or "" if it is not a string."""
        return self.type if isinstance(self.type, str) else ""


class Message(msgspec.Struct, rename="camel", gc=False):
    """A message with its role and content."""

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
    """One line. Every field is optional; which ones are present depends on `type` and version."""

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


class MessageBuilder:
    """Builds the messages of one log, in order."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._last: str | None = None
        self._tools: dict[str, str] = {}

    def of_line(self, line: Line, message: Message, *, number: int) -> Iterator[SessionMessage]:
        """Yield all messages of one line."""
        is_reply = message.role == "assistant"
        parts = self._reply(message) if is_reply else self._user_messages(line, message)
        name = self._unique_id(line, number)
        for index, part in enumerate(parts):
            yield self._linked(part, line, name if index == 0 else f"{name}/{index}")

    def summary(self, line: Line, *, number: int) -> SessionMessage:
        """Return the message with the summary that a compaction wrote."""
        summary = SessionMessage(
            role="system", content=text(line.summary_text) or "", synthetic=True, compaction=True
        )
        return self._linked(summary, line, self._unique_id(line, number))

    def is_orphan(self, result: ToolResult) -> bool:
        """Return whether no earlier message made the call of a result."""
        return result.tool_call_id not in self._tools

    def _unique_id(self, line: Line, number: int) -> str:
        wanted = text(line.id) or f"line-{number}"
        name = f"{wanted}#line-{number}" if wanted in self._seen else wanted
        self._seen.add(name)
        return name

    def _linked(self, message: SessionMessage, line: Line, name: str) -> SessionMessage:
        parent, self._last = self._last, name
        return msgspec.structs.replace(
            message, timestamp=moment(line.timestamp), id=name, parent_id=parent
        )

    def _reply(self, message: Message) -> Iterator[SessionMessage]:
        blocks = message.blocks
        calls = tuple(
            SessionToolCall(
                tool_call_id=text(block.id) or "",
                tool_name=text(block.name) or "unknown",
                input=block.input,
            )
            for block in blocks
            if block.kind == "tool_use"
        )
        self._tools.update((call.tool_call_id, call.tool_name) for call in calls)
        thoughts = (text(block.thinking) for block in blocks if block.kind == "thinking")
        yield SessionMessage(
            role="assistant",
            content=_texts(blocks),
            tool_calls=calls,
            thinking="\n\n".join(filter(None, thoughts)) or None,
            model=text(message.model_id),
            images=_images(blocks),
        )

    def _user_messages(self, line: Line, message: Message) -> Iterator[SessionMessage]:
        """Yield tool results, then the text that a person typed or the agent injected."""
        blocks = message.blocks
        results = [self._result(block) for block in blocks if block.kind == "tool_result"]
        yield from results
        content_blocks = [block for block in blocks if block.kind in {"text", "image"}]
        if results and not content_blocks:
            return
        typed = [
            block
            for block in content_blocks
            if not (isinstance(block.text, str) and _INJECTED.begins(block.text))
        ]
        injected = message.role != "user" or not typed or _is_injected(line, message)
        role: Role = "user" if message.role == "user" else "system"
        shown = content_blocks if injected else typed
        content = _texts(shown)
        yield SessionMessage(
            role=role,
            content=content if injected else content.strip("\n"),  # the shell adds line breaks
            synthetic=injected,
            images=_images(shown),
        )

    def _result(self, block: Block) -> SessionMessage:
        call_id = text(block.tool_use_id) or ""
        result = ToolResult(
            tool_call_id=call_id,
            tool_name=self._tools.get(call_id, "unknown"),
            output=_output(block.content),
            is_error=block.is_error if isinstance(block.is_error, bool) else None,
        )
        return SessionMessage(role="tool", content=plain_text(result.output), tool_result=result)


def _is_injected(line: Line, message: Message) -> bool:
    """Return whether the agent marked a message in the user's name as its own."""
    return message.visibility == "llm_only" or (text(line.id) or "").startswith(_INJECTED_IDS)


def _texts(blocks: list[Block]) -> str:
    texts = (block.text for block in blocks if block.kind == "text")
    return "\n".join(found for found in texts if isinstance(found, str))


def _output(content: Any) -> Any:
    """Return a result as a string if it consists of text only."""
    if not is_items(content):
        return content
    blocks = [mapping(block) for block in items(content)]
    texts = [block.get("text") for block in blocks if block.get("type") == "text"]
    if len(texts) == len(content) and all(isinstance(found, str) for found in texts):
        return "\n".join(map(str, texts))
    return content


def _images(blocks: list[Block]) -> tuple[str, ...]:
    sources = (mapping(block.source) for block in blocks if block.kind == "image")
    urls = (image_url(source.get("media_type"), source.get("data")) for source in sources)
    return tuple(url for url in urls if url)
