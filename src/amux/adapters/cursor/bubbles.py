"""Bubbles: one message of the editor, typed by a person (type 1) or written by a model (type 2)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from amux.adapters._kit.usage import usage_view
from amux.adapters._kit.values import count, damage_in, document, mapping, moment, number, text
from amux.adapters.cursor.messages import model_name, tool_message
from amux.model.message import SessionMessage, SessionToolCall, ToolResult
from amux.model.usage import Call, Tokens

Bubble = dict[str, Any]

_USER, _ASSISTANT = 1, 2
_FAILED: Final = ("error", "failed")
_FINISHED: Final = ("completed", *_FAILED)


def bubble_messages(bubble: Bubble, id: str, call: Call | None) -> Iterator[SessionMessage]:
    """The message of a bubble, and the result of its tool."""
    at = bubble_time(bubble)
    said = _said(bubble)
    if bubble.get("type") == _USER:
        yield SessionMessage(role="user", content=said, id=id, timestamp=at, synthetic=not said)
        return
    thought = text(mapping(bubble.get("thinking")).get("text"))
    tool = mapping(bubble.get("toolFormerData"))
    calls = (_tool_call(tool, id),) if text(tool.get("name")) else ()
    yield SessionMessage(
        role="assistant",
        content=said,
        thinking=thought,
        tool_calls=calls,
        token_usage=usage_view(call),
        model=bubble_model(bubble),
        id=id,
        timestamp=at,
        synthetic=not (said or thought or calls),
    )
    if calls and (tool.get("result") or tool.get("status") in _FINISHED):
        yield tool_message(_result(tool, id), parent=id, at=at)


def is_bubble(bubble: Bubble) -> bool:
    """Whether it is a message of a kind that is known."""
    return bubble.get("type") in (_USER, _ASSISTANT)


def bubble_time(bubble: Bubble) -> datetime | None:
    """When it was written; old bubbles only know when the request was sent."""
    timing = mapping(bubble.get("timingInfo"))
    return moment(bubble.get("createdAt")) or moment(timing.get("clientStartTime"))


def bubble_model(bubble: Bubble) -> str | None:
    """The model that wrote it."""
    return model_name(mapping(bubble.get("modelInfo")).get("modelName"))


def bubble_call(bubble: Bubble, id: str, *, conversation: str, model: str | None) -> Call | None:
    """What the bubble was counted with; zero counts say nothing."""
    counts = mapping(bubble.get("tokenCount"))
    tokens = Tokens(
        input=count(counts.get("inputTokens")) or 0, output=count(counts.get("outputTokens")) or 0
    )
    gaps = damage_in(counts, "inputTokens", "outputTokens")
    if not tokens.total and not gaps:
        return None
    return Call(
        key=f"{conversation}/{id}",
        model=bubble_model(bubble) or model,
        at=bubble_time(bubble),
        tokens=tokens,
        message_id=id,
        gaps=gaps,
    )


def _said(bubble: Bubble) -> str:
    return (text(bubble.get("text")) or text(bubble.get("rawText")) or "").strip()


def _tool_call(tool: dict[str, Any], id: str) -> SessionToolCall:
    arguments = tool.get("rawArgs") or tool.get("params")
    return SessionToolCall(
        tool_call_id=text(tool.get("toolCallId")) or id,
        tool_name=text(tool.get("name")) or "",
        input=_loaded(arguments),
    )


def _result(tool: dict[str, Any], id: str) -> ToolResult:
    output = _loaded(tool.get("result"))
    states = (tool.get("status"), mapping(tool.get("additionalData")).get("status"))
    failed: bool | None = True if any(state in _FAILED for state in states) else None
    code = mapping(output).get("exitCode")
    if failed is None and number(code) is not None:
        failed = code != 0
    if failed is None and tool.get("status") == "completed":
        failed = False
    return ToolResult(
        tool_call_id=text(tool.get("toolCallId")) or id,
        tool_name=text(tool.get("name")) or "",
        output=output,
        is_error=failed,
    )


def _loaded(value: Any) -> Any:
    """Arguments and results are JSON in a text, but not always."""
    inner = document(value) if isinstance(value, str) else None
    return value if inner is None else inner
