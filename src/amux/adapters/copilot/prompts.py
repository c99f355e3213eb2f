"""Separates the text of a person from the blocks that the agent puts before or after it."""

from __future__ import annotations

from typing import Final

from amux.adapters.copilot.injected import INJECTED_TEXTS

_BLOCKS: Final = tuple(
    (entry.opening, f"</{entry.opening.removeprefix('<')}") for entry in INJECTED_TEXTS
)
_MOST_BLOCKS: Final = 20  # a hostile text could consist of millions


def typed_text(text: str) -> str:
    """Return a text without the injected blocks around it; "" if nothing else is left."""
    if not any(opening in text for opening, _ in _BLOCKS):
        return text
    return _without_last_blocks(_without_first_blocks(text.strip())).strip("\n")


def _without_first_blocks(text: str) -> str:
    for _ in range(_MOST_BLOCKS):
        closing = next((end for opening, end in _BLOCKS if text.startswith(opening)), None)
        if closing is None:
            break
        text = text.partition(closing)[2].lstrip()
    return text


def _without_last_blocks(text: str) -> str:
    for _ in range(_MOST_BLOCKS):
        opening = next((start for start, closing in _BLOCKS if text.endswith(closing)), None)
        start = -1 if opening is None else text.rfind(opening)
        if start < 0:
            break
        text = text[:start].rstrip()
    return text
