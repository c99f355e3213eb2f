"""Extracts the texts of a transcript several times faster than reading its messages.

Lines are decoded strictly. If a line is not exactly as expected, the scan returns None and the file
is read message by message. Otherwise the result equals that of reading: the same messages in the
same order with the same texts, and for each message the location of its lines. From such a location
alone, `read_message_at` builds the searchable part of a message.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from amux.adapters._base import Checkpoint, ExtractedTexts
from amux.adapters._kit.jsonl import Span, object_lines
from amux.adapters._kit.long_lines import LONG_LINE
from amux.adapters._kit.streams import chunks, open_stream
from amux.adapters._kit.values import parse_time
from amux.adapters.claude.call_state import WAITING_LIMIT
from amux.adapters.claude.messages import AnswerText, result_text
from amux.adapters.claude.prompts import WARM_UP, is_injected
from amux.adapters.claude.records import SYNTHETIC_MODEL
from amux.model.message import SessionMessage, SessionToolCall, ToolResult
from amux.model.texts import MessageLocation, TextDoc, output_strings, strings_in

ANSWER: Final = 0
SYSTEM: Final = 1
TYPED: Final = 2
INJECTED: Final = 3
RESULT: Final = 4
"""Kinds of locations; the results of a line are numbered consecutively from here."""

_LAST_KIND: Final = 255
_CHUNK: Final = 2 << 20
_LARGEST: Final = 32 << 20  # all texts of a file are in memory at once


class Block(msgspec.Struct, gc=False):
    """A content block without tool input and output."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    name: str | None = None


class FullBlock(Block, gc=False):
    """A content block with all its texts."""

    input: Any = None
    content: Any = None


class _Origin(msgspec.Struct, gc=False):
    kind: str | None = None


class Flags(msgspec.Struct, rename="camel", gc=False):
    """A line without its message."""

    type: str | None = None
    uuid: str | None = None
    request_id: str | None = None
    is_sidechain: bool | None = None
    is_meta: bool | None = None
    is_compact_summary: bool | None = None
    is_visible_in_transcript_only: bool | None = None
    prompt_source: str | None = None
    origin: _Origin | None = None
    content: str | None = None
    agent_id: str | None = None
    parent_uuid: str | None = None


class _TextMessage(msgspec.Struct, gc=False):
    id: str | None = None
    content: str | list[Block | str] | None = None


class _TextLine(Flags, rename="camel", gc=False):
    message: _TextMessage | None = None


class _FullMessage(msgspec.Struct, gc=False):
    id: str | None = None
    content: str | list[FullBlock | str] | None = None


class _FullLine(Flags, rename="camel", gc=False):
    message: _FullMessage | None = None


_Content = str | list[Block | str] | list[FullBlock | str] | None
_Line = _TextLine | _FullLine
_TEXT_LINES: Final = msgspec.json.Decoder(_TextLine)
_FULL_LINES: Final = msgspec.json.Decoder(_FullLine)


class UserParts(msgspec.Struct, gc=False):
    """The blocks of a user line by kind."""

    synthetic: bool
    results: list[Block] = []
    injected: list[str] = []
    typed: list[str] = []
    has_images: bool = False

    @property
    def is_prompt(self) -> bool:
        """Whether a person typed the message or sent images with it."""
        return bool(self.typed) or (self.has_images and not self.synthetic)


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
        own = _Scan(tools=tools, begin=begin)
        sidechains = Sidechains()
        scans: list[_Scan] = []
        for line, span in _lines(path, tools=tools, offset=begin.offset):
            scan = own
            if line.is_sidechain and not is_agent:
                if checkpoint is not None:
                    return None  # the line that identifies its sidechain may precede the offset
                number = sidechains.number_of(line)
                if number == len(scans):
                    scans.append(_Scan(tools=tools))
                scan = scans[number]
            scan.take(line, span)
    except (UnexpectedLineError, OSError, msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    rest = None if scans else own.rest
    for scan in (own, *scans):
        scan.flush()
    ids = sidechains.ids(session_id)
    return ExtractedTexts(
        [(session_id, own.docs), *zip(ids, (scan.docs for scan in scans), strict=True)],
        None
        if rest is None
        else Checkpoint(offset=rest.offset, state=msgspec.msgpack.encode(rest.messages)),
    )


def _lines(path: Path, *, tools: bool, offset: int) -> Iterator[tuple[_Line, Span | None]]:
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
            places: Sequence[Span | None] = spans if is_plain else [None] * len(spans)
            yield from zip(lines, places, strict=True)
            rest, offset = data[end:], offset + end
    last = decode(rest)
    if len(last) > 1:
        raise UnexpectedLineError
    yield from ((line, None) for line in last)  # the line may still grow


class Sidechains:
    """Assigns lines to the inline sub-agents of a file, as `Transcript` does."""

    def __init__(self) -> None:
        self._agents: list[str | None] = []
        self._number_of: dict[str, int] = {}  # keyed by line id or agent id

    def number_of(self, line: _Line) -> int:
        """Return the number of the sidechain of a line, in order of appearance."""
        agent_id = line.agent_id or None
        found = self._number_of.get(agent_id or line.parent_uuid or "")
        if found is None and self._agents and agent_id is None and not _begins_task(line):
            found = len(self._agents) - 1
        if found is None:
            found = len(self._agents)
            self._agents.append(agent_id)
            if agent_id is not None:
                self._number_of[agent_id] = found
        if line.uuid:
            self._number_of[line.uuid] = found
        return found

    def ids(self, session_id: str) -> list[str]:
        """Return the ids of the sidechains; most are generated."""
        return [
            agent_id or f"{session_id}/sidechain-{number}"
            for number, agent_id in enumerate(self._agents, start=1)
        ]


def _begins_task(line: _Line) -> bool:
    content = None if line.message is None else line.message.content
    blocks = content if isinstance(content, list) else ()
    return line.type == "user" and not any(
        isinstance(block, Block) and block.type == "tool_result" for block in blocks
    )


class _Scan:
    """Counts the messages of a conversation and collects their texts."""

    def __init__(self, *, tools: bool, begin: ResumePoint = _START) -> None:
        self.docs: list[TextDoc] = []
        self.rest = begin if begin.offset else None  # the last resume point so far
        self._tools = tools
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

    def take(self, line: _Line, span: Span | None) -> None:
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
        if self._open is None and span is not None:
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
        if (tool_text := "\n".join(self._tool_texts)) or spoken:
            spot = _spot(self._answer_span, ANSWER)
            self.docs.append(TextDoc(self._ordinal, spoken, tool_text, spot))
        self.docs += self._queued
        self._text = AnswerText()
        self._thinking, self._tool_texts, self._queued = [], [], []

    def _assistant(self, line: _Line) -> None:
        message = line.message
        if message is None:
            raise UnexpectedLineError
        key = message.id or line.request_id or line.uuid or f"line-{id(line)}"
        if key != self._open:
            self.flush()
            self._open, self._ordinal, self._answer_span = key, self._next, self._span
            if self._span is not None:
                self.rest = ResumePoint(self._span[0], self._next)
            self._next += 1
        elif self._answer_span is not None:
            end = None if self._span is None else self._span[1]
            self._answer_span = None if end is None else (self._answer_span[0], end)
        content = message.content
        if isinstance(content, str):
            self._text.add(content)
            return
        for block in content or ():
            self._answer(block)

    def _answer(self, block: Block | str) -> None:
        if isinstance(block, str) or block.type == "text":
            self._text.add(block if isinstance(block, str) else block.text)
            return
        self._text.part()
        if block.type == "thinking":
            if block.thinking:
                self._thinking.append(block.thinking)
        elif isinstance(block, FullBlock) and block.type.endswith("tool_use"):
            self._tool_texts.append(block.name or "")
            self._tool_texts.extend(strings_in(block.input))

    def _user(self, line: _Line) -> None:
        if line.message is None:
            raise UnexpectedLineError
        parts = split_user(line, line.message.content)
        begins = self._next
        if parts.is_prompt:
            self.flush()
        for number, result in enumerate(parts.results):
            self._add_result(result, RESULT + number)
        if parts.injected or (parts.has_images and parts.synthetic):
            self._add("\n".join(parts.injected), INJECTED)
        if parts.is_prompt:
            self._add("\n".join(parts.typed), TYPED)
        self._wait(self._next - begins)

    def _add(self, spoken: str, kind: int) -> None:
        if spoken:
            # Only the first message of all can be a warm-up.
            is_plain = self._next > 0 or spoken.strip() != WARM_UP
            spot = _spot(self._span, kind) if is_plain else None
            self._keep(TextDoc(self._next, (spoken,), "", spot))
        self._next += 1

    def _add_result(self, block: Block, kind: int) -> None:
        if isinstance(block, FullBlock):
            shown = result_text(block.content)
            text = "\n".join([shown, *output_strings(block.content, shown)])
            if text:
                self._keep(TextDoc(self._next, (), text, _spot(self._span, kind)))
        self._next += 1

    def _keep(self, doc: TextDoc) -> None:
        (self.docs if self._open is None else self._queued).append(doc)

    def _wait(self, messages: int) -> None:
        if self._open is not None:
            self._waiting += messages
            if self._waiting > WAITING_LIMIT:
                self.flush()


def _spot(span: Span | None, kind: int) -> MessageLocation | None:
    if span is None or kind > _LAST_KIND:
        return None
    return MessageLocation(span[0], span[1] - span[0], kind)


def split_user(line: Flags, content: _Content) -> UserParts:
    """Classify the blocks of a user line."""
    parts = UserParts(_is_flagged(line))
    human = line.origin is not None and line.origin.kind == "human"
    blocks = (content,) if isinstance(content, str) else content or ()
    for block in blocks:
        kind, text = ("text", block) if isinstance(block, str) else (block.type, block.text)
        if kind == "tool_result" and not isinstance(block, str):
            parts.results.append(block)
        elif kind == "image":
            parts.has_images = True
        elif text and text.strip():
            injected = parts.synthetic or is_injected(text, human=human)
            (parts.injected if injected else parts.typed).append(text)
    return parts


def _is_flagged(line: Flags) -> bool:
    origin = None if line.origin is None else line.origin.kind
    return (
        line.is_meta is True
        or line.is_compact_summary is True
        or line.is_visible_in_transcript_only is True
        or line.prompt_source == "system"
        or (origin is not None and origin != "human")
    )


class _MessageWithTools(msgspec.Struct, gc=False):
    id: str | None = None
    model: Any = None
    content: str | list[FullBlock | str] | None = None


class _MessageWithoutTools(msgspec.Struct, gc=False):
    """A message without tool input."""

    id: str | None = None
    model: Any = None
    content: str | list[Block | str] | None = None


class _LineWithTools(Flags, rename="camel", gc=False):
    message: _MessageWithTools | None = None
    timestamp: Any = None
    is_api_error_message: Any = None


class _LineWithoutTools(Flags, rename="camel", gc=False):
    message: _MessageWithoutTools | None = None
    timestamp: Any = None
    is_api_error_message: Any = None


_AnyLine = _LineWithTools | _LineWithoutTools
_LINES_WITH_TOOLS: Final = msgspec.json.Decoder(_LineWithTools)
_LINES_WITHOUT_TOOLS: Final = msgspec.json.Decoder(_LineWithoutTools)


def read_message_at(data: bytes, kind: int, *, tools: bool) -> SessionMessage | None:
    """Return the message at a location; None if the bytes hold no such message."""
    try:
        if kind == ANSWER:
            return _answer(
                _LINES_WITH_TOOLS.decode_lines(data)
                if tools
                else _LINES_WITHOUT_TOOLS.decode_lines(data)
            )
        return _other(
            _LINES_WITH_TOOLS.decode(data) if kind >= RESULT else _LINES_WITHOUT_TOOLS.decode(data),
            kind,
        )
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _other(line: _AnyLine, kind: int) -> SessionMessage | None:
    at = _moment(line)
    if kind == SYSTEM:
        return SessionMessage(
            role="system", content=line.content or "", timestamp=at, synthetic=True
        )
    if line.message is None:
        return None
    parts = split_user(line, line.message.content)
    if kind < RESULT:
        is_typed = kind != INJECTED
        texts = parts.typed if is_typed else parts.injected
        return SessionMessage(
            role="user", content="\n".join(texts), timestamp=at, synthetic=not is_typed
        )
    block = parts.results[kind - RESULT] if kind - RESULT < len(parts.results) else None
    return _result(block, at) if isinstance(block, FullBlock) else None


def _result(block: FullBlock, at: datetime | None) -> SessionMessage:
    return SessionMessage(
        role="tool",
        content=result_text(block.content),
        timestamp=at,
        tool_result=ToolResult(tool_call_id="", tool_name="", output=block.content),
    )


def _answer(lines: Sequence[_AnyLine]) -> SessionMessage | None:
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
        if isinstance(block, str) or block.type == "text":
            text.add(block if isinstance(block, str) else block.text)
            continue
        text.part()
        if block.type == "thinking":
            thinking.append(block.thinking or "")
        elif isinstance(block, FullBlock) and block.type.endswith("tool_use"):
            name, given = block.name or "", block.input
            calls.append(SessionToolCall(tool_call_id="", tool_name=name, input=given))
    return SessionMessage(
        role="assistant",
        content=str(text),
        timestamp=_moment(first),
        thinking="\n\n".join(filter(None, thinking)) or None,
        tool_calls=tuple(calls),
        synthetic=message.model == SYNTHETIC_MODEL or first.is_api_error_message is True,
    )


def _key(line: _AnyLine) -> str | None:
    """Return the key shared by the lines of one answer; None for other lines."""
    if line.type != "assistant" or line.message is None:
        return None
    return line.message.id or line.request_id or line.uuid


def _blocks(line: _AnyLine) -> Sequence[Block | str]:
    content = None if line.message is None else line.message.content
    return (content,) if isinstance(content, str) else content or ()


def _moment(line: _AnyLine) -> datetime | None:
    value = line.timestamp
    return parse_time(value) if isinstance(value, (str, int, float)) else None
