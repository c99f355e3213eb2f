"""What a message says, in pieces: its words, thinking, tool input and tool output."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from amux.model.message import SessionMessage
from amux.model.texts import strings_in


class Passage(NamedTuple):
    """A piece of a message."""

    text: str
    is_thinking: bool = False
    is_said: bool = True  # by people and models; else it went into a tool or came out of one


def passages(message: SessionMessage, *, said_only: bool = False) -> Iterator[Passage]:
    """Everything a message says, in pieces; or only what was said and thought."""
    found = _passages(message)
    return (each for each in found if each.is_said) if said_only else found


def said_in(message: SessionMessage) -> list[str]:
    """The texts of what was said and thought, without tool text."""
    said = [message.content] if message.content and message.role != "tool" else []
    if message.thinking:
        said.append(message.thinking)
    return said


def _passages(message: SessionMessage) -> Iterator[Passage]:
    if message.content:
        yield Passage(message.content, is_said=message.role != "tool")
    if message.thinking:
        yield Passage(message.thinking, is_thinking=True)
    for call in message.tool_calls:
        yield Passage(call.tool_name, is_said=False)
        for text in strings_in(call.input):
            yield Passage(text, is_said=False)
    if message.tool_result is not None and message.tool_result.output != message.content:
        for text in strings_in(message.tool_result.output):
            yield Passage(text, is_said=False)
