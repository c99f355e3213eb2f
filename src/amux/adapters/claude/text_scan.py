"""Extracts the texts of a transcript several times faster than reading its messages.

Lines are decoded strictly. If a line is not exactly as expected, the scan returns None and the file
is read message by message. Otherwise the result equals that of reading: the same messages in the
same order with the same texts, and for each message the location of its lines. From such a location
alone, `read_message_at` builds the searchable part of a message.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from amux.adapters._base import Checkpoint, ExtractedTexts
from amux.adapters._kit.jsonl import Span, object_lines
from amux.adapters._kit.long_lines import LONG_LINE
from amux.adapters._kit.streams import chunks, open_stream
from amux.adapters.claude.call_state import WAITING_LIMIT
from amux.adapters.claude.messages import AnswerText, result_text
from amux.adapters.claude.prompts import WARM_UP, joined_text, split_user
from amux.adapters.claude.records import (
    SYNTHETIC_MODEL,
    AnyTextLine,
    FullTextBlock,
    TextBlock,
    TextLine,
    moment_of,
)
from amux.adapters.claude.transcript import sidechain_number
from amux.model.message import SessionMessage, SessionToolCall, ToolResult
from amux.model.texts import MessageLocation, TextDoc, output_strings, strings_in

ANSWER: Final = 0
SYSTEM: Final = 1
TYPED: Final = 2
INJECTED: Final = 3
RUN_BY_MODEL: Final = 4  # injected: the echo of a command that the model ran
RESULT: Final = 5
"""Kinds of locations; the results of a line are numbered consecutively from here."""

_LAST_KIND: Final = 255
_CHUNK: Final = 2 << 20
_LARGEST: Final = 128 << 20  # all texts of a file are in memory at once


_TEXT_LINES: Final = msgspec.json.Decoder(TextLine[TextBlock])
_FULL_LINES: Final = msgspec.json.Decoder(TextLine[FullTextBlock])


class UnexpectedLineError(Exception):
    """The file holds a line that only reading can handle."""


class ResumePoint(NamedTuple):
    """An offset before which all messages are complete, and the number of these messages."""

    offset: int
    messages: int


_START: Final = ResumePoint(0, 0)
_COUNT: Final = msgspec.msgpack.Decoder(int)


def extract_texts(
    path: Path,
    session_id: str,
    *,
    is_agent: bool,
    tools: bool,
    checkpoint: Checkpoint | None = None,
) -> ExtractedTexts | None:
    """Return the texts of the sessions in a file, its own first; None if it must be read."""
    try:
        begin = _START
        if checkpoint is not None:
            begin = ResumePoint(checkpoint.offset, _COUNT.decode(checkpoint.state))
        own = _Scan(begin)
        number_of: dict[str, int] = {}  # keyed by line id or agent id
        ids: list[str] = []  # of the inline sub-agents; most are generated
        scans: list[_Scan] = []
        for line, span in _lines(path, tools=tools, offset=begin.offset):
            scan = own
            if line.is_sidechain and not is_agent:
                if checkpoint is not None:
                    return None  # the line that identifies its sidechain may precede the offset
                number = sidechain_number(number_of, len(scans), line, _blocks(line))
                if number == len(scans):
                    scans.append(_Scan())
                    ids.append(line.agent_id or f"{session_id}/sidechain-{number + 1}")
                scan = scans[number]
            scan.take(line, span)
    except (UnexpectedLineError, OSError, msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    rest = None if scans else own.rest
    for scan in (own, *scans):
        scan.flush()
    return ExtractedTexts(
        [(session_id, own.docs), *zip(ids, (scan.docs for scan in scans), strict=True)],
        None
        if rest is None
        else Checkpoint(offset=rest.offset, state=msgspec.msgpack.encode(rest.messages)),
    )


def _lines(path: Path, *, tools: bool, offset: int) -> Iterator[tuple[AnyTextLine, Span | None]]:
    """Yield every line after an offset with its span; None if the span is unknown."""
    decode = _FULL_LINES.decode_lines if tools else _TEXT_LINES.decode_lines
    rest = b""
    is_plain = path.suffix != ".zst"
    with open_stream(path) as stream:
        if path.stat().st_size - offset > _LARGEST:
            raise UnexpectedLineError
        if offset:
            stream.seek(offset)
        for chunk in chunks(stream, _CHUNK):
            data = rest + chunk if rest else chunk
            end = data.rfind(b"\n") + 1
            if data.find(b"\n") > LONG_LINE or len(data) - end > LONG_LINE:
                raise UnexpectedLineError
            spans = object_lines(data, 0, end, offset=offset)
            lines = decode(data[:end]) if end else []
            if spans is None or len(spans) != len(lines):
                raise UnexpectedLineError
            located: Sequence[Span | None] = spans if is_plain else [None] * len(spans)
            yield from zip(lines, located, strict=True)
            rest, offset = data[end:], offset + end
    last = decode(rest)
    if len(last) > 1:
        raise UnexpectedLineError
    yield from ((line, None) for line in last)  # the line may still grow


class _Scan:
    """Counts the messages of a conversation and collects their texts."""

    def __init__(self, begin: ResumePoint = _START) -> None:
        self.docs: list[TextDoc] = []
        self.rest = begin if begin.offset else None  # the last resume point so far
        self._next = begin.messages
        self._open: str | None = None
        self._ordinal = 0
        self._waiting = 0
        self._text = AnswerText()
        self._thinking: list[str] = []
        self._tool_texts: list[str] = []
        self._queued: list[TextDoc] = []
        self._span: Span | None = None  # span of the current line
        self._answer_span: Span | None = None
        self._after_result = False  # whether the last message is a tool result

    def take(self, line: AnyTextLine, span: Span | None) -> None:
        """Process one line."""
        kind = line.type
        self._span = span
        if kind == "assistant":
            self._assistant(line)
        elif kind == "user":
            self._user(line)
        elif kind == "system" and line.content:
            self._add(line.content, SYSTEM)
            self._wait(1)
        if self._open is None and span is not None and not self._after_result:
            self.rest = ResumePoint(span[1] + 1, self._next)

    def flush(self) -> None:
        """Complete the open answer; the messages queued behind it follow."""
        if self._open is None:
            return
        self._open, self._waiting = None, 0
        text = str(self._text)
        spoken = (text,) if text else ()
        if thinking := "\n\n".join(self._thinking):
            spoken = (*spoken, thinking)
        if (tools := tuple(filter(None, self._tool_texts))) or spoken:
            location = _location(self._answer_span, ANSWER)
            self.docs.append(TextDoc(self._ordinal, spoken, tools, location))
        self.docs += self._queued
        self._text = AnswerText()
        self._thinking, self._tool_texts, self._queued = [], [], []

    def _assistant(self, line: AnyTextLine) -> None:
        message = line.message
        if message is None:
            raise UnexpectedLineError
        key = message.id or line.request_id or line.uuid or f"line-{id(line)}"
        if key != self._open:
            self._after_result = False
            self.flush()
            self._open, self._ordinal, self._answer_span = key, self._next, self._span
            if self._span is not None:
                self.rest = ResumePoint(self._span[0], self._next)
            self._next += 1
        elif self._answer_span is not None:
            end = None if self._span is None else self._span[1]
            self._answer_span = None if end is None else (self._answer_span[0], end)
        for block in _blocks(line):
            if block.type == "text":
                self._text.add(block.text)
                continue
            self._text.part()
            if block.type == "thinking":
                if block.thinking:
                    self._thinking.append(block.thinking)
            elif isinstance(block, FullTextBlock) and block.type.endswith("tool_use"):
                self._tool_texts.append(block.name or "")
                self._tool_texts.extend(strings_in(block.input))

    def _user(self, line: AnyTextLine) -> None:
        if line.message is None:
            raise UnexpectedLineError
        after_result = self._after_result
        parts = split_user(line, _blocks(line), after_result=after_result)
        begins = self._next
        if parts.is_prompt:
            self.flush()
        for kind, block in enumerate(parts.results, start=RESULT):
            if isinstance(block, FullTextBlock):
                shown = result_text(block.content)
                texts = tuple(filter(None, (shown, *output_strings(block.content, shown))))
                if texts:
                    self._keep(TextDoc(self._next, (), texts, _location(self._span, kind)))
            self._next += 1
            self._after_result = True
        if parts.injected or (parts.images and parts.synthetic):
            kind = RUN_BY_MODEL if after_result else INJECTED
            self._add(joined_text(parts.injected), kind)
        if parts.is_prompt:
            self._add(joined_text(parts.typed), TYPED)
        self._wait(self._next - begins)

    def _add(self, spoken: str, kind: int) -> None:
        if spoken:
            # Only the first message of all can be a warm-up.
            is_plain = self._next > 0 or spoken.strip() != WARM_UP
            location = _location(self._span, kind) if is_plain else None
            self._keep(TextDoc(self._next, (spoken,), (), location))
        self._next += 1
        self._after_result = False

    def _keep(self, doc: TextDoc) -> None:
        (self.docs if self._open is None else self._queued).append(doc)

    def _wait(self, messages: int) -> None:
        if self._open is not None:
            self._waiting += messages
            if self._waiting > WAITING_LIMIT:
                self.flush()


def _location(span: Span | None, kind: int) -> MessageLocation | None:
    if span is None or kind > _LAST_KIND:
        return None
    return MessageLocation(span[0], span[1] - span[0], kind)


def read_message_at(data: bytes, kind: int, *, tools: bool) -> SessionMessage | None:
    """Return the message at a location; None if the bytes hold no such message."""
    try:
        if kind == ANSWER:
            return _answer((_FULL_LINES if tools else _TEXT_LINES).decode_lines(data))
        return _other((_FULL_LINES if kind >= RESULT else _TEXT_LINES).decode(data), kind)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _other(line: AnyTextLine, kind: int) -> SessionMessage | None:
    at = moment_of(line.timestamp)
    if kind == SYSTEM:
        return SessionMessage(
            role="system", content=line.content or "", timestamp=at, synthetic=True
        )
    if line.message is None:
        return None
    parts = split_user(line, _blocks(line), after_result=kind == RUN_BY_MODEL)
    if kind < RESULT:
        is_typed = kind == TYPED
        blocks = parts.typed if is_typed else parts.injected
        return SessionMessage(
            role="user", content=joined_text(blocks), timestamp=at, synthetic=not is_typed
        )
    block = parts.results[kind - RESULT] if kind - RESULT < len(parts.results) else None
    if not isinstance(block, FullTextBlock):
        return None
    return SessionMessage(
        role="tool",
        content=result_text(block.content),
        timestamp=at,
        tool_result=ToolResult(tool_call_id="", tool_name="", output=block.content),
    )


def _answer(lines: Sequence[AnyTextLine]) -> SessionMessage | None:
    """Build an answer from its lines, ignoring lines of others between them."""
    first = lines[0] if lines else None
    message = None if first is None else first.message
    if first is None or message is None:
        return None
    key = _key(first)
    text = AnswerText()
    thinking: list[str] = []
    calls: list[SessionToolCall] = []
    others = [line for line in lines[1:] if key is not None and _key(line) == key]
    for block in [block for line in (first, *others) for block in _blocks(line)]:
        if block.type == "text":
            text.add(block.text)
            continue
        text.part()
        if block.type == "thinking":
            thinking.append(block.thinking or "")
        elif isinstance(block, FullTextBlock) and block.type.endswith("tool_use"):
            name, given = block.name or "", block.input
            calls.append(SessionToolCall(tool_call_id="", tool_name=name, input=given))
    return SessionMessage(
        role="assistant",
        content=str(text),
        timestamp=moment_of(first.timestamp),
        thinking="\n\n".join(filter(None, thinking)) or None,
        tool_calls=tuple(calls),
        synthetic=message.model == SYNTHETIC_MODEL or first.is_api_error_message is True,
    )


def _key(line: AnyTextLine) -> str | None:
    """Return the key shared by the lines of one answer; None for other lines."""
    if line.type != "assistant" or line.message is None:
        return None
    return line.message.id or line.request_id or line.uuid


def _blocks(line: AnyTextLine) -> list[TextBlock]:
    content = None if line.message is None else line.message.content
    if isinstance(content, str):
        return [TextBlock("text", content)]
    return [TextBlock("text", b) if isinstance(b, str) else b for b in content or ()]
