"""The text index of the PostgreSQL backend: the searchable texts of records, in a table of its own.

An append does not touch it. The next search indexes what is new: `threads.indexed` is the number of
the last record that was looked at. Texts are derived data; if `indexed` is 0, those of the thread
are derived again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from psycopg import Connection

from amux.rollout import control
from amux.rollout.messages import message_of
from amux.rollout.records import Record
from amux.rollout.search_text import fold
from amux.rollout.view import searchable
from amux.store.postgres import rows
from amux.store.postgres.connection import Database
from amux.store.scan_search import searchable_text

ANY_WORD: Final = "*"
"""The only lexeme, or the only part, of a text that has too many. No word is equal to it."""

LONGEST_WORD: Final = 200

_MOST_BYTES: Final = 500_000  # of lexemes; a tsvector holds at most a megabyte
_MOST_PARTS: Final = 20_000
_THREADS: Final = 100  # in one transaction
_MANY: Final = 1_000  # texts, after which the statistics of the table are out of date
_LONGEST_PART: Final = 3
_WORD: Final = re.compile(r"\w+")
_RECORDS: Final = ", ".join(rows.RECORD_COLUMNS)
_BEHIND: Final = "indexed < head"


class _Text(NamedTuple):
    """A row of the table. The body begins with the content of the message."""

    thread_id: str
    seq: int
    role: str
    body: str
    content_length: int
    words: str
    parts: list[str]
    active: bool


def index_texts(database: Database) -> None:
    """Index everything that was appended since the last search."""
    query = f"SELECT 1 FROM threads WHERE {_BEHIND} LIMIT 1"  # noqa: S608 - constants
    added = 0
    while database.one(query) is not None:
        added += database.transaction(_index_threads)
    if added >= _MANY:  # else PostgreSQL would read all texts until it does this by itself
        database.run(lambda c: c.execute("VACUUM (ANALYZE, SKIP_LOCKED) texts"))


def parts_of(folded: str) -> list[str]:
    """Return the trigrams of the words of a query; a shorter word is its only part."""
    found: list[str] = []
    for word in _WORD.findall(folded):
        last = max(1, len(word) - _LONGEST_PART + 1)
        found += [word[start : start + _LONGEST_PART] for start in range(last)]
    return found


def _all_parts(words: Iterable[str]) -> list[str]:
    """Return the parts of up to three characters of words; `ANY_WORD` if there are too many."""
    found: set[str] = set()
    for word in words:
        for size in range(1, _LONGEST_PART + 1):
            found.update(word[start : start + size] for start in range(len(word) - size + 1))
        if len(found) > _MOST_PARTS:
            return [ANY_WORD]
    return list(found)


def _index_threads(connection: Connection[Any]) -> int:
    """Index some threads, which are locked: two searches never index the same one.

    Return the number of texts.
    """
    threads = connection.execute(
        f"SELECT thread_id, indexed, payload_format FROM threads WHERE {_BEHIND} "  # noqa: S608
        "ORDER BY thread_id LIMIT %s FOR UPDATE".encode(),
        (_THREADS,),
    ).fetchall()
    texts = [text for thread in threads for text in _new_texts(connection, *thread)]
    columns = ", ".join(_Text._fields)
    with connection.cursor() as cursor:
        with cursor.copy(f"COPY texts ({columns}) FROM STDIN".encode()) as copy:
            for text in texts:
                copy.write_row(text)
        cursor.execute(
            "UPDATE threads SET indexed = head WHERE thread_id = ANY(%s)",
            ([thread[0] for thread in threads],),
        )
    return len(texts)


def _new_texts(
    connection: Connection[Any], thread_id: str, indexed: int, payload_format: str
) -> Iterable[_Text]:
    """Return the texts that a thread lacks, after removing those that are no longer right."""
    new = _records(connection, thread_id, after=indexed)
    if indexed and not any(map(_changes_search, new)):
        return _texts(thread_id, new, payload_format, {record.seq for record in new})
    connection.execute("DELETE FROM texts WHERE thread_id = %s", (thread_id,))
    newest_first = _records(connection, thread_id, after=0)[::-1]
    active = {record.seq for record in searchable(newest_first)}
    shown = searchable(newest_first, include_inactive=True)
    return _texts(thread_id, shown, payload_format, active)


def _records(connection: Connection[Any], thread_id: str, *, after: int) -> list[Record]:
    found = connection.execute(
        f"SELECT {_RECORDS} FROM records WHERE thread_id = %s AND seq > %s ORDER BY seq".encode(),  # noqa: S608
        (thread_id, after),
    ).fetchall()
    return [rows.record_of(row) for row in found]


def _texts(
    thread_id: str, records: Iterable[Record], payload_format: str, active: set[int]
) -> Iterable[_Text]:
    for record in records:
        message = message_of(record, payload_format)
        if message is not None:
            body = searchable_text(message).replace("\0", " ").encode("utf-8", "replace").decode()
            words = set(_WORD.findall(fold(body)))
            yield _Text(
                thread_id=thread_id,
                seq=record.seq,
                role=message.role,
                body=body,
                content_length=len(message.content),
                words=_lexemes({word[:LONGEST_WORD] for word in words}),
                parts=_all_parts(words),
                active=record.seq in active,
            )


def _lexemes(words: set[str]) -> str:
    """Return words as the text of a `tsvector`; they have no quotes and no backslashes."""
    if len("".join(words).encode()) > _MOST_BYTES:
        words = {ANY_WORD}
    return " ".join(f"'{word}'" for word in words)


def _changes_search(record: Record) -> bool:
    """Return whether a record changes which earlier records a search finds."""
    found = control.event_of(record)
    if found is None:
        return False
    kind, payload = found
    if kind == control.HIDE:
        return payload.get("searchable") is not True
    return kind in {control.UNHIDE, control.CORRECTION}


def lexeme_query(words: Sequence[str], *, prefix: bool) -> str:
    """Return a `tsquery` for texts with all words; the last may be the beginning of one.

    A text that has too many words for the index is always a candidate.
    """
    quoted = [f"'{word[:LONGEST_WORD]}'" for word in words]
    if prefix:
        quoted[-1] += ":*"
    return f"({' & '.join(quoted)}) | '{ANY_WORD}'"
