"""Texts that OpenCode writes with the role of the person, with the versions that wrote them.

OpenCode flags them (`synthetic`, `ignored`), and the flags decide what is a prompt. The list states
what the flags must have covered.
"""

from __future__ import annotations

from typing import Final

from amux.adapters._base import InjectedText

INJECTED_TEXTS: Final = (
    InjectedText("The following tool was executed by the user", seen="0.5.29, 1.1.65, 1.18.33"),
)
