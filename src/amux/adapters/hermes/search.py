r"""Searches state.db with its own full-text indexes: one MATCH, ranked by BM25, no content read.

`messages_fts` indexes words; `messages_fts_trigram` indexes three consecutive characters, which
finds parts of words and scripts without spaces. If the SQLite in use has no FTS5, or no index
supports the terms, LIKE is used instead. Notes of the agent (tables named after memory) are
searched in the same way. Tables of the user model (Honcho) are never read: only the tables named
here are.

The indexes may miss some sessions, which have to be read. amux compares folded texts (`café`
matches `cafe`, `\uff21` matches `a`) and searches reasoning like other text. The agent's trigrams
fold only case, contain neither reasoning nor decoded JSON escapes, and end at a NUL. For ASCII
words they are reliable in all other rows.
"""

from __future__ import annotations

import re
import sqlite3
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Final

from amux.adapters._kit.tables import columns, quoted

MEMORY: Final = "memory:"
"""Prefix of the id of a hit in a note that belongs to no session; the note's row id follows."""

_MESSAGES: Final = "messages"
_SESSIONS: Final = "sessions"
_MEMORIES: Final = ("memory", "memories", "memory_entries")
_TRIGRAMS: Final = "_fts_trigram"
_TRIGRAM: Final = 3
_UNSPACED: Final = re.compile("[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]")

# The inner LIMIT prevents SQLite from flattening the query: bm25() does not work with GROUP BY.
_GROUPED: Final = """WITH hits AS ({hits} LIMIT -1)
    SELECT {owner}, {score} FROM hits {join} GROUP BY 1 ORDER BY 2 DESC LIMIT ?"""

Hit = tuple[str, float]
_INDEX: Final = "messages_fts_trigram"
_TEXTS: Final = (
    "content",
    "tool_name",
    "tool_calls",
    "reasoning",
    "reasoning_content",
    "reasoning_details",
)
FOLDED: Final = (
    "\u00aa-\u024f\u02b0-\u036f\u1d00-\u1eff\u2070-\u20bf\u2100-\u218f\u2460-\u24ff\u2c60-\u2c7f"
    "\u3200-\u33ff\ua720-\ua7ff\ufb00-\ufb06\ufe33-\ufe4f\uff00-\uffef\U00010780-\U000107bf"
    "\U0001d400-\U0001d7ff\U0001f100-\U0001f1ff\U0001fbf0-\U0001fbff"
)
"""Ranges with every character that folding turns into an ASCII letter or digit, or removes."""

_FOLDED_GLOB: Final = f"*[{FOLDED}]*"


def search_store(connection: sqlite3.Connection, terms: Sequence[str], *, limit: int) -> list[Hit]:
    """Return sessions and notes with a text that contains all terms, best first."""
    hits: dict[str, float] = {}
    for table in (_MESSAGES, _SESSIONS, *_MEMORIES):
        for id, score in _search_table(connection, table, terms, limit):
            hits[id] = max(score, hits.get(id, score))
    return sorted(hits.items(), key=lambda hit: (-hit[1], hit[0]))[:limit]


def _search_table(
    connection: sqlite3.Connection, table: str, terms: Sequence[str], limit: int
) -> Iterator[Hit]:
    found = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name IN (?, ?) ORDER BY name",
        (f"{table}_fts", f"{table}{_TRIGRAMS}"),
    )
    present = [str(name) for (name,) in found]  # words first, then trigrams
    able = [name for name in present if _can_answer(name, terms)]
    if able:
        try:
            yield from _matches(connection, table, able, terms, limit)
        except sqlite3.ProgrammingError:
            raise
        except sqlite3.DatabaseError as error:  # no FTS5 here, or a damaged index
            warnings.warn(
                f"the full-text index of `{table}` cannot be used ({error}); search is slower",
                RuntimeWarning,
                stacklevel=2,
            )
        else:
            return
    if table == _MESSAGES or present:
        yield from _like_matches(connection, table, terms, limit)


def _can_answer(index: str, terms: Sequence[str]) -> bool:
    """Return whether an index supports the terms.

    Trigrams need three characters; the index of words needs a script with spaces.
    """
    if index.endswith(_TRIGRAMS):
        return all(len(term) >= _TRIGRAM for term in terms)
    return not any(_UNSPACED.search(term) for term in terms)


def _matches(
    connection: sqlite3.Connection,
    table: str,
    indexes: Sequence[str],
    terms: Sequence[str],
    limit: int,
) -> Iterator[Hit]:
    """Yield ranked hits with one statement; the table only adds the session of each row."""
    owner, join = _owner_of(connection, table)
    matching = " UNION ALL ".join(_match(name) for name in indexes)
    statement = _GROUPED.format(hits=matching, owner=owner, score="max(-score)", join=join)
    phrases = " AND ".join('"' + term.replace('"', '""') + '"' for term in terms)
    yield from _hits(connection.execute(statement, (*(phrases for _ in indexes), limit)))


def _match(index: str) -> str:
    # A whole word is a better match than a part of one.
    weight = 0.5 if index.endswith(_TRIGRAMS) else 1.0
    name = quoted(index)
    return f"SELECT rowid AS hit, {weight} * bm25({name}) AS score FROM {name} WHERE {name} MATCH ?"  # noqa: S608 - quoted names


def _like_matches(
    connection: sqlite3.Connection, table: str, terms: Sequence[str], limit: int
) -> Iterator[Hit]:
    """Yield hits found with LIKE, ranked by the number of texts that contain the terms."""
    names = columns(connection, table)
    texts = [name for name in ("content", "tool_name", "tool_calls", "title") if name in names]
    if not texts or not terms:
        return
    condition = " AND ".join(
        "(" + " OR ".join(f"{quoted(name)} LIKE ? ESCAPE '\\'" for name in texts) + ")"
        for _ in terms
    )
    owner, join = _owner_of(connection, table)
    hits = f"SELECT rowid AS hit, 1.0 AS score FROM {quoted(table)} WHERE {condition}"  # noqa: S608 - quoted names
    statement = _GROUPED.format(hits=hits, owner=owner, score="sum(score)", join=join)
    patterns = [_pattern(term) for term in terms for _ in texts]
    yield from _hits(connection.execute(statement, (*patterns, limit)))


def _owner_of(connection: sqlite3.Connection, table: str) -> tuple[str, str]:
    """Return the SQL of the session that a row belongs to, and the join it needs."""
    names = columns(connection, table)
    if table == _SESSIONS:
        return '"row"."id"', _join(table)
    if table == _MESSAGES:
        return '"row"."session_id"', f"{_join(table)} WHERE {_visible(names)}"
    note = f"'{MEMORY}' || hits.hit"
    if "session_id" in names:
        return f'coalesce("row"."session_id", {note})', _join(table)
    return note, ""


def _join(table: str) -> str:
    return f'JOIN {quoted(table)} "row" ON "row".rowid = hits.hit'


def _visible(names: Sequence[str]) -> str:
    if "active" not in names:
        return "1"
    compacted = ' OR "row"."compacted" = 1' if "compacted" in names else ""
    return f'("row"."active" IS NULL OR "row"."active" <> 0{compacted})'


def _pattern(term: str) -> str:
    escaped = term.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


def _hits(found: Iterator[Any] | sqlite3.Cursor) -> Iterator[Hit]:
    for id, score in found:
        if id is not None:
            yield str(id), float(score)


def sessions_to_read(connection: sqlite3.Connection) -> list[str]:
    """Return the sessions with text that the index may miss; the database evaluates the texts."""
    names = columns(connection, "messages")
    if "session_id" not in names:
        return []
    indexed = _indexed_columns(connection)
    others = [name for name in _TEXTS if name in names and name not in indexed]
    conditions = [
        condition
        for column in map(quoted, filter(names.__contains__, indexed))
        for condition in (
            f"{column} GLOB :odd",
            f"instr({column}, '\\u')",
            f"instr(CAST({column} AS BLOB), x'00')",
        )
    ]
    conditions += [f"{quoted(name)} <> ''" for name in others]
    known = f"SELECT id FROM {quoted(_INDEX + '_docsize')}" if indexed else "NULL"  # noqa: S608 - constants
    conditions.append(f"coalesce(rowid NOT IN ({known}), 1)")
    statement = f"SELECT DISTINCT session_id FROM messages WHERE {' OR '.join(conditions)}"  # noqa: S608 - quoted names
    found = connection.execute(statement, {"odd": _FOLDED_GLOB})
    return [str(session_id) for (session_id,) in found if session_id is not None]


def _indexed_columns(connection: sqlite3.Connection) -> list[str]:
    """Return the columns that the index's trigger inserts; empty if there is no index."""
    found = connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE name IN (?, ?, ?)",
        (_INDEX, f"{_INDEX}_docsize", f"{_INDEX}_insert"),
    )
    definitions = {str(name): str(sql) for name, sql in found}
    if len(definitions) < 3:  # noqa: PLR2004 - all of them
        return []
    trigger = definitions[f"{_INDEX}_insert"].lower()
    return [name for name in _TEXTS if re.search(rf"\bnew\.{name}\b", trigger)]
