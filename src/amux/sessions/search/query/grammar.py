"""The search grammar: words, "phrases", OR, NOT, (groups), prefix*, /regex/ and filters.

No text is a wrong query. Words stand for AND and match anywhere in a text, so that 日本 finds
日本語; `prefix*` matches only where a word begins. A phrase is whole words in a row, whatever else
than letters, digits and underscores stands between them; a phrase that holds other signs than
words is that very text, spaces folded. Case is ignored and accents are folded. AND binds tighter
than OR; `-word` is NOT word. Filters (`agent:claude`, see `query_filters`) hold for the whole
query. Lone operators and unbalanced quotes are taken for what they most likely mean; `key:value`
that is no filter, or none with a usable value, is looked for as it stands, and so is an expression
that cannot be used, or a query of nothing but operators.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
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
from amux.sessions.search.query.groups import Alternative, Groups, TooManyAlternativesError
from amux.sessions.search.query.regex import objection
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
_NOTHING_WANTED: Final = "nothing is looked for: the query says only what is not wanted"
_TOO_MANY: Final = "the parentheses stand for too many alternatives; they are ignored"


@dataclass(frozen=True)
class Query:
    """Alternatives joined by OR, and filters; without any alternative it matches nothing.

    A query of filters alone has one alternative that wants nothing: every text fits. `notes` are
    sentences about filters that could not be used.
    """

    alternatives: tuple[Alternative, ...]
    filters: Filters = NO_FILTERS
    notes: tuple[str, ...] = ()
    said_only: bool = False  # tool text does not count

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
        """Whether sessions have to be read: titles and counts do not answer it."""
        return bool(self.all_terms or self.filters.of_messages)

    @cached_property
    def has_ascii_words(self) -> bool:
        """Whether every term is a word of ASCII characters."""
        return all(term.is_ascii_word for term in self.all_terms)

    @property
    def needs_words(self) -> bool:
        """Whether nothing fits that holds none of the wanted terms."""
        return all(each.wanted for each in self.alternatives)

    def matches(self, present: set[Term]) -> bool:
        """Whether a text that holds these terms is a hit."""
        return any(
            present.issuperset(alternative.wanted) and present.isdisjoint(alternative.unwanted)
            for alternative in self.alternatives
        )


class Token(NamedTuple):
    """A piece of a query as written and where: a term, a condition or a sign."""

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
    """Read a query; whatever is written, some query comes out.

    `within` are filters from elsewhere that must hold too; with `said_only` tool text does not
    count. Relative times count back from `now`; days are those of `zone` (this machine's by
    default).
    """
    found = list(tokens(text, now=now or datetime.now(UTC), zone=zone))
    if all(token.sign for token in found):
        found = _as_it_stands(text)
    try:
        return _combine(found, within, said_only=said_only)
    except TooManyAlternativesError:
        plain = [token for token in found if token.sign not in {"(", ")"}]
        query = _combine(plain, within, said_only=said_only)
        return replace(query, notes=(*query.notes, _TOO_MANY))


def tokens(text: str, *, now: datetime, zone: tzinfo | None = None) -> Iterator[Token]:
    """The pieces of a query, in order, each with whether NOT or a dash stands before it."""
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
    key, word = match["key"], match["word"] or ""
    if match["parenthesis"] is not None:
        return Token(match.span(), "(" if match["parenthesis"] == "(" else ")")
    if match["regex"] is not None:
        return _expression(match)
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
    written = f"{key}:{value}"
    return Token(match.span(), term=text_term(written), note=_note(written, found))


def _expression(match: re.Match[str]) -> Token:
    pattern = match["regex"]
    if (reason := objection(pattern)) is None:
        return Token(match.span(), term=Term("regex", pattern))
    written = f"/{pattern}/"
    return Token(match.span(), term=text_term(written), note=_note(written, reason))


def _note(written: str, reason: str) -> str:
    return f"`{written}` {reason}; it is looked for as text"


def _as_it_stands(text: str) -> list[Token]:
    """Operators and parentheses without anything to join are a text like any other."""
    term = text_term(text) if text.strip(_QUOTES) else None
    return [] if term is None else [Token((0, len(text)), term=term)]


def _combine(found: Sequence[Token], within: Filters, *, said_only: bool) -> Query:
    groups = Groups()
    conditions: list[tuple[Condition, bool]] = []
    for token in found:
        if token.condition is not None:
            conditions.append((token.condition, token.is_negated))
        elif token.term is not None:
            groups.take(token.term, is_negated=token.is_negated)
        elif token.sign == "OR":
            groups.take_or()
        elif token.sign == "(":
            groups.begin(is_negated=token.is_negated)
        else:
            groups.end()
    filters = gather(conditions)
    is_selective = bool(filters) or within.is_selective
    # NOT alone takes something back from nothing, unless a filter says from what.
    alternatives = [each for each in groups.alternatives() if each.wanted or is_selective]
    if is_selective and not alternatives:
        alternatives.append(Alternative())
    notes = dict.fromkeys(token.note for token in found if token.note is not None)
    if found and not alternatives:
        notes[_NOTHING_WANTED] = None
    return Query(tuple(alternatives), filters & within, tuple(notes), said_only)
