r"""The texts that Hermes writes with the role of the person.

`WHOLE_TEXTS` are messages of their own. `NOTES` stand in brackets before the text of the person, or
alone. Versions before 0.13.0 wrote `[SYSTEM: ` where later ones write `[IMPORTANT: `.
"""

from __future__ import annotations

from typing import Final

from amux.adapters._base import InjectedText

_MARK: Final = r"\[(?:IMPORTANT|SYSTEM): "
_BOTH_MARKS: Final = "[SYSTEM: real homes, 2026; [IMPORTANT: 0.13.0 to 0.19.0"
_SINCE_0_13: Final = "0.13.0 to 0.19.0"

SUMMARIES: Final = (
    InjectedText("[CONTEXT COMPACTION", seen=_SINCE_0_13),
    InjectedText("[CONTEXT SUMMARY]:", seen=_SINCE_0_13),
)
"""Summaries of a compacted conversation; the text of the person may follow them."""

WHOLE_TEXTS: Final = (
    InjectedText("[ASYNC DELEGATION ", seen="0.17.0 to 0.19.0"),
    InjectedText("[OUT-OF-BAND USER MESSAGE", seen="0.17.0 to 0.19.0"),
    InjectedText("Review the conversation above and ", seen=_SINCE_0_13),
    InjectedText(_MARK + "Background process ", seen=_BOTH_MARKS, regex=True),
    InjectedText(_MARK + "Watch patterns disabled ", seen=_BOTH_MARKS, regex=True),
    InjectedText(_MARK + "MCP servers have been reloaded", seen=_BOTH_MARKS, regex=True),
    InjectedText("[Session was just handed off from CLI", seen=_SINCE_0_13),
    InjectedText("[System: Your previous ", seen=_SINCE_0_13),
    InjectedText("[System: The previous response was cut off", seen="0.15.2 to 0.19.0"),
    InjectedText("[System: Continue now. ", seen=_SINCE_0_13),
    InjectedText("[System: You edited code in this turn", seen="0.19.0"),
    InjectedText("[System: You are a Hermes kanban worker", seen="0.19.0"),
    InjectedText("[System: The active model for this chat ", seen="0.17.0 to 0.19.0"),
    InjectedText("[System: The user has changed the assistant's ", seen=_SINCE_0_13),
    InjectedText("[System: The user has cleared the personality ", seen=_SINCE_0_13),
    InjectedText("[Continuing toward your standing goal]", seen=_SINCE_0_13),
    InjectedText("[Continuing toward this kanban task", seen="0.17.0 to 0.19.0"),
    InjectedText("[The work looks complete, but the task ", seen="0.17.0 to 0.19.0"),
    InjectedText("[Your active task list was preserved across ", seen=_SINCE_0_13),
    InjectedText("Continue from the compressed conversation context above.", seen="0.19.0"),
    InjectedText("You've reached the maximum number of tool-calling ", seen=_SINCE_0_13),
    InjectedText("You just executed tool calls but returned an empty ", seen=_SINCE_0_13),
    InjectedText(r"(?:\W )?Session automatically reset \(", seen=_SINCE_0_13, regex=True),
)

CRON_NOTE: Final = InjectedText(
    _MARK + "You are running as a scheduled cron job", seen=_BOTH_MARKS, regex=True
)

NOTES: Final = (
    CRON_NOTE,
    InjectedText(_MARK + r"The following skill\(s\) ", seen=_BOTH_MARKS, regex=True),
    InjectedText(r"(?i:\[system note: )", seen=_SINCE_0_13, regex=True),
    InjectedText("[Note: model was just switched ", seen=_SINCE_0_13),
    InjectedText("[USER INITIATED SKILLS RELOAD:", seen=_SINCE_0_13),
)

SKILLS: Final = (
    InjectedText(_MARK + 'The user has invoked the "', seen=_BOTH_MARKS, regex=True),
    InjectedText(_MARK + 'The "[^"]+" skill is auto-loaded', seen=_BOTH_MARKS, regex=True),
)
"""The texts of skills that a slash command, a channel or a scheduled job loads."""

INJECTED_TEXTS: Final = (*SUMMARIES, *WHOLE_TEXTS, *NOTES, *SKILLS)
