"""The title rule, one for all agents: a given name, else the first genuine prompt.

White space is folded and the title cut to 100 code points.
"""

from __future__ import annotations

TITLE_LENGTH = 100


def fold_title(text: str) -> str:
    """Fold white space and cut to 100 code points."""
    # A prompt may be megabytes of pasted log: fold only what can end up in the title.
    head = text.lstrip()[: TITLE_LENGTH * 40]
    return " ".join(head.split())[:TITLE_LENGTH].rstrip()


def choose_title(*candidates: str | None) -> str:
    """The first candidate that is not blank, folded; "" when there is none."""
    for candidate in candidates:
        if candidate:
            title = fold_title(candidate)
            if title:
                return title
    return ""
