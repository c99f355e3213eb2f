"""Texts that Qwen Code writes with the role of the person, with the versions that wrote them.

Newer versions mark such lines (`provenance`), older ones do not.
"""

from __future__ import annotations

from typing import Final

from amux.adapters._base import InjectedText

INJECTED_TEXTS: Final = (
    InjectedText("<task-notification>", seen="0.24.4"),
    InjectedText("<system-reminder>", seen="source of 0.2.0"),
    InjectedText("<state_snapshot>", seen="source of 0.2.0"),
    InjectedText(
        "This is the Qwen Code. We are setting up the context for our chat",
        seen="source of 0.2.0",
    ),
    InjectedText("Here is the user's editor context as a JSON object.", seen="source of 0.2.0"),
    InjectedText(
        "Here is a summary of changes in the user's editor context", seen="source of 0.2.0"
    ),
)
