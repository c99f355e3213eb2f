"""The things a query looks for: words, prefixes, phrases and regular expressions.

All but regular expressions are compared in folded form (`model.words.fold`). A *word character* is
a letter, a digit or an underscore. A phrase is whole words in a row, with anything but word
characters between them; a whole word has no word character beside it. Chinese and Japanese have no
word edges: where a phrase begins or ends with such a character, it may stand inside a longer run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from heapq import merge
from typing import Final, Literal

from amux.model.words import fold, fold_spaces
from amux.sessions.search.query.regex import compile_regex, trails_of

TermKind = Literal["text", "prefix", "phrase", "regex"]

_IDEOGRAPH: Final = re.compile(
    "[\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303c\u3041-\u3096\u309d-\u309f"
    "\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U0001aff0-\U0001b16f\U00020000-\U000323af]"
)
_WORDS_ONLY = re.compile(r"[\w ]+")

Cut = tuple[bool, bool]
"""Whether a window of a text was cut from it in front, and behind."""

WHOLE: Final[Cut] = (False, False)
_NO_WORD_BEFORE: Final = r"(?<!\w)"
Span = tuple[int, int]


@dataclass(frozen=True)
class Term:
    """One thing to look for. `text` is folded, except in a regular expression."""

    kind: TermKind
    text: str

    def __hash__(self) -> int:
        return self._hash  # terms are keys of everything that is counted

    @cached_property
    def _hash(self) -> int:
        return hash((self.kind, self.text))

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """What to look for, for `finditer`; on folded text unless it is a regular expression."""
        if self.kind == "regex" and (expression := compile_regex(self.text)) is not None:
            return expression
        words = [re.escape(word) for word in self.text.split()]
        if self.kind == "phrase":
            return re.compile(_edge_before(self.text) + r"\W+".join(words) + _edge_after(self.text))
        literal = r"\s+".join(words)
        return re.compile(_NO_WORD_BEFORE + literal if self.kind == "prefix" else literal)

    def count(self, text: str, folded: str, *, cut: Cut = WHOLE) -> int:
        """How often it occurs. Where the text was cut, its end is no edge of a word."""
        if self.kind == "text" and " " not in self.text:
            return folded.count(self.text)
        if self.kind == "regex":
            return sum(1 for _ in self.spans(text))
        if not all(map(folded.__contains__, self.parts)):
            return 0
        is_edged = self.kind != "text"
        first, last = (is_edged and cut[0]), (is_edged and cut[1])
        return sum(
            1
            for start, end in self.spans(folded)
            if not (first and start == 0) and not (last and end == len(folded))
        )

    def find(self, text: str) -> int | None:
        """Where it occurs first, in a text folded as `pattern` wants it."""
        if self.kind == "text" and self.is_plain_word:
            at = text.find(self.text)
            return at if at >= 0 else None
        first = next(self.spans(text), None)
        return None if first is None else first[0]

    def spans(self, text: str) -> Iterator[Span]:
        """Every occurrence, as `pattern` finds them, but several times faster.

        Of an expression, every place where it is found, though not always to where it goes.
        """
        if self.kind == "regex":
            return merge(*(trail.spans(text) for trail in trails_of(self.pattern)))
        if not self.is_plain_word:
            return self._in_a_row(text)
        return self._prefixes(text) if self.kind == "prefix" else self._places(text)

    def _in_a_row(self, folded: str) -> Iterator[Span]:
        """Occurrences of several words: first as if they might begin inside a word."""
        position = 0
        while (found := self._row.search(folded, position)) is not None:
            match = self.pattern.match(folded, found.start())
            if match is not None:
                yield match.span()
            position = found.start() + 1 if match is None else match.end()

    @cached_property
    def _row(self) -> re.Pattern[str]:
        """`pattern` without what has to stand before it: a text it begins with is found fastest."""
        return re.compile(self.pattern.pattern.removeprefix(_NO_WORD_BEFORE))

    def _places(self, folded: str) -> Iterator[Span]:
        position = folded.find(self.text)
        while position >= 0:
            end = position + len(self.text)
            yield position, end
            position = folded.find(self.text, end)

    def _prefixes(self, folded: str) -> Iterator[Span]:
        """Where words begin with it."""
        position = folded.find(self.text)
        while position >= 0:
            before = folded[position - 1] if position else " "
            end = position + len(self.text)
            if before.isalnum() or before == "_":
                end = position + 1
            else:
                yield position, end
            position = folded.find(self.text, end)

    @cached_property
    def parts(self) -> list[str]:
        """What stands between its spaces."""
        return self.text.split()

    @cached_property
    def is_plain_word(self) -> bool:
        """Whether it is word characters and nothing else, to be found as they are."""
        return self.kind in {"text", "prefix"} and is_word(self.text)

    @cached_property
    def is_ascii_word(self) -> bool:
        """Whether it is such a word of ASCII alone, or a phrase of them."""
        return self.text.isascii() and (self.is_plain_word or self.kind == "phrase")

    @property
    def words(self) -> tuple[str, ...]:
        """The words it consists of, for a text or a phrase."""
        return tuple(re.findall(r"\w+", self.text)) if self.kind in {"text", "phrase"} else ()


def is_word(text: str) -> bool:
    """Whether it is word characters and nothing else."""
    letters = text.replace("_", "")
    return letters.isalnum() or not letters


def _edge_before(words: str) -> str:
    return "" if _IDEOGRAPH.match(words[0]) else _NO_WORD_BEFORE


def _edge_after(words: str) -> str:
    return "" if _IDEOGRAPH.match(words[-1]) else r"(?!\w)"


def text_term(text: str) -> Term | None:
    """A text to be found anywhere; None when nothing is left of it."""
    folded = fold_spaces(fold(text))
    return Term("text", folded) if folded else None


def phrase_term(text: str) -> Term | None:
    """Whole words in a row; with other signs among them, that very text."""
    term = text_term(text)
    if term is None or not _WORDS_ONLY.fullmatch(term.text):
        return term
    return Term("phrase", term.text)


def word_term(word: str) -> Term | None:
    """A word as typed: with a star behind it, only where a word begins."""
    if word.endswith("*") and word.strip("*") and (beginning := fold(word.strip("*")).strip()):
        return Term("prefix", beginning)
    return text_term(word)


def is_ideographic(text: str) -> bool:
    """Whether it holds a character of a script without spaces between words."""
    return _IDEOGRAPH.search(text) is not None
