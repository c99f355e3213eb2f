"""Texts that Gemini CLI writes with the role of the person, with the versions that wrote them.

The task of a sub-agent is not among them: in the chat of the sub-agent it is the prompt.
"""

from __future__ import annotations

from typing import Final

from amux.adapters._base import InjectedText

IDE_CONTEXT: Final = "Current File Path:"
"""Begins the lines that an editor puts before a prompt."""

HOOK_CONTEXT: Final = "hook_context"
"""The tag of a text that a hook adds; headless runs put it before the prompt."""

INJECTED_TEXTS: Final = (
    InjectedText("<session_context>", seen="0.61.0; source of 0.33.0"),
    InjectedText(f"<{HOOK_CONTEXT}>", seen="source of 0.33.0"),
    InjectedText("<loaded_context>", seen="source of 0.33.0"),
    InjectedText("<project_context>", seen="source of 0.33.0"),
    InjectedText("<state_snapshot>", seen="0.61.0; source of 0.1.22"),
    InjectedText(
        "This is the Gemini CLI. We are setting up the context for our chat",
        seen="0.1.22, 0.15.4",
    ),
    InjectedText(IDE_CONTEXT, seen="real homes, 2026"),
    InjectedText("Here is the user's editor context as a JSON object.", seen="source of 0.1.22"),
    InjectedText(
        "Here is a summary of changes in the user's editor context", seen="source of 0.1.22"
    ),
    InjectedText("System: Please continue.", seen="source of 0.15.4"),
    InjectedText("System: Potential loop detected.", seen="source of 0.45.0"),
    InjectedText("[System: You previously generated thoughts", seen="source of 0.56.0"),
    InjectedText("[System: You previously returned an empty response", seen="source of 0.56.0"),
    InjectedText("You have stopped calling tools without finishing.", seen="0.61.0"),
    InjectedText("You have exceeded the time limit.", seen="source of 0.15.4"),
    InjectedText(
        "You have exceeded the maximum number of turns.", seen="real homes, 2026; source of 0.15.4"
    ),
)
