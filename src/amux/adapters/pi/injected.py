"""The texts that Pi injects with the role of the person."""

from __future__ import annotations

from typing import Final

from amux.adapters._base import InjectedText

INJECTED_TEXTS: Final = (
    InjectedText(
        r'<skill name="[^"\n]+" location="', seen="0.73.1, read in the source", regex=True
    ),
)
"""Pi replaces `/skill:<name>` by such a block; the rest of the command follows it."""
