"""Ways through a session that the formats for people share.

Tool output is shown once. It is recorded twice: in the call, and usually in a message of its own
further down. Readers want it where it happened, so a call shows its output only if no such message
follows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from amux.model.message import SessionMessage
from amux.model.problems import Problem
from amux.model.session import Session
from amux.render.plain import value_text

LOOK_AHEAD: Final = 64
"""How many messages are held back at most while the answer to a call is awaited."""


def with_unanswered(
    messages: Iterable[SessionMessage],
) -> Iterator[tuple[SessionMessage, frozenset[str]]]:
    """Each message with the ids of those of its calls whose output no later message repeats."""
    held: deque[tuple[SessionMessage, set[str]]] = deque()
    for message in messages:
        if message.tool_result is not None:
            for _, waiting in held:
                waiting.discard(message.tool_result.tool_call_id)
        held.append((message, _calls_with_output(message)))
        while held and (not held[0][1] or len(held) > LOOK_AHEAD):
            yield _released(held)
    while held:
        yield _released(held)


def _calls_with_output(message: SessionMessage) -> set[str]:
    return {call.tool_call_id for call in message.tool_calls if call.output is not None}


def _released(
    held: deque[tuple[SessionMessage, set[str]]],
) -> tuple[SessionMessage, frozenset[str]]:
    message, unanswered = held.popleft()
    return message, frozenset(unanswered)


def result_text(message: SessionMessage) -> str:
    """What a tool message says: its text, or the output itself when it has none."""
    if message.content.strip() or message.tool_result is None:
        return message.content
    return value_text(message.tool_result.output)


def all_problems(session: Session) -> Iterator[Problem]:
    """The problems of a session and of its sub-agents."""
    yield from session.problems
    for child in session.children:
        yield from all_problems(child)
