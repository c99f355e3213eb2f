"""Texts that Codex writes with the role of the person.

Most are tags around context for the model. `read in source` means that the published source of the
agent writes the text, but no captured home contains it. A prompt that begins with any other tag was
typed.
"""

from __future__ import annotations

from typing import Final

from amux.adapters._base import InjectedText

_READ: Final = "read in source, 2026-08"

IDE_CONTEXT: Final = "# Context from my IDE setup:"
"""The opening of a prompt to which an editor adds its open files; the request follows below."""

IDE_REQUEST: Final = "## My request for Codex:"

INJECTED_TEXTS: Final = (
    InjectedText("# AGENTS.md instructions for ", seen="0.80, 0.120, 0.166"),
    InjectedText(r"# AGENTS\.md instructions\s+<INSTRUCTIONS>", seen=_READ, regex=True),
    InjectedText(IDE_CONTEXT, seen=_READ),
    InjectedText("<INSTRUCTIONS>", seen="0.120, 0.166"),
    InjectedText("<apps_instructions>", seen=_READ),
    InjectedText("<codex_internal_context", seen=_READ),
    InjectedText("<collaboration_mode>", seen="0.166"),
    InjectedText("<context_window>", seen=_READ),
    InjectedText("<environment_context>", seen="0.29, 0.42, 0.80, 0.120, 0.166"),
    InjectedText("<environments_instructions>", seen=_READ),
    InjectedText(r"<external_[^>\s]+>", seen=_READ, regex=True),
    InjectedText("<goal_context>", seen=_READ),
    InjectedText("<hook_prompt", seen=_READ),
    InjectedText("<model_switch>", seen="0.166"),
    InjectedText("<permissions instructions>", seen="0.120, 0.166"),
    InjectedText("<plugins_instructions>", seen=_READ),
    InjectedText("<realtime_delegation>", seen=_READ),
    InjectedText("<recommended_plugins>", seen=_READ),
    InjectedText("<skill>", seen=_READ),
    InjectedText("<skills_instructions>", seen="0.120, 0.166"),
    InjectedText("<startup_context>", seen=_READ),
    InjectedText("<subagent_notification>", seen="0.120"),
    InjectedText("<turn_aborted>", seen="0.120, 0.166"),
    InjectedText("<user_action>", seen="0.169"),
    InjectedText("<user_instructions>", seen="0.29, 0.42"),
    InjectedText("<user_shell_command>", seen="0.166"),
    InjectedText("Another language model started to solve this problem", seen="0.42"),
    InjectedText("You were originally given instructions from a user", seen="0.42"),
    InjectedText("Warning: The maximum number of unified exec processes", seen=_READ),
    InjectedText("Warning: apply_patch was requested via ", seen=_READ),
    InjectedText("Warning: Your account was flagged for potentially high-risk", seen=_READ),
)
