"""Separates the text of a person from what the agent writes with the role of the person.

Pi and its descendants put texts around a prompt, or replace a command by a longer text. The two
parts become two messages: the injected text, and the prompt as it was typed.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

_SKILL: Final = re.compile(r'\s*<skill name="([^"\n]+)" location="')
_SKILL_END: Final = "\n</skill>"


class Said(NamedTuple):
    """A text with the role of the person, and the fields of its entry that name the author."""

    text: str
    entry_id: str | None = None
    custom_type: str | None = None  # of a `custom_message`, which an extension writes
    details: Any = None


class UserText(NamedTuple):
    """The two parts of a text; either may be empty."""

    injected: str
    typed: str


class UserTexts:
    """The rules of Pi; its descendants have further ones."""

    def split(self, said: Said) -> UserText:
        """Return the injected and the typed part of a message."""
        if said.custom_type is not None:
            return UserText(said.text, "")
        found = _SKILL.match(said.text)
        end = -1 if found is None else said.text.find(_SKILL_END, found.end())
        if found is None or end < 0:
            return UserText("", said.text)
        end += len(_SKILL_END)
        return UserText(said.text[:end], command_line(f"skill:{found[1]}", said.text[end:]))


def command_line(name: str, arguments: str) -> str:
    """Return a slash command as it was typed."""
    return f"/{name} {arguments.strip()}".strip()
