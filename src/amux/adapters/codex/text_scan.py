"""Extracts the texts of a rollout and the location of each message.

The rules are those of `reading`. A file with a line that is too long or not in the newest format
must be read instead (None). A scan can be resumed at a line where the author of no message is
undecided. From a location alone, `read_message_at` builds the searchable part of a message; the
kind of the location holds what the lines around it say about its author.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from amux.adapters._base import Checkpoint, ExtractedTexts
from amux.adapters._kit.jsonl import Span, object_lines
from amux.adapters._kit.long_lines import LONG_LINE
from amux.adapters._kit.streams import chunks, open_stream
from amux.adapters._kit.values import parse_time
from amux.adapters.codex.content import (
    call_input,
    called_tool,
    joined_text,
    reasoning_text,
    split_user,
    tool_message,
)
from amux.adapters.codex.conversation import (
    ANSWER,
    CONTEXT,
    INJECTED,
    NO_LOCATION,
    NOTICE,
    OUTPUT,
    TASK,
    TYPED,
    UNCONFIRMED,
)
from amux.adapters.codex.cursor import restore, save
from amux.adapters.codex.lines import ENTRY, UNREADABLE, AnyEntry, ItemEntry, LineBatch
from amux.adapters.codex.reading import apply_batch
from amux.adapters.codex.records import CALL_TYPES, ResponseItem
from amux.adapters.codex.rollout import Rollout, new_rollout
from amux.model.message import Role, SessionMessage, SessionToolCall
from amux.model.texts import MessageLocation, TextDoc, text_doc

_CHUNK: Final = 2 << 20
_LARGEST: Final = 128 << 20  # all texts of a file are in memory at once


class _ScanState(msgspec.Struct, kw_only=True):
    """A scan at a line end. `spans` are the lines of an answer that may still grow."""

    rollout: Rollout
    lines: int = 0
    messages: int = 0
    spans: dict[int, Span | None] = {}


class _Scan:
    """Collects the texts of messages as they are completed."""

    def __init__(self, state: _ScanState, *, tools: bool) -> None:
        self.docs: list[TextDoc] = []
        self._rollout = state.rollout
        self._conversation = state.rollout.conversation
        self._conversation.line_ranges = []
        self._tools = tools
        self._lines = state.lines
        self._next = state.messages
        self._spans = state.spans  # keyed by line number

    def take(self, entry: AnyEntry, span: Span | None) -> None:
        """Process one line."""
        self._lines += 1
        self._spans[self._lines] = span
        apply_batch(self._rollout, LineBatch(self._lines, [entry]))
        if self._conversation.done:
            self._keep_finished()

    def state(self) -> _ScanState | None:
        """Return the state before the next line; None if that line may change earlier messages."""
        conversation = self._conversation
        if (
            conversation.pending
            or conversation.expected
            or conversation.thoughts
            or not self._rollout.begun
        ):
            return None
        conversation.gaps.settle()
        del conversation.counter.calls[:-1]  # the rules use only the newest call
        self._rollout.identity.clear()
        answer = conversation.open_answer
        lines = () if answer is None else (answer.position, answer.last)
        return _ScanState(
            rollout=self._rollout,
            lines=self._lines,
            messages=self._next,
            spans={line: self._spans.get(line) for line in lines},
        )

    def finish(self) -> tuple[str, list[TextDoc]] | None:
        """Return the session id and its texts; None if there is no session."""
        self._conversation.end_turn()
        self._keep_finished()
        if not self._rollout.begun:
            return None
        return self._rollout.lineage.session_id, self.docs

    def _keep_finished(self) -> None:
        """Store the texts of the completed messages."""
        line_ranges, self._conversation.line_ranges = self._conversation.line_ranges or [], []
        for message, lines in zip(self._conversation.drain(), line_ranges, strict=True):
            doc = text_doc(self._next, message, tools=self._tools)
            self._next += 1
            if doc.spoken or doc.tools:
                first, last, kind = lines
                begin, end = self._spans.get(first), self._spans.get(last)
                location = None
                if kind != NO_LOCATION and begin is not None and end is not None:
                    location = MessageLocation(begin[0], end[1] - begin[0], kind)
                self.docs.append(doc._replace(location=location))


class _UnexpectedLineError(Exception):
    """The file holds a line that only reading can handle."""


def extract_texts(
    path: Path, *, tools: bool, checkpoint: Checkpoint | None = None
) -> ExtractedTexts | None:
    """Return the texts of the session of a file; None if it must be read."""
    try:
        if checkpoint is not None:
            state = restore(checkpoint.state, _ScanState)
        else:
            state = _ScanState(rollout=new_rollout(path, bodies=True, traced=False))
        if state is None:
            return None
        scan = _Scan(state, tools=tools)
        offset = 0 if checkpoint is None else checkpoint.offset
        last: AnyEntry | None = None
        for entry, span in _lines(path, offset):
            if span is None:
                last = entry
                break
            scan.take(entry, span)
            offset = span[1] + 1
        resumable = scan.state()
        saved = None if resumable is None else save(resumable)
        reached = None if saved is None else Checkpoint(offset=offset, state=saved)
        if last is not None:
            scan.take(last, None)
    except (_UnexpectedLineError, OSError, *UNREADABLE):
        return None
    found = scan.finish()
    return None if found is None else ExtractedTexts([found], reached)


def _lines(path: Path, offset: int) -> Iterator[tuple[AnyEntry, Span | None]]:
    """Yield each line after an offset with its span; None for a last line that may still grow."""
    rest = b""
    with open_stream(path) as stream:
        if path.stat().st_size - offset > _LARGEST:
            raise _UnexpectedLineError
        stream.seek(offset)
        for chunk in chunks(stream, _CHUNK):
            data = rest + chunk if rest else chunk
            end = data.rfind(b"\n") + 1
            spans = object_lines(data, 0, end, offset=offset)
            entries = ENTRY.decode_lines(data[:end]) if end else []
            if spans is None or len(entries) != len(spans):
                raise _UnexpectedLineError
            longest = max((stop - start for start, stop in spans), default=0)
            if max(longest, len(data) - end) > LONG_LINE:
                raise _UnexpectedLineError
            yield from zip(entries, spans, strict=True)
            rest, offset = data[end:], offset + end
    if rest:
        yield ENTRY.decode(rest), None


_PARTS: Final = frozenset({TYPED, UNCONFIRMED, INJECTED})


def read_message_at(data: bytes, kind: int, *, tools: bool) -> SessionMessage | None:
    """Return the message at a location; None if the bytes hold no such message."""
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
    return _other_message(entry.payload, at, kind)


def _other_message(item: ResponseItem, at: datetime | None, kind: int) -> SessionMessage | None:
    if kind in _PARTS:
        parts = split_user(item)
        text = "\n\n".join(parts.injected) if kind == INJECTED else "\n".join(parts.typed)
    elif kind in {CONTEXT, TASK}:
        text = joined_text(item.content)
    else:
        return None
    role: Role = "system" if kind == CONTEXT else "user"
    return SessionMessage(role=role, content=text, timestamp=at, synthetic=kind != TYPED)


def _answer(entries: list[AnyEntry], *, synthetic: bool, tools: bool) -> SessionMessage:
    """Build an answer from all items between its first and its last line."""
    thinking: list[str] = []
    texts: list[str] = []
    calls: list[SessionToolCall] = []
    for entry in entries:
        if not isinstance(entry, ItemEntry):
            continue
        item = entry.payload
        if item.type == "reasoning":
            thinking.append(reasoning_text(item))
        elif item.type == "message" and item.role == "assistant":
            texts.append(joined_text(item.content))
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
