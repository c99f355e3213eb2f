"""The messages of LangGraph's channels in a form that amux reads without LangGraph.

Checkpoints are opaque: their bytes name Python classes. So every message gets a second record when
it is stored for the first time, with its role, text, tool calls, usage and model.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any, Final, cast

from langchain_core.messages import AIMessage, BaseMessage, RemoveMessage, ToolMessage

from amux.integrations.langgraph_values import ChannelValue, ListValue
from amux.rollout import control
from amux.rollout.records import MAX_ID_LENGTH, NewRecord

_ROLES: Final = {
    "human": "user",
    "ai": "assistant",
    "system": "system",
    "tool": "tool",
    "function": "tool",
}
_CACHE_WRITES: Final = (
    "cache_creation", "ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens",
)  # fmt: skip
"""The parts of the input that a provider wrote to its cache; some state them by lifetime."""


class MessageProjections:
    """Records that show the messages in new values, except those that the thread shows already.

    Only messages with an id are shown: one without gets its id when LangGraph adds it to a list.
    """

    def __init__(self, shown: Container[str | None], *, is_wanted: bool) -> None:
        self._shown = shown
        self._is_wanted = is_wanted
        self._new: dict[str, NewRecord] = {}

    @property
    def records(self) -> list[NewRecord]:
        """The new records, in the order of the messages."""
        return [*self._new.values()]

    def add(self, value: object, encoded: ChannelValue) -> None:
        """Add the messages of a list; `encoded` says which records hold its elements."""
        if not self._is_wanted or not isinstance(encoded, ListValue):
            return
        elements = cast("list[object]", value)
        start = encoded.keep if self._shows(elements[encoded.keep - 1]) else 0
        messages = [
            (position, message, record_id)
            for position, message in enumerate(elements[start:], start)
            if isinstance(message, BaseMessage)
            and (record_id := _record_id_of(message)) is not None
            and record_id not in self._shown
            and record_id not in self._new
        ]
        items = encoded.all_items() if messages else ()
        for position, message, record_id in messages:
            item = items[position]
            of = item if isinstance(item, str) else encoded.owner
            self._new[record_id] = project(message, record_id, of)

    def _shows(self, element: object) -> bool:
        """Return whether the thread shows an element, and with it all that came before it."""
        return isinstance(element, BaseMessage) and _record_id_of(element) in self._shown


def _record_id_of(message: BaseMessage) -> str | None:
    """Return the id of the record that shows a message; None if it cannot be shown."""
    record_id = f"message-{message.id}"
    is_valid = len(record_id) <= MAX_ID_LENGTH and "\0" not in record_id
    is_shown = message.id and is_valid and not isinstance(message, RemoveMessage)
    return record_id if is_shown else None


def project(message: BaseMessage, record_id: str, of: str) -> NewRecord:
    """Return the record that shows a message; `of` is the record that holds the message."""
    fields: dict[str, Any] = {"role": _role_of(message), "content": _text_of(message)}
    thinking = _thinking_of(message)
    if thinking:
        fields["thinking"] = thinking
    if isinstance(message, AIMessage):
        fields |= _answer_fields(message)
    elif isinstance(message, ToolMessage):
        fields |= {"tool_call_id": message.tool_call_id, "tool_name": message.name or ""}
        if message.status == "error":
            fields["is_error"] = True
    shown = control.projection(of, fields)
    return NewRecord(type=shown.type, payload=shown.payload, id=record_id, parent_id=None)


def _role_of(message: BaseMessage) -> str:
    role = _ROLES.get(message.type)
    return str(getattr(message, "role", "user")) if role is None else role


def _answer_fields(message: AIMessage) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    calls = [
        {"id": call.get("id") or "", "name": call["name"], "arguments": _plain(call["args"])}
        for call in message.tool_calls
    ]
    if calls:
        fields["tool_calls"] = calls
    metadata = message.response_metadata
    model = metadata.get("model_name") or metadata.get("model")
    if isinstance(model, str):
        fields["model"] = model
    usage = None if message.usage_metadata is None else _usage_of(message.usage_metadata)
    if usage:
        fields["usage"] = usage
    return fields


def _usage_of(stated: Mapping[str, Any]) -> dict[str, int]:
    """Return the tokens in buckets that do not overlap.

    `input_tokens` of LangChain includes what was read from a cache and written to it.
    """
    given: Mapping[str, Any] = stated.get("input_token_details") or {}
    output: Mapping[str, Any] = stated.get("output_token_details") or {}
    read = given.get("cache_read") or 0
    written = sum(given.get(name) or 0 for name in _CACHE_WRITES)
    usage: dict[str, int] = {
        "input_tokens": max(0, (stated.get("input_tokens") or 0) - read - written),
        "output_tokens": stated.get("output_tokens") or 0,
    }
    if read:
        usage["cache_read_tokens"] = read
    if written:
        usage["cache_write_tokens"] = written
    if output.get("reasoning") is not None:
        usage["reasoning_tokens"] = output["reasoning"]
    return usage


def _blocks_of(message: BaseMessage) -> list[Any]:
    return message.content if isinstance(message.content, list) else [message.content]


def _text_of(message: BaseMessage) -> str:
    texts: list[str] = []
    for block in _blocks_of(message):
        text = block.get("text") if isinstance(block, dict) else block
        if isinstance(text, str) and text:
            texts.append(text)
    return "\n".join(texts)


def _thinking_of(message: BaseMessage) -> str:
    texts: list[object] = [message.additional_kwargs.get("reasoning_content")]
    for block in _blocks_of(message):
        if isinstance(block, dict):
            texts += [block.get("thinking"), block.get("reasoning")]
    return "\n".join(text for text in texts if isinstance(text, str) and text)


def _plain(value: object) -> object:
    """Return a value of JSON; what JSON cannot hold becomes a text."""
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if value is None or isinstance(value, str | int | float):
        return value
    return str(value)
