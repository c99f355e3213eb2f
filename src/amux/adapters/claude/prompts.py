"""Classifies user lines: tool results, typed text, or text inserted by Claude Code.

Claude Code writes command echoes, caveats, reminders and notices as user lines. Newer versions flag
them; copies made by older versions lose the flags, so the wording is checked as well.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Generic, TypeVar

import msgspec

from amux.adapters._kit.values import opens_with_tag, starts_with_any
from amux.adapters.claude.records import (
    AnyTextLine,
    Block,
    Line,
    LineOrigin,
    TextBlock,
    text_of,
)
from amux.model.trace import LineKind

B = TypeVar("B", bound=Block | TextBlock)

_TOOL: Final = LineKind.TOOL
INTERRUPTED: Final = "[Request interrupted by user]"
WARM_UP: Final = "Warmup"
COMPACT_SUMMARY: Final = "This session is being continued from a previous conversation"

_NOTICES: Final = (
    "[Request interrupted by user",
    "Caveat: The messages below",
    COMPACT_SUMMARY,
)
_OWN_TAGS: Final = (
    "<command-name>",
    "<command-message>",
    "<command-args>",
    "<local-command-",
    "<bash-input>",
    "<bash-stdout>",
    "<bash-stderr>",
    "<system-reminder>",
    "<task-notification>",
    "<user-memory-input>",
    "<session-start-hook>",
    "<ide_opened_file>",
    "<ide_selection>",
    "<tick>",
    "<goal>",
)
_COMMAND_NAME: Final = re.compile(r"<command-name>([^<]{1,200})</command-name>")
_COMMAND_ARGS: Final = re.compile(r"<command-args>([^<]{0,2000})</command-args>")

_NO_TITLES: Final = (
    "Invalid API key",
    "API Error",
    "Credit balance is too low",
    "Prompt is too long",
    "Request timed out",
    "Claude AI usage limit reached",
    "Please run /login",
    "OAuth token",
)


class UserParts(msgspec.Struct, Generic[B], gc=False):
    """The blocks of one user line by kind. Every kind except images begins messages."""

    results: list[B]
    injected: list[B] = []
    typed: list[B] = []
    images: list[B] = []
    synthetic: bool = False

    @property
    def is_prompt(self) -> bool:
        """Whether a person typed or pasted something."""
        return bool(self.typed) or (bool(self.images) and not self.synthetic)

    def kinds(self) -> list[LineKind]:
        """Return one kind per message that the line begins, in order."""
        kinds = [_TOOL] * len(self.results)
        if self.injected or (self.images and self.synthetic):
            kinds.append(LineKind.INJECTED)
        if self.is_prompt:
            kinds.append(LineKind.PROMPT)
        return kinds


def joined_text(blocks: Sequence[Block | TextBlock]) -> str:
    """Return the texts of blocks, one below the other."""
    return "\n".join(block.text for block in blocks if isinstance(block.text, str))


def split_user(
    line: Line | AnyTextLine, blocks: list[B], *, synthetic: bool = False
) -> UserParts[B]:
    """Classify the blocks of a user line; an IDE may put its own block before the typed one."""
    if len(blocks) == 1 and blocks[0].type == "tool_result":  # most user lines
        return UserParts(blocks)
    author = line.origin.kind if isinstance(line.origin, LineOrigin) else None
    human = author == "human"
    synthetic = (
        synthetic
        or line.is_meta is True
        or line.is_compact_summary is True
        or line.is_visible_in_transcript_only is True
        or line.prompt_source == "system"
        or (isinstance(author, str) and not human)
    )
    parts: UserParts[B] = UserParts([], synthetic=synthetic)
    for block in blocks:
        if block.type == "tool_result":
            parts.results.append(block)
        elif block.type == "image":
            parts.images.append(block)
        elif isinstance(block.text, str) and block.text.strip():
            injected = synthetic or is_injected(block.text, human=human)
            (parts.injected if injected else parts.typed).append(block)
    return parts


def is_injected(text: str, *, human: bool = False) -> bool:
    """Return whether Claude Code wrote a text; `human`: the line names a person as its author."""
    if starts_with_any(text, _NOTICES) or starts_with_any(text, _OWN_TAGS):
        return True
    return not human and opens_with_tag(text)


def is_compact_summary(line: Line, parts: UserParts[B]) -> bool:
    """Return whether a user line replaces earlier history with a summary."""
    if line.is_compact_summary is True:
        return True
    first = parts.injected[0].text if parts.injected else None
    return isinstance(first, str) and starts_with_any(first, (COMPACT_SUMMARY,))


def command_title(text: str) -> str | None:
    """Return the slash command of a command echo with its arguments."""
    name = _COMMAND_NAME.search(text)
    if name is None:
        return None
    arguments = _COMMAND_ARGS.search(text)
    return f"{name[1]} {arguments[1] if arguments else ''}".strip()


def summary_title(line: Line) -> str | None:
    """Return the title in a summary line; None if it is an error text."""
    summary = text_of(line.summary)
    return None if summary is None or starts_with_any(summary, _NO_TITLES) else summary
