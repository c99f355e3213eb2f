"""Output without a structure: the text of the answer.

Hermes prints no JSON. With `--quiet` it prints the answer, and a line with the id of the session to
the standard error (seen: 0.19.0).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from amux.runs.events import AgentEvent
from amux.runs.readers.base import SHOWN_OF_A_LINE, EventReader

_SESSION: Final = re.compile(r"\s*session_id:\s*(\S+)\s*")


class TextReader(EventReader):
    """Takes every line as a part of the answer."""

    def line(self, line: bytes) -> Iterator[AgentEvent]:
        """Yield the line as text."""
        self.understood += 1
        yield AgentEvent(type="text", text=line.decode("utf-8", "replace"), is_delta=True)


class HermesReader(TextReader):
    """Also finds the id of the session."""

    def line(self, line: bytes) -> Iterator[AgentEvent]:
        """Yield the line as text, or as the session that it names."""
        named = _SESSION.fullmatch(line[:SHOWN_OF_A_LINE].decode("utf-8", "replace"))
        if named is None:
            yield from super().line(line)
        else:
            self.understood += 1
            yield AgentEvent(type="session", session_id=named[1], text=named[0].strip())

    def errors(self, text: str) -> Iterator[AgentEvent]:
        """Yield the session that the last lines name."""
        for line in text.splitlines():
            named = _SESSION.fullmatch(line)
            if named is not None:
                yield AgentEvent(type="session", session_id=named[1], text=line.strip())
