"""Recognises texts that an agent injects with the role of the person.

Each agent lists them as data, in a file `injected.py` of its package, and publishes the list as
`AgentInfo.injected_texts`. The conformance suite checks that no title and no prompt begins with one
of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from amux.adapters._base import InjectedText


class InjectedTexts:
    """Matches texts against a list of openings."""

    def __init__(self, table: Iterable[InjectedText]) -> None:
        table = tuple(table)
        literal = [entry.opening for entry in table if not entry.regex]
        # Most prompts begin like none of them, which the first character alone shows.
        self._literal = {
            first: tuple(opening for opening in literal if opening[:1] == first)
            for first in {opening[:1] for opening in literal}
        }
        patterns = [f"(?:{entry.opening})" for entry in table if entry.regex]
        self._pattern = re.compile("|".join(patterns)) if patterns else None

    def begins(self, text: str) -> bool:
        """Return whether a text begins with one of the openings, ignoring leading white space."""
        text = text.lstrip()
        openings = self._literal.get(text[:1])
        if openings is not None and text.startswith(openings):
            return True
        return self._pattern is not None and self._pattern.match(text) is not None
