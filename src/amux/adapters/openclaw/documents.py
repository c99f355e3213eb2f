"""Reads JSON documents: a conversation of one channel as specified, and the list of names.

The messages of a document are converted to lines of a log and read by the same code.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from amux.adapters._base import Item, SourceRef, Want
from amux.adapters._kit.jsonl import unreadable
from amux.adapters._kit.streams import open_stream
from amux.adapters._kit.values import (
    document,
    first,
    is_items,
    is_mapping,
    items,
    mapping,
    text,
)
from amux.adapters.openclaw import agent_or_channel
from amux.adapters.openclaw.envelopes import OpenClawTexts
from amux.adapters.pi.log import NEWEST_VERSION, Origin, referenced_session
from amux.adapters.pi.reader import MemoryLines, read_log
from amux.model.facts import Facts, TitleNote
from amux.model.problems import Problem

Json = dict[str, Any]

_SPEAKER: Final = ("role", "sender", "author")
_TOOL: Final = "tool"


def read_document(source: SourceRef, want: Want) -> Iterator[Item]:
    """Yield the session of one document."""
    root = _load(source)
    if isinstance(root, Problem):
        yield root
        return
    fields = mapping(root)
    messages = root if is_items(root) else fields.get("messages")
    if not is_items(messages):
        message = "the document has no list of messages"
        yield Problem(code="unknown-format", message=message, path=str(source.path))
        return
    channel = agent_or_channel(source)
    session_id = source.session_id or source.path.stem
    origin = Origin(
        session_id=session_id,
        path=str(source.path),
        decides_id=True,
        name=text(fields.get("title")),
        namespace=channel,
        aliases=(f"{channel}/{session_id}",),
        texts=OpenClawTexts(),
        raw={"channel": channel},
    )
    header = {
        "type": "session",
        "version": NEWEST_VERSION,
        "timestamp": first(fields, "createdAt", "created_at", "timestamp"),
        "cwd": first(fields, "cwd", "workspace"),
    }
    lines = [header, *(_line(m) if is_mapping(m) else m for m in messages)]
    events = MemoryLines([msgspec.json.encode(line) for line in lines], path=str(source.path))
    yield from read_log(events, origin, want=want)


def _load(source: SourceRef) -> Any:
    try:
        with open_stream(source.path) as stream:
            data = b"".join(iter(lambda: stream.read(1 << 20), b""))
    except OSError as error:
        return unreadable(source.path, error)
    found = document(data)
    if found is None:
        message = "the document is not valid JSON"
        return Problem(code="unknown-format", message=message, path=str(source.path))
    return found


def _line(message: Json) -> Json:
    """Return a message as a line of a log, with tool calls and thoughts as content blocks."""
    line = {**message, "type": "message", "role": first(message, *_SPEAKER)}
    content = first(message, "content", "text")
    calls = [
        {
            "type": "toolCall",
            "id": first(call, "toolCallId", "id"),
            "name": first(call, "toolName", "name"),
            "arguments": first(call, "input", "arguments"),
        }
        for call in map(mapping, items(message.get("toolCalls")))
    ]
    thinking = text(message.get("thinking"))
    if calls or thinking:
        texts: list[Any] = [{"type": "text", "text": content}] if text(content) else items(content)
        thoughts = [{"type": "thinking", "thinking": thinking}] if thinking else []
        content = [*thoughts, *texts, *calls]
    result = mapping(message.get("toolResult"))
    if result:
        line |= {"role": _TOOL, **result}
        content = first(result, "output", "content") if content in (None, "") else content
    return {**line, "content": content}


def read_names(source: SourceRef) -> Iterator[Item]:
    """Yield the labels of sessions; an entry's file identifies its session better than its id."""
    root = _load(source)
    if isinstance(root, Problem):
        yield root
        return
    notes: list[TitleNote] = []
    for entry in map(mapping, mapping(root).values()):
        file, label = text(entry.get("sessionFile")), text(entry.get("label"))
        session_id = referenced_session(file) if file else text(entry.get("sessionId"))
        if label and session_id:
            notes.append(TitleNote(text=label, session_id=session_id))
    name = source.path.relative_to(source.root).as_posix()
    yield Facts(session_id=name, addressable=False, attributed=False, notes=tuple(notes))
