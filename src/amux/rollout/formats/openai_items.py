"""The format "openai-items": input items of OpenAI's Responses API, as the OpenAI Agents SDK keeps.

An item is a message, a part of an answer (reasoning, a call of a tool) or the output of a tool. It
states no usage, no model and no time: the session stores usage in control records of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from amux.model.message import Role, SessionMessage, SessionToolCall, ToolResult
from amux.rollout.formats.base import PayloadFormat, RecordUsage, items_of, text_of
from amux.rollout.records import Record, as_mapping

_ROLES: Final[dict[str, Role]] = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "developer": "system",
}
_INPUTS: Final = ("arguments", "input", "action", "operation", "queries", "code", "prompt")
_OUTPUTS: Final = ("output", "tools", "error")
_NAMED_BY_CALL: Final = frozenset({"function_call_output", "custom_tool_call_output"})
_FAILED: Final = frozenset({"failed", "incomplete"})


def read_messages(record: Record, payload: Mapping[str, Any]) -> Sequence[SessionMessage]:
    """Return the message of an item, as a tuple of one; an empty tuple if it holds none."""
    match payload.get("type", "message"):
        case "message":
            return _spoken(record, payload)
        case "reasoning":
            texts = [text_of(payload.get("summary")), text_of(payload.get("content"))]
            thinking = "\n\n".join(filter(None, texts)) or None
            return (_message(record, "assistant", "", thinking=thinking),)
        case "compaction" | "compaction_summary":
            return (_message(record, "system", "", synthetic=True, compaction=True),)
        case str(kind) if kind.endswith("_call"):
            return (_message(record, "assistant", "", tool_calls=(_call(kind, payload),)),)
        case str(kind) if kind.endswith("_output"):
            return (_output(record, kind, payload),)
        case _:
            return ()


def _spoken(record: Record, payload: Mapping[str, Any]) -> Sequence[SessionMessage]:
    role = _ROLES.get(str(payload.get("role")))
    if role is None:
        return ()
    content = payload.get("content")
    parts = [as_mapping(part) for part in items_of(content)]
    texts = [text_of(content), *(text_of(part.get("refusal")) for part in parts)]
    images = [part.get("image_url") for part in parts]
    return (
        _message(
            record,
            role,
            "\n".join(filter(None, texts)),
            images=tuple(
                each for each in images if isinstance(each, str) and each.startswith("data:")
            ),
        ),
    )


def _call(kind: str, payload: Mapping[str, Any]) -> SessionToolCall:
    """Return the call of a tool; a hosted tool has the name of its kind of item."""
    given = next((payload[name] for name in _INPUTS if payload.get(name) is not None), None)
    output = next((payload[name] for name in _OUTPUTS if payload.get(name) is not None), None)
    return SessionToolCall(
        tool_call_id=text_of(payload.get("call_id") or payload.get("id")),
        tool_name=text_of(payload.get("name")) or kind.removesuffix("_call"),
        input=_decoded(given),
        output=output,
        is_error=True if str(payload.get("status")) in _FAILED else None,
    )


def _decoded(value: object) -> Any:
    """Return the arguments of a call, which are JSON text; other text is returned as it is."""
    if not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return value


def _output(record: Record, kind: str, payload: Mapping[str, Any]) -> SessionMessage:
    output = payload.get("output")
    result = ToolResult(
        tool_call_id=text_of(payload.get("call_id")),
        tool_name="" if kind in _NAMED_BY_CALL else kind.removesuffix("_call_output"),
        output=output,
        is_error=True if str(payload.get("status")) in _FAILED else None,
    )
    return _message(record, "tool", text_of(output), tool_result=result)


def _message(record: Record, role: Role, content: str, **fields: Any) -> SessionMessage:
    return SessionMessage(
        role=role,
        content=content,
        timestamp=record.at,
        id=record.id,
        parent_id=record.parent_id,
        **fields,
    )


def read_usage(payload: Mapping[str, Any]) -> RecordUsage | None:
    """Return None: items state no usage."""
    del payload
    return None


FORMAT: Final = PayloadFormat(read_messages, read_usage)
