"""A few words around a hit."""

from __future__ import annotations

from collections.abc import Sequence

from amux.sessions.query import Term, fold, fold_spaces

SNIPPET_LENGTH = 160
_LEAD = 50
_LOOK_AT = 200_000


def cut_snippet(text: str, terms: Sequence[Term]) -> str:
    """The surroundings of the first hit, on one line, with dots where text was cut."""
    text = text[:_LOOK_AT] if _position(text[:_LOOK_AT], terms) is not None else text
    at = _position(text, terms) or 0
    start = max(0, at - _LEAD)
    piece = fold_spaces(text[start : start + 2 * SNIPPET_LENGTH])
    cut = piece[:SNIPPET_LENGTH].rstrip()
    ahead = "…" if start > 0 else ""
    behind = "…" if len(cut) < len(piece) or start + 2 * SNIPPET_LENGTH < len(text) else ""
    return f"{ahead}{cut}{behind}"


def _position(text: str, terms: Sequence[Term]) -> int | None:
    """Where the first hit begins in the original text."""
    folded = fold(text)
    best: int | None = None
    for term in terms:
        match = term.pattern.search(text if term.kind == "regex" else folded)
        if match is None:
            continue
        at = match.start() if term.kind == "regex" else _unfolded(text, folded, match.start())
        best = at if best is None else min(best, at)
    return best


def _unfolded(text: str, folded: str, position: int) -> int:
    """The place in the original; folding may change lengths, so walk where it did."""
    if len(text) == len(folded):
        return position
    length = 0
    for index, character in enumerate(text):
        if length >= position:
            return index
        length += len(fold(character))
    return len(text)
