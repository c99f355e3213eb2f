"""Parses queries: words, "phrases", OR, NOT, (groups), prefix*, /regex/ and filters.

Every text is a valid query. Words are joined by AND and match anywhere in a text, so 日本 finds
日本語; `prefix*` matches only at the beginning of a word. A phrase consists of consecutive whole
words, separated by anything except letters, digits and underscores; a phrase with other characters
is exactly that text, with white space folded. Case is ignored and accents are folded. AND binds
tighter than OR; `-word` is NOT word. Filters (`agent:claude`, see `query.filters`) apply to the
whole query. Unbalanced quotes and operators that join nothing get their most likely meaning. These
are searched for as text: `key:value` with an unknown key or an unusable value, an expression that
cannot be used, and a query of nothing but operators.

A query is stored as alternatives without parentheses: `(a OR b) c` is `a c` or `b c`. Their number
is limited because it can grow exponentially; above the limit the parentheses are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from functools import cached_property
from typing import Final, Literal, NamedTuple

from amux.sessions.search.query.filters import (
    KEYS,
    NO_FILTERS,
    Condition,
    Filters,
    gather,
    read_condition,
)
from amux.sessions.search.query.regex import is_valid
from amux.sessions.search.query.terms import Term, phrase_term, text_term, word_term

_TOKEN: Final = re.compile(
    rf"""
    (?P<minus> (?<![^\s()]) - (?=[^\s)-]) )?  # not in `a-b`, `--flag` or a lone dash
    (?:
        (?P<key> {"|".join(KEYS)} ) : (?: "(?P<quoted>[^"]*)"? | (?P<bare>[^\s"()]+) )
      | "(?P<phrase>[^"]*)"?
      | /(?P<regex> (?!\s) (?: [^/\\] | \\. )+ (?<!\s) )/ (?=[\s)]|$)
      | (?P<parenthesis>[()])
      | (?P<word>[^\s"()]+)
    )
    """,
    re.VERBOSE,
)
_OPERATORS: Final = frozenset({"AND", "OR", "NOT"})
_QUOTES: Final = ' "\t\r\n'
_MOST_ALTERNATIVES: Final = 64
_NOTHING_WANTED: Final = "nothing is searched for: the query contains only exclusions"
_TOO_MANY: Final = (
    f"the parentheses expand to over {_MOST_ALTERNATIVES} alternatives and are ignored"
)


@dataclass(frozen=True)
class Alternative:
    """A text matches if it contains all of `wanted` and none of `unwanted`."""

    wanted: tuple[Term, ...] = ()
    unwanted: tuple[Term, ...] = ()


@dataclass(frozen=True)
class Query:
    """Alternatives joined by OR, and filters; a query without alternatives matches nothing.

    A query of filters alone has one empty alternative, which every text matches. `notes` are
    sentences about parts that could not be used as written.
    """

    alternatives: tuple[Alternative, ...]
    filters: Filters = NO_FILTERS
    notes: tuple[str, ...] = ()
    said_only: bool = False  # tool text is not searched

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

    @cached_property
    def all_terms(self) -> tuple[Term, ...]:
        """Every term, wanted or not, each once."""
        return tuple(dict.fromkeys((*self.terms, *self.unwanted)))

    @property
    def needs_texts(self) -> bool:
        """Whether messages must be read: the fields of sessions do not suffice."""
        return bool(self.all_terms or self.filters.of_messages)

    @cached_property
    def has_ascii_words(self) -> bool:
        """Whether every term consists of ASCII words."""
        return all(term.is_ascii_word for term in self.all_terms)

    @property
    def needs_words(self) -> bool:
        """Whether every text that matches contains a wanted term."""
        return all(each.wanted for each in self.alternatives)

    def matches(self, present: set[Term]) -> bool:
        """Return whether a text that contains these terms is a hit."""
        return any(
            present.issuperset(alternative.wanted) and present.isdisjoint(alternative.unwanted)
            for alternative in self.alternatives
        )


class Token(NamedTuple):
    """A part of a query and its position: a term, a condition or a sign."""

    span: tuple[int, int]
    sign: Literal["OR", "(", ")"] | None = None
    is_negated: bool = False
    term: Term | None = None
    condition: Condition | None = None
    note: str | None = None


def parse_query(
    text: str,
    *,
    within: Filters = NO_FILTERS,
    said_only: bool = False,
    now: datetime | None = None,
    zone: tzinfo | None = None,
) -> Query:
    """Return the query that a text stands for; no text is an error.

    `within` are further filters that must pass; with `said_only` tool text is not searched.
    Relative times count back from `now`; days are those of `zone` (by default of this machine).
    """
    found = list(tokens(text, now=now or datetime.now(UTC), zone=zone))
    if all(token.sign for token in found):  # operators that join nothing are an ordinary text
        term = text_term(text) if text.strip(_QUOTES) else None
        found = [] if term is None else [Token((0, len(text)), term=term)]
    try:
        return _combine(found, within, said_only=said_only)
    except _TooManyAlternativesError:
        plain = [token for token in found if token.sign not in {"(", ")"}]
        query = _combine(plain, within, said_only=said_only)
        return replace(query, notes=(*query.notes, _TOO_MANY))


def tokens(text: str, *, now: datetime, zone: tzinfo | None = None) -> Iterator[Token]:
    """Yield the parts of a query in order; NOT and dashes become `is_negated`."""
    negate = False
    for match in _TOKEN.finditer(text):
        is_dashed = match["minus"] is not None
        if match["word"] in _OPERATORS and not is_dashed:
            negate = match["word"] == "NOT"
            if match["word"] == "OR":
                yield Token(match.span(), "OR")
            continue
        token = _token(match, now=now, zone=zone)
        if token.sign == ")":
            yield token
        elif token.sign or token.term is not None or token.condition is not None:
            yield token._replace(is_negated=True) if negate or is_dashed else token
            negate = False


def _token(match: re.Match[str], *, now: datetime, zone: tzinfo | None) -> Token:
    key, word, expression = match["key"], match["word"] or "", match["regex"]
    if match["parenthesis"] is not None:
        return Token(match.span(), "(" if match["parenthesis"] == "(" else ")")
    if expression is not None:
        if is_valid(expression):
            return Token(match.span(), term=Term("regex", expression))
        return _as_text(match, f"/{expression}/", "is not a valid regular expression")
    if key is None:
        lacks_value = word.endswith(":") and word[:-1] in KEYS
        note = _note(word, "has no value") if lacks_value else None
        phrase = match["phrase"]
        term = word_term(word) if phrase is None else phrase_term(phrase)
        return Token(match.span(), term=term, note=note)
    value = match["bare"] if match["quoted"] is None else match["quoted"]
    found = read_condition(key, value, now=now, zone=zone)
    if isinstance(found, Condition):
        return Token(match.span(), condition=found)
    return _as_text(match, f"{key}:{value}", found)


def _as_text(match: re.Match[str], written: str, reason: str) -> Token:
    return Token(match.span(), term=text_term(written), note=_note(written, reason))


def _note(written: str, reason: str) -> str:
    return f"`{written}` {reason}; it is searched for as text"


def _combine(found: Sequence[Token], within: Filters, *, said_only: bool) -> Query:
    conditions: list[tuple[Condition, bool]] = []
    groups = [_Group()]
    for token in found:
        if token.condition is not None:
            conditions.append((token.condition, token.is_negated))
        elif token.term is not None:
            (groups[-1].unwanted if token.is_negated else groups[-1].wanted).append(token.term)
        elif token.sign == "OR":
            groups[-1].end_alternative()
        elif token.sign == "(":
            groups.append(_Group(token.is_negated))
        elif len(groups) > 1:
            inner = groups.pop()
            groups[-1].join(inner.alternatives())
    while len(groups) > 1:  # parentheses that are not closed
        inner = groups.pop()
        groups[-1].join(inner.alternatives())
    filters = gather(conditions)
    is_selective = bool(filters) or within.is_selective
    # An exclusion alone selects nothing, unless a filter states what to exclude from.
    alternatives = [each for each in groups[0].alternatives() if each.wanted or is_selective]
    if is_selective and not alternatives:
        alternatives.append(Alternative())
    notes = dict.fromkeys(token.note for token in found if token.note is not None)
    if found and not alternatives:
        notes[_NOTHING_WANTED] = None
    return Query(tuple(alternatives), filters & within, tuple(notes), said_only)


class _TooManyAlternativesError(Exception):
    """Parentheses expand to more alternatives than allowed."""


@dataclass
class _Group:
    """The text between two parentheses: complete alternatives, and the terms since the last OR."""

    is_negated: bool = False
    complete: list[Alternative] = field(default_factory=list[Alternative])
    wanted: list[Term] = field(default_factory=list[Term])
    unwanted: list[Term] = field(default_factory=list[Term])
    groups: list[Sequence[Alternative]] = field(default_factory=list[Sequence[Alternative]])

    def join(self, found: Sequence[Alternative]) -> None:
        """Add the condition that one of some alternatives matches."""
        if len(found) == 1:
            self.wanted += found[0].wanted
            self.unwanted += found[0].unwanted
        elif found:
            self.groups.append(found)

    def end_alternative(self) -> None:
        plain = Alternative(tuple(self.wanted), tuple(self.unwanted))
        if self.groups or plain != Alternative():
            self.complete += _product([[plain], *self.groups])
        self.wanted, self.unwanted, self.groups = [], [], []

    def alternatives(self) -> list[Alternative]:
        self.end_alternative()
        if not self.is_negated:
            return self.complete
        return _product(
            [Alternative(unwanted=(term,)) for term in each.wanted]
            + [Alternative(wanted=(term,)) for term in each.unwanted]
            for each in self.complete
        )


def _product(factors: Iterable[Sequence[Alternative]]) -> list[Alternative]:
    """Return every combination of one alternative of each factor."""
    product: list[Alternative] = []
    for factor in factors:
        if len(product) * len(factor) > _MOST_ALTERNATIVES:
            raise _TooManyAlternativesError
        product = [
            Alternative(one.wanted + other.wanted, one.unwanted + other.unwanted)
            for one in product or [Alternative()]
            for other in factor
        ]
    return product
