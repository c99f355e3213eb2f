"""The search grammar: words, "phrases", OR, NOT, prefix* and /regex/. No text is a wrong query.

Words stand for AND and match anywhere in a text, so that 日本 finds 日本語; `prefix*` only where a
word begins. Case is ignored and accents are folded. AND binds tighter than OR. Lone operators and
unbalanced quotes are taken for what they most likely mean.
"""

from __future__ import annotations

import re
import unicodedata
import warnings
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

_TOKEN = re.compile(
    r'"(?P<phrase>[^"]*)"?|/(?P<regex>(?:[^/\\\s]|\\.)+)/(?=\s|$)|(?P<word>[^\s"()]+)'
)
_ACCENTS = re.compile("[\u0300-\u036f]+")

TermKind = Literal["text", "prefix", "regex"]


def fold(text: str) -> str:
    """The form in which texts are compared: lower case, without accents."""
    if text.isascii():
        return text.lower()
    return _ACCENTS.sub("", unicodedata.normalize("NFKD", text)).casefold()


def fold_spaces(text: str) -> str:
    """White space of any kind and length is one space."""
    return " ".join(text.split())


@dataclass(frozen=True)
class Term:
    """One thing to look for. `text` is folded, except in a regular expression."""

    kind: TermKind
    text: str

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """What to look for, for `finditer`; on folded text unless it is a regular expression."""
        if self.kind == "regex" and (expression := _compile(self.text)) is not None:
            return expression
        escaped = r"\s+".join(re.escape(word) for word in self.text.split())
        return re.compile(rf"(?<!\w){escaped}" if self.kind == "prefix" else escaped)

    def count(self, text: str, folded: str) -> int:
        """How often it occurs."""
        if self.kind == "text" and " " not in self.text:
            return folded.count(self.text)
        target = text if self.kind == "regex" else folded
        return sum(1 for match in self.pattern.finditer(target) if match.group())


@dataclass(frozen=True)
class Alternative:
    """All of `wanted` and none of `unwanted`, in one text."""

    wanted: tuple[Term, ...]
    unwanted: tuple[Term, ...]


@dataclass(frozen=True)
class Query:
    """Alternatives joined by OR; none at all matches nothing."""

    alternatives: tuple[Alternative, ...]

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """Every wanted term, each once."""
        wanted = (term for alternative in self.alternatives for term in alternative.wanted)
        return tuple(dict.fromkeys(wanted))

    @cached_property
    def unwanted(self) -> tuple[Term, ...]:
        """Every unwanted term, each once."""
        terms = (term for alternative in self.alternatives for term in alternative.unwanted)
        return tuple(dict.fromkeys(terms))

    def matches(self, present: set[Term]) -> bool:
        """Whether a text that holds these terms is a hit."""
        return any(
            present.issuperset(alternative.wanted) and present.isdisjoint(alternative.unwanted)
            for alternative in self.alternatives
        )


def parse_query(text: str) -> Query:
    """Read a query; whatever is written, some query comes out."""
    alternatives: list[Alternative] = []
    wanted: list[Term] = []
    unwanted: list[Term] = []
    negate = False

    def close() -> None:
        if wanted:
            alternatives.append(Alternative(tuple(wanted), tuple(unwanted)))
        wanted.clear()
        unwanted.clear()

    for match in _TOKEN.finditer(text):
        word = match["word"]
        if word in ("AND", "NOT"):
            negate = word == "NOT"
        elif word == "OR":
            close()
            negate = False
        elif (term := _term(match)) is not None:
            (unwanted if negate else wanted).append(term)
            negate = False
    close()
    return Query(tuple(alternatives))


def _term(match: re.Match[str]) -> Term | None:
    regex = match["regex"]
    if regex is not None:
        return _regex_term(regex)
    phrase = match["phrase"]
    if phrase is not None:
        return _text_term(phrase)
    word = match["word"]
    if word.endswith("*") and word.strip("*"):
        return Term("prefix", fold(word.strip("*")))
    return _text_term(word)


def _text_term(text: str) -> Term | None:
    folded = fold_spaces(fold(text))
    return Term("text", folded) if folded else None


def _regex_term(pattern: str) -> Term | None:
    if _compile(pattern) is None:
        return _text_term(f"/{pattern}/")
    return Term("regex", pattern)


@lru_cache
def _compile(pattern: str) -> re.Pattern[str] | None:
    """A regular expression as a person wrote it; None when it is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # `[[` is what it is in this Python
        try:
            return re.compile(pattern, re.IGNORECASE)
        except (re.error, OverflowError, RecursionError):
            return None
