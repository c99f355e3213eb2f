"""One message of a transcript, from the lines it lies in and from nothing else.

`scan_texts` has said where; what is made of the lines is what the reader of whole files makes of
them, as far as it can be searched in.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from amux.adapters._kit.times import parse_time
from amux.adapters.claude.answer_text import AnswerText
from amux.adapters.claude.records import SYNTHETIC_MODEL
from amux.adapters.claude.scan_texts import (
    ANSWER,
    INJECTED,
    RESULT,
    SYSTEM,
    Block,
    Flags,
    FullBlock,
    result_text,
    split_user,
)
from amux.model.message import SessionMessage, SessionToolCall, ToolResult


class _Said(msgspec.Struct, gc=False):
    id: str | None = None
    model: Any = None
    content: str | list[FullBlock | str] | None = None


class _SaidAlone(msgspec.Struct, gc=False):
    """The same without what tools were given."""

    id: str | None = None
    model: Any = None
    content: str | list[Block | str] | None = None


class _Line(Flags, rename="camel", gc=False):
    message: _Said | None = None
    timestamp: Any = None
    is_api_error_message: Any = None


class _LineAlone(Flags, rename="camel", gc=False):
    message: _SaidAlone | None = None
    timestamp: Any = None
    is_api_error_message: Any = None


_AnyLine = _Line | _LineAlone
_LINES: Final = msgspec.json.Decoder(_Line)
_LINES_ALONE: Final = msgspec.json.Decoder(_LineAlone)


def cut_text(data: bytes, kind: int, *, tools: bool) -> SessionMessage | None:
    """The message of a spot; None where these bytes hold no such message."""
    try:
        if kind == ANSWER:
            return _answer(_LINES.decode_lines(data) if tools else _LINES_ALONE.decode_lines(data))
        return _other(_LINES.decode(data) if kind >= RESULT else _LINES_ALONE.decode(data), kind)
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
    """The lines of an answer; those of others may stand between them."""
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
    """What the lines of one answer share; None: it is no line of an answer."""
    if line.type != "assistant" or line.message is None:
        return None
    return line.message.id or line.request_id or line.uuid


def _blocks(line: _AnyLine) -> Sequence[Block | str]:
    content = None if line.message is None else line.message.content
    return (content,) if isinstance(content, str) else content or ()


def _moment(line: _AnyLine) -> datetime | None:
    value = line.timestamp
    return parse_time(value) if isinstance(value, (str, int, float)) else None
