r"""Regular expressions as people write them, and what speaks against one.

Python tries every way to divide a text between the parts of an expression: `(\w+\s?)+$` would keep
a search busy for years. Such an expression is refused before it runs (`expression_costs`). In an
atomic group or possessive, `(?>\w+\s?)+$`, the inner repeat gives nothing back, and all is well.

Most expressions hold a text that every match has, too: only texts with it need be looked at.
"""

from __future__ import annotations

import re
import warnings
from functools import lru_cache
from typing import Final

from amux.sessions.search.query.regex_search import BY_NUMBER, PIECE, takes_forever

NO_EXPRESSION: Final = "is no regular expression"
ENDLESS: Final = "can be matched in so many ways that it may take forever"

_PLAIN: Final = re.compile("[A-HJ-Za-hj-z0-9_]")
"""What is found in folded text as it stands; for any case, an `i` fits a dotless one, too."""

_MAY_BE_NONE: Final = re.compile(r"[*?]|\{")  # what stands before it need not be there
_NEEDED_LENGTH: Final = 3


def objection(pattern: str) -> str | None:
    """Why an expression cannot be looked for; None: it can."""
    expression = compile_regex(pattern)
    if expression is None:
        return NO_EXPRESSION
    try:
        return ENDLESS if takes_forever(expression) else None
    except RecursionError:  # nobody writes this
        return ENDLESS


@lru_cache
def compile_regex(pattern: str) -> re.Pattern[str] | None:
    """The expression, for any case; None when it is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # `[[` is what it is in this Python
        try:
            return re.compile(pattern, re.IGNORECASE)
        except (re.error, OverflowError, RecursionError):
            return None


@lru_cache
def needed_text(pattern: str) -> str | None:
    """The longest part of a word that every match has, in lower case; None: there is none."""
    expression = compile_regex(pattern)
    if expression is None or expression.flags & re.VERBOSE:
        return None
    runs, depth = [""], 0
    for piece in PIECE.finditer(pattern):
        text = piece[0]
        depth += (piece["open"] is not None) - (piece["close"] is not None)
        if (depth == 0 and text == "|") or BY_NUMBER.match(text):
            return None
        if _MAY_BE_NONE.match(text):
            runs[-1] = runs[-1][:-1]
        if depth == 0 and _PLAIN.fullmatch(text):
            runs[-1] += text.lower()
        else:
            runs.append("")
    longest = max(runs, key=len)
    return longest if len(longest) >= _NEEDED_LENGTH else None
