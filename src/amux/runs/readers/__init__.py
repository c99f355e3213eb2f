"""Reads the output of the agents: one table of record types per format.

A reader turns one record of the agent's own output into events. `FORMATS` names the reader of every
format that a launcher can ask for (`amux.launchers.Flags.format`). A table maps the type of a
record to a function; a record that no function understands becomes an `unknown` event.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Final

from amux.errors import ValidationError

if TYPE_CHECKING:
    from amux.runs.readers.base import EventReader

FORMATS: Final = {
    "claude": "claude:ClaudeReader",
    "codex": "codex:CodexReader",
    "copilot": "copilot:CopilotReader",
    "cursor": "cursor:CursorReader",
    "droid": "droid:DroidReader",
    "gemini": "gemini:GeminiReader",
    "gemini-document": "gemini:GeminiDocumentReader",
    "hermes": "plain:HermesReader",
    "openclaw": "openclaw:OpenClawReader",
    "opencode": "opencode:OpenCodeReader",
    "pi": "pi:PiReader",
    "qwen": "claude:QwenReader",
    "text": "plain:TextReader",
}
"""The module and the class that reads a format; imported on first use."""


def make_reader(format: str, *, action: str = "new", version: str | None = None) -> EventReader:
    """Return a reader for the output of one run; `action` is new, resume or fork.

    Raises:
        ValidationError: No format has that name.
    """
    found = FORMATS.get(format)
    if found is None:
        raise ValidationError(f"no output format is called `{format}`", fields=("format",))
    module, _, name = found.partition(":")
    make: Callable[..., EventReader] = getattr(import_module(f"amux.runs.readers.{module}"), name)
    return make(action=action, version=version)
