"""The texts of a transcript, and nothing else, several times faster than reading its messages.

Only for files that hold no surprise: what is decoded here is decoded strictly, and where a line is
not exactly as expected the scan gives up (None) and the file is read the slow way. What it does
give is equal to the slow way: the same messages in the same order with the same texts.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from amux.adapters._claude.prompts import is_injected
from amux.adapters._claude.records import object_of
from amux.adapters._kit.long_lines import LONG_LINE
from amux.adapters._kit.streams import open_stream
from amux.model.texts import TextDoc, output_strings, strings_in

WAITING_LIMIT: Final = 256
"""As in the slow way: messages that may wait behind an open answer."""

_CHUNK: Final = 2 << 20
_LARGEST: Final = 32 << 20  # the texts of a file are held at once


class _Block(msgspec.Struct, gc=False):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    name: str | None = None


class _FullBlock(_Block, gc=False):
    input: Any = None
    content: Any = None


class _Origin(msgspec.Struct, gc=False):
    kind: str | None = None


class _Flags(msgspec.Struct, rename="camel", gc=False):
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


class _Spoken(msgspec.Struct, gc=False):
    id: str | None = None
    content: str | list[_Block | str] | None = None


class _SpokenLine(_Flags, rename="camel", gc=False):
    message: _Spoken | None = None


class _Full(msgspec.Struct, gc=False):
    id: str | None = None
    content: str | list[_FullBlock | str] | None = None


class _FullLine(_Flags, rename="camel", gc=False):
    message: _Full | None = None


_Content = str | list[_Block | str] | list[_FullBlock | str] | None
_Line = _SpokenLine | _FullLine
_SPOKEN_LINES: Final = msgspec.json.Decoder(_SpokenLine)
_FULL_LINES: Final = msgspec.json.Decoder(_FullLine)


class _UserParts(msgspec.Struct, gc=False):
    """The blocks of a user line by what they are."""

    synthetic: bool
    results: list[_Block] = []
    injected: list[str] = []
    typed: list[str] = []
    has_images: bool = False

    @property
    def is_prompt(self) -> bool:
        return bool(self.typed) or (self.has_images and not self.synthetic)


class SurpriseError(Exception):
    """The file holds something that only the slow way knows."""


def scan_texts(path: Path, *, is_agent: bool, tools: bool) -> list[TextDoc] | None:
    """The documents of the one session in a file; None where that is not so simple."""
    scan = _Scan(tools=tools)
    try:
        for line in _lines(path, tools=tools):
            if line.is_sidechain and not is_agent:
                return None
            scan.take(line)
    except (SurpriseError, OSError, msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    scan.flush()
    return scan.docs


def _lines(path: Path, *, tools: bool) -> Iterator[_Line]:
    decode = _FULL_LINES.decode_lines if tools else _SPOKEN_LINES.decode_lines
    rest = b""
    with open_stream(path) as stream:
        if path.stat().st_size > _LARGEST:
            raise SurpriseError
        while chunk := stream.read(_CHUNK):
            data = rest + chunk if rest else chunk
            end = data.rfind(b"\n") + 1
            if data.find(b"\n") > LONG_LINE or len(data) - end > LONG_LINE:
                raise SurpriseError
            if end:
                yield from decode(data[:end])
            rest = data[end:]
    if rest:
        yield from decode(rest)


class _Scan:
    """Counts the messages of a conversation and keeps their texts."""

    def __init__(self, *, tools: bool) -> None:
        self.docs: list[TextDoc] = []
        self._tools = tools
        self._next = 0
        self._open: str | None = None
        self._ordinal = 0
        self._waiting = 0
        self._said: list[str] = []
        self._thought: list[str] = []
        self._done: list[str] = []
        self._behind: list[TextDoc] = []

    def take(self, line: _Line) -> None:
        """Enter one line."""
        kind = line.type
        if kind == "assistant":
            self._assistant(line)
        elif kind == "user":
            self._user(line)
        elif kind == "system" and line.content:
            self._add(line.content)
            self._wait(1)

    def flush(self) -> None:
        """The open answer is complete; what waited behind it follows."""
        if self._open is None:
            return
        self._open, self._waiting = None, 0
        said = "".join(self._said)
        spoken = (said,) if said else ()
        if thought := "\n\n".join(self._thought):
            spoken = (*spoken, thought)
        if spoken or self._done:
            self.docs.append(TextDoc(self._ordinal, spoken, "\n".join(self._done)))
        self.docs += self._behind
        self._said, self._thought, self._done, self._behind = [], [], [], []

    def _assistant(self, line: _Line) -> None:
        message = line.message
        if message is None:
            raise SurpriseError
        key = message.id or line.request_id or line.uuid or f"line-{id(line)}"
        if key != self._open:
            self.flush()
            self._open, self._ordinal = key, self._next
            self._next += 1
        content = message.content
        if isinstance(content, str):
            self._said.append(content)
            return
        for block in content or ():
            self._answer(block)

    def _answer(self, block: _Block | str) -> None:
        if isinstance(block, str):
            self._said.append(block)
        elif block.type == "text":
            if block.text is not None:
                self._said.append(block.text)
        elif block.type == "thinking":
            if block.thinking:
                self._thought.append(block.thinking)
        elif isinstance(block, _FullBlock) and block.type.endswith("tool_use"):
            self._done.append(block.name or "")
            self._done.extend(strings_in(block.input))

    def _user(self, line: _Line) -> None:
        if line.message is None:
            raise SurpriseError
        parts = _split_user(line, line.message.content)
        begins = self._next
        if parts.is_prompt:
            self.flush()
        for result in parts.results:
            self._add_result(result)
        if parts.injected or (parts.has_images and parts.synthetic):
            self._add("\n".join(parts.injected))
        if parts.is_prompt:
            self._add("\n".join(parts.typed))
        self._wait(self._next - begins)

    def _add(self, spoken: str) -> None:
        if spoken:
            self._keep(TextDoc(self._next, (spoken,), ""))
        self._next += 1

    def _add_result(self, block: _Block) -> None:
        if isinstance(block, _FullBlock):
            shown = _result_text(block.content)
            text = "\n".join([shown, *output_strings(block.content, shown)])
            if text:
                self._keep(TextDoc(self._next, (), text))
        self._next += 1

    def _keep(self, doc: TextDoc) -> None:
        (self.docs if self._open is None else self._behind).append(doc)

    def _wait(self, messages: int) -> None:
        if self._open is not None:
            self._waiting += messages
            if self._waiting > WAITING_LIMIT:
                self.flush()


def _split_user(line: _Line, content: _Content) -> _UserParts:
    parts = _UserParts(_is_flagged(line))
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


def _is_flagged(line: _Line) -> bool:
    origin = None if line.origin is None else line.origin.kind
    return (
        line.is_meta is True
        or line.is_compact_summary is True
        or line.is_visible_in_transcript_only is True
        or line.prompt_source == "system"
        or (origin is not None and origin != "human")
    )


def _result_text(content: Any) -> str:
    """The readable part of a tool result."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    found = [object_of(block).get("text") for block in cast("list[object]", content)]
    return "\n".join(text for text in found if isinstance(text, str) and text)
