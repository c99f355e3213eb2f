"""Texts that Droid writes with the role of the person, with the versions that wrote them.

Other injected messages are recognised by their id or by their visibility.
"""

from __future__ import annotations

from typing import Final

from amux.adapters._base import InjectedText

INJECTED_TEXTS: Final = (
    InjectedText("<system-reminder>", seen="0.225.2; described: 0.99.0"),
    InjectedText("The model repeatedly generated the same output", seen="described: 0.225.2"),
)
