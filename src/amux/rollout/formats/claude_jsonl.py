"""The format "claude-jsonl": lines of the transcripts of Claude Code and the Claude Agent SDK.

Lists and searches of the store read one line at a time with this module. The sessions that amux
shows are read by the Claude adapter, which knows the rules that involve several lines. All lines of
an answer state the usage of one call, under the id of the answer.
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
    flag_of,
    items_of,
    optional_text,
    text_of,
)
from amux.rollout.records import Record, as_mapping

_SYNTHETIC_MODEL: Final = "<synthetic>"
_INJECTED: Final = ("<command-", "<local-command-", "<system-reminder>", "Caveat: The messages")


def read_messages(record: Record, payload: Mapping[str, Any]) -> Sequence[SessionMessage]:
    """Return the messages of a line: results of tools first, then its text."""
    match payload.get("type"):
        case "assistant":
            return (_answer(record, payload),)
        case "user":
            return _user_messages(record, payload)
        case "system":
            content = text_of(payload.get("content"))
            return (_message(record, "system", content, synthetic=True),) if content else ()
        case _:
            return ()


def _answer(record: Record, payload: Mapping[str, Any]) -> SessionMessage:
    message = as_mapping(payload.get("message"))
    blocks = _blocks(message.get("content"))
    calls = [
        SessionToolCall(
            tool_call_id=text_of(block.get("id")),
            tool_name=text_of(block.get("name")),
            input=block.get("input"),
        )
        for block in blocks
        if str(block.get("type")).endswith("tool_use")
    ]
    thoughts = [text_of(block.get("thinking")) for block in blocks]
    return SessionMessage(
        role="assistant",
        content=_texts(blocks),
        timestamp=record.at,
        id=record.id,
        parent_id=record.parent_id,
        tool_calls=tuple(calls),
        thinking="\n\n".join(filter(None, thoughts)) or None,
        model=None if _is_notice(payload) else optional_text(message.get("model")),
        synthetic=_is_notice(payload),
    )


def _user_messages(record: Record, payload: Mapping[str, Any]) -> list[SessionMessage]:
    blocks = _blocks(as_mapping(payload.get("message")).get("content"))
    found: list[SessionMessage] = []
    for block in blocks:
        if block.get("type") == "tool_result":
            output = block.get("content")
            result = ToolResult(
                tool_call_id=text_of(block.get("tool_use_id")),
                tool_name="",  # only the line of the call names it
                output=output,
                is_error=flag_of(block.get("is_error")) is True,
            )
            found.append(_message(record, "tool", text_of(output), tool_result=result))
    text = _texts(blocks)
    if text or not found:
        is_injected = payload.get("isMeta") is True or text.lstrip().startswith(_INJECTED)
        is_summary = payload.get("isCompactSummary") is True
        synthetic = is_injected or is_summary
        found.append(_message(record, "user", text, synthetic=synthetic, compaction=is_summary))
    return found


def _message(record: Record, role: Any, content: str, **fields: Any) -> SessionMessage:
    return SessionMessage(
        role=role,
        content=content,
        timestamp=record.at,
        id=record.id,
        parent_id=record.parent_id,
        **fields,
    )


def _blocks(content: object) -> list[Mapping[str, Any]]:
    """Return the blocks of a content; a plain text is one block."""
    given = [content] if isinstance(content, str) else items_of(content)
    return [
        {"type": "text", "text": each} if isinstance(each, str) else as_mapping(each)
        for each in given
    ]


def _texts(blocks: Sequence[Mapping[str, Any]]) -> str:
    texts = [text_of(block.get("text")) for block in blocks if block.get("type") == "text"]
    return "\n".join(texts)


def _is_notice(payload: Mapping[str, Any]) -> bool:
    """Return whether Claude Code wrote the answer itself, such as an error of the API."""
    model = as_mapping(payload.get("message")).get("model")
    return model == _SYNTHETIC_MODEL or payload.get("isApiErrorMessage") is True


def read_usage(payload: Mapping[str, Any]) -> RecordUsage | None:
    """Return the usage of the answer of a line; None for other lines and for copies of a fork."""
    if payload.get("type") != "assistant" or _is_notice(payload) or "forkedFrom" in payload:
        return None
    message = as_mapping(payload.get("message"))
    usage = as_mapping(message.get("usage"))
    if not usage:
        return None
    creation = as_mapping(usage.get("cache_creation"))
    details = as_mapping(usage.get("output_tokens_details"))
    thinking = details.get("thinking_tokens")
    return RecordUsage(
        model=optional_text(message.get("model")),
        tokens=Tokens(
            input=count_of(usage.get("input_tokens")),
            cache_read=count_of(usage.get("cache_read_input_tokens")),
            cache_write=count_of(usage.get("cache_creation_input_tokens")),
            cache_write_1h=count_of(creation.get("ephemeral_1h_input_tokens")),
            output=count_of(usage.get("output_tokens")),
            thinking=None if thinking is None else count_of(thinking),
        ),
        cost_nusd=None,
        key=optional_text(message.get("id")) or optional_text(payload.get("requestId")),
    )


FORMAT: Final = PayloadFormat(read_messages, read_usage)
