r"""Regular expressions as people write them, and what speaks against one.

Python tries every way to divide a text between a repeat and another one inside it: `(\w+\s?)+$`
would keep a search busy for years. Such an expression is refused before it runs. In an atomic group
or possessive, `(?>\w+\s?)+$`, the inner repeat gives nothing back, and all is well.

Most expressions hold a text that every match has, too: only texts with it need be looked at.
"""

from __future__ import annotations

import re
import warnings
from functools import lru_cache
from typing import Final

NO_EXPRESSION: Final = "is no regular expression"
ENDLESS: Final = "repeats a part that repeats itself, which may take forever"

_PIECE: Final = re.compile(
    r"""
      \\.  |  \[ \^? \]? (?: \\. | [^\]\\] )* \]     # a sign, a set
    | (?P<open> \( ) (?P<atomic> \?> )?
    | (?P<close> \) )
    | (?P<repeat> [*+] | \{\d*,\d*\} ) (?P<possessive> \+ )?
    | \{\d+\}
    | .
    """,
    re.VERBOSE | re.DOTALL,
)

_PLAIN: Final = re.compile("[A-HJ-Za-hj-z0-9_]")
"""What is found in folded text as it stands; for any case, an `i` fits a dotless one, too."""

_BY_NUMBER: Final = re.compile(r"\\[xuUN0-9]")  # a sign that goes on behind this
_MAY_BE_NONE: Final = re.compile(r"[*?]|\{")  # what stands before it need not be there
_NEEDED_LENGTH: Final = 3


def objection(pattern: str) -> str | None:
    """Why an expression cannot be looked for; None: it can."""
    if compile_regex(pattern) is None:
        return NO_EXPRESSION
    return ENDLESS if _repeats_a_repeat(pattern) else None


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
    for piece in _PIECE.finditer(pattern):
        text = piece[0]
        depth += (piece["open"] is not None) - (piece["close"] is not None)
        if (depth == 0 and text == "|") or _BY_NUMBER.match(text):
            return None
        if _MAY_BE_NONE.match(text):
            runs[-1] = runs[-1][:-1]
        if depth == 0 and _PLAIN.fullmatch(text):
            runs[-1] += text.lower()
        else:
            runs.append("")
    longest = max(runs, key=len)
    return longest if len(longest) >= _NEEDED_LENGTH else None


def _repeats_a_repeat(pattern: str) -> bool:
    groups = [(False, False)]  # of every open group: whether it holds a repeat, and is atomic
    gives_back = False  # whether what stands just before is a group with a repeat in it
    for piece in _PIECE.finditer(pattern):
        if piece["repeat"] and not piece["possessive"]:
            if gives_back:
                return True
            groups[-1] = (True, groups[-1][1])
        if piece["open"]:
            groups.append((False, piece["atomic"] is not None))
        gives_back = False
        if piece["close"] and len(groups) > 1:
            holds_repeat, is_atomic = groups.pop()
            gives_back = holds_repeat and not is_atomic
            groups[-1] = (groups[-1][0] or gives_back, groups[-1][1])
    return False
