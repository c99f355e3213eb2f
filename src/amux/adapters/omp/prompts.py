"""Separates the text of a person from what omp, or an imported session, puts around it."""

from __future__ import annotations

import re
from typing import Final

from amux.adapters._kit.injected import InjectedTexts
from amux.adapters._kit.values import mapping, text
from amux.adapters.omp.injected import IMPORTED_TEXTS
from amux.adapters.pi.imports import is_imported
from amux.adapters.pi.prompts import Said, UserText, UserTexts, command_line

_IMPORTED: Final = InjectedTexts(IMPORTED_TEXTS)
_SKILL_PROMPT: Final = "skill-prompt"
_TO_MODEL: Final = "<command-message>"
_COMMAND: Final = re.compile(r"<command-name>/?([^<\n]{1,200})</command-name>")
_ARGUMENTS: Final = re.compile(r"<command-args>([^<]{0,2000})</command-args>")


class OmpTexts(UserTexts):
    """The rules of omp: those of Pi, skills in entries of their own, and imported texts."""

    def split(self, said: Said) -> UserText:
        """Return the injected and the typed part of a message."""
        if said.custom_type is not None:
            return UserText(said.text, _invoked_skill(said))
        if is_imported(said.entry_id) and _IMPORTED.begins(said.text):
            return UserText(said.text, _imported_command(said.text))
        return super().split(said)


def _invoked_skill(said: Said) -> str:
    """Return the command that invoked a skill; "" for any other text of an extension."""
    details = mapping(said.details)
    name = text(details.get("name")) if said.custom_type == _SKILL_PROMPT else None
    if name is None:
        return ""
    arguments = text(details.get("args")) or ""
    return text(details.get("prompt")) or command_line(f"skill:{name}", arguments)


def _imported_command(said: str) -> str:
    """Return a command of Claude Code that went to the model; "" for any other text.

    The echo of a command that the program carried out itself begins with the name.
    """
    name = _COMMAND.search(said) if said.lstrip().startswith(_TO_MODEL) else None
    if name is None:
        return ""
    arguments = _ARGUMENTS.search(said)
    return command_line(name[1], "" if arguments is None else arguments[1])
