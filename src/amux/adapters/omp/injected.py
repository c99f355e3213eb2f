"""The texts that omp writes with the role of the person.

omp itself marks what it injects. An imported session has the injected texts of Claude Code and
Codex, which the import does not mark.
"""

from __future__ import annotations

from typing import Final

from amux.adapters._base import InjectedText
from amux.adapters.pi.injected import INJECTED_TEXTS as PI_TEXTS

_CLAUDE: Final = "18.3.4 --from-claude, as Claude Code writes it"
_CODEX: Final = "18.3.4 --from-codex, as Codex writes it"

IMPORTED_TEXTS: Final = (
    InjectedText("<command-name>", seen=_CLAUDE),
    InjectedText("<command-message>", seen=_CLAUDE),
    InjectedText("<command-args>", seen=_CLAUDE),
    InjectedText("<local-command-", seen=_CLAUDE),
    InjectedText("<bash-input>", seen=_CLAUDE),
    InjectedText("<bash-stdout>", seen=_CLAUDE),
    InjectedText("<bash-stderr>", seen=_CLAUDE),
    InjectedText("<system-reminder>", seen=_CLAUDE),
    InjectedText("<task-notification>", seen=_CLAUDE),
    InjectedText("<user-memory-input>", seen=_CLAUDE),
    InjectedText("<session-start-hook>", seen=_CLAUDE),
    InjectedText("<ide_opened_file>", seen=_CLAUDE),
    InjectedText("<ide_selection>", seen=_CLAUDE),
    InjectedText("[Request interrupted by user", seen=_CLAUDE),
    InjectedText("Caveat: The messages below", seen=_CLAUDE),
    InjectedText("This session is being continued from a previous", seen=_CLAUDE),
    InjectedText("# AGENTS.md instructions for ", seen=_CODEX),
    InjectedText("<INSTRUCTIONS>", seen=_CODEX),
    InjectedText("<apps_instructions>", seen=_CODEX),
    InjectedText("<codex_internal_context", seen=_CODEX),
    InjectedText("<collaboration_mode>", seen=_CODEX),
    InjectedText("<context_window>", seen=_CODEX),
    InjectedText("<environment_context>", seen=_CODEX),
    InjectedText("<environments_instructions>", seen=_CODEX),
    InjectedText("<goal_context>", seen=_CODEX),
    InjectedText("<model_switch>", seen=_CODEX),
    InjectedText("<permissions instructions>", seen=_CODEX),
    InjectedText("<plugins_instructions>", seen=_CODEX),
    InjectedText("<skill>", seen=_CODEX),
    InjectedText("<skills_instructions>", seen=_CODEX),
    InjectedText("<startup_context>", seen=_CODEX),
    InjectedText("<subagent_notification>", seen=_CODEX),
    InjectedText("<turn_aborted>", seen=_CODEX),
    InjectedText("<user_action>", seen=_CODEX),
    InjectedText("<user_instructions>", seen=_CODEX),
    InjectedText("<user_shell_command>", seen=_CODEX),
    InjectedText("Another language model started to solve this problem", seen=_CODEX),
    InjectedText("You were originally given instructions from a user", seen=_CODEX),
)

INJECTED_TEXTS: Final = (*PI_TEXTS, *IMPORTED_TEXTS)
