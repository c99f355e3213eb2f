"""Decides which lines of a log are messages, and the kind of their author."""

from __future__ import annotations

from typing import Final

from amux.adapters._kit.values import mapping, text
from amux.adapters.pi.prompts import Said, UserText, UserTexts
from amux.adapters.pi.records import (
    FAILED_STOPS,
    REPLY_ROLES,
    SUMMARY_TYPES,
    TOOL_ROLES,
    Entry,
)
from amux.model.trace import LineKind

_CONTENT_BLOCKS: Final = frozenset({"text", "thinking", "toolCall", "image"})
_CUSTOM: Final = "custom_message"


def classify(entry: Entry, texts: UserTexts) -> tuple[LineKind, UserText]:
    """Return the kind of a line, and the parts of its text if a person wrote one of them."""
    if entry.type in SUMMARY_TYPES:
        return LineKind.INJECTED, UserText("", "")
    if entry.type == _CUSTOM:
        return _by_author(entry, texts, is_person=entry.message.attribution == "user")
    role = entry.role
    if not role:
        return LineKind.LINE, UserText("", "")
    if role in REPLY_ROLES:
        return LineKind.REPLY if _is_answer(entry) else LineKind.NOTICE, UserText("", "")
    if role in TOOL_ROLES:
        return LineKind.TOOL, UserText("", "")
    return _by_author(entry, texts, is_person=role == "user" and _is_person(entry))


def _by_author(entry: Entry, texts: UserTexts, *, is_person: bool) -> tuple[LineKind, UserText]:
    said = entry.said
    if not is_person:
        return LineKind.INJECTED, UserText(said, "")
    custom_type = text(entry.line.custom_type) or "" if entry.type == _CUSTOM else None
    parts = texts.split(Said(said, entry.id, custom_type, entry.line.details))
    is_prompt = bool(parts.typed.strip()) or not said  # an image alone is a prompt
    return LineKind.PROMPT if is_prompt else LineKind.INJECTED, parts


def _is_answer(entry: Entry) -> bool:
    """Return whether a model answered; a failed call leaves a message without content."""
    if entry.is_by_program:
        return False
    if text(entry.message.stop_reason) not in FAILED_STOPS:
        return True
    return any(
        text(block.type) in _CONTENT_BLOCKS and (block.type != "text" or bool(text(block.text)))
        for block in entry.blocks
    )


def _is_person(entry: Entry) -> bool:
    """Return whether a person may have written a message with the role `user`."""
    message = entry.message
    if message.attribution == "agent" or message.synthetic is True:
        return False
    return text(mapping(message.provenance).get("kind")) in {None, "external_user"}
