"""The text of an answer, from blocks that come one by one.

Pieces that follow each other are one text: a model cites by beginning a new block in the middle of
a sentence. What another block stands between, a thought or a tool, are two paragraphs.
"""

from __future__ import annotations


class AnswerText:
    """Collects the texts of an answer."""

    __slots__ = ("_is_apart", "_pieces")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._is_apart = False

    def add(self, text: str | None) -> None:
        """A block of text."""
        if text:
            if self._is_apart and self._pieces:
                self._pieces.append("\n\n")
            self._pieces.append(text)
            self._is_apart = False

    def part(self) -> None:
        """A block of any other kind."""
        self._is_apart = True

    def __str__(self) -> str:
        """All of it."""
        return "".join(self._pieces)
