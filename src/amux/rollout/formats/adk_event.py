"""The format "adk-event": one `Event` of Google's Agent Development Kit as JSON, with its aliases.

Prompts have the author "user"; every other author is an agent. Results of tools are parts of an
event of their agent. The prompt tokens include cached ones, and the tokens of thoughts are counted
beside those of the answer.
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
    optional_text,
    text_of,
)
from amux.rollout.records import Record, as_mapping

_STANDARD: Final = str.maketrans("-_", "+/")
"""Events hold bytes in the alphabet of base64 for URLs; `data:` URLs have the standard one."""


def read_messages(record: Record, payload: Mapping[str, Any]) -> Sequence[SessionMessage]:
    """Return the messages of an event: results of tools first, then its text and its calls."""
    parts = [as_mapping(part) for part in items_of(as_mapping(payload.get("content")).get("parts"))]
    found = [
        _tool_message(record, response)
        for part in parts
        if (response := as_mapping(part.get("functionResponse")))
    ]
    compaction = as_mapping(as_mapping(payload.get("actions")).get("compaction"))
    if compaction:
        summary = as_mapping(compaction.get("compactedContent")).get("parts")
        found.append(_message(record, "system", text_of(summary), synthetic=True, compaction=True))
    spoken = _spoken(record, payload, parts)
    return found if spoken is None else [*found, spoken]


def _spoken(
    record: Record, payload: Mapping[str, Any], parts: Sequence[Mapping[str, Any]]
) -> SessionMessage | None:
    """Return the prompt or the answer of an event; None if it holds neither."""
    texts = [part for part in parts if isinstance(part.get("text"), str)]
    thoughts = [text_of(part["text"]) for part in texts if part.get("thought") is True]
    content = "".join(text_of(part["text"]) for part in texts if part.get("thought") is not True)
    calls = tuple(
        SessionToolCall(
            tool_call_id=text_of(call.get("id")),
            tool_name=text_of(call.get("name")),
            input=call.get("args"),
        )
        for part in parts
        if (call := as_mapping(part.get("functionCall")))
    )
    images = _images(parts)
    if payload.get("author") == "user":
        return _message(record, "user", content, images=images) if content or images else None
    if not (content or thoughts or calls or images):
        notice = text_of(payload.get("errorMessage")) or text_of(payload.get("errorCode"))
        return _message(record, "assistant", notice, synthetic=True) if notice else None
    return _message(
        record,
        "assistant",
        content,
        tool_calls=calls,
        thinking="\n\n".join(filter(None, thoughts)) or None,
        model=optional_text(payload.get("modelVersion")),
        images=images,
    )


def _tool_message(record: Record, response: Mapping[str, Any]) -> SessionMessage:
    output = response.get("response")
    result = ToolResult(
        tool_call_id=text_of(response.get("id")),
        tool_name=text_of(response.get("name")),
        output=output,
        is_error=True if "error" in as_mapping(output) else None,
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


def _images(parts: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    found: list[str] = []
    for part in parts:
        blob = as_mapping(part.get("inlineData"))
        media, data = blob.get("mimeType"), blob.get("data")
        if isinstance(media, str) and media.startswith("image/") and isinstance(data, str):
            found.append(f"data:{media};base64,{data.translate(_STANDARD)}")
    return tuple(found)


def read_usage(payload: Mapping[str, Any]) -> RecordUsage | None:
    """Return the usage of an event; None if it states none."""
    usage = as_mapping(payload.get("usageMetadata"))
    if not usage or payload.get("partial") is True:
        return None
    cached = count_of(usage.get("cachedContentTokenCount"))
    given = count_of(usage.get("promptTokenCount")) + count_of(usage.get("toolUsePromptTokenCount"))
    thoughts = usage.get("thoughtsTokenCount")
    thinking = None if thoughts is None else count_of(thoughts)
    return RecordUsage(
        model=optional_text(payload.get("modelVersion")),
        tokens=Tokens(
            input=max(0, given - cached),
            cache_read=cached,
            output=count_of(usage.get("candidatesTokenCount")) + (thinking or 0),
            thinking=thinking,
        ),
        cost_nusd=None,
    )


FORMAT: Final = PayloadFormat(read_messages, read_usage)
