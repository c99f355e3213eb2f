"""Searches the messages of the thread index: SQLite proposes, the matcher of all backends decides.

Words and their beginnings are proposed by the full-text table, the best first. Parts of words
(`*arse*`, `日本`) and words that the table folds otherwise (`Straße`) are looked for with the table
of trigrams. It folds only ASCII like the matcher: `thread_texts` has the folded texts of all other
messages, which SQLite reads. It also reads the messages for parts that are shorter than a trigram,
and if there is no FTS5.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple
from unicodedata import combining, normalize

from amux.model.message import SessionMessage
from amux.rollout.log import SearchQuery
from amux.rollout.search_text import SearchAlternative, SearchTerm, fold, match_text, snippet_of
from amux.store.scan_search import joined_text, searchable_text
from amux.store.session_db import schema
from amux.store.session_db.conditions import Conditions
from amux.store.session_db.fulltext import Fulltext
from amux.store.session_db.rows import decode_json, plain_text, row_of
from amux.store.session_db.search import with_context

_FULL_ROW: Final = (
    "SELECT m.id, m.session_id, m.role, m.timestamp, s.source, s.model, "
    "s.started_at AS session_started, r.record_id, r.seq, t.title FROM messages m "
    "JOIN sessions s ON s.id = m.session_id JOIN thread_records r ON r.message_id = m.id "
    "JOIN threads t USING (thread_id) WHERE m.id = ?"
)
_COLUMNS: Final = ("content", "tool_name", "tool_calls")
_HAS_PART: Final = f"({' OR '.join(f'instr(lower({column}), ?) > 0' for column in _COLUMNS)})"
_CONTROL: Final = re.compile(r"[\x00-\x07\x0b\x0e-\x1f]")
"""Characters that SQLite takes for the end of a text, or that JSON writes as an escape."""

_TRIGRAM: Final = 3
_MOST_WORDS: Final = 8
_MOST_RANKED: Final = 1_000
"""The matches, the newest, of which a search for parts shows the best; ranking all takes long."""

_TEXTS: Final = f"m.id, m.timestamp, {', '.join(f'm.{column}' for column in _COLUMNS)}"
_ONE: Final = f"SELECT {_TEXTS} FROM messages m WHERE m.id = ?"  # noqa: S608 - constants
_BY_TIME: Final = {"oldest": "m.timestamp, m.id", "newest": "m.timestamp DESC, m.id DESC"}

_Row = dict[str, Any]
_Texts = tuple[int, float, Any, Any, Any]


def folded_text(message: SessionMessage) -> str | None:
    """Return the folded text of a message for `thread_texts`; None if SQLite can fold it."""
    text = searchable_text(message)
    if text.isascii() and _CONTROL.search(text) is None:
        return None
    return fold(text.encode("utf-8", "replace").decode())


def search_messages(
    connection: sqlite3.Connection,
    usable: Fulltext,
    alternatives: Sequence[SearchAlternative],
    query: SearchQuery,
) -> list[_Row]:
    """Return the rows of the messages that match, with a snippet and their neighbours."""
    if usable.words and _folds_alike(query.text) and not _needs_parts(alternatives):
        found = _matching(_by_words(connection, alternatives, query), alternatives)
    else:
        found = _matching(_by_parts(connection, usable, alternatives, query), alternatives)
        if query.sort == "rank":
            newest = islice(found, max(_MOST_RANKED, query.offset + query.limit))
            found = iter(sorted(newest, key=_Match.rank))
    return [
        _hit(connection, match, include_inactive=query.include_inactive)
        for match in islice(found, query.offset, query.offset + query.limit)
    ]


class _Match(NamedTuple):
    message: int
    at: float
    text: str
    terms: tuple[str, ...]

    def rank(self) -> tuple[int, float, int]:
        """Return a value to sort by: most occurrences first, then the newest."""
        count = sum(self.text.casefold().count(term.casefold()) for term in self.terms)
        return -count, -self.at, -self.message


def _hit(connection: sqlite3.Connection, match: _Match, *, include_inactive: bool) -> _Row:
    row = row_of(connection.execute(_FULL_ROW, (match.message,)).fetchone())
    row["snippet"] = snippet_of(match.text, match.terms)
    return with_context(connection, row, include_inactive=include_inactive)


def _needs_parts(alternatives: Sequence[SearchAlternative]) -> bool:
    """Return whether a query has a term that may begin inside a word, or one of underscores.

    The full-text table takes underscores for spaces, so it has no word to look for then.
    """
    terms = (term for each in alternatives for term in (*each.required, *each.excluded))
    return any(term.suffix or term.substring or not term.text.strip("_ ") for term in terms)


def _folds_alike(text: str) -> bool:
    """Return whether the full-text table folds a text like the matcher: at most simple accents."""
    return text.isascii() or all(map(_is_simple, text))


def _is_simple(char: str) -> bool:
    folded = normalize("NFKD", char.casefold())
    has_accent = len(folded) == 2 and folded[0].isascii() and combining(folded[1])  # noqa: PLR2004
    return folded == char.lower() or bool(has_accent)


def _by_words(
    connection: sqlite3.Connection, alternatives: Sequence[SearchAlternative], query: SearchQuery
) -> Iterator[_Texts]:
    """Yield messages that have the words, the best or the newest first.

    Excluded words are left to the matcher: the table takes parts of names such as `a_b` for words.
    """
    table, conditions = schema.WORDS, _conditions(query)
    required = (" AND ".join(map(_phrase, each.required)) for each in alternatives)
    expression = " OR ".join(f"({each})" for each in required)
    ids = (
        f"SELECT m.id FROM {table} JOIN messages m ON m.id = {table}.rowid "  # noqa: S608 - constants
        f"WHERE {table} MATCH ? AND {conditions.sql} "
        f"ORDER BY {_BY_TIME.get(query.sort, 'rank')} LIMIT ? OFFSET ?"
    )
    first = 2 * (query.offset + query.limit)  # usually enough, and sorting a few is fast
    for limit, offset in ((first, 0), (-1, first)):
        values = (expression, *conditions.values, limit, offset)
        found = connection.execute(ids, values).fetchall()
        yield from (connection.execute(_ONE, tuple(each)).fetchone() for each in found)
        if len(found) < first:
            return


def _phrase(term: SearchTerm) -> str:
    """Return a term as FTS5 writes it. Words consist of letters, digits and underscores."""
    return f'"{term.text}"{"*" if term.prefix else ""}'


def _by_parts(
    connection: sqlite3.Connection,
    usable: Fulltext,
    alternatives: Sequence[SearchAlternative],
    query: SearchQuery,
) -> Iterator[_Texts]:
    """Yield messages that may match, the oldest or the newest first."""
    conditions = _conditions(query)
    words = [_longest_words(each) for each in alternatives]
    folded = _any_of("instr(folded, ?) > 0", words)
    plain = [each for each in words if all(map(str.isascii, each))]
    parts = [[word for word in each if len(word) >= _TRIGRAM] for each in plain]
    chosen = f"SELECT message_id FROM thread_texts WHERE {folded}"  # noqa: S608 - constants
    values = _flat(words)
    if plain and usable.trigrams and all(parts):
        table = schema.TRIGRAMS
        chosen += f" UNION SELECT rowid FROM {table} WHERE {table} MATCH ?"  # noqa: S608
        each_quoted = (" AND ".join(f'"{word}"' for word in each) for each in parts)
        values.append(" OR ".join(f"({quoted})" for quoted in each_quoted))
    elif plain:
        chosen += f" UNION SELECT id FROM messages WHERE {_any_of(_HAS_PART, plain)}"  # noqa: S608
        values += [word for word in _flat(plain) for _ in _COLUMNS]
    conditions.add(f"m.id IN ({chosen})", *values)
    order = _BY_TIME.get(query.sort, _BY_TIME["newest"])
    ids = f"SELECT m.id FROM messages m WHERE {conditions.sql} ORDER BY {order}"  # noqa: S608
    for each in connection.execute(ids, conditions.values).fetchall():
        yield connection.execute(_ONE, tuple(each)).fetchone()


def _longest_words(alternative: SearchAlternative) -> list[str]:
    """Return words that a match has in any case; SQLite takes expressions of a limited depth."""
    words = {word for term in alternative.required for word in term.words}
    return sorted(words, key=lambda word: (-len(word), word))[:_MOST_WORDS]


def _any_of(condition: str, words: Sequence[Sequence[str]]) -> str:
    """Return the SQL that the condition holds for all words of one of some lists."""
    return " OR ".join(f"({' AND '.join([condition] * len(each))})" for each in words)


def _flat(words: Sequence[Sequence[str]]) -> list[str]:
    return [word for each in words for word in each]


def _conditions(query: SearchQuery) -> Conditions:
    conditions, of_session = Conditions(), Conditions()
    of_session.add_one_of("source", query.sources or None)
    of_session.add_none_of("source", query.exclude_sources or None)
    if of_session.values:
        sessions = f"SELECT id FROM sessions WHERE {of_session.sql}"  # noqa: S608 - constants
        conditions.add(f"m.session_id IN ({sessions})", *of_session.values)
    threads = "SELECT thread_id FROM threads WHERE namespace = ?"
    conditions.add_if(f"m.session_id IN ({threads})", query.namespace)
    conditions.add_if("m.session_id = ?", query.thread_id)
    conditions.add_one_of("m.role", query.roles or None)
    if not query.include_inactive:
        conditions.add("m.active = 1 OR m.compacted = 1")
    return conditions


def _matching(
    rows: Iterator[_Texts], alternatives: Sequence[SearchAlternative]
) -> Iterator[_Match]:
    for message, at, content, tool_name, tool_calls in rows:
        calls: list[dict[str, Any]] = decode_json(tool_calls) or []
        text = joined_text(
            plain_text(content), [(call["name"], call["arguments"]) for call in calls], tool_name
        )
        terms = match_text(alternatives, text)
        if terms is not None:
            yield _Match(message, at, text, terms)
