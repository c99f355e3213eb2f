"""Searching messages: by words, by trigrams, or by reading the texts.

Words are searched in the full-text table, ranked by BM25. A query in a script without spaces uses
the table of trigrams. What neither table can find, because the words are too short or the SQLite
library has no FTS5, is found by reading the messages, the latest first.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from typing import Final, NamedTuple

from amux.errors import ValidationError
from amux.store.session_db import query as queries
from amux.store.session_db import schema
from amux.store.session_db.conditions import Conditions
from amux.store.session_db.connection import is_corrupt
from amux.store.session_db.fulltext import Fulltext
from amux.store.session_db.rows import Row, encode_text, plain_text, row_of, shortened

_SNIPPET_WORDS: Final = 40
_SNIPPET_BEFORE: Final = 40
_SNIPPET_LENGTH: Final = 120
_COLUMNS: Final = (
    "m.id, m.session_id, m.role, {snippet} AS snippet, m.timestamp, m.tool_name, "
    "s.source, s.model, s.started_at AS session_started"
)
_ORDERS: Final = {
    None: "{rank}",
    "newest": "m.timestamp DESC, {rank}",
    "oldest": "m.timestamp, {rank}",
}


class SearchFilter(NamedTuple):
    """Which messages a search considers, and which of the hits it returns."""

    sources: Collection[str] | None = None
    exclude_sources: Collection[str] | None = None
    roles: Collection[str] | None = None
    include_inactive: bool = False
    limit: int = 20
    offset: int = 0
    sort: str | None = None


def search(
    connection: sqlite3.Connection, query: str, wanted: SearchFilter, usable: Fulltext
) -> list[Row]:
    """Return the messages that match, each with a snippet and its neighbours.

    A query that FTS5 does not understand even after cleaning finds nothing.
    """
    if wanted.sort not in _ORDERS:
        raise ValidationError(f"`sort` is `{wanted.sort}`, not newest or oldest", fields=("sort",))
    text = queries.sanitize(encode_text(query) or "")
    if not text:
        return []
    if queries.is_unspaced(text):
        expression = queries.as_trigrams(text) if usable.trigrams else None
        table = schema.TRIGRAMS
    else:
        expression = text if usable.words else None
        table = schema.WORDS
    if expression is None:
        hits = _by_reading(connection, queries.words_of(text), wanted)
    else:
        hits = _by_index(connection, table, expression, wanted)
    return [with_context(connection, hit, include_inactive=wanted.include_inactive) for hit in hits]


def _by_index(
    connection: sqlite3.Connection, table: str, expression: str, wanted: SearchFilter
) -> list[Row]:
    conditions = _conditions(wanted)
    snippet = f"snippet({table}, 0, '>>>', '<<<', '...', {_SNIPPET_WORDS})"
    order = _ORDERS[wanted.sort].format(rank="rank")
    try:
        rows = connection.execute(
            f"SELECT {_COLUMNS.format(snippet=snippet)} FROM {table} "
            f"JOIN messages m ON m.id = {table}.rowid JOIN sessions s ON s.id = m.session_id "
            f"WHERE {table} MATCH ? AND {conditions.sql} ORDER BY {order} LIMIT ? OFFSET ?",
            (expression, *conditions.values, wanted.limit, wanted.offset),
        ).fetchall()
    except sqlite3.OperationalError as error:
        if is_corrupt(error) or error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
            raise
        return []  # FTS5 does not understand the expression
    return [row_of(row) for row in rows]


def _by_reading(
    connection: sqlite3.Connection, words: list[str], wanted: SearchFilter
) -> list[Row]:
    """Return the messages that contain one of the words, the latest first.

    The snippet is the text around the first word, without markers. LIKE would stop at a NUL
    character, with which structured content begins.
    """
    if not words:
        return []
    conditions = _conditions(wanted)
    columns = ("content", "tool_name", "tool_calls")
    matches = [f"instr(lower(m.{column}), lower(?)) > 0" for column in columns]
    conditions.add(" OR ".join(matches * len(words)), *(each for each in words for _ in columns))
    order = "m.timestamp, m.id" if wanted.sort == "oldest" else "m.timestamp DESC, m.id DESC"
    rows = connection.execute(
        f"SELECT {_COLUMNS.format(snippet='m.content')}, m.tool_calls FROM messages m "
        f"JOIN sessions s ON s.id = m.session_id WHERE {conditions.sql} "
        f"ORDER BY {order} LIMIT ? OFFSET ?",
        (*conditions.values, wanted.limit, wanted.offset),
    )
    return [_with_excerpt(row_of(row), words[0].lower()) for row in rows]


def _with_excerpt(hit: Row, word: str) -> Row:
    """Return a hit whose snippet is the text around a word, or the beginning of the text."""
    text = plain_text(hit["snippet"]) or hit["tool_calls"] or ""
    start = max(0, text.lower().find(word) - _SNIPPET_BEFORE)
    del hit["tool_calls"]
    return {**hit, "snippet": text[start : start + _SNIPPET_LENGTH]}


def _conditions(wanted: SearchFilter) -> Conditions:
    conditions = Conditions()
    conditions.add_one_of("s.source", wanted.sources)
    conditions.add_none_of("s.source", wanted.exclude_sources)
    conditions.add_one_of("m.role", wanted.roles or None)
    if not wanted.include_inactive:
        conditions.add("m.active = 1 OR m.compacted = 1")
    return conditions


def with_context(connection: sqlite3.Connection, hit: Row, *, include_inactive: bool) -> Row:
    """Return a hit with its message between the one before it and the one after it."""
    visible = "1" if include_inactive else "(active = 1 OR compacted = 1)"
    rows = connection.execute(
        "SELECT role, content FROM messages WHERE id IN (:id, "
        f"(SELECT MAX(id) FROM messages WHERE session_id = :session AND id < :id AND {visible}), "
        f"(SELECT MIN(id) FROM messages WHERE session_id = :session AND id > :id AND {visible})"
        ") ORDER BY id",
        {"session": hit["session_id"], "id": hit["id"]},
    )
    context = [{"role": role, "content": shortened(content)} for role, content in rows]
    return {**hit, "context": context}
