"""The distinct tokens of a table, to find those that contain something.

A word of a query is found anywhere in a text, an index finds whole tokens: so the word is looked
for in the tokens first. They come in blocks, one token per line, and only those blocks are looked
through that may hold it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

Blocks = Callable[[str], Iterable[str]]
"""The blocks of tokens that may contain a text."""


class WordList:
    """Distinct tokens; their order is of no importance."""

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks

    def containing(self, part: str, *, limit: int) -> list[str] | None:
        """Tokens with `part` anywhere in them; None when there are too many."""
        return _limited(self._lines(part), limit)

    def ending(self, part: str, *, limit: int) -> list[str] | None:
        """Tokens that end with `part`; None when there are too many."""
        return _limited((line for line in self._lines(part) if line.endswith(part)), limit)

    def _lines(self, part: str) -> Iterator[str]:
        for block in self._blocks(part):
            yield from _lines(block, part)


def _lines(block: str, part: str) -> Iterator[str]:
    """The lines of a block that contain a text."""
    position = block.find(part)
    while position >= 0:
        start = block.rfind("\n", 0, position) + 1
        end = block.find("\n", position)
        end = len(block) if end < 0 else end
        yield block[start:end]
        position = block.find(part, end)


def _limited(tokens: Iterable[str], limit: int) -> list[str] | None:
    found: list[str] = []
    for token in tokens:
        found.append(token)
        if len(found) > limit:
            return None
    return list(dict.fromkeys(found))  # one that came later may be known already
