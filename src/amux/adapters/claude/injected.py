"""Openings of the texts that Claude Code writes with the role of the person.

Most of these lines are flagged as well, but not in every version, and copies made up to 1.0.59 lose
the flags. A prompt that begins with any other tag was typed. `seen` names the versions whose
transcripts or program have the text; the IDE extensions and the hooks put theirs into the same
lines.
"""

from __future__ import annotations

from typing import Final

from amux.adapters._base import InjectedText

COMMAND_MESSAGE: Final = "<command-message>"
"""Opens the echo of a command whose text is sent to the model: see `prompts.split_user`."""

COMMAND_NAME: Final = "<command-name>"
"""Opens the echo of a command that the program itself carries out, such as `/login`."""

COMPACT_SUMMARY: Final = "This session is being continued from a previous conversation"

_ALL: Final = "0.2.126 to 2.1.325"
_OWN_TAGS: Final = "2.1.325, its list of own tags"
_EXTENSION: Final = "2.1.325; the VS Code extension writes it"

INJECTED_TEXTS: Final = (
    InjectedText("<system-reminder>", seen=_ALL),
    InjectedText(COMMAND_NAME, seen=_ALL),
    InjectedText(COMMAND_MESSAGE, seen=_ALL),
    InjectedText("<command-args>", seen=_OWN_TAGS),
    InjectedText("<local-command-", seen=f"{_ALL}: stdout, stderr; 2.0.77: caveat"),
    InjectedText("<bash-input>", seen=_ALL),
    InjectedText("<bash-stdout>", seen=_ALL),
    InjectedText("<bash-stderr>", seen=_ALL),
    InjectedText("<bash-exit-code>", seen=_OWN_TAGS),
    InjectedText("<task-notification>", seen="2.0.77 to 2.1.325"),
    InjectedText("<ide_opened_file>", seen="1.0.59 to 2.1.325"),
    InjectedText("<ide_selection>", seen="1.0.59 to 2.1.325"),
    InjectedText('<terminal name="', seen=_EXTENSION),
    InjectedText('<browser tabGroupId="', seen=_EXTENSION),
    InjectedText("<browser_instruction>", seen=_EXTENSION),
    InjectedText("<user-memory-input>", seen=_ALL),
    InjectedText("<user-prompt-submit-hook>", seen="1.0.59, 2.0.14"),
    InjectedText("<session-start-hook>", seen="2.0.14"),
    InjectedText("<post-tool-use-hook>", seen="2.0.14, 2.1.325"),
    InjectedText("<background-task-", seen="2.0.14, 2.0.77: input, output"),
    InjectedText("<background-remote-session-status>", seen="2.0.14"),
    InjectedText("<system-notification>", seen="2.0.14"),
    InjectedText("<system_warning>", seen="2.0.14"),
    InjectedText("<system_reminder>", seen=_OWN_TAGS),
    InjectedText("<session-memory>", seen="2.0.14 to 2.1.112"),
    InjectedText("<new-diagnostics>", seen=_ALL),
    InjectedText("<mcp-resource ", seen="1.0.59 to 2.1.325"),
    InjectedText("<mcp-resource-update ", seen="2.1.50 to 2.1.325"),
    InjectedText("<mcp-polling-update ", seen="2.1.50 to 2.1.325"),
    InjectedText("<tick>", seen="2.1.50 to 2.1.325"),
    InjectedText("<teammate-message ", seen="2.1.50 to 2.1.325"),
    InjectedText("<fork-boilerplate>", seen="2.1.100 to 2.1.325"),
    InjectedText("<remote-review", seen="2.1.100 to 2.1.325"),
    InjectedText("<agent-message", seen=_OWN_TAGS),
    InjectedText("<cross-session-message", seen=_OWN_TAGS),
    InjectedText("<coordinator-relay", seen=_OWN_TAGS),
    InjectedText("<forked-skill-launch", seen="2.1.325"),
    InjectedText("<slack-ping", seen=_OWN_TAGS),
    InjectedText("<slack-tag-message", seen=_OWN_TAGS),
    InjectedText('<channel source="', seen="2.1.325"),
    InjectedText("<fetched-web-content", seen=_OWN_TAGS),
    InjectedText("<untrusted-widget-state", seen=_OWN_TAGS),
    InjectedText("<artifact-type-instructions", seen=_OWN_TAGS),
    InjectedText("<artifact-file-content", seen=_OWN_TAGS),
    InjectedText("<artifact-origin-notes", seen=_OWN_TAGS),
    InjectedText("<artifact-stored-declaration", seen=_OWN_TAGS),
    InjectedText("<cowritten-artifact-html", seen=_OWN_TAGS),
    InjectedText("[Request interrupted by user", seen=_ALL),
    InjectedText("Caveat: The messages below", seen="0.2.126 to 2.0.14"),
    InjectedText(COMPACT_SUMMARY, seen=_ALL),
    InjectedText("Stop hook feedback:\n", seen="1.0.59 to 2.1.325"),
    InjectedText(r"[\w:-]{1,80} operation feedback:\n", seen="1.0.59", regex=True),
    InjectedText("Operation stopped by hook", seen="1.0.59 to 2.1.325"),
    InjectedText("Commands are in the form `/command [args]`", seen=_ALL),
    InjectedText(
        r"Unknown (?:slash command|command|skill): /?[\w:.-]{1,200}"
        r"(?:\. Did you mean /?[\w:.-]{1,200}\?)?\s*\Z",
        seen=f"{_ALL}: command; 2.0.14, 2.0.77: slash command; 2.1.50: skill",
        regex=True,
    ),
    InjectedText(
        r"This (?:skill|slash command) can only be invoked by Claude, not directly by users\.",
        seen="2.0.77 to 2.1.325",
        regex=True,
    ),
    InjectedText(r"\(no content\)\s*\Z", seen="0.2.126 to 2.1.325, for an empty text", regex=True),
)
