"""Classifies user lines: tool results, typed text, or text inserted by Claude Code.

Claude Code writes command echoes, caveats, reminders and notices as user lines. Newer versions flag
them; copies made by older versions lose the flags, so the wording is checked as well (`injected`).

Slash commands are of two sorts. The program carries out `/login` or `/model` itself: their echo
begins with the name and is no prompt. Other commands stand for a text that is sent to the model.
Their echo begins with the message that is shown meanwhile, and is the prompt that a person typed:
the command with its arguments. The text that it stands for follows in a line that is flagged.
`/plan` is of the first sort, but what a person types behind it is sent to the model.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Generic, TypeVar

import msgspec

from amux.adapters._kit.injected import InjectedTexts
from amux.adapters._kit.values import starts_with_any
from amux.adapters.claude.injected import (
    COMMAND_MESSAGE,
    COMMAND_NAME,
    COMPACT_SUMMARY,
    INJECTED_TEXTS,
)
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

_NAME: Final = re.compile(r"<command-name>([^<]{1,200})</command-name>")
_ARGS: Final = re.compile(r"<command-args>(.*?)</command-args>", re.DOTALL)
_PLAN: Final = f"{COMMAND_NAME}/plan</"
_SENT: Final = (COMMAND_MESSAGE, _PLAN)
"""Openings of the echoes of commands that are sent to the model."""

_NOT_SENT: Final = frozenset({None, "/plan", "/plan open"})
_SKILL: Final = "<skill-format>"
_ECHO_LENGTH: Final = 4096  # the name of a command stands within it

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
    command: bool = False  # `typed` is the slash command that the line echoes

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
    line: Line | AnyTextLine,
    blocks: list[B],
    *,
    synthetic: bool = False,
    after_result: bool = False,
) -> UserParts[B]:
    """Classify the blocks of a user line; an IDE may put its own block before the typed one.

    `after_result` says that the message before the line is a tool result.
    """
    if len(blocks) == 1 and blocks[0].type == "tool_result":  # most user lines
        return UserParts(blocks)
    author = line.origin.kind if isinstance(line.origin, LineOrigin) else None
    synthetic = (
        synthetic
        or line.is_meta is True
        or line.is_compact_summary is True
        or line.is_visible_in_transcript_only is True
        or line.prompt_source == "system"
        or (isinstance(author, str) and author != "human")
    )
    parts: UserParts[B] = UserParts([], synthetic=synthetic)
    for block in blocks:
        if block.type == "tool_result":
            parts.results.append(block)
        elif block.type == "image":
            parts.images.append(block)
        elif isinstance(block.text, str) and (text := block.text.lstrip()):
            if not synthetic and not is_injected(text):
                parts.typed.append(block)
                continue
            parts.injected.append(block)
            parts.command = parts.command or text.startswith(_SENT)
    if parts.command:
        _read_command(parts, after_result=after_result or synthetic)
    return parts


is_injected: Final = InjectedTexts(INJECTED_TEXTS).begins
"""Returns whether Claude Code, an IDE or a hook wrote a text."""


def _read_command(parts: UserParts[B], *, after_result: bool) -> None:
    """Replace the echo of a command that a person typed by the command itself.

    The model runs commands and skills too. Such an echo follows the result of the tool (2.0.14;
    2.0.77 writes none), says that it is a skill, or has the text of the skill beside it.
    """
    index, text = next(
        (index, text)
        for index, block in enumerate(parts.injected)
        if (text := text_of(block.text) or "").lstrip().startswith(_SENT)
    )
    command = command_line(text)
    is_skill = bool(parts.typed) or _SKILL in text[:_ECHO_LENGTH]
    if command in _NOT_SENT or after_result or is_skill:
        parts.command = False
        parts.injected += parts.typed
        parts.typed = []
    else:
        block = parts.injected.pop(index)
        parts.typed = [msgspec.structs.replace(block, text=command)]


def command_line(text: str) -> str | None:
    """Return the slash command of an echo with its arguments; None if it names none."""
    found = _NAME.search(text, 0, _ECHO_LENGTH)
    name = "" if found is None else found[1].strip()
    if found is None or not name:
        return None
    arguments = _ARGS.search(text, found.end())
    command = name if name.startswith("/") else f"/{name}"  # to 1.0.3 it has no slash
    return f"{command} {arguments[1].strip() if arguments else ''}".rstrip()


def is_compact_summary(line: Line, parts: UserParts[B]) -> bool:
    """Return whether a user line replaces earlier history with a summary."""
    if line.is_compact_summary is True:
        return True
    first = parts.injected[0].text if parts.injected else None
    return isinstance(first, str) and starts_with_any(first, (COMPACT_SUMMARY,))


def summary_title(line: Line) -> str | None:
    """Return the title in a summary line; None if it is an error text."""
    summary = text_of(line.summary)
    return None if summary is None or starts_with_any(summary, _NO_TITLES) else summary
