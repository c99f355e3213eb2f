"""The distinct tokens of a table, to find those that contain something.

A word of a query is found anywhere in a text, an index finds whole tokens: so the word is looked
for in the tokens first. They come in blocks, one token per line, and only those blocks are looked
through that may hold it: as bytes, of which there is one for most characters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice

Blocks = Callable[[str], Iterable[bytes]]
"""The blocks of tokens that may contain a text, in UTF-8."""


class WordList:
    """Distinct tokens; their order is of no importance."""

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks

    def containing(self, part: str, *, limit: int) -> list[str] | None:
        """Tokens with `part` anywhere in them; None when there are too many."""
        return _limited(chain.from_iterable(self._lines(part)), limit)

    def ending(self, part: str, *, limit: int) -> list[str] | None:
        """Tokens that end with `part`; None when there are too many."""
        lines = chain.from_iterable(self._lines(part))
        return _limited((line for line in lines if line.endswith(part)), limit)

    def _lines(self, part: str) -> Iterator[list[str]]:
        """Tokens with `part` in them, block by block."""
        wanted = part.encode()
        return (_lines(block, wanted) for block in self._blocks(part))


def _lines(block: bytes, part: bytes) -> list[str]:
    """The lines of a block that contain a text."""
    lines: list[str] = []
    position = block.find(part)
    while position >= 0:
        start = block.rfind(b"\n", 0, position) + 1
        end = block.find(b"\n", position)
        end = len(block) if end < 0 else end
        lines.append(block[start:end].decode())
        position = block.find(part, end)
    return lines


def _limited(tokens: Iterable[str], limit: int) -> list[str] | None:
    found = list(islice(tokens, limit + 1))
    if len(found) > limit:
        return None
    return list(dict.fromkeys(found))  # one that came later may be known already
