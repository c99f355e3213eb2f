"""Which texts nobody typed: context, continuations and tasks that the agent writes itself.

Gemini CLI puts its own texts into the person's mouth, mostly as parts or messages of their own, so
each part is judged by itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from amux.adapters._kit.texts import starts_with_any

INJECTED: Final = (
    "<session_context>",
    "<hook_context>",
    "<loaded_context>",
    "<project_context>",
    "<state_snapshot>",
    "<task-notification>",
    "<system-reminder>",
    "This is the Gemini CLI. We are setting up the context for our chat",
    "This is the Qwen Code. We are setting up the context for our chat",
    "System: Please continue.",
    "[System: You previously generated thoughts",
    "You have stopped calling tools without finishing.",
    "You have exceeded the time limit.",
    "You have reached the maximum number of turns.",
)
"""How texts begin that the agent writes in the person's name."""

ACKNOWLEDGED: Final = frozenset(
    {
        "Got it. Thanks for the context!",
        "Got it. Thanks for the additional context!",
    }
)
"""Answers that no model wrote: they close a context the agent made up."""

AFTER_SNAPSHOT: Final = "Got it. Thanks for the additional context!"
"""The made-up answer that follows the summary of a compression."""

_REFERENCED: Final = "--- Content from referenced files ---"
_TASK: Final = re.compile(
    r"\s*Your task is(?::| to )(?s:.{0,2000}?)<(objective|question|task)>\n(?s:.*)\n</\1>"
)


class Speech(msgspec.Struct, frozen=True):
    """The texts of one message, told apart by who wrote them."""

    typed: tuple[str, ...] = ()
    injected: tuple[str, ...] = ()


def is_injected(text: str) -> bool:
    """Whether the agent wrote a text in the person's name."""
    return starts_with_any(text, INJECTED)


def tell_apart(texts: Sequence[str], *, delegated: bool) -> Speech:
    """Split the texts of a user message; `delegated`: what a sub-agent is asked is its prompt."""
    typed: list[str] = []
    injected: list[str] = []
    for index, text in enumerate(texts):
        if typed and starts_with_any(text, (_REFERENCED,)):
            injected.extend(texts[index:])  # the files a prompt refers to, part by part
            break
        own = is_injected(text) or (not delegated and _TASK.match(text) is not None)
        (injected if own else typed).append(text)
    if not any(text.strip() for text in typed):
        typed = []
    return Speech(tuple(typed), tuple(injected))


def is_command(text: str) -> bool:
    """Whether a prompt begins like a command, which makes a poor title."""
    return text.lstrip().startswith(("/", "?"))
