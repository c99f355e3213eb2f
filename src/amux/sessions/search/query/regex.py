r"""Compiles regular expressions and searches for them within a time limit.

The syntax is that of Python. Some expressions can match a text in so many ways that trying all of
them would take years: `(\w+\s?)+$`. The `regex` library stops after a time limit (ADR 30), and the
search ends with an error that names the expression.

Most expressions contain a text that is part of every match, so only texts with it must be searched.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from amux.errors import ValidationError

if TYPE_CHECKING:
    import regex

TIME_LIMIT: Final = 2.0
"""Seconds that an expression may take for one text."""

_MOST_REPEATED: Final = 100_000
"""Characters of an expression with its repeats written out, as the library stores it."""

_PIECE: Final = re.compile(
    r"""
      \\N\{[^}]*\}  |  \\.  |  \(\?\#[^)]*\)
    | (?P<set> \[ \^? \]? (?: \\. | [^\]\\] )* \] )
    | (?P<open> \( )
    | (?P<close> \) )
    | (?P<repeat> [*+?] | \{\d+\} | \{\d*,\d*\} )
    | .
    """,
    re.VERBOSE | re.DOTALL,
)
_IN_SET: Final = re.compile(r"(?P<escaped>\\.)|\[", re.DOTALL)
_BY_NUMBER: Final = re.compile(r"\\[xuUN0-9]")  # an escape that is longer than two characters
_PLAIN: Final = re.compile("[A-HJ-Za-hj-z0-9_]")
"""Characters that folding only lowers; ignoring case, an `i` matches a dotless one too."""

_LEAST: Final = re.compile(r"\{(\d+)")
_MAY_BE_ABSENT: Final = re.compile(r"[*?]|\{")  # the piece before it is optional
_NEEDED_LENGTH: Final = 3


def is_valid(pattern: str) -> bool:
    """Return whether a text is a regular expression in the syntax of Python.

    False also for one with more repeats or nested groups than the library can hold.
    """
    if _flags(pattern) is None or _written_out(pattern) > _MOST_REPEATED:
        return False
    try:
        return bool(_compiled(pattern))
    except RecursionError:
        return False


def _written_out(pattern: str) -> int:
    """Return the length of an expression, each repeat written as often as it must match."""
    lengths, last = [0], 0
    for piece in _PIECE.finditer(pattern):
        if piece["open"]:
            lengths.append(0)
        elif piece["repeat"]:
            least = _LEAST.match(piece[0])
            lengths[-1] += last * (int(least[1]) - 1) if least else 0
        else:
            last = lengths.pop() if piece["close"] and len(lengths) > 1 else 1
            lengths[-1] += last
    return sum(lengths)


@lru_cache
def _flags(pattern: str) -> int | None:
    """Return the flags of an expression, the case being ignored; None if Python refuses it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # `[[` has the meaning of this Python
        try:
            return re.compile(pattern, re.IGNORECASE).flags
        except (re.error, OverflowError, RecursionError):
            return None


@lru_cache
def _compiled(pattern: str) -> regex.Pattern[str]:
    """Return the expression; signs that the library alone gives a meaning stay plain."""
    import regex

    written = _PIECE.sub(_as_python_reads, pattern)
    return regex.compile(written, regex.IGNORECASE | regex.VERSION0)


def _as_python_reads(piece: re.Match[str]) -> str:
    if piece["set"]:  # the library knows classes such as `[[:alpha:]]`
        return "[" + _IN_SET.sub(lambda each: each["escaped"] or r"\[", piece[0][1:])
    return r"\{" if piece[0] == "{" else piece[0]  # the library knows `{e<=1}`


def expression_spans(pattern: str, text: str) -> Iterator[tuple[int, int]]:
    """Yield the matches of a valid expression that are not empty, from left to right.

    Raises:
        ValidationError: The expression takes longer than `TIME_LIMIT` for this text.
    """
    try:
        for match in _compiled(pattern).finditer(text, timeout=TIME_LIMIT):
            if match.end() > match.start():
                yield match.span()
    except TimeoutError:
        raise ValidationError(
            f"`/{pattern}/` takes more than {TIME_LIMIT:g} seconds for one message",
            fields=["query"],
            hint="it can match in too many ways: avoid repeats inside repeats, and several `.*`",
        ) from None


@lru_cache
def needed_text(pattern: str) -> str | None:
    """Return the longest part of a word that every match contains, in lower case, or None."""
    flags = _flags(pattern)
    if flags is None or flags & re.VERBOSE or "(?#" in pattern:
        return None
    runs, depth = [""], 0
    for piece in _PIECE.finditer(pattern):
        text = piece[0]
        depth += (piece["open"] is not None) - (piece["close"] is not None)
        if (depth == 0 and text == "|") or _BY_NUMBER.match(text):
            return None
        if _MAY_BE_ABSENT.match(text):
            runs[-1] = runs[-1][:-1]
        if depth == 0 and _PLAIN.fullmatch(text):
            runs[-1] += text.lower()
        else:
            runs.append("")
    longest = max(runs, key=len)
    return longest if len(longest) >= _NEEDED_LENGTH else None
