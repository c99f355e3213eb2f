"""The entry log: one JSON object a line, of four kinds.

    session     the header, first line: id, version, timestamp, cwd
    message     id, parent_id, timestamp, role (user, assistant, tool_result), message
    compaction  a summary that stands for everything before `first_kept_entry_id`
    branch      where a fork comes from

Nothing is ever changed: a compaction is one more line, and what it summarises stays in the file.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import msgspec

from amux.adapters._kit.values import (
    count,
    damage_in,
    items,
    mapping,
    moment,
    nano_usd,
    plain_text,
    text,
)
from amux.model.incomplete import CALL_INTERRUPTED
from amux.model.message import Role, SessionMessage, SessionToolCall, ToolResult
from amux.model.usage import Call, Tokens

NEWEST: Final = 1
"""The format version described here."""

ROLES: Final[dict[str, Role]] = {
    "user": "user",
    "assistant": "assistant",
    "tool_result": "tool",
}
_CUT_SHORT: Final = frozenset({"error", "aborted"})
_FIGURES: Final = ("input", "output", "cache_read", "cache_write")


class Entry(msgspec.Struct):
    """One line. Every field may hold anything; what is missing is None."""

    type: Any = None
    id: Any = None
    parent_id: Any = None
    timestamp: Any = None
    version: Any = None
    cwd: Any = None
    role: Any = None
    message: Any = None
    summary: Any = None
    first_kept_entry_id: Any = None
    parent_session_path: Any = None
    branch_summary: Any = None

    @property
    def at(self) -> datetime | None:
        """When the line was written; older lines have a time in the message only."""
        return moment(self.timestamp) or moment(mapping(self.message).get("timestamp"))


ENTRY: Final = msgspec.json.Decoder(Entry)


def message_of(entry: Entry, *, id: str) -> SessionMessage | None:
    """The message of an entry; None when it holds none that can be read."""
    body = mapping(entry.message)
    role = ROLES.get(text(entry.role) or text(body.get("role")) or "")
    if role is None or not body:
        return None
    content = body.get("content")
    blocks = [mapping(block) for block in items(content)]
    said = content if isinstance(content, str) else _joined(blocks, "text")
    error = text(body.get("error_message")) if not said and role == "assistant" else None
    return SessionMessage(
        role=role,
        content=error or said,
        timestamp=entry.at,
        id=id,
        parent_id=text(entry.parent_id),
        synthetic=error is not None,
        model=text(body.get("model")),
        thinking=_joined(blocks, "thinking") or None,
        tool_calls=_tool_calls(blocks),
        tool_result=_tool_result(body, said) if role == "tool" else None,
        images=_images(blocks),
    )


def _joined(blocks: list[dict[str, Any]], kind: str) -> str:
    texts = (text(block.get(kind)) for block in blocks if block.get("type") == kind)
    return "\n".join(found for found in texts if found)


def _tool_calls(blocks: list[dict[str, Any]]) -> tuple[SessionToolCall, ...]:
    return tuple(
        SessionToolCall(
            tool_call_id=text(block.get("id")) or "",
            tool_name=text(block.get("name")) or "",
            input=block.get("arguments"),
        )
        for block in blocks
        if block.get("type") == "tool_call"
    )


def _tool_result(body: dict[str, Any], said: str) -> ToolResult:
    failed = body.get("is_error")
    return ToolResult(
        tool_call_id=text(body.get("tool_call_id")) or "",
        tool_name=text(body.get("tool_name")) or "",
        output=said or plain_text(body.get("details")),
        is_error=failed if isinstance(failed, bool) else None,
    )


def _images(blocks: list[dict[str, Any]]) -> tuple[str, ...]:
    return tuple(
        f"data:{text(block.get('mime_type')) or 'image/png'};base64,{block.get('data')}"
        for block in blocks
        if block.get("type") == "image" and isinstance(block.get("data"), str)
    )


def summary_message(entry: Entry, *, id: str) -> SessionMessage:
    """A compaction as it stands in the log."""
    return SessionMessage(
        role="user",
        content=text(entry.summary) or "",
        timestamp=entry.at,
        id=id,
        parent_id=text(entry.parent_id),
        synthetic=True,
        compaction=True,
    )


def call_of(entry: Entry, *, id: str) -> Call | None:
    """The billed call behind an assistant message; None when no usage was recorded."""
    body = mapping(entry.message)
    usage = mapping(body.get("usage"))
    tokens, damage = _tokens(usage), damage_in(usage, *_FIGURES)
    if not tokens.total and not damage:
        return None
    cut_short = text(body.get("stop_reason")) in _CUT_SHORT
    return Call(
        key=id,
        model=text(body.get("model")),
        at=entry.at,
        tokens=tokens,
        native_nusd=nano_usd(mapping(usage.get("cost")).get("total")) or None,  # 0: never set
        message_id=id,
        gaps=(*((CALL_INTERRUPTED,) if cut_short else ()), *damage),
    )


def _tokens(usage: dict[str, Any]) -> Tokens:
    """Disjoint buckets. Providers differ in whether `input` includes the cache: the total tells."""
    given = count(usage.get("input")) or 0
    output = count(usage.get("output")) or 0
    read = count(usage.get("cache_read")) or 0
    write = count(usage.get("cache_write")) or 0
    inside = count(usage.get("total_tokens")) == given + output and given >= read + write
    return Tokens(
        input=given - read - write if inside else given,
        cache_read=read,
        cache_write=write,
        output=output,
    )
