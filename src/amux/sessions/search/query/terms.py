"""The terms of a query: words, prefixes, phrases and regular expressions.

All but regular expressions are compared in folded form (`model.words.fold`). A *word character* is
a letter, a digit or an underscore. A phrase consists of consecutive whole words, separated by
anything except word characters; a whole word has no word character beside it. Chinese and Japanese
mark no word boundaries: a phrase that begins or ends with such a character also matches inside a
longer run of characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

from amux.model.words import fold, fold_spaces
from amux.sessions.search.query.regex import expression_spans, needed_text

TermKind = Literal["text", "prefix", "phrase", "regex"]

_IDEOGRAPH: Final = re.compile(
    "[\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303c\u3041-\u3096\u309d-\u309f"
    "\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U0001aff0-\U0001b16f\U00020000-\U000323af]"
)
_WORDS_ONLY = re.compile(r"[\w ]+")

Cut = tuple[bool, bool]
"""Whether a window of a text was cut at its beginning, and at its end."""

WHOLE: Final[Cut] = (False, False)
_NO_WORD_BEFORE: Final = r"(?<!\w)"
Span = tuple[int, int]


@dataclass(frozen=True)
class Term:
    """One term. `text` is folded, except in a regular expression."""

    kind: TermKind
    text: str

    def __hash__(self) -> int:
        return self._hash  # cached: terms are the keys of all counters

    @cached_property
    def _hash(self) -> int:
        return hash((self.kind, self.text))

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The pattern of a term that is no regular expression, for folded text."""
        words = [re.escape(word) for word in self.parts]
        if self.kind == "phrase":
            before = "" if is_ideographic(self.text[0]) else _NO_WORD_BEFORE
            after = "" if is_ideographic(self.text[-1]) else r"(?!\w)"
            return re.compile(before + r"\W+".join(words) + after)
        literal = r"\s+".join(words)
        return re.compile(_NO_WORD_BEFORE + literal if self.kind == "prefix" else literal)

    def count(self, text: str, folded: str, *, cut: Cut = WHOLE) -> int:
        """Return the number of occurrences. A cut end of the text is not the edge of a word."""
        if self.kind == "text" and " " not in self.text:
            return folded.count(self.text)
        if self.kind == "regex":
            needed = needed_text(
                self.text
            )  # without it, a text is not searched with an index either
            return 0 if needed and needed not in folded else sum(1 for _ in self.spans(text))
        if not all(map(folded.__contains__, self.parts)):
            return 0
        first, last = cut if self.kind != "text" else WHOLE
        return sum(
            1
            for start, end in self.spans(folded)
            if not (first and start == 0) and not (last and end == len(folded))
        )

    def find(self, text: str) -> int | None:
        """Return the offset of the first occurrence, in folded text unless it is an expression."""
        if self.kind == "text" and self.is_plain_word:
            at = text.find(self.text)
            return at if at >= 0 else None
        first = next(self.spans(text), None)
        return None if first is None else first[0]

    def spans(self, text: str) -> Iterator[Span]:
        """Yield every occurrence that `pattern` finds, but several times faster."""
        if self.kind == "regex":
            return expression_spans(self.text, text)
        if not self.is_plain_word:
            return self._consecutive(text)
        return self._plain_words(text, only_at_start=self.kind == "prefix")

    def _consecutive(self, folded: str) -> Iterator[Span]:
        """Yield the occurrences of several words."""
        position = 0
        while (found := self._quick_pattern.search(folded, position)) is not None:
            match = self.pattern.match(folded, found.start())
            if match is not None:
                yield match.span()
            position = found.start() + 1 if match is None else match.end()

    @cached_property
    def _quick_pattern(self) -> re.Pattern[str]:
        """`pattern` without its look-behind: a pattern that begins with a literal is fastest."""
        return re.compile(self.pattern.pattern.removeprefix(_NO_WORD_BEFORE))

    def _plain_words(self, folded: str, *, only_at_start: bool) -> Iterator[Span]:
        """Yield the occurrences of a plain word, or only those at the beginning of a word."""
        position = folded.find(self.text)
        while position >= 0:
            before = folded[position - 1] if position and only_at_start else " "
            end = position + len(self.text)
            if before.isalnum() or before == "_":
                end = position + 1
            else:
                yield position, end
            position = folded.find(self.text, end)

    @cached_property
    def parts(self) -> list[str]:
        """The parts of the text between spaces."""
        return self.text.split()

    @cached_property
    def is_plain_word(self) -> bool:
        """Whether it is a text or prefix of word characters only."""
        return self.kind in {"text", "prefix"} and is_word(self.text)

    @cached_property
    def is_ascii_word(self) -> bool:
        """Whether it is a plain word or a phrase of ASCII characters only."""
        return self.text.isascii() and (self.is_plain_word or self.kind == "phrase")

    @property
    def words(self) -> tuple[str, ...]:
        """The words of a text or a phrase; none for other kinds."""
        return tuple(re.findall(r"\w+", self.text)) if self.kind in {"text", "phrase"} else ()


def is_word(text: str) -> bool:
    """Return whether a text consists of word characters only."""
    letters = text.replace("_", "")
    return letters.isalnum() or not letters


def text_term(text: str) -> Term | None:
    """Return the term of a text that matches anywhere; None if nothing remains after folding."""
    folded = fold_spaces(fold(text))
    return Term("text", folded) if folded else None


def phrase_term(text: str) -> Term | None:
    """Return a phrase of whole words, or with other characters the term of exactly that text."""
    term = text_term(text)
    if term is None or not _WORDS_ONLY.fullmatch(term.text):
        return term
    return Term("phrase", term.text)


def word_term(word: str) -> Term | None:
    """Return the term of a word as typed; with a final star it is a prefix."""
    if word.endswith("*") and word.strip("*") and (beginning := fold(word.strip("*")).strip()):
        return Term("prefix", beginning)
    return text_term(word)


def is_ideographic(text: str) -> bool:
    """Return whether a text contains a character of a script without spaces between words."""
    return _IDEOGRAPH.search(text) is not None
