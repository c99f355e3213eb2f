"""One message of a rollout, from the lines it lies in and from nothing else.

A scan has said where, and what the lines before and behind it say about them: who wrote a text, and
whether an answer was one.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from amux.adapters._kit.times import parse_time
from amux.adapters.codex.conversation import (
    ANSWER,
    CONTEXT,
    DOUBTED,
    INJECTED,
    NOTICE,
    OUTPUT,
    TASK,
    TYPED,
)
from amux.adapters.codex.entries import ENTRY, UNREADABLE, AnyEntry, ItemEntry
from amux.adapters.codex.records import CALL_TYPES, ResponseItem
from amux.adapters.codex.texts import call_input, joined, speech_of, thought_in
from amux.adapters.codex.tools import called_tool, tool_message
from amux.model.message import Role, SessionMessage, SessionToolCall

_PARTS: Final = frozenset({TYPED, DOUBTED, INJECTED})


def cut_text(data: bytes, kind: int, *, tools: bool) -> SessionMessage | None:
    """The message of a spot; None where these bytes hold no such message."""
    try:
        if kind in {ANSWER, NOTICE}:
            entries = ENTRY.decode_lines(data)
            return _answer(entries, synthetic=kind == NOTICE, tools=tools) if entries else None
        entry = ENTRY.decode(data)
    except UNREADABLE:
        return None
    if not isinstance(entry, ItemEntry):
        return None
    at = parse_time(entry.timestamp)
    if kind == OUTPUT:
        return tool_message(at, entry.payload, name=None, failed=False)
    return _heard(entry.payload, at, kind)


def _heard(item: ResponseItem, at: datetime | None, kind: int) -> SessionMessage | None:
    if kind in _PARTS:
        speech = speech_of(item)
        text = "\n\n".join(speech.injected) if kind == INJECTED else "\n".join(speech.typed)
    elif kind in {CONTEXT, TASK}:
        text = joined(item.content)
    else:
        return None
    role: Role = "system" if kind == CONTEXT else "user"
    return SessionMessage(role=role, content=text, timestamp=at, synthetic=kind != TYPED)


def _answer(entries: list[AnyEntry], *, synthetic: bool, tools: bool) -> SessionMessage:
    """Every item between the first and the last line of an answer is part of it."""
    thinking: list[str] = []
    texts: list[str] = []
    calls: list[SessionToolCall] = []
    for entry in entries:
        if not isinstance(entry, ItemEntry):
            continue
        item = entry.payload
        if item.type == "reasoning":
            thinking.append(thought_in(item))
        elif item.type == "message" and item.role == "assistant":
            texts.append(joined(item.content))
        elif tools and item.type in CALL_TYPES:
            name, given = called_tool(item), call_input(item)
            calls.append(SessionToolCall(tool_call_id="", tool_name=name, input=given))
    return SessionMessage(
        role="assistant",
        content="\n\n".join(texts),
        timestamp=parse_time(entries[0].timestamp),
        thinking="\n\n".join(filter(None, thinking)) or None,
        tool_calls=tuple(calls),
        synthetic=synthetic,
    )
