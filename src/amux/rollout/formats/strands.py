"""The format "strands": messages as the session managers of Strands Agents store them.

A payload has the fields of their `SessionMessage`: `message`, `redact_message` (which replaces the
message for every reader), `message_id` and times. The usage of an answer is in the meta data of the
message; the name of the model is not recorded.
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
    text_of,
)
from amux.rollout.records import Record, as_mapping

_IMAGE_TYPES: Final = frozenset({"png", "jpeg", "gif", "webp"})


def read_messages(record: Record, payload: Mapping[str, Any]) -> Sequence[SessionMessage]:
    """Return the messages of a payload: results of tools first, then what was said."""
    message = as_mapping(payload.get("redact_message")) or as_mapping(payload.get("message"))
    role = str(message.get("role"))
    if role not in {"user", "assistant"}:
        return ()
    blocks = [as_mapping(block) for block in items_of(message.get("content"))]
    found = [
        _result(record, as_mapping(block["toolResult"]))
        for block in blocks
        if "toolResult" in block
    ]
    spoken = SessionMessage(
        role="user" if role == "user" else "assistant",
        content="\n".join(text for block in blocks if (text := _text(block))),
        timestamp=record.at,
        id=record.id,
        parent_id=record.parent_id,
        tool_calls=tuple(_call(as_mapping(b["toolUse"])) for b in blocks if "toolUse" in b),
        thinking="\n\n".join(text for block in blocks if (text := _thinking(block))) or None,
        images=tuple(image for block in blocks if (image := _image(block))),
    )
    if spoken.content or spoken.tool_calls or spoken.thinking or spoken.images or not found:
        found.append(spoken)
    return found


def _text(block: Mapping[str, Any]) -> str:
    """Return the text of a block: its own, that of a citation or that of guarded content."""
    if isinstance(block.get("text"), str):
        return str(block["text"])
    cited = as_mapping(block.get("citationsContent")).get("content")
    if cited is not None:
        return text_of(cited)
    return text_of(as_mapping(as_mapping(block.get("guardContent")).get("text")).get("text"))


def _thinking(block: Mapping[str, Any]) -> str:
    reasoning = as_mapping(as_mapping(block.get("reasoningContent")).get("reasoningText"))
    return text_of(reasoning.get("text"))


def _image(block: Mapping[str, Any]) -> str | None:
    """Return the image of a block as a `data:` URL; bytes are stored in base64."""
    image = as_mapping(block.get("image"))
    data = as_mapping(as_mapping(image.get("source")).get("bytes")).get("data")
    kind = str(image.get("format"))
    if not isinstance(data, str) or kind not in _IMAGE_TYPES:
        return None
    return f"data:image/{kind};base64,{data}"


def _call(use: Mapping[str, Any]) -> SessionToolCall:
    return SessionToolCall(
        tool_call_id=text_of(use.get("toolUseId")),
        tool_name=text_of(use.get("name")),
        input=use.get("input"),
    )


def _result(record: Record, result: Mapping[str, Any]) -> SessionMessage:
    blocks = [as_mapping(block) for block in items_of(result.get("content"))]
    values = [block.get("text", block.get("json")) for block in blocks]
    texts = [text_of(value) for value in values if value is not None]
    output = values[0] if len(values) == 1 else result.get("content")
    return SessionMessage(
        role="tool",
        content="\n".join(texts),
        timestamp=record.at,
        id=record.id,
        parent_id=record.parent_id,
        tool_result=ToolResult(
            tool_call_id=text_of(result.get("toolUseId")),
            tool_name="",  # only the message of the call names it
            output=output,
            is_error=result.get("status") == "error",
        ),
    )


def read_usage(payload: Mapping[str, Any]) -> RecordUsage | None:
    """Return the usage of an answer; None if its meta data has none."""
    message = as_mapping(payload.get("message"))
    usage = as_mapping(as_mapping(message.get("metadata")).get("usage"))
    if not usage or message.get("role") != "assistant":
        return None
    return RecordUsage(model=None, tokens=_tokens(usage), cost_nusd=None)


def _tokens(usage: Mapping[str, Any]) -> Tokens:
    """Return disjoint counts.

    Some providers count cached tokens as a part of the input (OpenAI, Gemini), others beside it
    (Anthropic, Bedrock). The total tells: it is the sum of input and output only for the former.
    """
    given, output = count_of(usage.get("inputTokens")), count_of(usage.get("outputTokens"))
    read = count_of(usage.get("cacheReadInputTokens"))
    write = count_of(usage.get("cacheWriteInputTokens"))
    is_part = given >= read + write and count_of(usage.get("totalTokens")) <= given + output
    return Tokens(
        input=given - read - write if is_part else given,
        cache_read=read,
        cache_write=write,
        output=output,
    )


FORMAT: Final = PayloadFormat(read_messages, read_usage)
