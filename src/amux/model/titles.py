"""The title of a session, for all agents: a given name, else the first genuine prompt.

White space is folded. A prompt is cut to 100 code points, a given name to 1000; the last of them is
then an ellipsis.
"""

from __future__ import annotations

TITLE_LENGTH = 100
NAME_LENGTH = 1000
ELLIPSIS = "…"


def fold_title(text: str) -> str:
    """Fold white space and cut to 100 code points, an ellipsis included."""
    return _fold(text, TITLE_LENGTH)


def fold_name(text: str) -> str:
    """Fold the white space of a given name and cut it to 1000 code points, likewise."""
    return _fold(text, NAME_LENGTH)


def _fold(text: str, length: int) -> str:
    # A prompt may be megabytes of pasted log: fold only what can end up in the title.
    text = text.strip()
    head = text[: length * 40]
    folded = " ".join(head.split())
    if len(folded) <= length and len(head) == len(text):
        return folded
    return folded[: length - 1] + ELLIPSIS


def choose_title(*candidates: str | None) -> str:
    """Return the first candidate that is not blank, folded; "" if there is none."""
    for candidate in candidates:
        if candidate:
            title = fold_title(candidate)
            if title:
                return title
    return ""
