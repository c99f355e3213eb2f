"""All distinct tokens of a table in one text, to find those that contain something.

A word of a query is found anywhere in a text, an index finds whole tokens: so the word is looked
for in the tokens first. Searching a few megabytes of them takes a millisecond or two.
"""

from __future__ import annotations


class WordList:
    """Distinct tokens, as UTF-8; their order is of no importance."""

    def __init__(self, tokens: bytes) -> None:
        self._lines = b"\n%b\n" % tokens

    def within(self, part: str, *, limit: int) -> list[str] | None:
        """Tokens that contain `part` but do not begin with it; None when there are too many."""
        lines, wanted, found = self._lines, part.encode(), list[str]()
        position = lines.find(wanted)
        while position >= 0:
            start = lines.rfind(b"\n", 0, position) + 1
            end = lines.find(b"\n", position)
            if start != position:
                found.append(lines[start:end].decode())
                if len(found) > limit:
                    return None
            position = lines.find(wanted, end)
        return found

    def ending(self, part: str, *, limit: int) -> list[str] | None:
        """Tokens that end with `part`; None when there are too many."""
        lines, wanted, found = self._lines, part.encode() + b"\n", list[str]()
        position = lines.find(wanted)
        while position >= 0:
            start = lines.rfind(b"\n", 0, position) + 1
            end = position + len(wanted) - 1
            found.append(lines[start:end].decode())
            if len(found) > limit:
                return None
            position = lines.find(wanted, end)
        return found
