"""Recognises slash commands, and chooses the prompt that is the title of a session.

A command that the program itself carries out says less about a session than one that the model
answered, and both say less than any other prompt. Commands such as `/login` say nothing.
"""

from __future__ import annotations

import re
from typing import Final

from amux.model.titles import fold_title

_COMMAND: Final = re.compile(r"\s*/[A-Za-z][\w:.-]*(?=\s|\Z)")

_OF_THE_INTERFACE: Final = frozenset(
    {"/about", "/auth", "/clear", "/exit", "/help", "/login", "/logout", "/new", "/quit", "/reset"}
)
"""Commands that say nothing about a session."""


def can_name_session(command: str) -> bool:
    """Return whether a slash command may be the title of a session."""
    return _OF_THE_INTERFACE.isdisjoint(command.lower().split(maxsplit=1)[:1])


def is_command(text: str) -> bool:
    """Return whether a text begins with a slash command; a path is none."""
    return _COMMAND.match(text) is not None


class TitlePrompt:
    """Chooses the first prompt that is no slash command.

    Without one it is the first command that led to a call of the model, else the first command. A
    command of the interface is never chosen.
    """

    def __init__(self) -> None:
        self._prompt: str | None = None
        self._answered: str | None = None
        self._command: str | None = None
        self._last: str | None = None  # a command that has led to no call yet

    @property
    def text(self) -> str:
        """The chosen prompt, folded as a title; "" if there is none."""
        return self._prompt or self._answered or self._command or ""

    def prompt(self, text: str) -> None:
        """Add a prompt in the order of the conversation."""
        folded = "" if self._prompt else fold_title(text)
        if folded and is_command(folded):
            self._last = folded if can_name_session(folded) else None
            self._command = self._command or self._last
        elif folded:
            self._prompt = folded

    def answer(self) -> None:
        """Record that the model was asked, or that it answered."""
        self._answered, self._last = self._answered or self._last, None
