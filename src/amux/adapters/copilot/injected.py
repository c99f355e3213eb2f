"""The texts that Copilot CLI injects with the role of the person."""

from __future__ import annotations

from typing import Final

from amux.adapters._base import InjectedText

INJECTED_TEXTS: Final = (
    InjectedText("<current_datetime>", seen="0.0.340, 1.0.102; in `content`: real homes, 2026"),
    InjectedText("<reminder>", seen="0.0.340"),
    InjectedText("<system_reminder>", seen="0.0.x, described"),
    InjectedText("<system_notification>", seen="1.0.40, read in the schema of events"),
    InjectedText("<tools_changed_notice>", seen="1.0.70, read in the source"),
    InjectedText("<ide_selection>", seen="1.0.70, read in the source"),
)
"""Each begins a block that ends with the closing tag; the person's text is before or after it."""
