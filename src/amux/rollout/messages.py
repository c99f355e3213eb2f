"""Turns payloads of `response_item` and `compacted` records into messages and billed usage.

The format "amux" is that of our own store: `role`, `content`, `thinking`, `tool_calls`,
`tool_call_id`, `tool_name`, `is_error`, `model`, `usage`, `cost_usd`, `synthetic`, `images`. The
formats of other programs are listed in `FORMATS`; a record of an unknown format has no message.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

import msgspec

from amux.model.message import Role, SessionMessage, SessionToolCall, ToolResult
from amux.model.usage import NANO, Tokens
from amux.rollout.control import PROJECTION
from amux.rollout.records import Record, as_mapping

_ROLES: Final[dict[str, Role]] = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "tool_result": "tool",
}


class RecordUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The usage that a record states: its model, its tokens and the cost the caller recorded."""

    model: str | None
    tokens: Tokens
    cost_nusd: int | None

    def counts(self) -> dict[str, int]:
        """Return the counts under the names of a thread's summary."""
        return {
            "input_tokens": self.tokens.input,
            "output_tokens": self.tokens.output,
            "cache_read_tokens": self.tokens.cache_read,
            "cache_write_tokens": self.tokens.cache_write,
            "cost_nusd": self.cost_nusd or 0,
        }


MessageReader = Callable[[Record, Mapping[str, Any]], SessionMessage | None]
UsageReader = Callable[[Mapping[str, Any]], RecordUsage | None]


def message_of(record: Record, payload_format: str) -> SessionMessage | None:
    """Return the message of a record; None if it holds none or its format is unknown."""
    payload = as_mapping(record.payload)
    if record.type == "event_msg":
        if payload.get("type") != PROJECTION:
            return None
        return _amux_message(record, as_mapping(payload.get("message")))
    if record.type == "compacted":
        return SessionMessage(
            role="system",
            content=_text(payload.get("summary")),
            timestamp=record.at,
            id=record.id,
            parent_id=record.parent_id,
            synthetic=True,
            compaction=True,
        )
    if record.type != "response_item":
        return None
    reader = FORMATS.get(payload_format)
    return None if reader is None else reader[0](record, payload)


def usage_of(record: Record, payload_format: str) -> RecordUsage | None:
    """Return the usage that a record states; None if it states none."""
    if record.type in {"compacted", "event_msg"}:
        return _amux_usage(as_mapping(record.payload))
    if record.type != "response_item":
        return None
    reader = FORMATS.get(payload_format)
    return None if reader is None else reader[1](as_mapping(record.payload))


def _amux_message(record: Record, payload: Mapping[str, Any]) -> SessionMessage | None:
    role = _ROLES.get(str(payload.get("role")))
    if role is None:
        return None
    content = payload.get("content")
    result: ToolResult | None = None
    if role == "tool":
        result = ToolResult(
            tool_call_id=_text(payload.get("tool_call_id")),
            tool_name=_text(payload.get("tool_name")),
            output=content,
            is_error=_flag(payload.get("is_error")),
        )
    return SessionMessage(
        role=role,
        content=_text(content),
        timestamp=record.at,
        id=record.id,
        parent_id=record.parent_id,
        tool_calls=tuple(_tool_calls(payload.get("tool_calls"))),
        tool_result=result,
        thinking=_text(payload.get("thinking")) or None,
        model=_optional(payload.get("model")),
        synthetic=payload.get("synthetic") is True,
        images=tuple(each for each in _items(payload.get("images")) if isinstance(each, str)),
    )


def _tool_calls(value: object) -> list[SessionToolCall]:
    calls: list[SessionToolCall] = []
    for each in _items(value):
        call = as_mapping(each)
        function = as_mapping(call.get("function")) or call  # the shape of OpenAI's chat messages
        name = function.get("name")
        if isinstance(name, str):
            calls.append(
                SessionToolCall(
                    tool_call_id=_text(call.get("id")),
                    tool_name=name,
                    input=function.get("arguments", function.get("input")),
                )
            )
    return calls


def _amux_usage(payload: Mapping[str, Any]) -> RecordUsage | None:
    usage, cost = as_mapping(payload.get("usage")), payload.get("cost_usd")
    if not usage and cost is None:
        return None
    thinking = usage.get("reasoning_tokens")
    return RecordUsage(
        model=_optional(payload.get("model")),
        tokens=Tokens(
            input=_count(usage.get("input_tokens")),
            cache_read=_count(usage.get("cache_read_tokens")),
            cache_write=_count(usage.get("cache_write_tokens")),
            output=_count(usage.get("output_tokens")),
            thinking=None if thinking is None else _count(thinking),
        ),
        cost_nusd=round(cost * NANO) if isinstance(cost, int | float) and cost >= 0 else None,
    )


FORMATS: Final[dict[str, tuple[MessageReader, UsageReader]]] = {
    "amux": (_amux_message, _amux_usage),
}
"""The readers of messages and usage by payload format."""


def _text(value: object) -> str:
    """Return the text of a content: a string, or the texts of a list of blocks."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    texts: list[str] = []
    for block in _items(value):
        text = block if isinstance(block, str) else as_mapping(block).get("text")
        if isinstance(text, str):
            texts.append(text)
    if texts or isinstance(value, list):
        return "\n".join(texts)
    return msgspec.json.encode(value).decode()


def _items(value: object) -> Sequence[Any]:
    return cast("Sequence[Any]", value) if isinstance(value, list) else ()


def _optional(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _count(value: object) -> int:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 2**53
    return value if is_count and isinstance(value, int) else 0
