"""The format "amux", that of our own store.

Its fields are `role`, `content`, `thinking`, `tool_calls`, `tool_call_id`, `tool_name`, `is_error`,
`model`, `usage`, `cost_usd`, `synthetic`, `images`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from amux.model.message import Role, SessionMessage, SessionToolCall, ToolResult
from amux.model.usage import Tokens
from amux.rollout.formats.base import (
    PayloadFormat,
    RecordUsage,
    count_of,
    flag_of,
    items_of,
    nano_usd,
    optional_text,
    text_of,
)
from amux.rollout.records import Record, as_mapping

ROLES: Final[dict[str, Role]] = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "tool_result": "tool",
}


def read_messages(record: Record, payload: Mapping[str, Any]) -> tuple[SessionMessage, ...]:
    """Return the message of a payload, as a tuple of one; an empty tuple if it holds none."""
    role = ROLES.get(str(payload.get("role")))
    if role is None:
        return ()
    content = payload.get("content")
    result: ToolResult | None = None
    if role == "tool":
        result = ToolResult(
            tool_call_id=text_of(payload.get("tool_call_id")),
            tool_name=text_of(payload.get("tool_name")),
            output=content,
            is_error=flag_of(payload.get("is_error")),
        )
    message = SessionMessage(
        role=role,
        content=text_of(content),
        timestamp=record.at,
        id=record.id,
        parent_id=record.parent_id,
        tool_calls=tuple(_tool_calls(payload.get("tool_calls"))),
        tool_result=result,
        thinking=text_of(payload.get("thinking")) or None,
        model=optional_text(payload.get("model")),
        synthetic=payload.get("synthetic") is True,
        images=tuple(each for each in items_of(payload.get("images")) if isinstance(each, str)),
    )
    return (message,)


def _tool_calls(value: object) -> list[SessionToolCall]:
    calls: list[SessionToolCall] = []
    for each in items_of(value):
        call = as_mapping(each)
        function = as_mapping(call.get("function")) or call  # the shape of OpenAI's chat messages
        name = function.get("name")
        if isinstance(name, str):
            calls.append(
                SessionToolCall(
                    tool_call_id=text_of(call.get("id")),
                    tool_name=name,
                    input=function.get("arguments", function.get("input")),
                )
            )
    return calls


def read_usage(payload: Mapping[str, Any]) -> RecordUsage | None:
    """Return the usage of a payload; None if it states none."""
    usage, cost = as_mapping(payload.get("usage")), payload.get("cost_usd")
    if not usage and cost is None:
        return None
    thinking = usage.get("reasoning_tokens")
    return RecordUsage(
        model=optional_text(payload.get("model")),
        tokens=Tokens(
            input=count_of(usage.get("input_tokens")),
            cache_read=count_of(usage.get("cache_read_tokens")),
            cache_write=count_of(usage.get("cache_write_tokens")),
            output=count_of(usage.get("output_tokens")),
            thinking=None if thinking is None else count_of(thinking),
        ),
        cost_nusd=nano_usd(cost),
    )


FORMAT: Final = PayloadFormat(read_messages, read_usage)
