"""Turns records into messages and billed usage, with the payload format of their thread.

A record of a format that `rollout.formats` does not list has no message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from amux.model.message import SessionMessage
from amux.rollout.control import PROJECTION
from amux.rollout.formats import amux, find_format
from amux.rollout.formats.base import RecordUsage, text_of
from amux.rollout.records import Record, as_mapping

__all__ = ["RecordUsage", "is_message", "message_of", "messages_of", "usage_of"]


class _Role(msgspec.Struct):
    role: Any = None


_ROLE: Final = msgspec.json.Decoder(_Role)
"""Finds the role of a message without keeping its text."""


def messages_of(record: Record, payload_format: str) -> Sequence[SessionMessage]:
    """Return the messages of a record, oldest first; the ids of all but the first are made up."""
    found = _read(record, payload_format)
    if len(found) < 2:  # noqa: PLR2004  # the usual case
        return found
    ids = [record.id, *(f"{record.id}#{number}" for number in range(2, len(found) + 1))]
    parents = [record.parent_id, *ids]
    return [
        replace(message, id=message_id, parent_id=parent)
        for message, message_id, parent in zip(found, ids, parents, strict=False)
    ]


def message_of(record: Record, payload_format: str) -> SessionMessage | None:
    """Return the messages of a record as one, for lists and searches; None if it holds none.

    It has the role of the prompt or the answer that the record holds, and the texts, the thinking
    and the tool calls of all.
    """
    found = _read(record, payload_format)
    if len(found) < 2:  # noqa: PLR2004  # the usual case
        return found[0] if found else None
    main = next((message for message in found if message.role in {"user", "assistant"}), found[0])
    return replace(
        main,
        id=record.id,
        parent_id=record.parent_id,
        content="\n".join(message.content for message in found if message.content),
        thinking="\n".join(message.thinking for message in found if message.thinking) or None,
        tool_calls=tuple(call for message in found for call in message.tool_calls),
        images=tuple(image for message in found for image in message.images),
        synthetic=all(message.synthetic for message in found),
    )


def _read(record: Record, payload_format: str) -> Sequence[SessionMessage]:
    payload = as_mapping(record.payload)
    if record.type == "event_msg":
        if payload.get("type") != PROJECTION:
            return ()
        return amux.read_messages(record, as_mapping(payload.get("message")))
    if record.type == "compacted":
        summary = SessionMessage(
            role="system",
            content=text_of(payload.get("summary")),
            timestamp=record.at,
            id=record.id,
            parent_id=record.parent_id,
            synthetic=True,
            compaction=True,
        )
        return (summary,)
    if record.type != "response_item":
        return ()
    found = find_format(payload_format)
    return () if found is None else found.messages(record, payload)


def is_message(record: Record, payload_format: str) -> bool:
    """Return whether an item of a conversation holds a message, without reading the message.

    Items in the format of another program are opaque and count as messages.
    """
    if payload_format != "amux" or record.type == "compacted":
        return True
    try:
        role = _ROLE.decode(record.text).role
    except msgspec.ValidationError:  # not an object
        return False
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        role = as_mapping(record.payload).get("role")
    return str(role) in amux.ROLES


def usage_of(record: Record, payload_format: str) -> RecordUsage | None:
    """Return the usage that a record states; None if it states none."""
    if payload_format == "amux" and not _may_state_usage(record.text):
        return None
    payload = as_mapping(record.payload)
    if record.type in {"compacted", "event_msg"}:
        is_projection = payload.get("type") == PROJECTION
        return amux.read_usage(as_mapping(payload.get("message")) if is_projection else payload)
    if record.type != "response_item":
        return None
    found = find_format(payload_format)
    return None if found is None else found.usage(payload)


def _may_state_usage(text: str) -> bool:
    """Return whether a payload must be decoded for its usage; names may be written with escapes."""
    return '"usage"' in text or '"cost_usd"' in text or "\\u" in text
