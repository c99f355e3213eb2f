"""Titles of threads: cleaned, unique, and numbered within a lineage ("X", "X #2", "X #3")."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Final

from amux.errors import ValidationError

MAX_TITLE: Final = 100
_NUMBER: Final = r"^(.*?) #(\d{1,9})$"
_REMOVED: Final = frozenset({"Cc", "Cf", "Cs"})


def clean_title(title: str | None) -> str | None:
    """Return a title without control and bidi characters, with single blanks; None if empty."""
    if title is None:
        return None
    spaced = " ".join(title.split())
    clean = "".join(char for char in spaced if unicodedata.category(char) not in _REMOVED).strip()
    if len(clean) > MAX_TITLE:
        raise ValidationError(
            f"a title may have {MAX_TITLE} characters; this one has {len(clean)}",
            fields=("title",),
        )
    return clean or None


def split_number(title: str) -> tuple[str, int]:
    """Return the base of a title and its number in the lineage; the base itself is number 1."""
    match = re.match(_NUMBER, title, re.DOTALL)
    return (match[1], int(match[2])) if match and int(match[2]) > 1 else (title, 1)


def next_title(base: str, titles: Iterable[str]) -> str:
    """Return the next free title of a lineage; the base itself if no thread has one."""
    base = split_number(base)[0]
    numbers = [number for each, number in map(split_number, titles) if each == base]
    return f"{base} #{max(numbers) + 1}" if numbers else base
