"""The format "pydantic-ai": one `ModelMessage` of Pydantic AI as JSON.

A request holds prompts and the results of tools, in parts; a response is one answer. The input
tokens of a response include those read from and written to the cache, so these are subtracted. A
response whose counts are all zero states no usage: that is the value the framework fills in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from amux.model.message import SessionMessage, SessionToolCall, ToolResult
from amux.model.usage import Tokens
from amux.rollout.formats.base import (
    PayloadFormat,
    RecordUsage,
    count_of,
    items_of,
    nano_usd,
    optional_text,
    text_of,
)
from amux.rollout.records import Record, as_mapping

_FAILED: Final = frozenset({"failed", "denied", "retried", "interrupted"})
_INJECTED: Final = {
    "system-prompt": "system",
    "instruction": "system",
    "compaction": "system",
    "retry-prompt": "user",
    "retry-feedback": "user",
}
"""The role of parts that neither the user nor a tool wrote."""

_COUNTS: Final = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens")


def read_messages(record: Record, payload: Mapping[str, Any]) -> Sequence[SessionMessage]:
    """Return the messages of a request, one per part, or the answer of a response."""
    parts = [as_mapping(part) for part in items_of(payload.get("parts"))]
    match payload.get("kind"):
        case "request":
            found = (_of_request(record, part) for part in parts)
            return [message for message in found if message is not None]
        case "response":
            return _of_response(record, payload, parts)
        case _:
            return ()


def _of_request(record: Record, part: Mapping[str, Any]) -> SessionMessage | None:
    """Return the message of a part; None for parts that only instruct the framework."""
    kind, content = part.get("part_kind"), part.get("content")
    if kind == "tool-return":
        return _tool_message(record, part, is_error=str(part.get("outcome")) in _FAILED)
    if kind == "retry-prompt" and part.get("tool_name") is not None:
        return _tool_message(record, part, is_error=True)
    if kind == "user-prompt":
        return _message(record, "user", _text(content), images=_images(content))
    role = _INJECTED.get(str(kind))
    if role is None:
        return None
    is_summary = kind == "compaction"
    return _message(record, role, _text(content), synthetic=True, compaction=is_summary)


def _of_response(
    record: Record, payload: Mapping[str, Any], parts: Sequence[Mapping[str, Any]]
) -> list[SessionMessage]:
    """Return the answer, and the results of tools that the provider ran itself."""
    by_kind: dict[str, list[Mapping[str, Any]]] = {}
    for part in parts:
        by_kind.setdefault(str(part.get("part_kind")), []).append(part)
    calls = [part for part in parts if str(part.get("part_kind")).endswith("tool-call")]
    texts = [_text(part.get("content")) for part in by_kind.get("text", ())]
    texts += [_text(part.get("transcript")) for part in by_kind.get("speech", ())]
    thoughts = [_text(part.get("content")) for part in by_kind.get("thinking", ())]
    files = [part.get("content") for part in by_kind.get("file", ())]
    answer = _message(
        record,
        "assistant",
        "".join(texts),
        tool_calls=tuple(map(_tool_call, calls)),
        thinking="\n\n".join(filter(None, thoughts)) or None,
        model=optional_text(payload.get("model_name")),
        images=_images(files),
    )
    results = [_tool_message(record, part) for part in by_kind.get("builtin-tool-return", ())]
    return [answer, *results]


def _tool_call(part: Mapping[str, Any]) -> SessionToolCall:
    return SessionToolCall(
        tool_call_id=text_of(part.get("tool_call_id")),
        tool_name=text_of(part.get("tool_name")),
        input=part.get("args"),
    )


def _tool_message(
    record: Record, part: Mapping[str, Any], *, is_error: bool = False
) -> SessionMessage:
    output = part.get("content")
    result = ToolResult(
        tool_call_id=text_of(part.get("tool_call_id")),
        tool_name=text_of(part.get("tool_name")),
        output=output,
        is_error=is_error,
    )
    return _message(record, "tool", text_of(output), tool_result=result)


def _message(record: Record, role: Any, content: str, **fields: Any) -> SessionMessage:
    return SessionMessage(
        role=role,
        content=content,
        timestamp=record.at,
        id=record.id,
        parent_id=record.parent_id,
        **fields,
    )


def _text(content: object) -> str:
    """Return the texts of a content; blocks carry theirs in `content` or in `msg`."""
    if isinstance(content, str):
        return content
    texts: list[str] = []
    for block in items_of(content):
        fields = as_mapping(block)
        found = block if isinstance(block, str) else fields.get("content", fields.get("msg"))
        if isinstance(found, str):
            texts.append(found)
    return "\n".join(texts)


def _images(content: object) -> tuple[str, ...]:
    """Return the images of a content as `data:` URLs; a link is not followed."""
    found: list[str] = []
    for block in map(as_mapping, items_of(content)):
        media, data = block.get("media_type"), block.get("data")
        if isinstance(media, str) and media.startswith("image/") and isinstance(data, str):
            found.append(f"data:{media};base64,{data.translate(_STANDARD)}")
    return tuple(found)


_STANDARD: Final = str.maketrans("-_", "+/")
"""Pydantic writes bytes in the alphabet of base64 for URLs; `data:` URLs have the standard one."""


def read_usage(payload: Mapping[str, Any]) -> RecordUsage | None:
    """Return the usage of a response; None for a request, and if the provider stated none."""
    usage = as_mapping(payload.get("usage"))
    if payload.get("kind") != "response" or not usage:
        return None
    cost = _number(usage.get("cost"))
    if cost is None and not any(count_of(usage.get(name)) for name in _COUNTS):
        return None
    details = as_mapping(usage.get("details"))
    read, written = count_of(usage.get(_COUNTS[1])), count_of(usage.get(_COUNTS[2]))
    thinking = count_of(usage.get("output_reasoning_tokens")) or details.get("reasoning_tokens")
    return RecordUsage(
        model=optional_text(payload.get("model_name")),
        tokens=Tokens(
            input=max(0, count_of(usage.get("input_tokens")) - read - written),
            cache_read=read,
            cache_write=written,
            cache_write_1h=count_of(usage.get("cache_write_1h_tokens")),
            output=count_of(usage.get("output_tokens")),
            thinking=None if thinking is None else count_of(thinking),
        ),
        cost_nusd=nano_usd(cost),
    )


def _number(value: object) -> object:
    """Return a decimal number that is written as a text as a number; other values unchanged."""
    if not isinstance(value, str):
        return value
    try:
        return float(value)
    except ValueError:
        return None


FORMAT: Final = PayloadFormat(read_messages, read_usage)
