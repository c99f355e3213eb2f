"""What a message says, in pieces: its words, thinking, tool input and tool output.

A piece has a weight, by which a hit in it counts: prompts most, answers next, then thinking; tool
traffic and text that nobody typed or wrote least.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from amux.model.message import SessionMessage
from amux.model.texts import strings_in

TITLE_WEIGHT: Final = 5.0
TITLE_HITS: Final = 5.0
"""As how many messages a title counts."""

MACHINE_WEIGHT: Final = 0.5
"""Of tool traffic and injected text."""

_THINKING_WEIGHT: Final = 1.0
_WEIGHTS: Final = {"user": 3.0, "assistant": 2.0}


class Passage(NamedTuple):
    """A piece of a message."""

    text: str
    weight: float
    is_thinking: bool = False
    is_said: bool = True  # by people and models; else it went into a tool or came out of one


def passages(message: SessionMessage, *, said_only: bool = False) -> Iterator[Passage]:
    """Everything a message says, in pieces; or only what was said and thought."""
    found = _passages(message)
    return (each for each in found if each.is_said) if said_only else found


def _passages(message: SessionMessage) -> Iterator[Passage]:
    if message.content:
        yield Passage(message.content, _weight(message), is_said=message.role != "tool")
    if message.thinking:
        yield Passage(message.thinking, _THINKING_WEIGHT, is_thinking=True)
    for call in message.tool_calls:
        yield Passage(call.tool_name, MACHINE_WEIGHT, is_said=False)
        for text in strings_in(call.input):
            yield Passage(text, MACHINE_WEIGHT, is_said=False)
    if message.tool_result is not None and message.tool_result.output != message.content:
        for text in strings_in(message.tool_result.output):
            yield Passage(text, MACHINE_WEIGHT, is_said=False)


def _weight(message: SessionMessage) -> float:
    return MACHINE_WEIGHT if message.synthetic else _WEIGHTS.get(message.role, MACHINE_WEIGHT)
